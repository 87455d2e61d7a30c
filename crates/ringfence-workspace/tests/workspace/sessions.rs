//! Session workspaces.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ringfence_model::ErrorKind;
use ringfence_workspace::{
    BOOTSTRAP_FILES, Mode, SessionOptions, Sessions, Workspace, WorkspaceOptions, session_slug,
};

use crate::room::p;

struct Base {
    directory: tempfile::TempDir,
}

impl Base {
    fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("workspaces")
    }

    fn open(&self) -> Sessions {
        Sessions::open(&self.path(), SessionOptions::default()).unwrap()
    }
}

fn now_ms() -> i64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    i64::try_from(now.as_millis()).unwrap()
}

const HOUR: i64 = 3_600_000;

#[test]
fn a_session_has_its_layout_and_its_notes_are_made_once() {
    let base = Base::new();
    let sessions = base.open();
    let workspace = sessions.session("s1", Mode::ReadWrite).unwrap();
    for directory in ["code", "data", "output", "artifacts", "temp", ".memory"] {
        assert!(workspace.host_path().join(directory).is_dir(), "{directory}");
    }
    for file in ["task_plan.md", "findings.md", "progress.md"] {
        assert!(workspace.host_path().join(".memory").join(file).is_file(), "{file}");
    }
    workspace.write(p(".memory/findings.md"), b"mine").unwrap();
    drop(workspace);
    let again = sessions.session("s1", Mode::ReadOnly).unwrap();
    assert_eq!(again.read(p(".memory/findings.md")).unwrap(), b"mine");
    assert_eq!(again.write(p("x"), b"").unwrap_err().kind, ErrorKind::Permission);
    let mode = std::fs::metadata(base.path()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
}

#[test]
fn a_session_key_cannot_be_a_path() {
    let base = Base::new();
    let sessions = base.open();
    for key in ["../../etc", "/etc", "..", ".", "a/b", "", ".keys", "a\0b", "\n"] {
        let workspace = sessions.session(key, Mode::ReadWrite).unwrap();
        assert_eq!(workspace.host_path().parent().unwrap(), base.path().canonicalize().unwrap(), "{key:?}");
        assert_eq!(workspace.host_path().file_name().unwrap().to_str().unwrap(), session_slug(key));
    }
    let names: Vec<_> =
        std::fs::read_dir(base.directory.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names, ["workspaces"]);
}

#[test]
fn a_second_key_with_the_same_name_is_refused() {
    let base = Base::new();
    let sessions = base.open();
    drop(sessions.session("victim", Mode::ReadWrite).unwrap());
    // As if the attacker had found a key that gets the same name.
    std::fs::write(base.path().join(".keys").join(session_slug("attacker")), "victim").unwrap();
    let error = sessions.session("attacker", Mode::ReadWrite).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Permission);
    assert!(sessions.session("victim", Mode::ReadWrite).is_ok());
}

#[test]
fn a_link_in_place_of_a_workspace_is_refused() {
    let base = Base::new();
    let sessions = base.open();
    let outside = base.directory.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    symlink(&outside, base.path().join(session_slug("s"))).unwrap();
    assert!(sessions.session("s", Mode::ReadWrite).is_err());
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0);
}

fn names_in(path: &Path) -> Vec<String> {
    let mut names: Vec<_> = std::fs::read_dir(path)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn old_workspaces_are_cleaned_up_and_others_stay() {
    let base = Base::new();
    let sessions = base.open();
    drop(sessions.session("idle", Mode::ReadWrite).unwrap());
    let held = sessions.session("held", Mode::ReadWrite).unwrap();
    std::fs::create_dir(base.path().join("not-ours")).unwrap();

    assert!(sessions.clean_up(now_ms() + 23 * HOUR, &|_| false).unwrap().removed.is_empty());
    let outcome = sessions.clean_up(now_ms() + 25 * HOUR, &|_| false).unwrap();
    assert_eq!(outcome.removed, [session_slug("idle")]);
    assert_eq!(outcome.in_use, [session_slug("held")]);
    assert_eq!(names_in(&base.path()), [".keys".to_owned(), session_slug("held"), "not-ours".to_owned()]);
    assert_eq!(names_in(&base.path().join(".keys")), [session_slug("held")]);
    assert!(held.exists(p("code")));
    drop(held);
    let outcome = sessions.clean_up(now_ms() + 25 * HOUR, &|name| name == session_slug("held")).unwrap();
    assert_eq!((outcome.removed.len(), outcome.in_use), (0, vec![session_slug("held")]));
    assert_eq!(sessions.clean_up(now_ms() + 25 * HOUR, &|_| false).unwrap().removed.len(), 1);
}

#[test]
fn a_change_deep_inside_keeps_a_workspace() {
    let base = Base::new();
    let options = SessionOptions { max_idle: Duration::from_millis(300), ..SessionOptions::default() };
    let sessions = Sessions::open(&base.path(), options).unwrap();
    let place = sessions.session("s", Mode::ReadWrite).unwrap().host_path().to_owned();
    std::thread::sleep(Duration::from_millis(400));
    std::fs::write(place.join("code/x"), "").unwrap();
    assert!(sessions.clean_up(now_ms(), &|_| false).unwrap().removed.is_empty());
    std::thread::sleep(Duration::from_millis(400));
    assert_eq!(sessions.clean_up(now_ms(), &|_| false).unwrap().removed.len(), 1);
}

#[test]
fn a_workspace_can_be_removed_when_nobody_uses_it() {
    let base = Base::new();
    let sessions = base.open();
    assert!(!sessions.remove("s").unwrap());
    let workspace = sessions.session("s", Mode::ReadWrite).unwrap();
    assert_eq!(sessions.remove("s").unwrap_err().kind, ErrorKind::ConcurrentAccess);
    drop(workspace);
    assert!(sessions.remove("s").unwrap());
    assert_eq!(names_in(&base.path()), [".keys"]);
}

#[test]
fn many_threads_open_clean_and_remove_at_once() {
    let base = Base::new();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let sessions = base.open();
                for round in 0..40 {
                    let workspace = sessions.session("s", Mode::ReadWrite).unwrap();
                    workspace.write(p("code/x"), b"1").unwrap();
                    assert_eq!(workspace.read(p("code/x")).unwrap(), b"1");
                    drop(workspace);
                    if round % 5 == 0 {
                        let outcome = sessions.clean_up(now_ms() + 25 * HOUR, &|_| false).unwrap();
                        assert!(outcome.failed.is_empty(), "{:?}", outcome.failed);
                    }
                }
            });
        }
    });
}

#[test]
fn the_default_limit_is_1024_megabytes() {
    let base = Base::new();
    let workspace = base.open().session("s", Mode::ReadWrite).unwrap();
    let big = std::fs::File::create(workspace.host_path().join("data/big")).unwrap();
    big.set_len((1024 << 20) - 100).unwrap();
    assert_eq!(workspace.write(p("x"), &[0; 200]).unwrap_err().kind, ErrorKind::ResourceLimitExceeded);
    workspace.write(p("x"), &[0; 20]).unwrap();
}

#[test]
fn a_container_sees_the_workspace_at_its_place() {
    let base = Base::new();
    let sessions = base.open();
    let workspace = sessions.session("s", Mode::ReadWrite).unwrap();
    let map = sessions.path_map(&workspace);
    assert_eq!(
        map.to_container(&workspace.host_path().join("code/a")),
        Some(PathBuf::from("/workspace/code/a"))
    );
    assert_eq!(map.to_host(p("/workspace/code/a")), Some(workspace.host_path().join("code/a")));
    let volume = format!("{}:/workspace:rw", workspace.host_path().display());
    assert_eq!(map.mounts()[0].volume(), volume);
}

#[test]
fn bootstrap_files_are_copied_only_when_absent() {
    let base = Base::new();
    let source = base.directory.path().join("agent");
    std::fs::create_dir(&source).unwrap();
    for file in &BOOTSTRAP_FILES[..3] {
        std::fs::write(source.join(file), format!("source of {file}")).unwrap();
    }
    symlink("/etc/passwd", source.join("USER.md")).unwrap();
    let source = Workspace::open(&source, WorkspaceOptions::default()).unwrap();
    let workspace = base.open().session("s", Mode::ReadWrite).unwrap();
    workspace.write(p("SOUL.md"), b"my own").unwrap();
    assert_eq!(workspace.seed(&source, &BOOTSTRAP_FILES[..4]).unwrap(), [p("AGENTS.md"), p("TOOLS.md")]);
    assert_eq!(workspace.read(p("SOUL.md")).unwrap(), b"my own");
    assert_eq!(workspace.read(p("AGENTS.md")).unwrap(), b"source of AGENTS.md");
    assert!(workspace.seed(&source, &["USER.md"]).is_err(), "a link out of the source is not followed");
}

#[test]
fn skills_are_synchronised_as_a_whole() {
    let base = Base::new();
    let agent = base.directory.path().join("agent");
    std::fs::create_dir_all(agent.join("skills/one")).unwrap();
    std::fs::write(agent.join("skills/one/SKILL.md"), "1").unwrap();
    symlink("/etc/passwd", agent.join("skills/leak")).unwrap();
    let agent = Workspace::open(&agent, WorkspaceOptions::default()).unwrap();
    let workspace = base.open().session("s", Mode::ReadWrite).unwrap();
    workspace.write(p("skills/stale/SKILL.md"), b"old").unwrap();
    assert_eq!(workspace.sync_directory(&agent, p("skills"), p("skills")).unwrap(), 1);
    assert_eq!(workspace.read(p("skills/one/SKILL.md")).unwrap(), b"1");
    assert!(!workspace.exists(p("skills/stale")) && !workspace.exists(p("skills/leak")));
    assert_eq!(workspace.sync_directory(&agent, p("missing"), p("skills")).unwrap(), 0);
    assert!(workspace.exists(p("skills/one")));
}
