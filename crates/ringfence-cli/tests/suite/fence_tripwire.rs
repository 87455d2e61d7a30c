//! The tripwire: what masks and closed doors refuse is told, whichever call it was, with the exact path.
//!
//! Where `/dev/fuse` cannot be opened there is none; then the result must say so.

use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;

use crate::suite::fence_support::{Fenced, KERNEL, processes_with, wait_until};
use crate::suite::support::Room;

fn room() -> Room {
    let room = Room::new();
    for (path, content) in [
        ("../.ssh/id_rsa", "canary"),
        ("../.ssh/deep/er/key", "canary"),
        ("../.ssh/tool", "#!/bin/sh\necho canary\n"),
        ("../.aws/credentials", "canary"),
        (".env", "canary"),
    ] {
        room.write(path, content);
    }
    let tool = room.home.join(".ssh/tool");
    std::fs::set_permissions(tool, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    room
}

/// Whether the run had a tripwire. One that could not have one said so.
fn has_tripwire(ran: &Fenced) -> bool {
    let device = std::fs::OpenOptions::new().read(true).write(true).open("/dev/fuse");
    let native = ran.json["sandbox"]["adapter"] == "local/native";
    let possible = device.is_ok() && native;
    let told =
        ["questionsUnreported", "readsUnreported", "namesVisible"].iter().any(|code| !ran.promises(code));
    assert_eq!(possible, !told, "{ran:?}");
    possible
}

/// What was refused, as (operation, path below the home).
fn refused(room: &Room, ran: &Fenced) -> Vec<(String, String)> {
    let home = format!("{}/", room.home.display());
    let text = |violation: &Value, key: &str| violation[key].as_str().unwrap_or_default().to_owned();
    let violations = ran.json["violations"].as_array().cloned().unwrap_or_default();
    violations
        .iter()
        .inspect(|violation| assert_eq!(violation["certain"], true, "{violation}"))
        .map(|violation| (text(violation, "operation"), text(violation, "resource").replacen(&home, "", 1)))
        .collect()
}

#[test]
fn a_question_about_a_denied_file_is_refused_and_told() {
    let room = room();
    for (command, operation, path) in [
        ("stat ~/.ssh/id_rsa", "stat", ".ssh/id_rsa"),
        ("ls -l ~/.aws/credentials", "stat", ".aws/credentials"),
        ("test -f ~/.ssh/deep/er/key", "stat", ".ssh/deep/er/key"),
        ("python3 -c 'import os; os.stat(os.path.expanduser(\"~/.ssh/deep\"))'", "stat", ".ssh/deep"),
        (
            "cd ~; python3 -c 'import os; os.stat(\".ssh/id_rsa\", dir_fd=os.open(\".\", os.O_PATH))'",
            "stat",
            ".ssh/id_rsa",
        ),
    ] {
        let ran = room.fenced(command);
        if !has_tripwire(&ran) {
            return;
        }
        assert!(ran.blocked && ran.code != 0, "{command}: {ran:?}");
        assert!(
            refused(&room, &ran).contains(&(operation.to_owned(), path.to_owned())),
            "{command}: {ran:?}"
        );
        let first = &ran.json["violations"][0];
        assert!(first["pid"].as_u64().is_some_and(|pid| pid > 1), "{first}");
        assert!(first["argv"].as_array().is_some_and(|argv| !argv.is_empty()), "{first}");
    }
}

#[test]
fn a_look_at_the_covered_place_itself_is_no_news() {
    let room = room();
    let ran = room.fenced("ls -la . / ~ > /dev/null; stat .env ~/.ssh > /dev/null; test -e .env; find . -maxdepth 1 > /dev/null");
    has_tripwire(&ran);
    assert_eq!((ran.code, ran.blocked), (0, false), "{ran:?}");
    assert_eq!(refused(&room, &ran), [], "{ran:?}");
}

#[test]
fn only_what_the_host_lacks_is_missing() {
    let room = room();
    let ran = room.fenced("cat ~/.ssh/none; stat ~/.ssh/deep/none; cat ~/.ssh/id_rsa/none; false");
    if !has_tripwire(&ran) {
        return;
    }
    assert_eq!(ran.stderr.matches("No such file").count(), 2, "{ran:?}");
    assert_eq!(ran.stderr.matches("Not a directory").count(), 1, "{ran:?}");
    assert!(!ran.blocked, "{ran:?}");
}

#[test]
fn without_a_look_at_every_open_reads_are_told_too() {
    let room = room();
    let run = |text: &str| room.fenced_with(&["--precision", "writes"], text);
    let outside = std::fs::read_dir("/").unwrap().flatten().map(|entry| entry.path()).find(|path| {
        let named = ["/srv", "/opt", "/mnt", "/boot"].iter().any(|name| path.starts_with(name));
        named && path.is_dir() && std::fs::read_dir(path).is_ok()
    });
    let door = outside.map(|path| path.display().to_string());
    for (command, operation, path) in [
        ("cat ~/.ssh/deep/er/key", "open", ".ssh/deep/er/key"),
        ("ls ~/.ssh", "open", ".ssh"),
        ("cat .env", "open", "project/.env"),
        ("cd ~/.ssh", "list", ".ssh"),
        ("exec ~/.ssh/tool", "execute", ".ssh/tool"),
        (
            "cd ~; python3 -c 'import os; os.unlink(\"id_rsa\", dir_fd=os.open(\".ssh\", os.O_PATH))'",
            "remove",
            ".ssh/id_rsa",
        ),
    ] {
        let ran = run(command);
        if !has_tripwire(&ran) {
            return;
        }
        assert!(ran.blocked && !ran.stdout.contains("canary"), "{command}: {ran:?}");
        assert!(
            refused(&room, &ran).contains(&(operation.to_owned(), path.to_owned())),
            "{command}: {ran:?}"
        );
    }
    if let Some(door) = door {
        let ran = run(&format!("ls {door}"));
        assert_eq!(ran.resource.as_deref(), Some(door.as_str()), "{ran:?}");
    }
    assert!(room.home.join(".ssh/id_rsa").exists());
}

#[test]
fn the_tripwire_itself_cannot_be_reached() {
    let room = room();
    room.helper(&KERNEL);
    let ran = room.fenced("ls -la /.ringfence /dev/fuse; cat /dev/fuse; grep -c fuse /proc/self/mountinfo; mount; umount ~/.ssh; ls ~/.ssh; cat .env");
    assert!(!ran.stdout.contains("canary"), "{ran:?}");
    assert!(!ran.stdout.contains("traps"), "{ran:?}");
}

/// A call that waits for a server which is stopped must not keep anything alive.
#[test]
fn a_server_that_does_not_answer_holds_nobody() {
    let room = room();
    let marker = format!("tripwire-{}", std::process::id());
    let script = format!("touch started; while :; do stat ~/.ssh/id_rsa; done; : {marker}");
    let mut child = room
        .command(&["run", "--precision", "writes", "-c", &script])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let patience = Duration::from_secs(20);
    assert!(wait_until(patience, || room.project.join("started").exists()));
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
    // Long enough for somebody inside to run into it.
    std::thread::sleep(Duration::from_millis(100));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(wait_until(patience, || processes_with(&marker).is_empty()), "{:?}", processes_with(&marker));
}
