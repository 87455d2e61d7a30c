//! Ways out: by name, by link, by race. None may be taken, in no shell.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ringfence_model::{Error, ErrorKind};
use ringfence_workspace::{HardLinks, RemoveDepth};

use super::super::{Bridge, BridgeOptions, Missing, Parents};
use super::{Inside, with_every_shell};

/// The errors of every operation on `path`.
async fn refusals(bridge: &Bridge, path: &Path) -> Vec<(&'static str, Result<(), Error>)> {
    vec![
        ("read", bridge.read(path).await.map(drop)),
        ("write", bridge.write(path, b"overwritten", Parents::Make).await),
        ("mkdirp", bridge.mkdirp(&path.join("made")).await),
        ("remove", bridge.remove(&path.join("secret"), RemoveDepth::Recursive, Missing::Ignore).await),
        ("rename from", bridge.rename(&path.join("secret"), Path::new("stolen")).await),
        ("rename to", bridge.rename(Path::new("mine"), &path.join("planted")).await),
        ("stat", bridge.stat(path).await.map(drop)),
        ("list", bridge.list(path).await.map(drop)),
    ]
}

#[test]
fn names_that_leave_are_refused_before_anything_runs() {
    with_every_shell(|inside| async move {
        let bridge = inside.bridge();
        std::fs::write(inside.at("workspace/mine"), "").unwrap();
        for path in ["..", "../outside", "a/../../outside", "/etc", "/", "/host", "/workspacex"] {
            for (doing, refused) in refusals(&bridge, Path::new(path)).await {
                assert_eq!(refused.expect_err(doing).kind, ErrorKind::PathTraversal, "{doing} {path}");
            }
        }
        for path in [OsStr::from_bytes(b"\xff"), OsStr::from_bytes(b"a\0b")] {
            for (doing, refused) in refusals(&bridge, Path::new(path)).await {
                assert_eq!(refused.expect_err(doing).kind, ErrorKind::Validation, "{doing} {path:?}");
            }
        }
    });
}

#[test]
fn links_that_lead_out_are_refused_by_every_operation() {
    with_every_shell(|inside| async move {
        let bridge = inside.bridge();
        std::fs::write(inside.at("workspace/mine"), "").unwrap();
        std::fs::create_dir(inside.at("workspace/deep")).unwrap();
        let outside = inside.at("outside");
        for (name, to) in [
            ("absolute", outside.clone()),
            ("relative", "../outside".into()),
            ("deep/relative", "../../outside".into()),
            ("up", "..".into()),
            ("chain", "absolute".into()),
            ("root", "/".into()),
            ("agents", inside.at("agent")),
            ("magic", "/proc/self/root".into()),
            ("there-and-back", "../workspace/../outside".into()),
        ] {
            symlink(to, inside.at("workspace").join(name)).unwrap();
        }
        let before = inside.everything();
        for name in [
            "absolute",
            "relative",
            "deep/relative",
            "up",
            "chain",
            "root",
            "agents",
            "magic",
            "there-and-back",
        ] {
            for (doing, refused) in refusals(&bridge, Path::new(name)).await {
                let error = refused.expect_err(&format!("{doing} {name}"));
                assert_eq!(error.kind, ErrorKind::PathTraversal, "{doing} {name}: {error}");
            }
            let below = Path::new(name).join("secret");
            assert_eq!(bridge.read(&below).await.unwrap_err().kind, ErrorKind::PathTraversal, "{name}");
        }
        assert_eq!(inside.everything(), before, "something was made or removed");
        assert_eq!(std::fs::read_to_string(inside.at("outside/secret")).unwrap(), "secret");
    });
}

#[test]
fn a_link_to_a_file_outside_is_neither_read_nor_written_but_may_be_removed() {
    with_every_shell(|inside| async move {
        let bridge = inside.bridge();
        let path = Path::new("link");
        symlink(inside.at("outside/secret"), inside.at("workspace/link")).unwrap();
        assert_eq!(bridge.read(path).await.unwrap_err().kind, ErrorKind::PathTraversal);
        assert_eq!(bridge.stat(path).await.unwrap_err().kind, ErrorKind::PathTraversal);
        assert_eq!(bridge.write(path, b"x", Parents::Make).await.unwrap_err().kind, ErrorKind::PathTraversal);
        symlink(inside.at("outside/new"), inside.at("workspace/dangling")).unwrap();
        let dangling = bridge.write(Path::new("dangling"), b"x", Parents::Make).await.unwrap_err();
        assert_eq!(dangling.kind, ErrorKind::PathTraversal);
        bridge.rename(path, Path::new("moved")).await.unwrap();
        bridge.remove(Path::new("moved"), RemoveDepth::Recursive, Missing::Fail).await.unwrap();
        symlink(inside.at("outside"), inside.at("workspace/directory")).unwrap();
        bridge.remove(Path::new("directory"), RemoveDepth::Recursive, Missing::Fail).await.unwrap();
        assert_eq!(std::fs::read_to_string(inside.at("outside/secret")).unwrap(), "secret");
        assert!(!inside.at("outside/new").exists());
    });
}

#[test]
fn links_inside_are_followed() {
    with_every_shell(|inside| async move {
        let bridge = inside.bridge();
        bridge.write(Path::new("real/f"), b"x", Parents::Make).await.unwrap();
        let workspace = inside.at("workspace");
        for (name, to) in [
            ("relative", "real".into()),
            ("absolute", workspace.join("real")),
            ("dotted", "./real/../real/.".into()),
            ("self", workspace.clone()),
            ("file", "real/f".into()),
            ("second", "file".into()),
            ("slashes", "real///".into()),
        ] {
            symlink(to, workspace.join(name)).unwrap();
        }
        symlink("end\n", workspace.join("newline")).unwrap();
        std::fs::write(workspace.join("end\n"), "n").unwrap();
        for path in ["relative/f", "absolute/f", "dotted/f", "self/real/f", "file", "second", "slashes/f"] {
            assert_eq!(bridge.read(Path::new(path)).await.unwrap(), b"x", "{path}");
        }
        assert_eq!(bridge.read(Path::new("newline")).await.unwrap(), b"n");
        for path in ["relative", "absolute", "dotted", "slashes"] {
            assert_eq!(bridge.list(Path::new(path)).await.unwrap().len(), 1, "{path}");
        }
        bridge.write(Path::new("second"), b"through", Parents::Make).await.unwrap();
        assert_eq!(std::fs::read(workspace.join("real/f")).unwrap(), b"through");
        assert!(
            workspace.join("second").is_symlink() && workspace.join("file").is_symlink(),
            "links stay links"
        );
        symlink("turn", workspace.join("turn")).unwrap();
        assert!(bridge.read(Path::new("turn")).await.is_err(), "a link to itself ends");
    });
}

#[test]
fn a_file_with_another_name_is_not_read_and_not_changed_under_that() {
    with_every_shell(|mut inside| async move {
        std::fs::hard_link(inside.at("outside/secret"), inside.at("workspace/linked")).unwrap();
        let error = inside.bridge().read(Path::new("linked")).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::PathAccessDenied, "{error}");
        inside.bridge().write(Path::new("linked"), b"mine", Parents::Make).await.unwrap();
        assert_eq!(std::fs::read_to_string(inside.at("outside/secret")).unwrap(), "secret");
        assert_eq!(inside.bridge().read(Path::new("linked")).await.unwrap(), b"mine");

        std::fs::hard_link(inside.at("workspace/linked"), inside.at("workspace/twin")).unwrap();
        inside.options = BridgeOptions { hard_links: HardLinks::Allow, ..BridgeOptions::default() };
        assert_eq!(inside.bridge().read(Path::new("twin")).await.unwrap(), b"mine");
    });
}

#[test]
fn what_is_mounted_read_only_is_not_changed_and_nothing_runs() {
    with_every_shell(|inside| async move {
        let bridge = inside.bridge();
        std::fs::write(inside.at("agent/f"), "x").unwrap();
        let file = inside.at("agent/f");
        let before = inside.everything();
        for refused in [
            bridge.write(&file, b"y", Parents::Make).await,
            bridge.mkdirp(&inside.at("agent/d")).await,
            bridge.remove(&file, RemoveDepth::Recursive, Missing::Ignore).await,
            bridge.rename(&file, Path::new("f")).await,
            bridge.rename(Path::new("f"), &file).await,
        ] {
            assert_eq!(refused.unwrap_err().kind, ErrorKind::Permission);
        }
        assert_eq!(inside.everything(), before);
        assert_eq!(bridge.read(&file).await.unwrap(), b"x");
    });
}

/// Exchanges a directory and a link to the outside as fast as it can, until it is dropped.
struct Swapper {
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Swapper {
    fn start(inside: &Inside) -> Self {
        let (one, other) = (inside.at("workspace/d"), inside.at("workspace/l"));
        std::fs::create_dir(&one).unwrap();
        symlink(inside.at("outside"), &other).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let flags = rustix::fs::RenameFlags::EXCHANGE;
            while !stopped.load(Ordering::Relaxed) {
                rustix::fs::renameat_with(rustix::fs::CWD, &one, rustix::fs::CWD, &other, flags).unwrap();
            }
        });
        Self { stop, thread: Some(thread) }
    }
}

impl Drop for Swapper {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

#[test]
fn a_directory_that_becomes_a_link_in_between_wins_nothing() {
    with_every_shell(|inside| async move {
        let bridge = inside.bridge();
        let swapper = Swapper::start(&inside);
        let path = Path::new("d/secret");
        for _ in 0..25 {
            // Each of them works in the directory, or says why not; none sees or touches what is outside.
            if let Ok(content) = bridge.read(path).await {
                assert_eq!(content, b"mine", "the file outside was read");
            }
            let _ = bridge.write(path, b"mine", Parents::Require).await;
            let _ = bridge.remove(path, RemoveDepth::Single, Missing::Ignore).await;
            let _ = bridge.mkdirp(Path::new("d/made")).await;
            let _ = bridge.rename(Path::new("d/made"), Path::new("d/moved")).await;
            let _ = bridge.remove(Path::new("d/moved"), RemoveDepth::Recursive, Missing::Ignore).await;
        }
        drop(swapper);
        assert_eq!(std::fs::read_to_string(inside.at("outside/secret")).unwrap(), "secret");
        let left: Vec<_> =
            std::fs::read_dir(inside.at("outside")).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(left, ["secret"], "something was made outside");
    });
}
