//! Media from the one directory they may come from.

use std::os::unix::fs::symlink;

use ringfence_model::ErrorKind;
use ringfence_workspace::MediaPlace;
use ringfence_workspace::media::MediaRefs;

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
