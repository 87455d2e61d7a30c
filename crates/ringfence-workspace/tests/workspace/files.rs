//! The ordinary operations.

use std::os::unix::fs::{MetadataExt, PermissionsExt};

use ringfence_model::ErrorKind;
use ringfence_workspace::{
    FileKind, ListOptions, Mode, Occurrence, RemoveDepth, SearchOptions, Workspace, WorkspaceOptions,
};

use crate::room::{Room, p};

#[test]
fn what_is_written_is_read() {
    let room = Room::new();
    let bytes: Vec<u8> = (0..=255).collect();
    room.workspace.write(p("deep/er/file.bin"), &bytes).unwrap();
    assert_eq!(room.workspace.read(p("deep/er/file.bin")).unwrap(), bytes);
    assert_eq!(room.workspace.read_up_to(p("deep/er/file.bin"), 3).unwrap(), (vec![0, 1, 2], true));
    assert!(!room.workspace.read_up_to(p("deep/er/file.bin"), 256).unwrap().1);
    assert_eq!(room.names(), ["deep", "deep/er", "deep/er/file.bin"]);
}

#[test]
fn odd_names_are_ordinary() {
    let room = Room::new();
    for name in ["a..b", "..foo", "...", "-rf", " blank ", "a\nb", "~", "@x", "dir../..x/y", "ünï"] {
        room.workspace.write(p(name), name.as_bytes()).unwrap();
        assert_eq!(room.workspace.read(p(name)).unwrap(), name.as_bytes());
        assert!(room.workspace.remove(p(name), RemoveDepth::Single).unwrap());
    }
}

#[test]
fn paths_that_leave_are_refused_by_every_operation() {
    let room = Room::new();
    room.workspace.write(p("here"), b"").unwrap();
    let outside = room.canary();
    for path in [p("../outside/canary"), p(".."), p("here/../../outside/canary"), &outside, p("/etc/passwd")]
    {
        let w = &room.workspace;
        let kinds = [
            w.read(path).map(drop),
            w.write(path, b"x"),
            w.write_new(path, b"x").map(drop),
            w.append(path, b"x"),
            w.edit(path, "a", "b", Occurrence::All).map(drop),
            w.make_dirs(path).map(drop),
            w.remove(path, RemoveDepth::Recursive).map(drop),
            w.rename(path, p("x")),
            w.rename(p("here"), path),
            w.stat(path).map(drop),
            w.list(path, ListOptions::flat()).map(drop),
            w.search(path, "x", &SearchOptions::default()).map(drop),
            w.host_path_of(path).map(drop),
        ]
        .map(|outcome| outcome.unwrap_err().kind);
        assert_eq!(kinds, [ErrorKind::PathTraversal; 13], "{}", path.display());
        assert!(!w.exists(path), "exists is false instead");
    }
    room.assert_outside_untouched();
}

#[test]
fn a_new_file_has_the_usual_mode_and_an_existing_one_keeps_its_own() {
    let room = Room::new();
    let mode = |name: &str| std::fs::metadata(room.host(name)).unwrap().permissions().mode() & 0o7777;
    room.workspace.write(p("new"), b"1").unwrap();
    std::fs::write(room.host("by-hand"), "").unwrap();
    assert_eq!(mode("new"), mode("by-hand") & 0o644);
    for bits in [0o755, 0o600, 0o640] {
        std::fs::set_permissions(room.host("new"), std::fs::Permissions::from_mode(bits)).unwrap();
        room.workspace.write(p("new"), b"2").unwrap();
        assert_eq!(mode("new"), bits);
    }
    std::fs::set_permissions(room.host("new"), std::fs::Permissions::from_mode(0o444)).unwrap();
    assert_eq!(room.workspace.write(p("new"), b"3").unwrap_err().kind, ErrorKind::PathAccessDenied);
    assert_eq!(room.workspace.read(p("new")).unwrap(), b"2");
}

#[test]
fn a_service_of_root_leaves_files_to_the_owner_of_the_workspace() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let room = Room::new();
    std::os::unix::fs::chown(room.host(""), Some(1234), Some(1234)).unwrap();
    room.workspace.write(p("a/b"), b"").unwrap();
    for name in ["a", "a/b"] {
        assert_eq!(std::fs::metadata(room.host(name)).unwrap().uid(), 1234, "{name}");
    }
    std::os::unix::fs::chown(room.host("a/b"), Some(77), Some(78)).unwrap();
    room.workspace.write(p("a/b"), b"x").unwrap();
    let found = std::fs::metadata(room.host("a/b")).unwrap();
    assert_eq!((found.uid(), found.gid()), (77, 78));
}

#[test]
fn append_adds_and_makes() {
    let room = Room::new();
    room.workspace.append(p("log/x"), b"1").unwrap();
    room.workspace.append(p("log/x"), b"2").unwrap();
    assert_eq!(room.workspace.read(p("log/x")).unwrap(), b"12");
}

#[test]
fn edits_replace_the_first_the_only_or_all() {
    let room = Room::new();
    let edit = |which| {
        room.workspace.write(p("f"), "a-b-a-é".as_bytes()).unwrap();
        let outcome = room.workspace.edit(p("f"), "a", "XY", which);
        (outcome.ok(), room.workspace.read_text(p("f")).unwrap())
    };
    assert_eq!(edit(Occurrence::First), (Some(1), "XY-b-a-é".to_owned()));
    assert_eq!(edit(Occurrence::All), (Some(2), "XY-b-XY-é".to_owned()));
    assert_eq!(edit(Occurrence::Only), (None, "a-b-a-é".to_owned()));
    for (old, want) in [("nope", "does not occur in f"), ("", "is empty")] {
        let error = room.workspace.edit(p("f"), old, "x", Occurrence::First).unwrap_err();
        assert!(error.message.contains(want), "{error}");
    }
}

#[test]
fn removing_says_whether_there_was_something() {
    let room = Room::new();
    room.workspace.write(p("d/e/f"), b"").unwrap();
    assert_eq!(room.workspace.remove(p("d"), RemoveDepth::Single).unwrap_err().kind, ErrorKind::Validation);
    assert!(room.workspace.remove(p("d/e/f"), RemoveDepth::Single).unwrap());
    assert!(room.workspace.remove(p("d/e"), RemoveDepth::Single).unwrap());
    assert!(!room.workspace.remove(p("d/e"), RemoveDepth::Single).unwrap());
    assert!(!room.workspace.remove(p("no/such/thing"), RemoveDepth::Recursive).unwrap());
    room.workspace.write(p("d/x/y"), b"").unwrap();
    assert!(room.workspace.remove(p("d"), RemoveDepth::Recursive).unwrap());
    assert!(room.names().is_empty());
    assert_eq!(room.workspace.remove(p(""), RemoveDepth::Recursive).unwrap_err().kind, ErrorKind::Validation);
}

#[test]
fn a_tree_of_any_depth_is_removed() {
    let room = Room::new();
    let mut here =
        rustix::fs::open(room.host(""), rustix::fs::OFlags::PATH, rustix::fs::Mode::empty()).unwrap();
    for _ in 0..3000 {
        rustix::fs::mkdirat(&here, "d", rustix::fs::Mode::RWXU).unwrap();
        here = rustix::fs::openat(&here, "d", rustix::fs::OFlags::PATH, rustix::fs::Mode::empty()).unwrap();
    }
    drop(here);
    assert!(room.workspace.remove(p("d"), RemoveDepth::Recursive).unwrap());
    assert!(room.names().is_empty());
}

#[test]
fn directories_that_refuse_are_removed_too() {
    let room = Room::new();
    room.workspace.write(p("d/locked/f"), b"").unwrap();
    for (name, bits) in [("d/locked", 0o000), ("d", 0o500)] {
        std::fs::set_permissions(room.host(name), std::fs::Permissions::from_mode(bits)).unwrap();
    }
    assert!(room.workspace.remove(p("d"), RemoveDepth::Recursive).unwrap());
}

#[test]
fn moving_makes_parents_and_replaces_files() {
    let room = Room::new();
    room.workspace.write(p("a"), b"1").unwrap();
    room.workspace.rename(p("a"), p("x/y/b")).unwrap();
    room.workspace.write(p("c"), b"2").unwrap();
    room.workspace.rename(p("c"), p("x/y/b")).unwrap();
    assert_eq!(room.workspace.read(p("x/y/b")).unwrap(), b"2");
    room.workspace.rename(p("x"), p("z")).unwrap();
    assert_eq!(room.names(), ["z", "z/y", "z/y/b"]);
    assert_eq!(room.workspace.rename(p("no"), p("q/r")).unwrap_err().kind, ErrorKind::NotFound);
    assert!(!room.workspace.exists(p("q")), "nothing is made for a move that cannot be");
    assert_eq!(room.workspace.rename(p("z"), p("z/y/z")).unwrap_err().kind, ErrorKind::Validation);
}

#[test]
fn stat_tells_kind_size_and_time() {
    let room = Room::new();
    room.workspace.write(p("d/f"), b"12345").unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, room.host("pipe"), rustix::fs::Mode::RWXU).unwrap();
    let stat = room.workspace.stat(p("d/f")).unwrap().unwrap();
    assert_eq!((stat.kind, stat.size), (FileKind::File, 5));
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis();
    assert!((i128::from(stat.modified_ms) - i128::try_from(now).unwrap()).abs() < 60_000, "in milliseconds");
    for (path, kind) in [("d", FileKind::Directory), ("", FileKind::Directory), ("pipe", FileKind::Other)] {
        assert_eq!(room.workspace.stat(p(path)).unwrap().unwrap().kind, kind, "{path}");
    }
    for path in ["no", "d/f/x", "no/such"] {
        assert_eq!(room.workspace.stat(p(path)).unwrap(), None, "{path}");
    }
}

#[test]
fn lists_are_relative_sorted_and_bounded() {
    let room = Room::new();
    for name in ["b/2", "b/1/x", "a", "c"] {
        room.workspace.write(p(name), b"").unwrap();
    }
    assert_eq!(room.names(), ["a", "b", "b/1", "b/1/x", "b/2", "c"]);
    let names = |path: &str, options| -> Vec<String> {
        let listing = room.workspace.list(p(path), options).unwrap();
        listing.entries.into_iter().map(|entry| entry.path.display().to_string()).collect()
    };
    assert_eq!(names("", ListOptions::flat()), ["a", "b", "c"]);
    assert_eq!(names("b", ListOptions::flat()), ["b/1", "b/2"]);
    assert_eq!(
        names("", ListOptions { depth: 2, ..ListOptions::recursive() }),
        ["a", "b", "b/1", "b/2", "c"]
    );
    let short =
        room.workspace.list(p(""), ListOptions { max_entries: 2, ..ListOptions::recursive() }).unwrap();
    assert!(short.truncated && short.entries.len() == 2);
    assert_eq!(room.workspace.list(p("a"), ListOptions::flat()).unwrap_err().kind, ErrorKind::Validation);
    assert_eq!(room.workspace.list(p("no"), ListOptions::flat()).unwrap_err().kind, ErrorKind::NotFound);
}

#[test]
fn search_finds_lines_in_text_files() {
    let room = Room::new();
    room.workspace.write(p("a.txt"), b"one\nTwo needle\r\nthree").unwrap();
    room.workspace.write(p("d/b.txt"), b"NEEDLE").unwrap();
    room.workspace.write(p("bin"), b"needle\0").unwrap();
    room.workspace.write(p(".git/x"), b"needle").unwrap();
    std::os::unix::fs::symlink(room.canary(), room.host("link")).unwrap();
    let found = |text: &str, options: &SearchOptions| -> Vec<(String, usize, String)> {
        let report = room.workspace.search(p(""), text, options).unwrap();
        report.matches.into_iter().map(|m| (m.path.display().to_string(), m.line, m.text)).collect()
    };
    let exact = SearchOptions::default();
    assert_eq!(found("needle", &exact), [("a.txt".to_owned(), 2, "Two needle".to_owned())]);
    assert_eq!(found("needle", &SearchOptions { ignore_case: true, ..exact.clone() }).len(), 2);
    assert!(found("secret", &exact).is_empty(), "links are not followed");
    let report =
        room.workspace.search(p(""), "e", &SearchOptions { max_matches: 1, ..exact.clone() }).unwrap();
    assert!(report.truncated && report.matches.len() == 1);
    assert_eq!(room.workspace.search(p("d"), "NEE", &exact).unwrap().matches[0].path, p("d/b.txt"));
}

#[test]
fn a_read_only_workspace_refuses_every_change() {
    let room = Room::new();
    room.workspace.write(p("f"), b"1").unwrap();
    let options = WorkspaceOptions { mode: Mode::ReadOnly, ..WorkspaceOptions::default() };
    let w = Workspace::open(&room.host(""), options).unwrap();
    let patch = "*** Begin Patch\n*** Delete File: f\n*** End Patch";
    let kinds = [
        w.write(p("f"), b"2"),
        w.write_new(p("g"), b"2").map(drop),
        w.append(p("f"), b"2"),
        w.edit(p("f"), "1", "2", Occurrence::First).map(drop),
        w.make_dirs(p("d")).map(drop),
        w.remove(p("f"), RemoveDepth::Single).map(drop),
        w.rename(p("f"), p("g")),
        w.apply_patch(patch).map(drop),
    ]
    .map(|outcome| outcome.unwrap_err().kind);
    assert_eq!(kinds, [ErrorKind::Permission; 8]);
    assert_eq!(w.read(p("f")).unwrap(), b"1");
    assert_eq!(room.names(), ["f"]);
}

#[test]
fn the_quota_holds() {
    let room = Room::with(WorkspaceOptions { quota_bytes: Some(1000), ..WorkspaceOptions::default() });
    let w = &room.workspace;
    w.write(p("a"), &[0; 600]).unwrap();
    assert_eq!(w.write(p("b"), &[0; 500]).unwrap_err().kind, ErrorKind::ResourceLimitExceeded);
    w.write(p("a"), &[0; 900]).unwrap();
    w.append(p("a"), &[0; 100]).unwrap();
    assert_eq!(w.size().unwrap(), 1000, "equal to the limit is within");
    assert_eq!(w.append(p("a"), &[0; 1]).unwrap_err().kind, ErrorKind::ResourceLimitExceeded);
    w.remove(p("a"), RemoveDepth::Single).unwrap();
    std::fs::write(room.host("by-a-command"), [0; 700]).unwrap();
    assert_eq!(w.write(p("b"), &[0; 400]).unwrap_err().kind, ErrorKind::ResourceLimitExceeded);
    assert_eq!(room.names(), ["by-a-command"], "nothing half-written stays");
}

#[test]
fn a_file_that_is_too_large_to_read_says_so() {
    let room = Room::with(WorkspaceOptions { max_file_bytes: 4, ..WorkspaceOptions::default() });
    room.workspace.write(p("f"), b"12345").unwrap();
    assert_eq!(room.workspace.read(p("f")).unwrap_err().kind, ErrorKind::ResourceLimitExceeded);
}

#[test]
fn a_path_of_the_host_becomes_a_relative_one() {
    let room = Room::new();
    let host = room.workspace.host_path().join("a/b");
    assert_eq!(room.workspace.relative(&host).unwrap(), p("a/b"));
    assert_eq!(room.workspace.relative(p("a/b")).unwrap(), p("a/b"));
    assert_eq!(room.workspace.host_path_of(p("a/b")).unwrap(), host);
    assert_eq!(room.workspace.relative(p("/etc")).unwrap_err().kind, ErrorKind::PathTraversal);
    let neighbour = format!("{}x/y", room.workspace.host_path().display());
    assert!(room.workspace.relative(p(&neighbour)).is_err(), "components are compared, not text");
}
