//! Attacks by path: aliases of what is denied, new names for what is protected, races against the look.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use std::time::Duration;

use crate::suite::fence_support::{KERNEL, Launcher, RACES, for_every_launcher, is_root, names, wait_until};
use crate::suite::support::Room;

for_every_launcher! {
    one_file_has_one_verdict_by_whatever_name,
    a_hard_link_made_before_shows_no_other_verdict_inside,
    a_descriptor_that_only_points_gives_no_other_name,
    who_only_points_at_a_denied_file_is_not_blocked,
    git_directories_by_another_name_are_protected,
    git_directories_made_inside_hold_nothing_that_runs,
    what_only_root_reads_of_the_system_is_not_shown_to_root,
    protected_names_cannot_come_to_be,
    a_directory_too_large_to_look_at_gets_no_protected_name,
    what_is_protected_stays_through_every_change_of_its_surroundings,
    a_fresh_directory_gets_no_file_that_runs_later,
    what_is_protected_and_came_later_stays_as_it_is,
    a_denied_file_replaced_outside_stays_denied,
    the_ringfence_home_and_its_program_are_out_of_reach,
    nobody_inside_writes_what_the_ledger_takes_in,
    links_planted_in_the_project_do_not_lead_the_host_out,
    races_do_not_read_what_was_denied_from_the_start,
}

/// A room with secrets where people have them, and a repository.
fn room(launcher: Launcher) -> Room {
    let room = Room::on(launcher);
    room.write("../.ssh/id_rsa", "canary-key");
    room.write("../.aws/credentials", "canary-aws");
    room.write(".env", "canary-env");
    room.write("sub/deep/.env", "canary-deep");
    room.write(".git/config", "[core]\n");
    room.write(".git/HEAD", "ref: refs/heads/main\n");
    room.write(".git/hooks/pre-commit.sample", "");
    room
}

fn one_file_has_one_verdict_by_whatever_name(launcher: Launcher) {
    let room = room(launcher);
    let ran = room.fenced(
        "h=~/.ssh/id_rsa
        cat $h; cat ~/./.ssh/../.ssh/id_rsa; cat ~//.ssh//id_rsa; cat /proc/self/root$h; cat /proc/$$/root$h
        cat /proc/self/cwd/.env; cat /proc/thread-self/cwd/.env; cat /proc/$$/task/$$/cwd/.env
        ln -s ~/.ssh s; cat s/id_rsa; ln -s $h k; cat k; ln -s .env e; cat e; ln -s e e2; cat e2
        ln .env hard; cat hard; ln ~/.ssh/id_rsa hard2; cat hard2; cp .env copy; cat copy
        ln -s /proc/self/root r; cat r$h; ln -s /proc/self/cwd w; cat w/.env
        exec 3<.; cat /proc/self/fd/3/.env; cat /dev/fd/3/.env; exec 4<sub; cat /proc/self/fd/4/deep/.env
        cd sub; cat ../.env; cat deep/../deep/.env; cat \"$OLDPWD/.env\"; cd ..
        mkdir -p x/y; ln -s ../../sub/deep x/y/l; cat x/y/l/.env; cat x/y/l/../deep/.env
        dd if=.env; tail .env; head -c9 .env; od -c .env; < .env cat; . ./.env; source .env; read l < .env; echo $l
        tar cf - .env; python3 -c 'print(open(\".env\").read())'; python3 -c 'import os; d=os.open(\".\",0); print(os.read(os.open(\".env\",0,dir_fd=d),99))'
        mv .env moved; cat moved; mv sub other; cat other/deep/.env; cat sub/deep/.env; false",
    );
    assert!(!ran.stdout.contains("canary"), "{}", ran.stdout);
    assert!(!ran.stderr.contains("canary"), "{}", ran.stderr);
    assert!(ran.blocked);
    for file in [".env", "sub/deep/.env"] {
        assert!(room.project.join(file).is_file(), "{file} was moved");
    }
}

fn a_hard_link_made_before_shows_no_other_verdict_inside(launcher: Launcher) {
    let room = room(launcher);
    // Made by the host's user: the link is a second name of the same file, in a place that may be read.
    std::fs::hard_link(room.project.join(".env"), room.project.join("alias")).unwrap();
    let ran = room.fenced("cat alias; ln .env again; ln alias again2; cat again; mv .env z; cat z; false");
    assert!(!ran.stdout.contains("canary"), "{ran:?}");
    let alias = room.project.join("alias").display().to_string();
    assert!(ran.resources().contains(&alias.as_str()), "{ran:?}");
}

fn a_descriptor_that_only_points_gives_no_other_name(launcher: Launcher) {
    let room = room(launcher);
    room.write("n/.git/hooks/x", "");
    let link = "import ctypes, os; c = ctypes.CDLL(None, use_errno=True)
for path in ['.env', 'n/.git/hooks/x', 'plain']:
    fd = os.open(path, os.O_PATH)
    print(path, c.linkat(fd, b'', -100, ('again-' + os.path.basename(path)).encode(), 0x1000))";
    room.write("plain", "");
    room.write("link.py", link);
    let ran = room.fenced("python3 link.py; cat again-.env; false");
    assert!(!ran.stdout.contains("canary"), "{ran:?}");
    assert!(!room.project.join("again-.env").exists() && !room.project.join("again-x").exists(), "{ran:?}");
    // What is neither denied nor protected gets its second name.
    assert!(room.project.join("again-plain").exists(), "{ran:?}");
}

fn who_only_points_at_a_denied_file_is_not_blocked(launcher: Launcher) {
    let ran = room(launcher).fenced("python3 -c 'import os; os.open(\".env\", os.O_PATH)'; exit 3");
    assert!(ran.code == 3 && !ran.blocked, "{ran:?}");
    let noticed = &ran.json["violations"][0];
    assert_eq!((&noticed["blocked"], &noticed["reason"]), (&false.into(), &"denied".into()), "{ran:?}");
    // Opening what it points at is another matter.
    let reopen = "import os; print(open(\"/proc/self/fd/%d\" % os.open(\".env\", os.O_PATH)).read())";
    let ran = room(launcher).fenced(&format!("python3 -c '{reopen}'"));
    assert!(ran.blocked && !ran.stdout.contains("canary"), "{ran:?}");
}

fn git_directories_by_another_name_are_protected(launcher: Launcher) {
    let room = room(launcher);
    let made =
        "git init -q --bare bare; git init -q --separate-git-dir elsewhere tree; rm -r elsewhere/hooks";
    let made =
        std::process::Command::new("sh").args(["-c", made]).current_dir(&room.project).status().unwrap();
    assert!(made.success());
    let attack = "for d in bare elsewhere; do
        echo evil >> $d/config; echo evil > $d/e; mv $d/e $d/config; mkdir $d/hooks; echo evil > $d/hooks/x
        mkdir -p $d/info; echo evil > $d/info/attributes; mv $d/hooks away; mv $d moved
    done";
    let ran = room.fenced(attack);
    assert_eq!(evil_in(&room.project), Vec::<String>::new(), "{ran:?}");
    // git itself goes on.
    let ran = room.fenced("cd tree && git config user.name x && git -c user.email=a@b commit -q --allow-empty -m x && git log --oneline");
    assert_eq!(ran.code, 0, "{ran:?}");
}

/// What the host's git would run after `cd` into a directory that was made inside.
fn git_directories_made_inside_hold_nothing_that_runs(launcher: Launcher) {
    let room = Room::on(launcher);
    room.helper(&KERNEL);
    let program = "fsmonitor = \"touch RAN; true\"";
    let elsewhere = format!("printf '[core]\\n repositoryformatversion = 0\\n {program}\\n'");
    let evil = format!(
        "printf '[core]\\n repositoryformatversion = 0\\n bare = false\\n worktree = .\\n {program}\\n'"
    );
    let hook = "mkdir hooks; echo 'touch RAN' > hooks/post-index-change; chmod +x hooks/*";
    let marks = "mkdir -p objects refs; echo 'ref: refs/heads/main' > HEAD";
    let attacks: &[(&str, String)] = &[
        ("config-first", format!("{evil} > config; {marks}")),
        ("config-last", format!("{marks}; {evil} > config")),
        ("appended", format!("git init -q --bare .; {evil} >> config")),
        ("renamed", format!("{marks}; {evil} > c; mv c config; {evil} > config.lock; mv config.lock config")),
        ("linked", format!("{marks}; {evil} > c; ln c config; ln -s c config")),
        ("exchanged", format!("{marks}; {evil} > c; touch config; ../kernel exchange c config")),
        ("marks-renamed", format!("{evil} > config; mkdir x; (cd x; {marks}); mv x/* .")),
        (
            "marks-linked",
            format!(
                "{evil} > config; mkdir -p objects refs; echo 'ref: refs/heads/main' > h; ln h HEAD; ln -s h HEAD"
            ),
        ),
        ("held-open", format!("echo '[core]' > config; exec 5>>config; {marks}; {evil} >&5")),
        ("another-name", format!("echo '[core]' > config; ln config other; {marks}; {evil} > other")),
        ("hooks-first", format!("{hook}; {marks}")),
        ("hooks-last", format!("git init -q --bare .; {hook}")),
        (
            "hooks-renamed",
            format!("git init -q --bare .; mkdir x; (cd x; {hook}); mv x/hooks hooks; ln -s x/hooks hooks"),
        ),
        (
            "common",
            format!(
                "mkdir t c d; (cd c; mkdir objects refs; {elsewhere} > config); echo ../c > d/commondir; echo 'ref: refs/heads/main' > d/HEAD; echo 'gitdir: ../d' > t/.git"
            ),
        ),
    ];
    for (name, attack) in attacks {
        let place = format!("made-{name}");
        let ran = room.fenced(&format!("mkdir {place}; cd {place}; {attack}"));
        assert!(!runs_something(&room.project.join(&place)), "{name}: {ran:?}");
        // Outside each of them gets there.
        let outside = tempfile::tempdir_in(&room.project).unwrap();
        let mut shell = std::process::Command::new("bash");
        shell.args(["-c", attack]).current_dir(outside.path()).env("GIT_TEMPLATE_DIR", "").output().unwrap();
        assert!(runs_something(outside.path()), "{name}: {:?}", names(outside.path()));
    }
    // git itself makes and uses such repositories.
    let ran = room.fenced(
        "git init -q --bare b.git && git init -q w && cd w && git -c user.name=x -c user.email=x commit -q --allow-empty -m x \
         && git remote add b ../b.git && git push -q b HEAD && git clone -q --bare . ../c.git && cd ../c.git && git log --oneline",
    );
    assert_eq!(ran.code, 0, "{ran:?}");
}

/// Whether git runs something that lies in the directory, or finds hooks to run there.
fn runs_something(directory: &Path) -> bool {
    for below in ["", "t"] {
        let mut git = std::process::Command::new("git");
        git.args(["-c", "safe.directory=*", "status"]).current_dir(directory.join(below));
        // It fails in most of them, which is not what matters.
        let _ = git.output();
    }
    let has_hooks = ["HEAD", "objects", "refs"].iter().all(|mark| directory.join(mark).exists())
        && directory.join("hooks").exists()
        && !holds_examples_only(&directory.join("hooks"));
    has_hooks || names(directory).iter().any(|path| path.ends_with("RAN"))
}

/// Whether a directory of hooks has nothing in it but the examples of git's own, which it does not run.
fn holds_examples_only(hooks: &Path) -> bool {
    let is_example = |entry: std::fs::DirEntry| {
        let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
        let is_evil =
            || std::fs::read(entry.path()).is_ok_and(|text| text.windows(4).any(|part| part == b"evil"));
        entry.file_name().to_string_lossy().ends_with(".sample") && is_file && !is_evil()
    };
    std::fs::read_dir(hooks).is_ok_and(|mut entries| entries.all(|entry| entry.is_ok_and(is_example)))
}

/// Files with something evil in them, of those that git looks at.
fn evil_in(project: &Path) -> Vec<String> {
    let mut evil = Vec::new();
    for directory in ["bare", "elsewhere", "moved"] {
        for name in ["config", "hooks/x", "info/attributes"] {
            let path = project.join(directory).join(name);
            if std::fs::read_to_string(&path).is_ok_and(|text| text.contains("evil")) {
                evil.push(path.display().to_string());
            }
        }
    }
    evil
}

fn what_only_root_reads_of_the_system_is_not_shown_to_root(launcher: Launcher) {
    let room = room(launcher);
    let secret = "/etc/.pwd.lock";
    let is_closed =
        std::fs::metadata(secret).is_ok_and(|metadata| metadata.permissions().mode() & 0o004 == 0);
    if !is_closed {
        return ringfence_testing::lacks(secret, "it is not there, or not closed");
    }
    let ran = room.fenced(&format!("cat {secret}"));
    assert!(ran.code != 0 && ran.stderr.contains("Permission denied"), "{ran:?}");
    // As for everybody else, it is the system that keeps it back.
    assert!(!ran.blocked, "{ran:?}");
    let ran = room.fenced_with(&["--allow-read", secret], &format!("cat {secret}"));
    assert_eq!(ran.code, if is_root() { 0 } else { 1 }, "{ran:?}");
}

fn protected_names_cannot_come_to_be(launcher: Launcher) {
    let room = room(launcher);
    room.helper(&KERNEL);
    let attacks: &[(&str, &str)] = &[
        ("plain", "mkdir .git; echo evil > .git/config; mkdir .git/hooks"),
        ("append", "mkdir .git; echo evil >> .git/config; tee -a .git/config <<<evil"),
        ("copy", "mkdir -p e/hooks; echo evil > e/config; cp -r e .git; cp e/config .git/config"),
        ("rename-file", "mkdir .git; echo evil > e; mv e .git/config; mv -n e .git/config; mv e .git/hooks"),
        ("rename-directory", "mkdir -p e/hooks; echo evil > e/hooks/pre-commit; mv e .git"),
        ("rename-into", "mkdir .git; mkdir hooks; echo evil > hooks/pre-commit; mv hooks .git/"),
        ("rename-deep", "mkdir -p m/a/b/c/d/e/hooks .git; mv m .git/modules"),
        ("rename-crowd", "mkdir e; (cd e; seq 300 | xargs touch; mkdir hooks; echo evil > hooks/x); mv e .git"),
        ("exchange", "mkdir -p .git e/hooks; echo evil > e/hooks/x; ../kernel exchange e .git; ../kernel exchange .git e"),
        ("exchange-file", "mkdir .git; echo evil > e; touch .git/x; ../kernel exchange e .git/x; mv .git/x .git/config"),
        ("link", "mkdir .git; echo evil > e; ln e .git/config; ../kernel link-from e; mv linked .git/config"),
        ("symlink-name", "ln -s e .git; mkdir -p e; echo evil > e/config"),
        ("symlink-renamed", "ln -s e l; mv -T l .git; mkdir -p e/hooks; echo evil > e/config"),
        ("symlink-exchanged", "mkdir .git; ln -s e l; ../kernel exchange l .git; ../kernel exchange .git l; mkdir e; echo evil > e/config"),
        ("symlink-inside", "mkdir .git; echo evil > e; ln -s ../e .git/config; ln -s ../e .git/hooks"),
        ("symlink-to-it", "mkdir .git; ln -s .git g; echo evil > g/config; mkdir g/hooks"),
        ("dangling-link", "mkdir .git; ln -s .git/config x; echo evil > x"),
        ("dangling-chain", "mkdir .git; ln -s y x; ln -s .git/config y; echo evil > x; tee x <<<evil"),
        ("dots-after-link", "mkdir -p .git sub a; ln -s ../sub a/l; echo evil > a/l/../.git/config"),
        ("proc-cwd", "mkdir .git; echo evil > /proc/self/cwd/.git/config; echo evil > /proc/$$/cwd/.git/config"),
        ("proc-root", "mkdir .git; echo evil > /proc/self/root$PWD/.git/config; echo evil > /proc/$$/root$PWD/.git/config"),
        ("proc-fd", "mkdir .git; exec 3<. 4<.git; echo evil > /proc/self/fd/3/.git/config; echo evil > /dev/fd/4/config"),
        ("proc-task", "mkdir .git; echo evil > /proc/$$/task/$$/cwd/.git/config; echo evil > /proc/thread-self/cwd/.git/config"),
        ("proc-link", "mkdir .git; ln -s /proc/self/cwd l; echo evil > l/.git/config; ln -s /proc/self/fd f; exec 3<.git; echo evil > f/3/config"),
        ("dirfd", "mkdir .git; python3 -c 'import os; d=os.open(\".git\",0); os.write(os.open(\"config\",65,dir_fd=d),b\"evil\")'"),
        ("dirfd-mkdir", "mkdir .git; python3 -c 'import os; d=os.open(\".git\",0); os.mkdir(\"hooks\",dir_fd=d)'"),
        ("dirfd-path", "mkdir .git; python3 -c 'import os; d=os.open(\".git\",os.O_PATH); os.mkdir(\"hooks\",dir_fd=d)'"),
        ("dirfd-rename", "mkdir .git; echo evil>e; python3 -c 'import os; d=os.open(\".git\",0); os.rename(\"e\",\"config\",dst_dir_fd=d)'"),
        ("dirfd-link", "mkdir .git; echo evil>e; python3 -c 'import os; d=os.open(\".git\",0); os.link(\"e\",\"config\",dst_dir_fd=d)'"),
        ("dirfd-symlink", "mkdir .git; python3 -c 'import os; d=os.open(\".git\",0); os.symlink(\"/e\",\"config\",dir_fd=d)'"),
        ("dirfd-mknod", "mkdir .git; python3 -c 'import os; d=os.open(\".git\",0); os.mkfifo(\"config\",dir_fd=d)'"),
        ("tmpfile", "mkdir .git; python3 -c 'import os; f=os.open(\".\",os.O_TMPFILE|2); os.write(f,b\"evil\"); os.link(\"/proc/self/fd/%d\"%f,\".git/config\",src_dir_fd=f)'"),
        ("fifo-and-socket", "mkdir .git; mkfifo .git/config; python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\".git/config\")'"),
        ("deleted-name", "mkdir -p 'd (deleted)/.git'; cd 'd (deleted)'; echo evil > .git/config; mv .git/config ../.git/config"),
        ("deep", "python3 -c 'import os
for i in range(25): os.mkdir(\"d\"*200); os.chdir(\"d\"*200)
os.mkdir(\".git\"); open(\".git/config\",\"w\").write(\"evil\")'; find . -name config -path '*.git*' | grep -q . && touch FOUND; find . -maxdepth 1 -name 'ddd*' -exec rm -rf {} +"),
        ("git-keys", "git init -q .; for l in 'fsmonitor = evil' 'hooksPath = e' 'sshCommand = evil'; do printf '[core]\\n%s\\n' \"$l\" > .git/config.lock; mv .git/config.lock .git/config; done"),
        ("git-tricks", "git init -q .; printf '[user]\\n name = x ; \\\\\\n[core] fsmonitor = evil\\n' > .git/config.lock; mv .git/config.lock .git/config; \
          printf '[core] fsmonitor = \"evil\" # ]\\n' > .git/config.lock; mv .git/config.lock .git/config"),
        ("editor", "mkdir .vscode; echo evil > .vscode/tasks.json; mkdir -p e; echo evil > e/tasks.json; mv e .vscode; ln -s e .vscode; ln -s e .idea"),
        ("agents", "mkdir .claude .codex .cursor .gemini .ringfence; echo evil > .mcp.json; echo evil > .ringfence/sandbox.json; ln -s e .claude"),
        ("husky", "mkdir .husky .githooks; mkdir -p .github/hooks; echo evil > .husky/pre-commit"),
    ];
    for (name, attack) in attacks {
        let place = format!("fresh-{name}");
        // In a directory that was made inside, the settings of editors and agents are the work.
        std::fs::create_dir(room.project.join(&place)).unwrap();
        let ran = room.fenced(&format!("cd {place}; {attack}"));
        let created = evil_below(&room.project.join(&place));
        assert!(created.is_empty(), "{name}: {created:?}\n{ran:?}");
    }
}

/// Nobody can look through a directory of any size while a call waits, so such a one gets no protected name.
fn a_directory_too_large_to_look_at_gets_no_protected_name(launcher: Launcher) {
    let room = room(launcher);
    let large = room.project.join("n/large");
    std::fs::create_dir_all(&large).unwrap();
    for number in 0..20_001 {
        std::fs::write(large.join(number.to_string()), "").unwrap();
    }
    let ran = room.fenced("cd n; mv large .git; mv large fine; ls -A");
    assert_eq!(ran.stdout, "fine\n", "{ran:?}");
}

/// Protected names below a directory that hold something they must not.
fn evil_below(directory: &Path) -> Vec<String> {
    let protected = [
        "config",
        "hooks",
        "modules",
        ".vscode",
        ".idea",
        ".claude",
        ".codex",
        ".cursor",
        ".gemini",
        ".mcp.json",
        ".ringfence",
        ".husky",
        ".githooks",
        "FOUND",
    ];
    let in_git = |path: &Path| path.components().any(|part| part.as_os_str() == ".git");
    names(directory)
        .into_iter()
        .filter(|path| {
            let name = path.file_name().unwrap().to_str().unwrap_or_default();
            let special = !["config", "hooks", "modules"].contains(&name) || in_git(path);
            let link = name == ".git" && path.is_symlink();
            // What git itself keeps in its configuration is harmless; what attacks put there says so.
            let harmless =
                name == "config" && std::fs::read_to_string(path).is_ok_and(|text| !text.contains("evil"));
            // Some tools make a directory of hooks and leave it empty, or with examples.
            let harmless = harmless || (name == "hooks" && holds_examples_only(path));
            link || (protected.contains(&name) && special && !harmless)
        })
        .map(|path| path.display().to_string())
        .collect()
}

fn what_is_protected_stays_through_every_change_of_its_surroundings(launcher: Launcher) {
    let room = room(launcher);
    room.write("lib/vendored/.git/config", "[core]\n");
    room.helper(&KERNEL);
    let before = names(&room.project);
    room.fenced(
        "mv .git g; mv lib l; mv lib/vendored v; rmdir .git; rm -rf .git/hooks .git/config lib/vendored/.git/config
        mkdir n; ./kernel exchange n .git; ./kernel exchange lib n; ./kernel exchange .git n; rmdir n
        echo evil > e; mv e .git/config; cp e .git/config; ln -f e .git/config; ln -sf e .git/config; rm e
        ./kernel truncate .git/config; ./kernel chmod .git/config; ./kernel chmod .git/hooks; ./kernel setxattr .git/config
        ./kernel umount .git/config; ./kernel mount-remount .git/config; ./kernel write .git/config evil
        git config core.fsmonitor evil; git config --local alias.x '!evil'; echo evil > .git/hooks/pre-commit",
    );
    assert_eq!(names(&room.project), before);
    for config in [".git/config", "lib/vendored/.git/config"] {
        assert_eq!(std::fs::read_to_string(room.project.join(config)).unwrap(), "[core]\n");
    }
}

/// A repository that somebody outside makes while the command runs: no mount holds it.
fn what_is_protected_and_came_later_stays_as_it_is(launcher: Launcher) {
    let room = Room::on(launcher);
    room.helper(&RACES);
    room.write("okay", "");
    let hook = room.project.join("late/.git/hooks/x");
    let appear = || {
        room.write("late/.git/HEAD", "ref: refs/heads/main\n");
        room.write("late/.git/config", "[core]\n");
        room.write("late/.git/hooks/x", "#!/bin/sh\n");
        std::fs::set_permissions(&hook, PermissionsExt::from_mode(0o644)).unwrap();
    };
    room.write(
        "attack.py",
        "import ctypes, os, socket
libc = ctypes.CDLL(None, use_errno=True)
x = 'late/.git/hooks/x'
d, f = os.open('late/.git/hooks', os.O_DIRECTORY), os.open(x, os.O_RDONLY)
p = os.open(x, os.O_PATH)
for attempt in [
    lambda: os.chmod(x, 0o755), lambda: os.chmod('x', 0o755, dir_fd=d), lambda: os.fchmod(f, 0o755),
    lambda: os.chmod('/proc/self/fd/%d' % f, 0o755), lambda: os.chmod('/proc/self/fd/%d' % p, 0o755),
    lambda: libc.syscall(452, f, b'', 0o755, 0x1000), lambda: libc.syscall(452, p, b'', 0o755, 0x1000),
    lambda: libc.syscall(452, d, b'x', 0o755, 0), lambda: os.chmod('late/.git/hooks/../hooks/x', 0o755),
    lambda: os.remove(x), lambda: os.rename(x, 'away'), lambda: os.truncate(x, 0), lambda: os.utime(x, (1, 1)),
    lambda: os.link(x, 'second'), lambda: socket.socket(socket.AF_UNIX).bind('late/.git/hooks/y'),
    lambda: open('late/.git/hooks/z', 'w'), lambda: os.rmdir('late/.git/hooks'), lambda: os.remove('late/.git/config'),
]:
    try: attempt()
    except OSError: pass
mine = os.open('mine', os.O_RDWR | os.O_CREAT)
os.chmod('mine', 0o700); os.fchmod(mine, 0o751); os.chmod('.', 0o700); libc.syscall(452, mine, b'', 0o750, 0x1000)
unnamed = os.memfd_create('m'); os.fchmod(unnamed, 0o600)
",
    );
    let names = |directory: &Path| names(&directory.join("late"));
    let text = "python3 attack.py; ./races chmod 0.5; ./races chmod-from-tmp 0.5; true";
    let ran = room.fenced_while(appear, text);
    let there: Vec<_> = names(&room.project).into_iter().filter(|path| path.is_file()).collect();
    let expected =
        ["late/.git/HEAD", "late/.git/config", "late/.git/hooks/x"].map(|name| room.project.join(name));
    assert_eq!(there, expected, "{ran:?}");
    assert_eq!(std::fs::read_to_string(&hook).unwrap(), "#!/bin/sh\n");
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&hook), 0o644, "{ran:?}");
    assert_ne!(std::os::unix::fs::MetadataExt::mtime(&hook.metadata().unwrap()), 1);
    // Each kind was told of.
    let told = ran.json["violations"].as_array().unwrap();
    for operation in ["chmod", "remove", "rename", "truncate", "utime", "link", "bind", "create"] {
        assert!(told.iter().any(|told| told["operation"] == operation), "{operation}: {ran:?}");
    }
    // What is the command's own gets its mode.
    assert_eq!(mode(&room.project.join("mine")), 0o750, "{ran:?}");
    // Outside the races are won.
    for race in ["chmod", "chmod-from-tmp"] {
        let won = || {
            RACES.unfenced(&[race, "0.1"], &room.project);
            mode(&hook) == 0o777
        };
        assert!(wait_until(Duration::from_secs(30), won), "{race}");
        std::fs::set_permissions(&hook, PermissionsExt::from_mode(0o644)).unwrap();
    }
}

fn a_fresh_directory_gets_no_file_that_runs_later(launcher: Launcher) {
    let room = Room::on(launcher);
    let ran = room.fenced(
        "git init -q . ; mkdir .git/hooks; echo x > .git/hooks/pre-commit; git config core.hooksPath .; \
         mkdir .ringfence .claude .vscode; echo '{}' > .ringfence/sandbox.json; \
         echo evil > ~/.bashrc; echo evil > ~/.profile; mkdir -p ~/.config/autostart; echo x > ~/.config/autostart/x; \
         mkdir ~/.ssh; echo key > ~/.ssh/authorized_keys; true",
    );
    for name in [".git/hooks/pre-commit", ".ringfence", ".claude", ".vscode"] {
        assert!(!room.project.join(name).exists(), "{name}: {ran:?}");
    }
    let config = std::fs::read_to_string(room.project.join(".git/config")).unwrap();
    assert!(!config.contains("hooksPath"), "{config}");
    let left: Vec<_> = names(&room.home)
        .into_iter()
        .filter(|path| !path.starts_with(&room.project) && !path.starts_with(&room.ringfence_home))
        .collect();
    assert_eq!(left, Vec::<std::path::PathBuf>::new());
}

fn a_denied_file_replaced_outside_stays_denied(launcher: Launcher) {
    let room = room(launcher);
    let replace = || {
        room.write("new", "canary-new");
        std::fs::rename(room.project.join("new"), room.project.join(".env")).unwrap();
    };
    let ran = room.fenced_while(replace, "cat .env; for i in 1 2 3; do cat ./.env sub/../.env; done; false");
    assert!(!ran.stdout.contains("canary"), "{ran:?}");
    assert!(ran.resources().iter().any(|resource| resource.ends_with("/.env")), "{ran:?}");
}

fn the_ringfence_home_and_its_program_are_out_of_reach(launcher: Launcher) {
    let room = Room::on(launcher);
    room.configure("{ \"deny\": [\"/srv/canary\"] }");
    let program = env!("CARGO_BIN_EXE_ringfence");
    let ran = room.fenced(&format!(
        "cat ~/.ringfence/sandbox.json; echo '{{}}' > ~/.ringfence/sandbox.json; rm -rf ~/.ringfence; \
         echo evil > {program}; cat /proc/1/exe > exe; echo evil > /proc/self/exe; false"
    ));
    assert!(!ran.stdout.contains("canary"), "{ran:?}");
    let config = std::fs::read_to_string(room.ringfence_home.join("sandbox.json")).unwrap();
    assert!(config.contains("canary"));
    assert!(std::fs::metadata(program).unwrap().len() > 100_000);
    assert_eq!(std::fs::metadata(room.project.join("exe")).map_or(0, |exe| exe.len()), 0);
}

/// Records wait beside the ledger as lines of text. In the very first run of a home that is the project itself, not even
/// their directory is there when the fence is planned.
fn nobody_inside_writes_what_the_ledger_takes_in(launcher: Launcher) {
    const FORGED: &str = r#"{"event":{"timeMs":1,"executionId":null,"kind":"forged","body":{}}}"#;
    for precision in ["full", "writes", "off"] {
        let room = Room::on(launcher);
        let home = room.home.to_str().unwrap();
        let options = ["--project", home, "--precision", precision];
        for run in ["first", "second"] {
            let text = format!(
                "mkdir -p ~/.ringfence; for f in ledger.db-spool ledger.db-spool.1 sandbox.json; do echo '{FORGED}' >> ~/.ringfence/$f; done; true"
            );
            room.fenced_with(&options, &text);
            for name in names(&room.ringfence_home) {
                let found = std::fs::read(room.ringfence_home.join(&name)).unwrap_or_default();
                let found = String::from_utf8_lossy(&found);
                assert!(
                    !found.contains(r#""kind":"forged""#),
                    "{precision}, {run} run: {} was written",
                    name.display()
                );
            }
        }
    }
}

fn links_planted_in_the_project_do_not_lead_the_host_out(launcher: Launcher) {
    let room = Room::on(launcher);
    room.write("../canary", "old");
    // Planted inside, used by the next start: as a protected name, a denied name and a directory.
    room.fenced("ln -s ~/canary note; ln -s / everything; ln -s ../canary .env; ln -s /etc .idea; ln -s loop loop; true");
    let ran = room.fenced("cat note; echo evil > note; cat everything/etc/shadow; cat .env; false");
    assert!(!ran.stdout.contains("old"), "{ran:?}");
    assert_eq!(std::fs::read_to_string(room.home.join("canary")).unwrap(), "old");
}

/// A name in the project becomes another, one of the system's does, one of `openat2` does.
const READ_RACES: [&str; 3] = ["read", "read-from-usr", "read-openat2"];

fn races_do_not_read_what_was_denied_from_the_start(launcher: Launcher) {
    let room = room(launcher);
    room.helper(&RACES);
    room.write("okay", "fine");
    let races = READ_RACES.map(|race| format!("./races {race} 0.7; ")).concat();
    let ran =
        room.fenced(&format!("{races} mkdir other; ln -s . door; echo fine > other/.e; ./races swap-read 1"));
    assert_eq!(ran.stdout.matches(" 0 leaks").count(), READ_RACES.len() + 1, "{ran:?}");
    // Outside each of them is won.
    for race in READ_RACES {
        let won = || !RACES.unfenced(&[race, "0.1"], &room.project).contains(" 0 leaks");
        assert!(wait_until(Duration::from_secs(30), won), "{race}");
    }
}
