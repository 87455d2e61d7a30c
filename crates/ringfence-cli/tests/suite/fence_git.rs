//! Git's own files: everyday work goes on, and nothing that is made inside runs at the person's next `git status`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::json;

use super::fence_settings::host;
use super::mcp::{Agent, call};
use crate::suite::fence_support::{Fenced, KERNEL, Launcher, for_every_launcher, names};
use crate::suite::support::Room;

for_every_launcher! {
    no_repository_runs_what_was_made_inside,
    configs_change_by_harmless_keys_only,
    git_works_as_everywhere,
    a_rebase_goes_on_with_a_strategy_of_gits_own,
    submodules_work_as_everywhere,
    an_empty_directory_of_hooks_can_be_made,
    a_new_repository_is_the_same_as_outside,
    a_refused_config_is_told_in_the_middle_of_a_line_too,
    what_the_persons_config_names_is_protected,
    denied_names_are_denied_in_every_case,
}

const PROGRAM: &str = "fsmonitor = \"touch $RAN; true\"";

/// As a person would use it, in every directory: whether something ran.
pub(super) fn runs_something(project: &Path) -> bool {
    let canary = project.parent().unwrap().join("RAN");
    let _ = std::fs::remove_file(&canary);
    let mut directories: Vec<_> = names(project).into_iter().filter(|path| path.is_dir()).collect();
    directories.push(project.to_owned());
    // git is asked in each directory what it takes it for. Every repository is used once from its files and once from itself.
    let text = "declare -A used
        for directory; do
            cd \"$directory\" || continue
            place=$(git rev-parse --path-format=absolute --git-dir --git-common-dir --is-inside-work-tree 2>&1) || { git status; continue; }
            [ -n \"${used[$place]}\" ] && continue
            used[$place]=1
            git status; git status --ignore-submodules=none; git log -1; git diff; git diff HEAD; git add -A -n .; git submodule status
            git fetch --dry-run --all; git stash list; git branch; git ls-files -m; GIT_EDITOR=true git rebase --continue
            [ -e \"$RAN\" ] && exit
        done";
    let mut git = Command::new("bash");
    git.args(["-c", text, "bash"]).args(directories).env("RAN", &canary).env("GIT_CONFIG_COUNT", "2");
    git.env("GIT_CONFIG_KEY_0", "safe.directory").env("GIT_CONFIG_VALUE_0", "*");
    git.env("GIT_CONFIG_KEY_1", "protocol.file.allow").env("GIT_CONFIG_VALUE_1", "always");
    git.env("GIT_TERMINAL_PROMPT", "0").env("HOME", project.parent().unwrap());
    for who in ["AUTHOR", "COMMITTER"] {
        git.env(format!("GIT_{who}_NAME"), "me").env(format!("GIT_{who}_EMAIL"), "me@example.com");
    }
    // It fails in most of them, which is not what matters.
    git.stdin(Stdio::null()).output().unwrap();
    canary.exists()
}

const FOLDED: &str = "case";

/// Every way found so far to have git run something, by name.
fn attacks() -> Vec<(&'static str, String)> {
    let elsewhere = format!("printf '[core]\\n repositoryformatversion = 0\\n {PROGRAM}\\n'");
    let evil = format!(
        "printf '[core]\\n repositoryformatversion = 0\\n bare = false\\n worktree = ..\\n {PROGRAM}\\n'"
    );
    let hooks = "mkdir -p hooks; printf '#!/bin/sh\\ntouch $RAN\\n' > hooks/post-index-change; chmod +x hooks/post-index-change; cp hooks/post-index-change hooks/reference-transaction";
    let marks = "mkdir -p objects refs; echo 'ref: refs/heads/main' > HEAD";
    // As root it is the length that keeps it from being listed: the path of what is in it is longer than any can be.
    let deep = "import os, subprocess\nhere = os.getcwd()\nfor i in range(16): os.mkdir('d'*250); os.chdir('d'*250)\nos.mkdir('u'); up = os.open('.', os.O_RDONLY); os.chdir('u')";
    // A file that git looks at anew, and then has its index written, so that a hook runs.
    let stale = "echo a > a; git add a; touch -d yesterday a";
    let named =
        format!("git init -q s; (cd s; {stale}); mv s/.git b; echo 'gitdir: ../b' > s/.git; rm -rf b/hooks");
    let identity = "export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=b";
    let stopped = format!(
        "{identity}; {stale}; git commit -qm a; GIT_SEQUENCE_EDITOR='sed -i 1ibreak' git rebase -q -i HEAD~1"
    );
    vec![
        ("commondir", format!("mkdir -p e/objects e/refs; {elsewhere} > e/config; echo ../e > .git/commondir")),
        ("commondir-first", format!("mkdir e; {elsewhere} > e/config; mkdir e/objects e/refs; echo ../e > .git/commondir; echo ../e > x; mv x .git/commondir")),
        ("commondir-late", format!("mkdir -p e/objects e/refs d s; echo 'ref: refs/heads/main' > d/HEAD; echo ../e > d/commondir; echo 'gitdir: ../d' > s/.git; {elsewhere} > e/c; mv e/c e/config; ln e/c e/config; cp e/c e/config")),
        ("commondir-given", "echo ../given > .git/commondir".to_owned()),
        ("given", "echo 'ref: refs/heads/main' > given/HEAD".to_owned()),
        ("given-elsewhere", "mkdir d s; echo 'ref: refs/heads/main' > d/HEAD; echo ../given > d/commondir; echo 'gitdir: ../d' > s/.git".to_owned()),
        ("worktree-elsewhere", format!("mkdir -p .git/worktrees/x s e/objects e/refs; {elsewhere} > e/config; echo ../../../e > .git/worktrees/x/commondir; echo 'ref: refs/heads/main' > .git/worktrees/x/HEAD; echo 'gitdir: ../.git/worktrees/x' > s/.git")),
        ("worktree-given", "git worktree add -q w; echo ../../../given > .git/worktrees/w/commondir; echo ../../../given > x; mv x .git/worktrees/w/commondir; echo ../../../given > .git/worktrees/w/commondir.lock; mv .git/worktrees/w/commondir.lock .git/worktrees/w/commondir".to_owned()),
        ("worktree-moved", format!("git worktree add -q w; mkdir q; mv .git/worktrees/w q/x; mkdir objects refs; {elsewhere} > config; mkdir s; echo 'gitdir: ../q/x' > s/.git")),
        ("headless", format!("git init -q n; git -C n -c user.name=a -c user.email=b commit -q --allow-empty -m x; git -C n worktree add -q ../w; rm n/.git/HEAD; mv n/.git/config y; rm n/.git/config; {elsewhere} > n/.git/config.lock; mv n/.git/config.lock n/.git/config; {elsewhere} > n/.git/config")),
        ("in-git", format!("mkdir -p n/.git/x s; (cd n/.git/x; {marks}; {evil} > config; {evil} > c; mv c config); echo 'gitdir: ../n/.git/x' > s/.git")),
        ("in-git-moved", format!("mkdir -p n/.git/x; (cd n/.git/x; {evil} > config; {marks}); mv n/.git/x docs")),
        ("in-objects", format!("mkdir -p .git/objects/x s; (cd .git/objects/x; {marks}; {evil} > config; {hooks}); echo 'gitdir: ../.git/objects/x' > s/.git")),
        ("in-refs-first", format!("mkdir -p .git/refs/x s; (cd .git/refs/x; {evil} > config; {hooks}; {marks}); echo 'gitdir: ../.git/refs/x' > s/.git")),
        ("unlisted", format!("mkdir u s; (cd u; {evil} > config; {hooks}; {marks}); chmod 311 u; mv u s/.git; chmod 755 s/.git")),
        ("unlisted-late", format!("mkdir u; (cd u; {evil} > config; {hooks}; mkdir refs; echo 'ref: refs/heads/main' > HEAD); chmod 311 u; mkdir u/objects; chmod 755 u")),
        ("unlisted-first", format!("mkdir u s; (cd u; {evil} > config; {hooks}); chmod 311 u; mv u s/.git; (cd s/.git; mkdir refs; echo 'ref: refs/heads/main' > HEAD; mkdir objects); chmod 755 s/.git")),
        ("unlisted-hooks", format!("git init -q s; rm -rf s/.git/hooks; (cd s; {stale}); mkdir u; (cd u; {hooks}); chmod 311 u/hooks; mv u/hooks s/.git/hooks; chmod 755 s/.git/hooks")),
        ("long", format!("mkdir s; cat > make.py <<'END'\n{deep}\nsubprocess.run(['bash', '-c', '''{evil} > config; {hooks}; {marks}'''])\nos.rename('u', here + '/s/.git', src_dir_fd=up)\nEND\npython3 make.py")),
        ("modules", format!("mkdir -p .git/x; (cd .git/x; {marks}; {evil} > config; {hooks}); mkdir -p .git/modules s; mv .git/x .git/modules/sub; echo 'gitdir: ../.git/modules/sub' > s/.git")),
        ("modules-made", format!("mkdir -p n x s; (cd x; {evil} > config; {hooks}); mkdir -p .git/modules; mv x .git/modules/sub; (cd .git/modules/sub; {marks}); echo 'gitdir: ../.git/modules/sub' > s/.git")),
        ("worktrees", format!("mkdir -p .git/worktrees x s; {evil} > x/config.worktree; echo ../.. > x/commondir; echo 'ref: refs/heads/main' > x/HEAD; mv x .git/worktrees/x; git config extensions.worktreeConfig true; echo 'gitdir: ../.git/worktrees/x' > s/.git")),
        ("exchange", format!("git init -q s; mkdir e; {elsewhere} > e/config; ../kernel exchange e/config s/.git/config")),
        ("exchange-back", format!("git init -q s; mkdir e; {elsewhere} > e/config; ../kernel exchange s/.git/config e/config")),
        ("exchange-hooks", format!("git init -q s; (cd s; {stale}; rm -rf .git/hooks; mkdir .git/hooks); mkdir e; (cd e; {hooks}); ../kernel exchange e/hooks s/.git/hooks")),
        ("exchange-hooks-back", format!("git init -q s; (cd s; {stale}; rm -rf .git/hooks; mkdir .git/hooks); mkdir e; (cd e; {hooks}); ../kernel exchange s/.git/hooks e/hooks")),
        // By a name that no list has.
        ("named-hooks", format!("{named}; mkdir e; (cd e; {hooks}); mv e/hooks b/hooks")),
        ("named-hooks-exchanged", format!("{named}; mkdir b/hooks e; (cd e; {hooks}); ../kernel exchange e/hooks b/hooks")),
        ("named-hooks-exchanged-back", format!("{named}; mkdir b/hooks e; (cd e; {hooks}); ../kernel exchange b/hooks e/hooks")),
        ("named-hooks-linked", format!("{named}; mkdir e; (cd e; {hooks}); ln -s ../e/hooks b/hooks")),
        ("named-hook", format!("{named}; (cd b; {hooks})")),
        ("named-config", format!("{named}; {elsewhere} > b/config; {elsewhere} > e; mv e b/config; {elsewhere} > b/config.lock; mv b/config.lock b/config")),
        ("named-config-exchanged", format!("{named}; {elsewhere} > e; ../kernel exchange e b/config; grep -q fsmonitor b/config || ../kernel exchange b/config e")),
        ("named-config-linked", format!("{named}; ln b/config l; {elsewhere} > l")),
        ("symlinks", format!("git init -q s; mkdir e; (cd e; {evil} > config; {hooks}); rm s/.git/config; ln -s ../../e/config s/.git/config; ln -s ../../e/hooks s/.git/hooks; mkdir b; cd b; ln -s ../e/config config; {marks}")),
        ("tmpfile", "git init -q s; rm s/.git/config; python3 -c 'import os; f=os.open(\".\",os.O_TMPFILE|2); os.write(f,b\"[core]\\n fsmonitor = \\\"touch $RAN\\\"\\n\"); os.link(\"/proc/self/fd/%d\"%f,\"s/.git/config\",src_dir_fd=f)'".to_owned()),
        ("held", format!("git init -q s; exec 5>>s/.git/config.lock; printf '[core]\\n' >&5; mv s/.git/config.lock s/.git/config; {elsewhere} >&5; ln s/.git/config l; {elsewhere} > l")),
        ("held-new", format!("git init -q s; rm s/.git/config; exec 5>>s/.git/config.lock; printf '[core]\\n' >&5; mv s/.git/config.lock s/.git/config; {elsewhere} >&5")),
        ("held-before", format!("mkdir h; cd h; exec 5>>config; printf '[core]\\n' >&5; {marks}; {evil} >&5")),
        ("linked-before", format!("mkdir h; printf '[core]\\n' > h/config; ln h/config l; (cd h; {marks}); {evil} > l")),
        ("steps", format!("{stopped}; echo 'exec touch $RAN' > .git/rebase-merge/git-rebase-todo")),
        ("steps-renamed", format!("{stopped}; echo 'exec touch $RAN' > .git/rebase-merge/x; mv .git/rebase-merge/x .git/rebase-merge/git-rebase-todo")),
        ("promisor", format!("git init -q s; cd s; {identity}; {stale}; git commit -qm a; git config remote.evil.url ../..; git config remote.evil.uploadpack 'touch $RAN'; git config remote.evil.promisor true; git config extensions.partialClone evil; find .git/objects -type f -name '*' -path '*/78981922613b2afb6025042ff6bd878ac1994e*' -delete; echo b > a")),
        ("includes", format!("git init -q s; {elsewhere} > s/e; cd s; git config include.path ../e; git config includeIf.gitdir:/.path ../e; printf '[include]\\npath=../e\\n' > .git/config.lock; mv .git/config.lock .git/config")),
        ("attributes", "git init -q s; cd s; echo '* filter=x' > .gitattributes; git config filter.x.clean 'touch $RAN'; git config diff.x.textconv 'touch $RAN'; echo '* diff=x' > .git/info/attributes; echo a > a".to_owned()),
        // Where the file system folds names.
        (FOLDED, format!("git init -q s; {evil} > s/.git/CONFIG; mkdir s/.git/Hooks; mkdir c; cd c; {evil} > Config; {marks}")),
    ]
}

/// A repository of a person's in a room, and the helper beside it.
fn attacked(room: &Room) -> PathBuf {
    room.helper(&KERNEL);
    let project = room.project.join("p");
    std::fs::create_dir(&project).unwrap();
    // Beside it something that looks like the half of a repository, as other people's files may.
    host(
        &project,
        &format!(
            "git init -q -b main .; git commit -q --allow-empty -m x; mkdir -p given/objects given/refs
            printf '[core]\\n repositoryformatversion = 0\\n bare = false\\n worktree = ..\\n {PROGRAM}\\n' > given/config"
        ),
    );
    project
}

fn no_repository_runs_what_was_made_inside(launcher: Launcher) {
    let succeed: Vec<_> = attacks()
        .into_iter()
        .filter_map(|(name, attack)| {
            let room = Room::on(launcher);
            let project = attacked(&room);
            let ran = room.fenced(&format!("cd p; {attack}"));
            runs_something(&project).then_some((name, ran))
        })
        .collect();
    let names: Vec<&str> = succeed.iter().map(|(name, _)| *name).collect();
    assert!(succeed.is_empty(), "{names:?}: {succeed:?}");
}

/// The same attacks get there without a fence, so that their failing means something.
#[test]
fn without_a_fence_git_runs_what_was_made() {
    assert!(!runs_something(&attacked(&Room::new())));
    for (name, attack) in attacks().into_iter().filter(|(name, _)| *name != FOLDED) {
        let room = Room::new();
        let project = attacked(&room);
        host(&project, &format!("set +e; export RAN=/dev/null; {attack}; true"));
        assert!(runs_something(&project), "{name}");
    }
}

fn configs_change_by_harmless_keys_only(launcher: Launcher) {
    let room = Room::on(launcher);
    host(
        &room.project,
        "git init -q -b main .; git config core.hooksPath /nowhere; git config alias.x '!y'; git remote add origin https://example.com/a",
    );
    let before = host(&room.project, "cat .git/config");
    let ran = room.fenced("git config user.name x && git remote set-url origin https://example.org/b && git remote add more ../m && git config core.fsmonitor evil; false");
    assert!(ran.blocked, "{ran:?}");
    let said = ran.json["changedRemotes"].to_string();
    assert!(
        said.contains("https://example.org/b, was https://example.com/a") && said.contains("remote more"),
        "{ran:?}"
    );
    let told = ran.json["violations"].to_string();
    assert!(told.contains("core.fsmonitor can make git run or fetch something"), "{ran:?}");
    let after = host(
        &room.project,
        "git config user.name; git config core.hooksPath; git config alias.x; git config remote.origin.url",
    );
    assert_eq!(after, "x\n/nowhere\n!y\nhttps://example.org/b\n");
    // Emptied, or less some keys, it is another one too.
    host(&room.project, &format!("cat > .git/config <<'E'\n{before}E"));
    for attack in [
        ": > .git/config.lock; mv .git/config.lock .git/config",
        "git config --unset core.hooksPath",
        "git config --unset core.repositoryformatversion",
        "git config --remove-section alias",
        "printf '[core]\\n' > .git/config.lock; mv .git/config.lock .git/config",
        "echo > .git/config; truncate -s 0 .git/config; rm .git/config; mv .git/config x; ln .git/config y; chmod 0 .git/hooks",
    ] {
        let ran = room.fenced(&format!("{attack}; rm -f .git/config.lock; false"));
        assert_eq!(host(&room.project, "cat .git/config"), before, "{attack}: {ran:?}");
        assert!(ran.blocked, "{attack}: {ran:?}");
    }
    // A partial clone fetches missing objects from where its config says, by any command.
    host(&room.project, "git clone -q --bare . other; cd other; git config remote.origin.promisor true");
    let partial = host(&room.project, "cat other/config");
    for attack in [
        "git -C other remote set-url origin https://example.org/b",
        "git -C other remote add more https://example.org/b",
        "git config remote.origin.promisor true",
        "git config extensions.partialClone origin",
    ] {
        let ran = room.fenced(&format!("{attack}; rm -f .git/config.lock other/config.lock; false"));
        assert!(ran.blocked, "{attack}: {ran:?}");
        assert_eq!(
            host(&room.project, "cat .git/config other/config"),
            format!("{before}{partial}"),
            "{attack}: {ran:?}"
        );
    }
    // The person's own rule is above what git may do.
    let config = room.project.join(".git/config").display().to_string();
    room.configure(&json!({ "protect": [config] }).to_string());
    let ran = room.fenced("git config user.name y; false");
    assert!(ran.blocked, "{ran:?}");
    assert_eq!(host(&room.project, "cat .git/config"), before);
}

#[track_caller]
fn works(room: &Room, text: &str) -> Fenced {
    let ran = room.fenced(&format!("set -e\nexport GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=protocol.file.allow GIT_CONFIG_VALUE_0=always\n{text}"));
    assert_eq!(ran.code, 0, "{text}\n{}\n{}\n{:?}", ran.stdout, ran.stderr, ran.json["violations"]);
    assert!(!ran.blocked, "{text}\n{:?}", ran.json["violations"]);
    ran
}

fn git_works_as_everywhere(launcher: Launcher) {
    let room = Room::on(launcher);
    room.write(
        "../.gitconfig",
        "[user]\n\tname = Me\n\temail = me@example.com\n[init]\n\tdefaultBranch = main\n",
    );
    host(
        &room.project,
        "git init -q -b main own; cd own; for i in 1 2 3 4; do echo $i > f$i; git add f$i; git commit -qm $i; done; git branch other HEAD~2",
    );
    works(&room, "git clone -q own fresh");
    // In a repository of the person's, and in one that was made inside.
    for place in ["own", "fresh"] {
        for text in [
            "git config user.name Agent; git config --unset user.name; git config --local core.autocrlf false",
            "git remote add up ../hub.git; git remote set-url up ../x.git; git remote rename up down; git remote remove down",
            "git checkout -q -b topic; echo t > t; git add t; git commit -qm topic; git branch -u main; git checkout -q main; git merge -q --no-ff topic -m merged; git branch -d topic",
            "git checkout -q -b pick HEAD~1; echo p > p; git add p; git commit -qm p; echo q > q; git add q; git commit -qm q; git checkout -q main; git cherry-pick pick~1 pick; git revert --no-edit HEAD",
            "git checkout -q -b re HEAD~2; echo r > r; git add r; git commit -qm r; echo r2 > r; git commit -qam r2; git rebase -q main; GIT_SEQUENCE_EDITOR='sed -i s/^pick/reword/' GIT_EDITOR=true git rebase -q -i HEAD~2; git commit -q --amend -m amended; git checkout -q main",
            "git checkout -q -b conflict HEAD~1; echo x > f1; git commit -qam x; git checkout -q main; echo y > f1; git commit -qam y; git merge conflict || git merge --abort; git rebase conflict || git rebase --abort; git cherry-pick conflict || git cherry-pick --abort; git rebase conflict || { git checkout --theirs f1; git add f1; GIT_EDITOR=true git rebase --continue; }",
            "git checkout -q -b many HEAD~1; for i in 1 2; do echo $i > m$i; git add m$i; git commit -qm m$i; done; git checkout -q main; git cherry-pick -x -s -X ours many~1 many; git update-server-info; test -s .git/info/refs",
            "git checkout -q -b apart HEAD~1; echo a > a; git add a; git commit -qm a; GIT_SEQUENCE_EDITOR='sed -i s/^pick/edit/' git rebase -q -i -X theirs -s recursive HEAD~1; test $(cat .git/rebase-merge/strategy) = recursive; GIT_EDITOR=true git rebase --continue; git rebase -q --apply main; git checkout -q main",
            "git update-index --split-index; echo i > i; git add i; git commit -qm split; git update-index --no-split-index; git reset -q --hard HEAD~1; git reflog expire --expire=now --all; git fsck --lost-found; test -d .git/lost-found",
            "echo s > f2; git stash -q; git stash list; git stash pop -q; git checkout -q f2; echo u > untracked; git stash -q -u; git stash drop -q",
            "git bisect start -q; git bisect bad; git bisect good HEAD~2; git bisect run true; git bisect reset; rm -f x",
            "git tag v; git tag -a -m note va; git notes add -m n; git tag -d v va; git reflog expire --expire=now --all; git gc -q; git repack -adq; git prune; git fsck; git pack-refs --all",
            "git format-patch -q -1 -o $TMPDIR/patches HEAD~1; git checkout -q -b am HEAD~2; git am -q $TMPDIR/patches/* || git am --abort; git checkout -q main",
            "git worktree add -q $P/wt-$$ -b wt$$; cd $P/wt-$$; echo w > w; git add w; git commit -qm w; git config user.name w; git config --worktree user.email w || true; cd -; git worktree move $P/wt-$$ $P/wu-$$; git worktree lock $P/wu-$$; git worktree unlock $P/wu-$$; git worktree remove $P/wu-$$; git worktree prune",
            "mkdir -p dir; echo d > dir/d; git add dir; git commit -qm dir; git sparse-checkout set dir; git sparse-checkout list; git sparse-checkout disable",
            "printf 'version https://git-lfs.github.com/spec/v1\\noid sha256:%064d\\nsize 12\\n' 1 > big.bin; echo '*.bin filter=lfs diff=lfs merge=lfs -text' > .gitattributes; git add -A; git commit -qm lfs; git rm -q --cached big.bin; git reset -q --hard",
            "git clone -q . $P/c-$$; git clone -q --bare . $P/b-$$; git clone -q -s . $P/s-$$; git push -q $P/b-$$ HEAD:refs/heads/pushed; cd $P/c-$$; git pull -q; git fetch -q --prune; git branch -r; cd $P; rm -rf c-$$ b-$$ s-$$",
            "git rm -q f4; git mv f3 f5; git commit -qm moved; git diff HEAD~1 --stat; git blame f1; git log -p -1; git show HEAD; git clean -fdq; git describe --always; git rev-parse HEAD; git switch -q -c sw; git restore f1; git switch -q -; git symbolic-ref HEAD; git update-ref refs/x HEAD; git for-each-ref",
        ] {
            works(&room, &format!("P=$PWD; export TMPDIR=${{TMPDIR:-/tmp}}; cd {place}; {text}"));
        }
    }
    assert!(!runs_something(&room.project));
}

fn a_rebase_goes_on_with_a_strategy_of_gits_own(launcher: Launcher) {
    let room = Room::on(launcher);
    host(
        &room.project,
        "git init -q -b main .; for i in 1 2; do git commit -q --allow-empty -m $i; done; echo x > x; git add x; git commit -qm x
         GIT_SEQUENCE_EDITOR='sed -i s/^pick/edit/' git rebase -q -i -X theirs HEAD~1",
    );
    for attack in [
        "echo ../evil > .git/rebase-merge/strategy; touch y",
        "printf 'ort\\n../evil\\n' > .git/rebase-merge/strategy; touch y",
        "echo evil >> .git/rebase-merge/strategy",
        "echo evil > s; mv s .git/rebase-merge/strategy; cp s .git/rebase-merge/strategy; ln s .git/rebase-merge/strategy; touch y",
        "exec 5> .git/rebase-merge/strategy; echo ort >&5; touch y; echo ../evil >&5; touch y; echo evil > .git/rebase-merge/strategy; touch y",
        "mkdir -p .git/sequencer; printf '[options]\\n\\tstrategy = ../evil\\n' > .git/sequencer/opts.lock; mv .git/sequencer/opts.lock .git/sequencer/opts",
    ] {
        let ran = room.fenced(&format!("{attack}; false"));
        assert_eq!(host(&room.project, "cat .git/rebase-merge/strategy"), "ort\n", "{attack}: {ran:?}");
        assert!(!room.project.join(".git/sequencer/opts").exists(), "{attack}: {ran:?}");
        assert!(ran.blocked, "{attack}: {ran:?}");
    }
}

fn submodules_work_as_everywhere(launcher: Launcher) {
    let room = Room::on(launcher);
    room.write(
        "../.gitconfig",
        "[user]\n\tname = Me\n\temail = me@example.com\n[init]\n\tdefaultBranch = main\n",
    );
    host(&room.project, "git init -q -b main fresh; cd fresh; git commit -q --allow-empty -m one");
    works(
        &room,
        "git init -q super; cd super; git submodule add -q $PWD/../fresh sub; git commit -qm sub; git clone -q . ../super2; cd ../super2; git submodule update -q --init; cd sub; git log --oneline; echo z > z; git add z; git commit -qm z; cd ..; git add sub; git commit -qm up; git submodule status; git submodule deinit -q -f sub; git rm -q sub; cd ..; rm -rf super super2",
    );
    assert!(!runs_something(&room.project));
}

fn an_empty_directory_of_hooks_can_be_made(launcher: Launcher) {
    let room = Room::on(launcher);
    let ran = room.fenced("export GIT_TEMPLATE_DIR=; git init -q a && mkdir a/.git/hooks && rmdir a/.git/hooks && mkdir a/.git/hooks && rm -r a && git init -q b && mkdir b/.git/hooks");
    assert_eq!(ran.code, 0, "{ran:?}");
    let ran = room.fenced("echo evil > b/.git/hooks/pre-commit; cp /bin/true b/.git/hooks/; mkdir b/.git/hooks/x; ln -s /bin/true b/.git/hooks/post-commit; mkdir h; touch h/update; mv h/update b/.git/hooks/; mv h b/.git/hooks/h; mv -T h b/.git/hooks");
    assert_eq!(host(&room.project, "ls -A b/.git/hooks"), "", "{ran:?}");
    assert!(ran.blocked, "{ran:?}");
}

fn a_refused_config_is_told_in_the_middle_of_a_line_too(launcher: Launcher) {
    let room = Room::on(launcher);
    host(&room.project, "git init -q .");
    let text = "echo a; git config core.fsmonitor evil 2>/dev/null; echo b | cat; true";
    let ran = room.run(&["run", "--no-gate", "--launcher", launcher.name(), "-c", text]).expect(0);
    assert_eq!(ran.stdout, "a\nb\n");
    let told = ran.stderr.lines().filter(|line| line.contains("blocked:") && line.contains(".git/config"));
    assert_eq!(told.count(), 1, "{}", ran.stderr);
}

fn a_new_repository_is_the_same_as_outside(launcher: Launcher) {
    let room = Room::on(launcher);
    let make =
        "git init -q a && git init -q --bare b && git clone -q a c 2>/dev/null && git init -q d && rm -r d";
    let list = "find . -path './*/*' | sort";
    let ran = room.fenced(make);
    assert_eq!((ran.code, ran.blocked), (0, false), "{ran:?}");
    let inside = host(&room.project, list);
    let outside = room.home.join("outside");
    std::fs::create_dir(&outside).unwrap();
    host(&outside, make);
    assert_eq!(inside, host(&outside, list));
    if outside.join("a/.git/info").exists() {
        assert!(inside.contains("a/.git/info/exclude") && inside.contains("a/.git/hooks/pre-commit.sample"));
    }
    // An example stays one.
    let ran = room.fenced(
        "cd a/.git/hooks; mv pre-commit.sample pre-commit; ln update.sample update; cp -l update.sample post-update; \
         ln -s update.sample pre-push; cp update.sample commit-msg; echo evil > x.sample; false",
    );
    assert_eq!(inside, host(&room.project, list), "{ran:?}");
    assert!(ran.blocked, "{ran:?}");
}

/// The file tools of the host judge as the fence does.
#[tokio::test]
async fn the_tools_of_a_server_know_git_directories_too() {
    let room = Room::new();
    if !room.has_fence() {
        return;
    }
    let project = room.project.clone();
    host(
        &project,
        "git init -q -b main .; git commit -q --allow-empty -m x; mkdir s t; echo 'gitdir: ../bare' > s/.git; echo 'gitdir: ../wt' > t/.git",
    );
    let client = Agent::default().connect(&room).await;
    let evil = "[core]\n repositoryformatversion = 0\n fsmonitor = \"touch $RAN; true\"\n";
    let write = async |path: &str, content: &str| {
        call(&client, "write", json!({ "path": path, "content": content })).await["ok"] == true
    };
    assert!(write("bare/HEAD", "ref: refs/heads/main\n").await);
    assert!(write("bare/objects/x", "").await);
    assert!(write("plain/config", evil).await, "nobody believes it there");
    // A config first, then the last mark; and the other way round.
    assert!(write("other/config", evil).await && write("other/HEAD", "ref: refs/heads/main\n").await);
    assert!(write("other/objects/x", "").await);
    assert!(!write("other/refs/x", "").await);
    assert!(write("bare/refs/x", "").await);
    assert!(!write("bare/config", evil).await);
    assert!(!write("bare/hooks/post-index-change", "#!/bin/sh\ntouch $RAN\n").await);
    assert!(!write("bare/info/attributes", "* filter=x\n").await);
    assert!(write("wt/HEAD", "ref: refs/heads/main\n").await);
    assert!(!write("wt/commondir", "../plain\n").await);
    for path in [
        ".git/commondir",
        ".git/x",
        ".git/hooks/x",
        ".git/modules/a/hooks/x",
        ".git/config",
        ".git/info/attributes",
    ] {
        assert!(!write(path, evil).await, "{path}");
    }
    assert!(write(".git/info/exclude", "x\n").await);
    let moved = "*** Begin Patch\n*** Update File: plain/config\n*** Move to: bare/config\n@@\n-[core]\n+[core]\n*** End Patch\n";
    let moved = call(&client, "apply_patch", json!({ "patch": moved })).await;
    assert_eq!(moved["ok"], false, "{moved}");
    client.cancel().await.unwrap();
    assert!(!runs_something(&project));
}

fn what_the_persons_config_names_is_protected(launcher: Launcher) {
    let room = Room::on(launcher);
    room.write("../.gitconfig", "[core]\n\tattributesFile = conf/attributes\n");
    room.write("tools/watch", "#!/bin/sh\n");
    room.write("ours/pre-commit", "#!/bin/sh\n");
    host(
        &room.project,
        "git init -q .; git config core.hooksPath ours; git config include.path ../conf/more; git config core.fsmonitor './tools/watch --quick'",
    );
    let ran = room.fenced(
        "for f in ours/pre-commit ours/post-checkout conf/more conf/attributes tools/watch; do mkdir -p conf; echo evil > $f; done
        mv ours o; mv tools t; rm ours/pre-commit; ln -s x conf/more; mkdir e; touch e/more; mv e/more conf/more; echo fine > tools/other; false",
    );
    assert_eq!(
        host(&room.project, "cat ours/* tools/*; grep -rl evil . || true; ls conf"),
        "#!/bin/sh\nfine\n#!/bin/sh\n",
        "{ran:?}"
    );
    assert!(ran.json["violations"].to_string().contains("named by git's core.hookspath"), "{ran:?}");
}

fn denied_names_are_denied_in_every_case(launcher: Launcher) {
    let room = Room::on(launcher);
    room.write(".ENV", "canary");
    room.write("a/.Env", "canary");
    // By the verdict on each open, and by masks where nobody sees any.
    for precision in ["full", "writes", "off"] {
        let ran = room.fenced_with(
            &["--precision", precision],
            "cat .ENV a/.Env; (cd a; cat .Env); cp .ENV x; cat x; false",
        );
        assert!(!ran.stdout.contains("canary"), "{precision}: {ran:?}");
        assert!(ran.blocked || precision != "full", "{precision}: {ran:?}");
    }
}
