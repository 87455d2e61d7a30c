//! What was judged is what is touched.

use std::os::unix::fs::symlink;
use std::path::Path;

use ringfence_fence::files::{LastLink, Located, SandboxFiles};
use ringfence_model::ErrorKind;
use ringfence_workspace::{FileKind, MountMode};

use super::{Bridge, with_every_shell};

async fn find(bridge: &Bridge, path: &str) -> Located {
    bridge.locate(Path::new(path), LastLink::Follow).await.unwrap()
}

#[test]
fn a_path_leads_where_its_links_lead() {
    with_every_shell(|inside| async move {
        std::fs::create_dir_all(inside.at("workspace/a/b")).unwrap();
        std::fs::write(inside.at("workspace/a/b/f\n"), "12345").unwrap();
        symlink("a/b", inside.at("workspace/short")).unwrap();
        symlink("short/f\n", inside.at("workspace/file")).unwrap();
        symlink("../outside/secret", inside.at("workspace/out")).unwrap();
        let bridge = inside.bridge();
        let located = find(&bridge, "file").await;
        assert_eq!(located.path, inside.at("workspace/a/b/f\n"));
        assert_eq!(located.host, Path::new("/host/workspace/a/b/f\n"));
        assert_eq!(located.shown, Path::new("a/b/f\n"));
        assert_eq!((located.stat.unwrap().size, located.mode), (5, MountMode::ReadWrite));
        let kept = bridge.locate(Path::new("file"), LastLink::Keep).await.unwrap();
        assert_eq!(kept.host, Path::new("/host/workspace/file"));
        assert_eq!(kept.stat.unwrap().kind, FileKind::Symlink);
        let new = find(&bridge, "short/new/deep/file").await;
        assert_eq!(new.host, Path::new("/host/workspace/a/b/new/deep/file"));
        assert_eq!(
            new.missing,
            [Path::new("/host/workspace/a/b/new"), Path::new("/host/workspace/a/b/new/deep")]
        );
        assert_eq!(new.stat, None);
        assert_eq!(find(&bridge, ".").await.host, Path::new("/host/workspace"));
        assert_eq!(find(&bridge, "/host/agent").await.mode, MountMode::ReadOnly);
        for path in ["out", "../outside/secret", "/etc/passwd", "out/x"] {
            let error = bridge.locate(Path::new(path), LastLink::Follow).await.unwrap_err();
            let expected = [ErrorKind::PathTraversal, ErrorKind::Validation];
            assert!(expected.contains(&error.kind), "{path}: {error}");
        }
    });
}

#[test]
fn what_was_located_is_read_written_listed_and_removed() {
    with_every_shell(|inside| async move {
        let bridge = inside.bridge();
        let new = find(&bridge, "a/b/new").await;
        SandboxFiles::write(&bridge, &new, b"one").await.unwrap();
        assert_eq!(std::fs::read(inside.at("workspace/a/b/new")).unwrap(), b"one");
        assert_eq!(SandboxFiles::read(&bridge, &new).await.unwrap(), b"one");
        std::fs::write(inside.at("workspace/a/two"), "\n\ntwo\n").unwrap();
        std::fs::hard_link(inside.at("outside/secret"), inside.at("workspace/a/hard")).unwrap();
        symlink("two", inside.at("workspace/a/link")).unwrap();
        let directories = [find(&bridge, ".").await, find(&bridge, "a").await, find(&bridge, "a/two").await];
        let listed = SandboxFiles::list(&bridge, &directories).await.unwrap();
        let names = |listed: &Option<Vec<Located>>| -> Option<Vec<String>> {
            let shown = |at: &Located| at.shown.display().to_string();
            listed.as_ref().map(|listed| listed.iter().map(shown).collect())
        };
        let inner = ["a/b", "a/hard", "a/link", "a/two"].map(str::to_owned).to_vec();
        assert_eq!(
            listed.iter().map(names).collect::<Vec<_>>(),
            [Some(vec!["a".to_owned()]), Some(inner), None]
        );
        let mut files = listed[1].clone().unwrap();
        files.push(new.clone());
        let contents = bridge.read_many(&files).await.unwrap();
        assert_eq!(contents, [None, None, None, Some(b"\n\ntwo\n".to_vec()), Some(b"one".to_vec())]);
        assert_eq!(bridge.read_many(&[]).await.unwrap(), Vec::<Option<Vec<u8>>>::new());
        SandboxFiles::remove(&bridge, &new).await.unwrap();
        assert!(!inside.at("workspace/a/b/new").exists());
        let plan = find(&bridge, "/host/agent/plan").await;
        let error = SandboxFiles::write(&bridge, &plan, b"x").await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Permission);
    });
}

/// The place is judged, and then somebody puts a link there, or in place of a directory above it.
#[test]
fn what_was_exchanged_after_it_was_located_is_not_touched() {
    with_every_shell(|inside| async move {
        for directory in ["plain", "git/hooks"] {
            std::fs::create_dir_all(inside.at("workspace").join(directory)).unwrap();
        }
        std::fs::write(inside.at("workspace/git/hooks/commit"), "hook").unwrap();
        std::fs::write(inside.at("workspace/plain/commit"), "mine").unwrap();
        let bridge = inside.bridge();
        let above = find(&bridge, "plain/commit").await;
        let new = find(&bridge, "plain/new/deep").await;
        let directory = find(&bridge, "plain").await;
        let link = find(&bridge, "alone").await;
        std::fs::rename(inside.at("workspace/plain"), inside.at("workspace/moved")).unwrap();
        symlink("git/hooks", inside.at("workspace/plain")).unwrap();
        symlink("git/hooks/commit", inside.at("workspace/alone")).unwrap();
        let before = inside.everything();
        for at in [&above, &link] {
            let error = SandboxFiles::read(&bridge, at).await.unwrap_err();
            assert_eq!(error.kind, ErrorKind::ConcurrentAccess, "{at:?}: {error}");
            assert_eq!(bridge.read_many(std::slice::from_ref(at)).await.unwrap(), [None], "{at:?}");
        }
        for at in [&above, &link, &new] {
            let error = SandboxFiles::write(&bridge, at, b"x").await.unwrap_err();
            assert_eq!(error.kind, ErrorKind::ConcurrentAccess, "{at:?}: {error}");
        }
        let error = SandboxFiles::remove(&bridge, &above).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::ConcurrentAccess, "{error}");
        let listed = SandboxFiles::list(&bridge, &[directory.clone(), directory]).await.unwrap();
        assert_eq!(listed, [None, None]);
        assert_eq!(inside.everything(), before);
        assert_eq!(std::fs::read(inside.at("workspace/git/hooks/commit")).unwrap(), b"hook");
    });
}
