//! Rules about single paths, which no link leads around.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;

use ringfence_model::{Access, Error, ErrorKind, Result};
use ringfence_workspace::{
    Guard, ListOptions, Occurrence, RemoveDepth, SearchOptions, Workspace, WorkspaceOptions,
};

use crate::room::p;

/// Nobody reads `.env`, nobody writes below `hooks`.
#[derive(Debug)]
struct Rules;

impl Guard for Rules {
    fn may(&self, path: &Path, access: Access) -> Result<()> {
        let refused = path.ends_with(".env")
            || path.ends_with("closed")
            || (access == Access::Write && path.components().any(|part| part.as_os_str() == "hooks"));
        if refused {
            return Err(Error::new(ErrorKind::PathAccessDenied, format!("{access} {}", path.display())));
        }
        Ok(())
    }
}

#[test]
fn a_guard_is_asked_about_what_was_really_opened() {
    let temp = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(temp.path().join("hooks")).unwrap();
    std::fs::create_dir_all(temp.path().join("closed")).unwrap();
    for (file, content) in [(".env", "secret"), ("hooks/pre", "hook"), ("plain", "secret too")] {
        std::fs::write(temp.path().join(file), content).unwrap();
    }
    symlink(".env", temp.path().join("innocent")).unwrap();
    symlink("hooks", temp.path().join("way")).unwrap();
    let room = Workspace::open(temp.path(), WorkspaceOptions::default()).unwrap().guarded(Arc::new(Rules));

    let kind = |outcome: Result<()>| outcome.unwrap_err().kind;
    let denied = ErrorKind::PathAccessDenied;
    for path in [".env", "innocent"] {
        assert_eq!(kind(room.read(p(path)).map(drop)), denied, "{path}");
        assert_eq!(kind(room.write(p(path), b"x")), denied, "{path}");
        assert_eq!(kind(room.edit(p(path), "secret", "x", Occurrence::All).map(drop)), denied, "{path}");
    }
    assert_eq!(room.read(p("way/pre")).unwrap(), b"hook", "reading hooks is fine");
    for path in ["hooks/pre", "way/pre", "way/new", "hooks/deep/new"] {
        assert_eq!(kind(room.write(p(path), b"x")), denied, "{path}");
        assert_eq!(kind(room.write_new(p(path), b"x").map(drop)), denied, "{path}");
    }
    assert_eq!(kind(room.make_dirs(p("hooks/deep")).map(drop)), denied);
    assert_eq!(kind(room.remove(p("way/pre"), RemoveDepth::Single).map(drop)), denied);
    assert_eq!(kind(room.rename(p(".env"), p("moved"))), denied, "a name does not wash a file");
    assert_eq!(kind(room.rename(p("plain"), p("hooks/plain"))), denied);
    assert_eq!(kind(room.list(p("closed"), ListOptions::flat()).map(drop)), denied);
    let patch =
        "*** Begin Patch\n*** Add File: a\n+1\n*** Update File: way/pre\n@@\n-hook\n+mine\n*** End Patch";
    assert_eq!(kind(room.apply_patch(patch).map(drop)), denied);
    assert!(!temp.path().join("a").exists(), "all of a patch or nothing");

    let found = room.search(p(""), "secret", &SearchOptions::default()).unwrap();
    let paths: Vec<_> = found.matches.iter().map(|found| found.path.display().to_string()).collect();
    assert_eq!(paths, ["plain"]);
    assert_eq!(std::fs::read(temp.path().join(".env")).unwrap(), b"secret");
    assert_eq!(std::fs::read(temp.path().join("hooks/pre")).unwrap(), b"hook");
}
