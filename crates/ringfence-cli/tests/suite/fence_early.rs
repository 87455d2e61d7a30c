//! A sandbox that is begun before its policy is known: used, or gone.

use std::process::{Child, Stdio};
use std::time::Duration;

use crate::suite::fence_support::wait_until;
use crate::suite::support::Room;

/// Name, state and pid namespace of each child of a process.
fn children(of: &Child) -> Vec<(String, char, String)> {
    let pid = of.id();
    let list = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    let child = |pid: &str| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let name = stat.split_once('(')?.1.rsplit_once(')')?.0.to_owned();
        let state = stat.rsplit_once(") ")?.1.chars().next()?;
        let namespace = std::fs::read_link(format!("/proc/{pid}/ns/pid")).unwrap_or_default();
        Some((name, state, namespace.to_string_lossy().into_owned()))
    };
    list.split_ascii_whitespace().filter_map(child).collect()
}

fn started(room: &Room, options: &[&str]) -> Child {
    let command = ["-c", "touch started; read -r"];
    let child = room
        .command(&[&["run", "--quiet"], options, &command].concat())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let begun = room.project.join("started");
    assert!(wait_until(Duration::from_secs(60), || begun.exists()), "the command runs");
    child
}

#[test]
fn the_one_that_made_it_does_not_stay() {
    let room = Room::new();
    let mut child = started(&room, &["--launcher", "native"]);
    let host = std::fs::read_link("/proc/self/ns/pid").unwrap().to_string_lossy().into_owned();
    let found = children(&child);
    let inside: Vec<_> = found.iter().filter(|(_, _, namespace)| *namespace != host).collect();
    assert!(matches!(inside[..], [(name, _, _)] if name == "ringfence-init"), "{found:?}");
    assert!(found.iter().all(|(_, state, _)| *state != 'Z'), "{found:?}");
    drop(child.stdin.take());
    child.wait().unwrap();
}

#[test]
fn one_that_nobody_wants_is_gone() {
    let host = std::fs::read_link("/proc/self/ns/pid").unwrap().to_string_lossy().into_owned();
    for (options, config) in [(&["--launcher", "landlock"][..], "{}"), (&[], r#"{ "enabled": false }"#)] {
        let room = Room::new();
        room.configure(config);
        let mut child = started(&room, options);
        let found = children(&child);
        assert!(!found.is_empty(), "something runs");
        // One that hides itself is another of ours: what was begun has no reason to yet.
        let is_known = |(name, state, namespace): &(String, char, String)| {
            *state != 'Z' && (*namespace == host || (namespace.is_empty() && name != "ringfence"))
        };
        assert!(found.iter().all(is_known), "{found:?}");
        drop(child.stdin.take());
        child.wait().unwrap();
    }
}
