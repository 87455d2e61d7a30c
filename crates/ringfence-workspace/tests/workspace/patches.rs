//! Patches: all or nothing.

use std::os::unix::fs::{PermissionsExt, symlink};

use ringfence_model::ErrorKind;
use ringfence_workspace::WorkspaceOptions;

use crate::room::{Room, p};

#[test]
fn a_patch_adds_updates_moves_and_deletes() {
    let room = Room::new();
    let w = &room.workspace;
    w.write(p("src/lib.rs"), b"fn a() {\n    one();\n}\nfn b() {\n    one();\n}\n").unwrap();
    w.write(p("old.txt"), b"x\n").unwrap();
    w.write(p("name.txt"), b"first\nsecond\n").unwrap();
    std::fs::set_permissions(room.host("name.txt"), std::fs::Permissions::from_mode(0o700)).unwrap();
    std::fs::set_permissions(room.host("src/lib.rs"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let report = w
        .apply_patch(
            "*** Begin Patch\n*** Add File: new/deep.txt\n+hello\n+\n+world\n*** Update File: src/lib.rs\n@@ fn b() {\n-    one();\n+    two();\n \
             }\n*** Update File: name.txt\n*** Move to: moved/name.md\n@@\n first\n-second\n+2nd\n*** End of File\n*** Delete File: old.txt\n*** End Patch\n",
        )
        .unwrap();
    assert_eq!(w.read_text(p("new/deep.txt")).unwrap(), "hello\n\nworld\n");
    assert_eq!(w.read_text(p("src/lib.rs")).unwrap(), "fn a() {\n    one();\n}\nfn b() {\n    two();\n}\n");
    assert_eq!(w.read_text(p("moved/name.md")).unwrap(), "first\n2nd\n");
    assert_eq!(room.names(), ["moved", "moved/name.md", "new", "new/deep.txt", "src", "src/lib.rs"]);
    let mode = |name: &str| std::fs::metadata(room.host(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("src/lib.rs"), mode("moved/name.md")), (0o755, 0o700));
    assert_eq!(
        (report.added.len(), report.updated.len(), report.deleted.len(), report.moved.len()),
        (1, 1, 1, 1)
    );
}

#[test]
fn later_parts_see_what_earlier_parts_did() {
    let room = Room::new();
    let patch = "*** Begin Patch\n*** Add File: a\n+1\n*** Update File: a\n-1\n+2\n*** Update File: a\n*** Move to: b\n*** End Patch";
    room.workspace.apply_patch(patch).unwrap();
    assert_eq!(room.workspace.read_text(p("b")).unwrap(), "2\n");
    assert_eq!(room.names(), ["b"]);
}

#[test]
fn one_wrong_part_changes_nothing() {
    let room = Room::new();
    let w = &room.workspace;
    w.write(p("a"), b"1\n").unwrap();
    w.write(p("dir/x"), b"").unwrap();
    symlink("../outside/canary", room.host("link")).unwrap();
    let good = "*** Begin Patch\n*** Update File: a\n-1\n+2\n*** Add File: new\n+x\n*** Delete File: dir/x\n";
    for (bad, kind) in [
        ("*** Update File: a\n-nope\n+x\n", ErrorKind::Validation),
        ("*** Update File: missing\n-x\n", ErrorKind::NotFound),
        ("*** Delete File: missing\n", ErrorKind::NotFound),
        ("*** Add File: a\n+x\n", ErrorKind::Validation),
        ("*** Add File: ../x\n+x\n", ErrorKind::PathTraversal),
        ("*** Add File: /etc/x\n+x\n", ErrorKind::PathTraversal),
        ("*** Delete File: link\n", ErrorKind::PathTraversal),
        ("*** Add File: a/below/a/file\n+x\n", ErrorKind::Validation),
        ("*** Add File: dir\n+x\n", ErrorKind::Validation),
        ("*** Update File: a\n*** Move to: ../x\n-2\n", ErrorKind::PathTraversal),
    ] {
        let error = w.apply_patch(&format!("{good}{bad}*** End Patch")).unwrap_err();
        assert_eq!(error.kind, kind, "{bad}: {error}");
        assert_eq!(room.names(), ["a", "dir", "dir/x", "link"], "{bad}");
        assert_eq!(w.read(p("a")).unwrap(), b"1\n");
    }
    room.assert_outside_untouched();
}

#[test]
fn what_was_done_is_undone_when_a_late_step_fails() {
    let room = Room::with(WorkspaceOptions { quota_bytes: Some(100), ..WorkspaceOptions::default() });
    let w = &room.workspace;
    w.write(p("a"), b"1\n").unwrap();
    w.write(p("locked"), b"x\n").unwrap();
    let huge = "y".repeat(200);
    let too_big = format!(
        "*** Begin Patch\n*** Update File: a\n-1\n+2\n*** Add File: new/dir/f\n+{huge}\n*** End Patch"
    );
    assert_eq!(w.apply_patch(&too_big).unwrap_err().kind, ErrorKind::ResourceLimitExceeded);
    assert_eq!(w.read(p("a")).unwrap(), b"1\n");
    assert_eq!(room.names(), ["a", "locked"], "no directory and no momentary file stays");
    std::fs::set_permissions(room.host("locked"), std::fs::Permissions::from_mode(0o444)).unwrap();
    let read_only = "*** Begin Patch\n*** Add File: b/c\n+1\n*** Update File: a\n-1\n+2\n*** Update File: locked\n-x\n+y\n*** End Patch";
    assert_eq!(w.apply_patch(read_only).unwrap_err().kind, ErrorKind::PathAccessDenied);
    assert_eq!(w.read(p("a")).unwrap(), b"1\n");
    assert_eq!(room.names(), ["a", "locked"]);
}
