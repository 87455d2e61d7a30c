//! What an agent does with files all day, in every shell.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use ringfence_model::ErrorKind;
use ringfence_workspace::{FileKind, RemoveDepth};

use super::super::{Encoding, Missing, Parents};
use super::with_every_shell;

/// Names that a careless script trips over.
const ODD_NAMES: &[&str] = &[
    "-rf",
    "--help",
    "a b ",
    "line\nbreak",
    "end\n",
    "\n",
    "*",
    "[a]",
    "$HOME",
    "`id`",
    "'",
    "\"",
    "\\n",
    "%s",
    "~",
    "..foo",
    ".hidden",
    "ünïcödé",
];

#[test]
fn files_go_in_and_come_out_byte_for_byte() {
    with_every_shell(|inside| async move {
        let bridge = inside.bridge();
        let every_byte: Vec<u8> = (0..=255).collect();
        for (name, content) in [
            ("empty", vec![]),
            ("bytes", every_byte.repeat(9)),
            ("newlines", b"\n\n\n".to_vec()),
            ("nul", vec![0; 70_000]),
        ] {
            let path = Path::new("deep/er").join(name);
            bridge.write(&path, &content, Parents::Make).await.unwrap();
            assert_eq!(std::fs::read(inside.at("workspace/deep/er").join(name)).unwrap(), content);
            assert_eq!(bridge.read(&path).await.unwrap(), content);
        }
        let text = Encoding::Base64.bytes_of("AAH/").unwrap();
        bridge.write(Path::new("decoded"), &text, Parents::Require).await.unwrap();
        assert_eq!(bridge.read(Path::new("decoded")).await.unwrap(), [0, 1, 255]);
    });
}

#[test]
fn odd_names_are_only_names() {
    with_every_shell(|inside| async move {
        let bridge = inside.bridge();
        for name in ODD_NAMES {
            let directory = Path::new(name);
            let file = directory.join(name);
            bridge.write(&file, name.as_bytes(), Parents::Make).await.unwrap();
            assert_eq!(bridge.read(&file).await.unwrap(), name.as_bytes(), "{name:?}");
            let stat = bridge.stat(&file).await.unwrap().unwrap();
            assert_eq!((stat.kind, stat.size), (FileKind::File, name.len() as u64), "{name:?}");
            let moved = directory.join(format!("{name}2"));
            bridge.rename(&file, &moved).await.unwrap();
            let listed = bridge.list(directory).await.unwrap();
            assert_eq!(
                listed.iter().map(|e| e.name.as_os_str()).collect::<Vec<_>>(),
                [moved.file_name().unwrap()]
            );
            bridge.mkdirp(&directory.join("x").join(name)).await.unwrap();
            assert!(inside.at("workspace").join(directory).join("x").join(name).is_dir(), "{name:?}");
            bridge.remove(&moved, RemoveDepth::Single, Missing::Fail).await.unwrap();
        }
        let listed = bridge.list(Path::new(".")).await.unwrap();
        let mut names: Vec<_> = ODD_NAMES.iter().map(std::ffi::OsString::from).collect();
        names.sort();
        assert_eq!(listed.into_iter().map(|entry| entry.name).collect::<Vec<_>>(), names);
        for name in ODD_NAMES {
            bridge.remove(Path::new(name), RemoveDepth::Recursive, Missing::Fail).await.unwrap();
        }
        assert_eq!(std::fs::read_dir(inside.at("workspace")).unwrap().count(), 0);
        assert_eq!(std::fs::read_to_string(inside.at("outside/secret")).unwrap(), "secret");
    });
}

#[test]
fn a_write_replaces_the_file_and_keeps_its_mode() {
    with_every_shell(|inside| async move {
        let bridge = inside.bridge();
        let file = inside.at("workspace/run.sh");
        std::fs::write(&file, "old and longer").unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o751)).unwrap();
        let reader = std::fs::File::open(&file).unwrap();
        bridge.write(Path::new("run.sh"), b"new", Parents::Make).await.unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "new");
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o7777, 0o751);
        assert_eq!(
            std::io::read_to_string(reader).unwrap(),
            "old and longer",
            "who reads the old one reads all of it"
        );
    });
}

#[test]
fn parents_are_made_only_when_asked() {
    with_every_shell(|inside| async move {
        let bridge = inside.bridge();
        let error = bridge.write(Path::new("no/file"), b"x", Parents::Require).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::NotFound, "{error}");
        assert!(!inside.at("workspace/no").exists());
        bridge.mkdirp(Path::new("a/b/c")).await.unwrap();
        bridge.mkdirp(Path::new("a/b/c")).await.unwrap();
        bridge.mkdirp(Path::new(".")).await.unwrap();
        bridge.write(Path::new("a/b/c/f"), b"x", Parents::Require).await.unwrap();
        let error = bridge.mkdirp(Path::new("a/b/c/f/g")).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Validation, "{error}");
    });
}

#[test]
fn removing_means_what_it_says() {
    with_every_shell(|inside| async move {
        let bridge = inside.bridge();
        let path = Path::new;
        bridge.remove(path("nothing"), RemoveDepth::Single, Missing::Ignore).await.unwrap();
        bridge.remove(path("no/thing"), RemoveDepth::Recursive, Missing::Ignore).await.unwrap();
        for missing in ["nothing", "no/thing"] {
            let error =
                bridge.remove(path(missing), RemoveDepth::Recursive, Missing::Fail).await.unwrap_err();
            assert_eq!(error.kind, ErrorKind::NotFound, "{error}");
        }
        bridge.write(path("full/f"), b"", Parents::Make).await.unwrap();
        bridge.mkdirp(path("empty")).await.unwrap();
        assert!(bridge.remove(path("full"), RemoveDepth::Single, Missing::Ignore).await.is_err());
        bridge.remove(path("empty"), RemoveDepth::Single, Missing::Fail).await.unwrap();
        bridge.remove(path("full"), RemoveDepth::Recursive, Missing::Fail).await.unwrap();
        for mount in [".", "/agent"] {
            let mount = if mount == "/agent" { inside.at("agent") } else { inside.at("workspace") };
            assert!(bridge.remove(&mount, RemoveDepth::Recursive, Missing::Ignore).await.is_err());
            assert!(mount.is_dir());
        }
    });
}

#[test]
fn renaming_makes_parents_and_replaces_files_only() {
    with_every_shell(|inside| async move {
        let bridge = inside.bridge();
        let path = Path::new;
        bridge.write(path("a"), b"a", Parents::Make).await.unwrap();
        bridge.write(path("b"), b"b", Parents::Make).await.unwrap();
        bridge.rename(path("a"), path("new/place/a")).await.unwrap();
        bridge.rename(path("new/place/a"), path("b")).await.unwrap();
        assert_eq!(bridge.read(path("b")).await.unwrap(), b"a");
        bridge.mkdirp(path("directory")).await.unwrap();
        let error = bridge.rename(path("b"), path("directory")).await.unwrap_err();
        assert!(error.message.contains("directory: it is a directory"), "{error}");
        bridge.rename(path("directory"), path("moved")).await.unwrap();
        assert!(inside.at("workspace/moved").is_dir());
        assert_eq!(bridge.rename(path("nothing"), path("x")).await.unwrap_err().kind, ErrorKind::NotFound);
        assert_eq!(bridge.rename(path("no/thing"), path("x")).await.unwrap_err().kind, ErrorKind::NotFound);
    });
}

#[test]
fn stat_tells_kind_size_and_time_or_that_nothing_is_there() {
    with_every_shell(|inside| async move {
        let bridge = inside.bridge();
        let file = inside.at("workspace/f");
        std::fs::write(&file, "12345").unwrap();
        let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_700_000_000);
        std::fs::File::options().write(true).open(&file).unwrap().set_modified(time).unwrap();
        let stat = bridge.stat(Path::new("f")).await.unwrap().unwrap();
        assert_eq!((stat.kind, stat.size, stat.modified_ms), (FileKind::File, 5, 1_700_000_000_000));
        assert_eq!(bridge.stat(Path::new(".")).await.unwrap().unwrap().kind, FileKind::Directory);
        assert_eq!(bridge.stat(Path::new("nothing")).await.unwrap(), None);
        assert_eq!(bridge.stat(Path::new("no/thing")).await.unwrap(), None);
        assert!(bridge.stat(Path::new("f/below")).await.is_err(), "an error is not absence");
        let _socket = std::os::unix::net::UnixListener::bind(inside.at("workspace/s")).unwrap();
        assert_eq!(bridge.stat(Path::new("s")).await.unwrap().unwrap().kind, FileKind::Other);
        assert_eq!(bridge.read(Path::new("s")).await.unwrap_err().kind, ErrorKind::PathAccessDenied);
        assert_eq!(bridge.read(Path::new(".")).await.unwrap_err().kind, ErrorKind::Validation);
    });
}

#[test]
fn large_directories_are_listed_whole() {
    with_every_shell(|inside| async move {
        let bridge = inside.bridge();
        assert_eq!(bridge.list(Path::new(".")).await.unwrap(), []);
        let mut names: Vec<String> = (0..450).map(|at| format!("file {at}")).collect();
        for name in &names {
            std::fs::write(inside.at("workspace").join(name), name).unwrap();
        }
        std::os::unix::fs::symlink("nowhere", inside.at("workspace/dangling")).unwrap();
        names.push("dangling".to_owned());
        names.sort();
        let listed = bridge.list(Path::new(".")).await.unwrap();
        assert_eq!(listed.iter().map(|entry| entry.name.to_str().unwrap()).collect::<Vec<_>>(), names);
        assert_eq!(listed[0].stat.kind, FileKind::Symlink);
        assert_eq!(bridge.list(Path::new("file 1")).await.unwrap_err().kind, ErrorKind::Validation);
        assert_eq!(bridge.list(Path::new("nothing")).await.unwrap_err().kind, ErrorKind::NotFound);
    });
}

#[test]
fn paths_are_found_as_the_container_or_the_host_calls_them() {
    with_every_shell(|inside| async move {
        let bridge = inside.bridge();
        bridge.write(Path::new("/host/workspace/f"), b"x", Parents::Make).await.unwrap();
        assert_eq!(bridge.read(&inside.at("workspace/f")).await.unwrap(), b"x");
        let found = bridge.find(" @f").unwrap();
        assert_eq!((found.shown.as_path(), found.container), (Path::new("f"), inside.at("workspace/f")));
        std::fs::write(inside.at("agent/skill"), "y").unwrap();
        assert_eq!(bridge.read(Path::new("/host/agent/skill")).await.unwrap(), b"y");
    });
}
