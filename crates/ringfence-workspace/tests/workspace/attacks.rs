//! Nothing the workspace contains leads out of it.

use std::os::unix::fs::symlink;

use ringfence_model::ErrorKind;
use ringfence_workspace::{ListOptions, Occurrence, RemoveDepth, SearchOptions, Workspace, WorkspaceOptions};

use crate::room::{Room, p};

/// Each of these leads to the canary or to its directory.
fn plant_links(room: &Room) {
    let outside = room.outside();
    symlink(room.canary(), room.host("abs")).unwrap();
    symlink("../outside/canary", room.host("rel")).unwrap();
    symlink(&outside, room.host("dir")).unwrap();
    symlink("../outside", room.host("rel-dir")).unwrap();
    symlink("..", room.host("up")).unwrap();
    symlink("/", room.host("root")).unwrap();
    symlink("rel", room.host("chain")).unwrap();
    std::fs::create_dir(room.host("sub")).unwrap();
    symlink("../../outside/canary", room.host("sub/deep")).unwrap();
    symlink("../dir/canary", room.host("sub/through")).unwrap();
}

const TO_THE_CANARY: [&str; 9] = [
    "abs",
    "rel",
    "dir/canary",
    "rel-dir/canary",
    "up/outside/canary",
    "chain",
    "sub/deep",
    "sub/through",
    "up/inside/rel",
];

#[test]
fn links_that_lead_out_are_refused_by_every_operation() {
    let room = Room::new();
    plant_links(&room);
    let w = &room.workspace;
    for path in TO_THE_CANARY.map(p) {
        let kinds = [
            w.read(path).map(drop),
            w.write(path, b"x"),
            w.write_new(path, b"x").map(drop),
            w.append(path, b"x"),
            w.edit(path, "secret", "x", Occurrence::All).map(drop),
            w.stat(path).map(drop),
            w.make_dirs(&path.join("x")).map(drop),
            w.apply_patch(&format!(
                "*** Begin Patch\n*** Update File: {}\n-x\n*** End Patch",
                path.display()
            ))
            .map(drop),
        ]
        .map(|outcome| outcome.unwrap_err().kind);
        assert_eq!(kinds, [ErrorKind::PathTraversal; 8], "{}", path.display());
        assert!(!w.exists(path));
    }
    assert_eq!(w.list(p("root/etc"), ListOptions::flat()).unwrap_err().kind, ErrorKind::PathTraversal);
    for directory in ["dir", "rel-dir", "up/outside"].map(p) {
        assert_eq!(w.list(directory, ListOptions::recursive()).unwrap_err().kind, ErrorKind::PathTraversal);
        assert_eq!(w.write(&directory.join("new"), b"x").unwrap_err().kind, ErrorKind::PathTraversal);
        assert_eq!(
            w.remove(&directory.join("canary"), RemoveDepth::Single).unwrap_err().kind,
            ErrorKind::PathTraversal
        );
        assert_eq!(w.rename(&directory.join("canary"), p("x")).unwrap_err().kind, ErrorKind::PathTraversal);
        assert_eq!(w.rename(p("sub"), &directory.join("x")).unwrap_err().kind, ErrorKind::PathTraversal);
    }
    assert!(w.search(p(""), "secret", &SearchOptions::default()).unwrap().matches.is_empty());
    room.assert_outside_untouched();
}

#[test]
fn removing_a_tree_full_of_links_removes_only_links() {
    let room = Room::new();
    room.workspace.make_dirs(p("d")).unwrap();
    symlink(room.outside(), room.host("d/out")).unwrap();
    symlink(room.canary(), room.host("d/canary")).unwrap();
    assert!(room.workspace.remove(p("d"), RemoveDepth::Recursive).unwrap());
    room.assert_outside_untouched();
}

#[test]
fn dangling_links_to_the_outside_make_nothing_there() {
    let room = Room::new();
    symlink("../outside/new", room.host("dangling")).unwrap();
    symlink(room.outside().join("new-dir"), room.host("dangling-dir")).unwrap();
    let w = &room.workspace;
    assert_eq!(w.write(p("dangling"), b"x").unwrap_err().kind, ErrorKind::PathTraversal);
    assert_eq!(w.append(p("dangling"), b"x").unwrap_err().kind, ErrorKind::PathTraversal);
    assert_eq!(w.make_dirs(p("dangling-dir")).unwrap_err().kind, ErrorKind::PathTraversal);
    assert_eq!(w.write(p("dangling-dir/x"), b"x").unwrap_err().kind, ErrorKind::PathTraversal);
    room.assert_outside_untouched();
}

#[test]
fn endless_links_end() {
    let room = Room::new();
    symlink("b", room.host("a")).unwrap();
    symlink("a", room.host("b")).unwrap();
    assert!(room.workspace.read(p("a")).is_err());
    assert!(room.workspace.write(p("a"), b"x").is_err());
    assert!(room.workspace.stat(p("a")).is_err());
}

#[test]
fn a_hard_link_to_the_outside_gives_nothing_away_and_changes_nothing() {
    let room = Room::new();
    std::fs::hard_link(room.canary(), room.host("hard")).unwrap();
    let w = &room.workspace;
    assert_eq!(w.read(p("hard")).unwrap_err().kind, ErrorKind::PathAccessDenied);
    assert_eq!(
        w.edit(p("hard"), "secret", "x", Occurrence::First).unwrap_err().kind,
        ErrorKind::PathAccessDenied
    );
    assert_eq!(w.append(p("hard"), b"x").unwrap_err().kind, ErrorKind::PathAccessDenied);
    assert!(w.search(p(""), "secret", &SearchOptions::default()).unwrap().matches.is_empty());
    // A second name inside does not make the outside one go away.
    std::fs::hard_link(room.canary(), room.host("hard2")).unwrap();
    assert_eq!(w.read(p("hard")).unwrap_err().kind, ErrorKind::PathAccessDenied);
    w.write(p("hard"), b"replaced").unwrap();
    assert_eq!(w.read(p("hard")).unwrap(), b"replaced");
    room.assert_outside_untouched();
}

#[cfg(target_os = "linux")]
#[test]
fn magic_links_are_refused() {
    let process = Workspace::open(p("/proc/self"), WorkspaceOptions::default()).unwrap();
    for path in ["root/etc/passwd", "cwd/Cargo.toml", "exe", "task/self/root/etc/passwd"] {
        let outcome = process.read(p(path));
        assert!(outcome.is_err(), "{path}");
    }
    assert_eq!(process.list(p("root"), ListOptions::flat()).unwrap_err().kind, ErrorKind::PathTraversal);
    let room = Room::new();
    symlink("/proc/self/root", room.host("magic")).unwrap();
    symlink("/proc/self/cwd", room.host("cwd")).unwrap();
    for path in ["magic/etc/passwd", "cwd/Cargo.toml"] {
        assert_eq!(room.workspace.read(p(path)).unwrap_err().kind, ErrorKind::PathTraversal, "{path}");
    }
}

#[test]
fn pipes_and_sockets_do_not_hang_anybody() {
    let room = Room::new();
    rustix::fs::mkfifoat(rustix::fs::CWD, room.host("pipe"), rustix::fs::Mode::RWXU).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(room.host("socket")).unwrap();
    for name in ["pipe", "socket"].map(p) {
        assert!(room.workspace.read(name).is_err());
        assert!(room.workspace.write(name, b"x").is_err());
        assert!(room.workspace.append(name, b"x").is_err());
    }
    assert!(room.workspace.search(p(""), "x", &SearchOptions::default()).unwrap().matches.is_empty());
}

#[test]
fn a_directory_replaced_by_a_link_between_two_operations_is_noticed() {
    let room = Room::new();
    room.workspace.write(p("d/canary"), b"inside").unwrap();
    assert_eq!(room.workspace.read(p("d/canary")).unwrap(), b"inside");
    std::fs::rename(room.host("d"), room.host("was-d")).unwrap();
    symlink(room.outside(), room.host("d")).unwrap();
    assert_eq!(room.workspace.read(p("d/canary")).unwrap_err().kind, ErrorKind::PathTraversal);
    assert_eq!(room.workspace.write(p("d/canary"), b"x").unwrap_err().kind, ErrorKind::PathTraversal);
    room.assert_outside_untouched();
}

#[test]
fn the_workspace_itself_replaced_by_a_link_changes_nothing_for_its_holder() {
    let room = Room::new();
    room.workspace.write(p("canary"), b"inside").unwrap();
    let moved = room.outside().with_file_name("moved");
    std::fs::rename(room.host(""), &moved).unwrap();
    symlink(room.outside(), room.outside().with_file_name("inside")).unwrap();
    assert_eq!(room.workspace.read(p("canary")).unwrap(), b"inside");
    room.workspace.write(p("new"), b"x").unwrap();
    assert!(moved.join("new").exists());
    room.assert_outside_untouched();
}
