//! Secrets that the sandbox made itself: in its own places it has them like any other file; elsewhere it makes them, and
//! what somebody puts into them later stays denied.

use std::time::Duration;

use crate::suite::fence_support::{Launcher, WAIT, for_every_launcher, has, wait_until};
use crate::suite::support::Room;

for_every_launcher! {
    a_file_of_a_denied_name_can_be_made,
    what_a_person_fills_in_stays_denied,
    nothing_is_overwritten_and_no_rule_of_a_persons_bends,
    a_private_place_holds_secrets_of_its_own,
    a_private_place_holds_repositories_of_its_own,
    gpg_makes_a_key_in_the_private_home,
}

fn a_file_of_a_denied_name_can_be_made(launcher: Launcher) {
    let room = Room::on(launcher);
    room.write(".env.example", "A=1\n");
    let explained = || room.run(&["explain", "--write", ".env"]).expect(1).stdout;
    assert!(explained().contains("a command may make a new one"), "{}", explained());
    let ran = room.fenced(
        "set -e; cp .env.example .env; mkdir app; echo B=2 > app/.env; rm app/.env; cp -p .env.example app/.env
        python3 -c 'open(\"app/credentials.json\", \"x\").write(\"{}\")'; mkdir gone; : > gone/.env; rm -r gone",
    );
    assert_eq!((ran.code, ran.blocked), (0, false), "{ran:?}");
    let read = |path: &str| std::fs::read_to_string(room.project.join(path)).unwrap();
    assert_eq!(
        (read(".env"), read("app/.env"), read("app/credentials.json")),
        ("A=1\n".into(), "A=1\n".into(), "{}".into())
    );
    assert!(!room.project.join("gone").exists());
    // In the next run it is the host's.
    assert!(!explained().contains("may make"), "{}", explained());
    let ran = room.fenced("cat .env || rm -f .env || echo evil >> .env");
    assert!(ran.blocked && ran.stdout.is_empty() && read(".env") == "A=1\n", "{ran:?}");
}

fn what_a_person_fills_in_stays_denied(launcher: Launcher) {
    let room = Room::on(launcher);
    let (ready, go) = (room.project.join("ready"), room.project.join("go"));
    let fill_in = || {
        wait_until(Duration::from_secs(30), || ready.exists());
        for file in ["one/.env", "two/.env"] {
            std::fs::write(room.project.join(file), "canary").unwrap();
        }
        std::fs::write(&go, "").unwrap();
    };
    let ran = std::thread::scope(|scope| {
        scope.spawn(fill_in);
        room.fenced(&format!(
            "mkdir one two; echo A= > one/.env; exec 3> two/.env; {WAIT}
            cat one/.env two/.env; cat <&3; cat /proc/self/fd/3; cat /dev/fd/3; ln one/.env l; mv one/.env m; mv one three
            ln /proc/self/fd/3 k; python3 -c 'import os; os.link(\"/proc/self/fd/3\", \"j\", follow_symlinks=True)'
            cp one/.env c; cat l m k j c three/.env; echo evil > one/.env; echo evil >> one/.env; cp /dev/null one/.env
            mv three $TMPDIR/four; mv one $TMPDIR/five; cat $TMPDIR/*/.env; rm two/.env; cat <&3; cat /proc/self/fd/3; ln /proc/self/fd/3 i; cat i; false"
        ))
    });
    assert!(ran.blocked && !ran.stdout.contains("canary"), "{ran:?}");
    let of = |directory: &str| std::fs::read_to_string(room.project.join(directory).join(".env"));
    assert_eq!(of("one").or_else(|_| of("three")).unwrap(), "canary", "{ran:?}");
}

fn nothing_is_overwritten_and_no_rule_of_a_persons_bends(launcher: Launcher) {
    let room = Room::on(launcher);
    room.write(".env", "canary");
    room.write(".secrets/one", "canary");
    let ran = room.fenced_with(
        &["--deny", "**/mine.txt"],
        "echo evil > .env; echo evil > .secrets/two; echo evil > .envrc; echo evil > .ENVRC; echo evil > mine.txt; ln -s x app.env
        mkdir d; ln -s ../x d/.env; mknod d/.env p; echo x > d/x; mv d/x d/.env; ln d/x d/.env; mkdir d/.env
        python3 -c 'import os; os.open(\"d/.env\", os.O_RDWR | os.O_CREAT)'; false",
    );
    for path in [".secrets/two", ".envrc", ".ENVRC", "mine.txt", "d/.env"] {
        assert!(room.project.join(path).symlink_metadata().is_err(), "{path}: {ran:?}");
    }
    assert_eq!(std::fs::read_to_string(room.project.join(".env")).unwrap(), "canary");
}

fn a_private_place_holds_secrets_of_its_own(launcher: Launcher) {
    let room = Room::on(launcher);
    let hosts = [".aws/config", ".netrc"];
    for path in hosts {
        room.write(room.home.join(path), "canary");
    }
    let ran = room.fenced(
        "set -e; mkdir ~/.ssh; echo mine > ~/.ssh/id_rsa; cat ~/.ssh/id_rsa; ls -A ~/.ssh; echo token > ~/.npmrc; cat ~/.npmrc
        mv ~/.npmrc ~/.pypirc; cat ~/.pypirc; rm ~/.pypirc; mkdir ~/app; : > ~/app/.env
        echo A=1 > $TMPDIR/.env; cat $TMPDIR/.env; echo B=2 >> $TMPDIR/.env; . $TMPDIR/.env; echo $A$B",
    );
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "mine\nid_rsa\ntoken\ntoken\nA=1\n12\n"), "{ran:?}");
    // Files of the host there stay refused, and told.
    let text =
        "cat ~/.aws/config ~/.netrc; echo evil > ~/.netrc; echo evil > ~/.aws/config; ls ~/.aws; false";
    let ran = room.fenced(text);
    assert!(ran.blocked && !ran.stdout.contains("canary") && !ran.stdout.contains("config"), "{ran:?}");
    for path in hosts {
        assert_eq!(std::fs::read_to_string(room.home.join(path)).unwrap(), "canary", "{path}");
    }
    assert!(!room.home.join(".ssh").exists() && !room.home.join(".npmrc").exists());
}

fn a_private_place_holds_repositories_of_its_own(launcher: Launcher) {
    let room = Room::on(launcher);
    let ran = room.fenced(
        "set -e; for place in ~ $TMPDIR; do cd $place; git init -q r; cd r; mkdir -p .git/hooks; echo '#!/bin/sh' > .git/hooks/pre-commit
        chmod +x .git/hooks/pre-commit; git config core.fsmonitor false; mkdir ../d; ln -s ../r/.git ../d/.git; git -C ../d status -s
        mkdir -p ../e/hooks; mv ../e ../d/x; rm ../d/.git; mv ../d/x ../d/.git; cd ..; rm -rf r d; done",
    );
    assert_eq!((ran.code, ran.blocked), (0, false), "{ran:?}");
    // The project is none.
    let ran =
        room.fenced("mkdir e; ln -s $TMPDIR .git; mkdir -p f/hooks; : > f/hooks/update; mv f .git; false");
    assert!(ran.blocked && room.project.join(".git").symlink_metadata().is_err(), "{ran:?}");
}

fn gpg_makes_a_key_in_the_private_home(launcher: Launcher) {
    if !has("gpg", &["--version"]) {
        return;
    }
    let room = Room::on(launcher);
    let ran = room.fenced("gpg --batch --quiet --passphrase '' --quick-gen-key me@example.com && gpg --batch -K --with-colons | grep -c ^sec; gpgconf --kill all");
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "1\n"), "{ran:?}");
}
