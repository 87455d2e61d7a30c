//! Media from the one directory they may come from.

use std::os::unix::fs::symlink;

use ringfence_model::ErrorKind;
use ringfence_workspace::media::MediaRefs;
use ringfence_workspace::{MediaPlace, MediaSource, RemoteMedia, Workspace, WorkspaceOptions};

use crate::room::{Room, p};

/// A room whose outside is not the media directory, which is a third one.
fn media(room: &Room) -> (std::path::PathBuf, MediaPlace) {
    let directory = room.outside().with_file_name("media");
    std::fs::create_dir_all(directory.join("a")).unwrap();
    std::fs::write(directory.join("photo.jpg"), "1").unwrap();
    std::fs::write(directory.join("a/photo.jpg"), "2").unwrap();
    symlink(room.canary(), directory.join("leak.jpg")).unwrap();
    let place = MediaPlace::open(&directory).unwrap();
    (directory.canonicalize().unwrap(), place)
}

#[test]
fn media_get_unique_names_and_mentions_are_rewritten() {
    let room = Room::new();
    let (directory, place) = media(&room);
    let one = directory.join("photo.jpg").display().to_string();
    let two = directory.join("a/photo.jpg").display().to_string();
    let mut refs = MediaRefs {
        media_path: Some(one.clone()),
        media_paths: vec![one.clone(), two.clone()],
        media_url: Some(format!("file://{one}")),
        media_urls: vec!["https://example.org/x.jpg".to_owned(), format!("file://{two}")],
    };
    let staged = room.workspace.stage_media(&place, &mut refs);
    assert_eq!(staged.len(), 2, "the same source once");
    assert_eq!(
        refs,
        MediaRefs {
            media_path: Some("media/inbound/photo.jpg".to_owned()),
            media_paths: vec!["media/inbound/photo.jpg".to_owned(), "media/inbound/photo-1.jpg".to_owned()],
            media_url: Some("media/inbound/photo.jpg".to_owned()),
            media_urls: vec!["https://example.org/x.jpg".to_owned(), "media/inbound/photo-1.jpg".to_owned()],
        }
    );
    assert_eq!(room.workspace.read(p("media/inbound/photo-1.jpg")).unwrap(), b"2");
}

#[test]
fn only_files_inside_the_media_directory_are_staged() {
    let room = Room::new();
    let (directory, place) = media(&room);
    let canary = room.canary();
    for (source, kind) in [
        (canary.as_path(), ErrorKind::PathAccessDenied),
        (p("/etc/passwd"), ErrorKind::PathAccessDenied),
        (p("../outside/canary"), ErrorKind::PathAccessDenied),
        (&directory.join("leak.jpg"), ErrorKind::PathTraversal),
        (&directory.join("missing.jpg"), ErrorKind::NotFound),
    ] {
        assert_eq!(room.workspace.stage_file(&place, source).unwrap_err().kind, kind, "{}", source.display());
    }
    let kept = canary.display().to_string();
    let mut refs = MediaRefs { media_path: Some(kept.clone()), ..MediaRefs::default() };
    let staged = room.workspace.stage_media(&place, &mut refs);
    assert_eq!(refs.media_path, Some(kept), "what may not be staged keeps its path");
    assert!(staged[0].outcome.is_err());
    assert!(!room.workspace.exists(p("media/inbound/canary")));
}

#[test]
fn an_agent_names_files_of_its_workspace_and_addresses_and_nothing_else() {
    let room = Room::new();
    let workspace = &room.workspace;
    workspace.write(p("out/a b.png"), b"png").unwrap();
    std::os::unix::fs::symlink(room.canary(), workspace.host_path().join("link")).unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let temporary = Workspace::open(scratch.path(), WorkspaceOptions::default()).unwrap();
    temporary.write(p("t.png"), b"png").unwrap();
    let find = |source: &str| workspace.media_source(source, p("/workspace"), Some(&temporary));
    let host = workspace.host_path().to_owned();
    let in_temporary = temporary.host_path().join("t.png");
    for (source, want) in [
        (
            "https://example.org/a.png".to_owned(),
            MediaSource::Address("https://example.org/a.png".to_owned()),
        ),
        ("out/a b.png".to_owned(), MediaSource::File(host.join("out/a b.png"))),
        ("/workspace/out/a b.png".to_owned(), MediaSource::File(host.join("out/a b.png"))),
        ("file:///workspace/out/a%20b.png".to_owned(), MediaSource::File(host.join("out/a b.png"))),
        (host.join("out/a b.png").display().to_string(), MediaSource::File(host.join("out/a b.png"))),
        (in_temporary.display().to_string(), MediaSource::File(in_temporary.clone())),
    ] {
        assert_eq!(find(&source).unwrap(), want, "{source}");
    }
    for (source, kind) in [
        ("", ErrorKind::Validation),
        ("data:image/png;base64,AAAA", ErrorKind::Validation),
        ("ftp://example.org/a", ErrorKind::Validation),
        ("file://server/a", ErrorKind::Validation),
        ("/etc/passwd", ErrorKind::PathAccessDenied),
        ("file:///etc/passwd", ErrorKind::PathAccessDenied),
        ("/workspacex/a", ErrorKind::PathAccessDenied),
        ("../outside/canary", ErrorKind::PathTraversal),
        ("/workspace/../etc/passwd", ErrorKind::PathTraversal),
        ("link", ErrorKind::PathTraversal),
        ("out", ErrorKind::Validation),
        ("missing.png", ErrorKind::NotFound),
    ] {
        assert_eq!(find(source).unwrap_err().kind, kind, "{source}");
    }
}

#[test]
fn media_of_another_machine_come_from_its_allowed_directories_only() {
    let room = Room::new();
    let scratch = tempfile::tempdir().unwrap();
    let tools = tempfile::tempdir().unwrap();
    // In the place of ssh's own: says what it was told, and finds everything in the "other machine" beside it.
    let (scp, told) = (tools.path().join("scp"), tools.path().join("told"));
    std::fs::create_dir_all(tools.path().join("other/media")).unwrap();
    std::fs::write(tools.path().join("other/media/cat.jpg"), "cat").unwrap();
    let script = format!(
        "#!/bin/sh\nprintf '%s\\n' \"$@\" > {0}/told\nshift 7\ncp \"{0}/other${{1#*:}}\" \"$2\"\n",
        tools.path().display()
    );
    std::fs::write(&scp, script).unwrap();
    std::fs::set_permissions(&scp, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let remote = RemoteMedia { host: "ada@box.example".to_owned(), roots: vec!["/media".into()], scp };

    for name in ["cat.jpg", "cat-1.jpg"] {
        let staged = room.workspace.stage_remote(&remote, p("/media/cat.jpg"), scratch.path()).unwrap();
        assert_eq!(staged, p("media/inbound").join(name));
        assert_eq!(room.workspace.read(&staged).unwrap(), b"cat");
    }
    assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 0, "nothing is left behind");
    let said = std::fs::read_to_string(&told).unwrap();
    let target = scratch.path().join("cat.jpg");
    assert!(said.starts_with("-B\n") && said.contains("StrictHostKeyChecking=yes"), "{said}");
    assert!(said.ends_with(&format!("--\nada@box.example:/media/cat.jpg\n{}\n", target.display())), "{said}");

    std::fs::remove_file(&told).unwrap();
    for (path, kind) in [
        ("/etc/passwd", ErrorKind::PathAccessDenied),
        ("/media", ErrorKind::PathAccessDenied),
        ("/mediax/cat.jpg", ErrorKind::PathAccessDenied),
        ("/media/../etc/passwd", ErrorKind::PathTraversal),
        ("media/cat.jpg", ErrorKind::PathTraversal),
        ("/media/$(id)", ErrorKind::Validation),
        ("/media/a;b", ErrorKind::Validation),
        ("/media/a b", ErrorKind::Validation),
    ] {
        let error = room.workspace.stage_remote(&remote, p(path), scratch.path()).unwrap_err();
        assert_eq!(error.kind, kind, "{path}");
    }
    for host in ["-oProxyCommand=id", "a b", "ada@-x", "@box", "box:22", ""] {
        let remote = RemoteMedia { host: host.to_owned(), ..remote.clone() };
        let error = room.workspace.stage_remote(&remote, p("/media/cat.jpg"), scratch.path()).unwrap_err();
        assert_eq!(error.kind, ErrorKind::InvalidConfig, "{host}");
    }
    assert!(!told.exists(), "nothing was run for what is refused");
    let error = room.workspace.stage_remote(&remote, p("/media/none.jpg"), scratch.path()).unwrap_err();
    assert_eq!(error.kind, ErrorKind::NotFound, "{error}");
}
