//! Races against the look that is taken at a call before the kernel makes it.
//!
//! What a mount or a mask enforces is not touched by them. What only the supervisor's verdict refuses is: a
//! call that it lets continue is read a second time by the kernel. These tests fail until the supervisor
//! makes such calls itself; run them with `--ignored`.

use crate::suite::fence_attacks_sockets::Listeners;
use crate::suite::fence_support::{RACES, SOCKETS, names};
use crate::suite::support::Room;

#[test]
#[ignore = "fails: names that do not exist yet are refused by a verdict on memory that may change"]
fn races_do_not_create_protected_names() {
    for race in ["create", "mkdir", "rename", "link", "symlink"] {
        let room = Room::new();
        room.helper(&RACES);
        let ran = room.fenced(&format!("mkdir -p n/.git; cd n; ../races {race} 1"));
        assert_eq!(names(&room.project.join("n/.git")), Vec::<std::path::PathBuf>::new(), "{race}: {ran:?}");
    }
}

#[test]
#[ignore = "fails: names that do not exist yet are refused by a verdict on a path that may change"]
fn races_of_directories_do_not_create_protected_names() {
    let room = Room::new();
    room.helper(&RACES);
    let ran = room.fenced("mkdir -p n/.git n/other; cd n; ln -s .git door; ../races swap-create 1");
    assert_eq!(names(&room.project.join("n/.git")), Vec::<std::path::PathBuf>::new(), "{ran:?}");
}

#[test]
#[ignore = "fails: the connection is made first and its peer looked at afterwards"]
fn a_late_socket_gets_no_byte_while_its_refusal_is_on_the_way() {
    let room = Room::new();
    room.helper(&SOCKETS);
    let listeners = std::sync::Mutex::new(None);
    let open = || *listeners.lock().unwrap() = Some(Listeners::at(&room.project));
    let ran = room.fenced_while(open, "./sockets connect-race stream.sock");
    assert!(ran.stdout.contains("refused"), "{ran:?}");
    assert_eq!(listeners.lock().unwrap().as_ref().unwrap().arrived(), Vec::<String>::new());
}
