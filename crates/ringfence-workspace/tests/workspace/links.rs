//! Links that stay inside are followed.

use std::os::unix::fs::symlink;

use ringfence_workspace::{FileKind, HardLinks, ListOptions, RemoveDepth, WorkspaceOptions};

use crate::room::{Room, p};

#[test]
fn links_inside_are_followed_relative_and_absolute() {
    let room = Room::new();
    room.workspace.write(p("real/deep/f"), b"1").unwrap();
    symlink("real/deep", room.host("rel")).unwrap();
    symlink(room.workspace.host_path().join("real"), room.host("abs")).unwrap();
    symlink("../rel/f", room.host("real/up")).unwrap();
    symlink("deep/../deep/f", room.host("real/around")).unwrap();
    for path in ["rel/f", "abs/deep/f", "real/up", "abs/up", "real/around"] {
        assert_eq!(room.workspace.read(p(path)).unwrap(), b"1", "{path}");
        assert_eq!(room.workspace.stat(p(path)).unwrap().unwrap().kind, FileKind::File, "{path}");
    }
    assert_eq!(
        room.workspace.list(p("abs/deep"), ListOptions::flat()).unwrap().entries[0].path,
        p("abs/deep/f")
    );
}

#[test]
fn writing_to_a_link_changes_what_it_leads_to() {
    let room = Room::new();
    room.workspace.write(p("real/f"), b"1").unwrap();
    symlink("real/f", room.host("link")).unwrap();
    room.workspace.write(p("link"), b"2").unwrap();
    room.workspace.append(p("link"), b"3").unwrap();
    assert_eq!(room.workspace.read(p("real/f")).unwrap(), b"23");
    assert!(std::fs::symlink_metadata(room.host("link")).unwrap().is_symlink(), "the link stays a link");
}

#[test]
fn writing_to_a_dangling_link_inside_makes_its_target() {
    let room = Room::new();
    room.workspace.make_dirs(p("d")).unwrap();
    symlink("d/new", room.host("link")).unwrap();
    assert!(!room.workspace.exists(p("link")));
    room.workspace.write(p("link"), b"1").unwrap();
    assert_eq!(room.workspace.read(p("d/new")).unwrap(), b"1");
}

#[test]
fn removing_and_moving_mean_the_link_itself() {
    let room = Room::new();
    room.workspace.write(p("real/f"), b"1").unwrap();
    symlink("real", room.host("link")).unwrap();
    room.workspace.rename(p("link"), p("moved")).unwrap();
    assert!(room.workspace.remove(p("moved"), RemoveDepth::Recursive).unwrap());
    assert_eq!(room.workspace.read(p("real/f")).unwrap(), b"1");
}

#[test]
fn a_file_with_two_names_counts_once_and_is_replaced_not_changed() {
    let room = Room::new();
    room.workspace.write(p("a"), b"1").unwrap();
    room.workspace.make_dirs(p("d")).unwrap();
    std::fs::hard_link(room.host("a"), room.host("d/b")).unwrap();
    assert_eq!(room.workspace.size().unwrap(), 1);
    room.workspace.write(p("d/b"), b"12").unwrap();
    assert_eq!(room.workspace.read(p("d/b")).unwrap(), b"12");
    assert_eq!(room.workspace.read(p("a")).unwrap(), b"1", "the other name keeps its content");
}

#[test]
fn a_caller_may_allow_hard_links() {
    let room = Room::with(WorkspaceOptions { hard_links: HardLinks::Allow, ..WorkspaceOptions::default() });
    std::fs::hard_link(room.canary(), room.host("store")).unwrap();
    assert!(room.workspace.read(p("store")).is_ok());
    room.workspace.append(p("store"), b"x").unwrap();
    room.assert_outside_untouched();
}

#[test]
fn a_list_shows_links_and_does_not_enter_them() {
    let room = Room::new();
    room.workspace.write(p("real/f"), b"1").unwrap();
    symlink("real", room.host("link")).unwrap();
    symlink(".", room.host("real/self")).unwrap();
    assert_eq!(room.names(), ["link", "real", "real/f", "real/self"]);
    let listing = room.workspace.list(p(""), ListOptions::flat()).unwrap();
    assert_eq!(listing.entries[0].kind, FileKind::Symlink);
}
