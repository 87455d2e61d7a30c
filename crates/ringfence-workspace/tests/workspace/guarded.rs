//! Rules about single paths, which no link leads around.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

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

/// Refuses git's config by name, and moves a directory while somebody thinks that it was judged.
#[derive(Debug)]
struct Mover {
    from: PathBuf,
    to: PathBuf,
    /// After so many questions.
    after: usize,
    asked: AtomicUsize,
}

impl Guard for Mover {
    fn may(&self, path: &Path, _: Access) -> Result<()> {
        let is_config = path.ends_with(".git/config");
        if self.asked.fetch_add(1, Ordering::Relaxed) + 1 == self.after {
            std::fs::rename(&self.from, &self.to).unwrap();
        }
        if is_config { Err(Error::new(ErrorKind::PathAccessDenied, "git's")) } else { Ok(()) }
    }
}

#[test]
fn a_place_that_moves_while_it_is_written_is_judged_where_it_is() {
    for old in [None, Some("old")] {
        let mut refused = 0;
        // After the last question it is whoever moves it who must look.
        for after in 1..=2 {
            let temp = tempfile::tempdir().unwrap();
            let root = temp.path().canonicalize().unwrap();
            std::fs::create_dir_all(root.join("d")).unwrap();
            std::fs::create_dir_all(root.join("s")).unwrap();
            if let Some(old) = old {
                std::fs::write(root.join("d/config"), old).unwrap();
            }
            let (from, to) = (root.join("d"), root.join("s/.git"));
            let guard = Arc::new(Mover { from, to: to.clone(), after, asked: AtomicUsize::new(0) });
            let workspace = Workspace::open(&root, WorkspaceOptions::default()).unwrap().guarded(guard);
            let written = workspace.write(Path::new("d/config"), b"evil");
            let has_moved = to.exists();
            refused += usize::from(written.is_err());
            assert!(!has_moved || written.is_err(), "after {after}");
            if has_moved {
                assert_eq!(std::fs::read_to_string(to.join("config")).ok().as_deref(), old, "after {after}");
                let left = std::fs::read_dir(&to).unwrap().count();
                assert_eq!(left, usize::from(old.is_some()), "nothing else is left");
            }
        }
        assert_eq!(refused, 2);
    }
}

/// Moved or made, it is looked at again too.
#[test]
fn a_place_that_moves_meanwhile_gets_no_name_either() {
    let room = |after: usize| {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap();
        for directory in ["d", "s"] {
            std::fs::create_dir_all(root.join(directory)).unwrap();
        }
        std::fs::write(root.join("x"), "evil").unwrap();
        let (from, to) = (root.join("d"), root.join("s/.git"));
        let guard = Arc::new(Mover { from, to: to.clone(), after, asked: AtomicUsize::new(0) });
        (Workspace::open(&root, WorkspaceOptions::default()).unwrap().guarded(guard), to, temp)
    };
    // The first question about a move is about what is moved.
    let (workspace, to, temp) = room(2);
    assert!(workspace.rename(p("x"), p("d/config")).is_err());
    assert!(to.exists() && !to.join("config").exists());
    assert_eq!(std::fs::read_to_string(temp.path().join("x")).unwrap(), "evil", "it is back");
    let (workspace, to, _temp) = room(1);
    assert!(workspace.make_dirs(p("d/config")).is_err());
    assert!(to.exists() && !to.join("config").exists());
}

#[test]
fn what_git_would_run_or_believe_is_not_made() {
    let temp = tempfile::tempdir().unwrap();
    let root = temp.path().canonicalize().unwrap();
    for directory in ["bare/objects", "bare/refs", "code/objects", "other/refs", "x/hooks"] {
        std::fs::create_dir_all(root.join(directory)).unwrap();
    }
    std::fs::write(root.join("bare/HEAD"), "ref: refs/heads/main\n").unwrap();
    std::fs::write(root.join("x/hooks/pre-commit"), "").unwrap();
    std::fs::write(root.join("other/config"), "[core]\n").unwrap();
    let guard =
        Arc::new(Mover { from: PathBuf::new(), to: PathBuf::new(), after: 0, asked: AtomicUsize::new(0) });
    let workspace = Workspace::open(&root, WorkspaceOptions::default()).unwrap().guarded(guard);
    for path in
        ["bare/config", "bare/hooks/x", "bare/commondir", "bare/info/attributes", "bare/x", "other/objects/x"]
    {
        assert!(workspace.write(Path::new(path), b"").is_err(), "{path}");
        assert!(workspace.write_new(Path::new(path), b"").is_err(), "{path}");
    }
    for (from, to) in
        [("x/hooks", "bare/hooks"), ("other/config", "bare/config"), ("bare/objects", "other/objects")]
    {
        assert!(workspace.rename(Path::new(from), Path::new(to)).is_err(), "{from} {to}");
        assert!(root.join(from).exists(), "{from}");
    }
    for path in
        ["bare/index", "bare/objects/ab/cd", "bare/refs/heads/x", "code/refs/x", "code/main.py", "other/x"]
    {
        workspace.write(Path::new(path), b"").unwrap();
    }
    assert!(workspace.write(Path::new("code/hooks/pre-commit"), b"").is_err());
    workspace.write(Path::new("code/hooks/useState.ts"), b"").unwrap();
}
