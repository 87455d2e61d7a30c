//! Settings that run later: the work in trees that were made inside, a question elsewhere.

use std::path::Path;
use std::process::Command;

use super::approval::Person;
use crate::suite::fence_support::{Fenced, Launcher, for_every_launcher};
use crate::suite::support::Room;

for_every_launcher! {
    a_repository_with_settings_is_cloned_and_they_are_named,
    settings_come_with_every_way_to_make_a_tree,
    settings_where_a_person_uses_them_stay_as_they_are,
    what_was_there_before_is_no_work,
    a_checkout_in_the_project_is_told_exactly,
    what_ends_with_the_sandbox_needs_no_protection,
    a_home_as_the_project_keeps_what_runs_later,
}

/// Runs on the host, with a name and an address for git.
#[track_caller]
pub(super) fn host(directory: &Path, text: &str) -> String {
    let output = Command::new("bash")
        .args(["-ec", text])
        .current_dir(directory)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("HOME", directory)
        .envs(["AUTHOR", "COMMITTER"].map(|who| (format!("GIT_{who}_NAME"), "me")))
        .envs(["AUTHOR", "COMMITTER"].map(|who| (format!("GIT_{who}_EMAIL"), "me@example.com")))
        .output()
        .unwrap();
    assert!(output.status.success(), "{text}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

const SETTINGS: &str = "mkdir -p .vscode .claude .husky .github/workflows sub/.idea .cargo
    echo s > .vscode/settings.json; echo s > .claude/settings.json; echo s > .husky/pre-commit; echo s > .github/workflows/ci.yml
    echo s > sub/.idea/x; echo s > .mcp.json; echo s > CLAUDE.md; echo s > .npmrc; echo s > .cargo/config.toml";

/// A room with a repository that holds settings, as `origin` beside a plain one.
fn room(launcher: Launcher) -> Room {
    let room = Room::on(launcher);
    host(
        &room.project,
        &format!(
            "git init -q -b main origin; cd origin; echo a > a; git add a; git commit -qm one; git checkout -qb settings
            {SETTINGS}; git add -A; git commit -qm settings; git checkout -q main"
        ),
    );
    room
}

fn later(ran: &Fenced) -> Vec<String> {
    let names = ran.json["runsLater"].as_array().cloned().unwrap_or_default();
    let mut names: Vec<String> = names.iter().map(|name| name.as_str().unwrap().to_owned()).collect();
    names.sort();
    names
}

fn a_repository_with_settings_is_cloned_and_they_are_named(launcher: Launcher) {
    let room = room(launcher);
    let ran = room.fenced(
        "git clone -q -b settings origin clone && git -C clone status --porcelain && cat clone/.mcp.json",
    );
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "s\n"), "{ran:?}");
    assert!(!ran.blocked, "{ran:?}");
    let named = [
        ".cargo/config.toml",
        ".claude",
        ".github/workflows",
        ".husky",
        ".mcp.json",
        ".npmrc",
        ".vscode",
        "CLAUDE.md",
        "sub/.idea",
    ];
    let named = named.map(|name| room.project.join("clone").join(name).display().to_string());
    assert_eq!(later(&ran), named, "{ran:?}");
    // In words, too.
    let shown = room.run(&[
        "run",
        "--no-gate",
        "--launcher",
        launcher.name(),
        "--",
        "git",
        "clone",
        "-q",
        "-b",
        "settings",
        "origin",
        "again",
    ]);
    assert_eq!(shown.code, 0, "{}", shown.stderr);
    let line = shown.stderr.lines().find(|line| line.starts_with("ringfence: these files run later: "));
    assert!(
        line.is_some_and(|line| line.contains("again/.vscode") && line.contains("again/CLAUDE.md")),
        "{}",
        shown.stderr
    );
    // Who made it may remove it.
    let ran = room.fenced("git clone -q -b settings origin gone && git -C gone checkout -q main && git -C gone checkout -q settings && rm -r gone");
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(later(&ran), Vec::<String>::new(), "what is gone runs nowhere: {ran:?}");
}

fn settings_come_with_every_way_to_make_a_tree(launcher: Launcher) {
    let room = room(launcher);
    host(&room.project, "cd origin; git checkout -q settings; cd ..; tar cf all.tar --exclude=.git origin");
    for text in [
        "mkdir t && tar xf all.tar -C t && cat t/origin/.vscode/settings.json",
        "mkdir c && cp -r origin/.vscode origin/.claude origin/sub c && cat c/.claude/settings.json",
        "git -C origin worktree add -q ../w settings~0 && cat w/.mcp.json",
        "mkdir n && cd n && mkdir .vscode .husky && echo '{}' > .vscode/settings.json && mv .vscode v && mv v .vscode && cat .vscode/settings.json",
        "mkdir -p a/b && mv a x && mkdir x/b/.idea && touch x/b/.idea/y && mv x/b z && rm -r z/.idea && mkdir z/.claude",
        "git clone -q origin m && cd m && git -c user.name=a -c user.email=b merge -q origin/settings && cat CLAUDE.md",
    ] {
        let ran = room.fenced(text);
        assert_eq!(ran.code, 0, "{text}: {ran:?}");
        assert!(!ran.blocked, "{text}: {ran:?}");
    }
}

fn settings_where_a_person_uses_them_stay_as_they_are(launcher: Launcher) {
    let room = room(launcher);
    room.write(".vscode/settings.json", "mine");
    room.write("pkg/.claude/settings.json", "mine");
    room.write("pkg/src/a", "");
    let ran = room.fenced(
        "mkdir made; mkdir made/.vscode made/.husky made/.github; mkdir made/.github/workflows; echo evil | tee made/.vscode/tasks.json made/.mcp.json
        mv made/.husky .husky; mv -T made/.husky pkg/.husky; ln -s made/.husky .husky; ln made/.mcp.json .mcp.json; mv made/.mcp.json pkg/.mcp.json; cp made/.mcp.json .
        mkdir .github; mkdir .github/workflows; mv made/.github .; mv made/.github/workflows .github/
        echo evil > .vscode/settings.json; echo evil > .vscode/tasks.json; rm .vscode/settings.json; mv .vscode v; mv pkg made/; mv pkg p
        mv pkg/src made/src && mkdir made/src/.vscode; mv made/src pkg/src; mkdir pkg/src/.idea; mkdir .cursor pkg/.cursor; echo x > CLAUDE.md; false",
    );
    let text = host(
        &room.project,
        "cat .vscode/settings.json pkg/.claude/settings.json; find . -path ./origin -prune -o -path ./made -prune -o -print | sort | tr '\\n' ' '",
    );
    assert_eq!(
        text,
        "mineminemine. ./.github ./.vscode ./.vscode/settings.json ./pkg ./pkg/.claude ./pkg/.claude/settings.json ./pkg/src ./pkg/src/a "
            .replacen("minemine", "mine", 1),
        "{ran:?}"
    );
    assert!(!room.project.join("made/src/.vscode").exists(), "it was there before: {ran:?}");
    assert!(ran.blocked, "{ran:?}");
}

fn what_was_there_before_is_no_work(launcher: Launcher) {
    let room = room(launcher);
    let ran = room.fenced("git clone -q -b settings origin clone");
    assert_eq!(ran.code, 0, "{ran:?}");
    // Another run: now it is a place that a person may use.
    let ran = room.fenced("echo evil >> clone/.vscode/settings.json; mkdir clone/.cursor");
    assert!(ran.blocked && !room.project.join("clone/.cursor").exists(), "{ran:?}");
    assert_eq!(host(&room.project, "cat clone/.vscode/settings.json"), "s\n");
}

fn a_checkout_in_the_project_is_told_exactly(launcher: Launcher) {
    let room = Room::on(launcher);
    host(
        &room.project,
        &format!(
            "git init -q -b main .; echo a > a; git add a; git commit -qm one; git checkout -qb settings; {SETTINGS}; git add -A; git commit -qm two; git checkout -q main"
        ),
    );
    let ran = room.fenced("git checkout -q settings");
    assert!(ran.code != 0 && ran.blocked, "{ran:?}");
    // git ends at the first directory that it cannot make.
    let told = ran.resources();
    let claude = room.project.join(".claude").display().to_string();
    assert!(
        told.contains(&claude.as_str()) && ran.stderr.contains("cannot create directory at '.claude'"),
        "{ran:?}"
    );
    let message = ran.json["violations"][0]["message"].as_str().unwrap();
    assert!(message.contains("runs later, by "), "{message}");
}

fn what_ends_with_the_sandbox_needs_no_protection(launcher: Launcher) {
    let room = room(launcher);
    let ran = room.fenced(
        "cd ~ && git init -q r && mkdir -p r/.git/hooks && echo 'echo hi' > r/.git/hooks/pre-commit && chmod +x r/.git/hooks/pre-commit && mkdir -p .vscode .local/bin .vim && touch .local/bin/x .vimrc
        cd $(mktemp -d) && git init -q r && mkdir -p r/.git/hooks && echo 'echo hi' > r/.git/hooks/pre-commit && ln -s r/.git .git && cat .git/hooks/pre-commit",
    );
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "echo hi\n"), "{ran:?}");
}

#[test]
fn a_person_is_asked_once_for_a_whole_checkout() {
    let room = Room::new();
    // Else git looks its user up, by name.
    room.write("../.gitconfig", "[user]\n\tname = Me\n\temail = me@example.com\n");
    host(
        &room.project,
        &format!(
            "git init -q -b main .; echo a > a; git add a; git commit -qm one; git checkout -qb settings; {SETTINGS}; git add -A; git commit -qm two; git checkout -q main"
        ),
    );
    if !room.has_fence() {
        return;
    }
    let mut person =
        Person::at_terminal(&room, &["run", "--no-gate", "--", "git", "checkout", "-q", "settings"]);
    person.sees("runs later, by ");
    person.sees("holds for all settings");
    person.answers("o");
    let (code, screen) = person.leaves();
    assert_eq!(code, 0, "{screen}");
    assert_eq!(screen.matches("holds for all settings").count(), 1, "{screen}");
    assert_eq!(
        host(&room.project, "git status --porcelain; cat CLAUDE.md .vscode/settings.json"),
        "s\ns\n",
        "{screen}"
    );
    assert!(screen.contains("these files run later"), "{screen}");
    // Changing what is there is a question again, and a no is one for all.
    let mut person = Person::at_terminal(&room, &["run", "--no-gate", "--", "git", "checkout", "-q", "main"]);
    person.sees("holds for all settings");
    person.answers("d");
    let (code, screen) = person.leaves();
    assert_eq!(screen.matches("ringfence asks").count(), 1, "{screen}");
    assert!(code != 0 || !host(&room.project, "git status --porcelain").is_empty(), "{screen}");
    assert_eq!(screen.matches("holds for all settings").count(), 1, "{screen}");
    assert_eq!(host(&room.project, "cat CLAUDE.md"), "s\n", "{screen}");
}

fn a_home_as_the_project_keeps_what_runs_later(launcher: Launcher) {
    let room = Room::on(launcher);
    room.write("../.vimrc", "mine");
    let home = room.home.display().to_string();
    let names = ".local/bin/ls .vimrc .pam_environment .local/lib/python3.11/site-packages/usercustomize.py .cargo/bin/x .claude.json .xprofile .bashrc .zshrc .config/nvim/init.lua .config/autostart/x .emacs";
    let ran = room.fenced_with(
        &["--project", &home],
        &format!("cd {home}; for f in {names}; do mkdir -p $(dirname $f); echo evil > $f; done; echo fine > notes; cat notes; false"),
    );
    assert_eq!(ran.stdout, "fine\n", "{ran:?}");
    assert_eq!(
        host(&room.home, "cat notes .vimrc; grep -rl --exclude-dir=.ringfence evil . || true"),
        "fine\nmine",
        "{ran:?}"
    );
    // It is said, and a directory of homes is none at all.
    let said =
        room.run(&["run", "--no-gate", "--launcher", launcher.name(), "--project", &home, "--", "true"]);
    assert!(said.code == 0 && said.stderr.contains("whole home directory"), "{}", said.stderr);
    let refused =
        room.run(&["run", "--no-gate", "--launcher", launcher.name(), "--project", "/home", "--", "true"]);
    assert!(
        refused.code != 0 && refused.stderr.contains("home directories of everybody"),
        "{}",
        refused.stderr
    );
}
