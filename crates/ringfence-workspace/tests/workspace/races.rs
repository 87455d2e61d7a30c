//! Another thread swaps things for links while we work: sometimes an operation fails, never does it get out.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ringfence_workspace::{ListOptions, Occurrence, RemoveDepth, SearchOptions};

use crate::room::{Room, SECRET, p};

const LONG: Duration = Duration::from_millis(1000);

/// Ends the attack, also when the work fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs `attack` in a loop on another thread while `work` runs in a loop on this one.
fn race(attack: impl Fn() + Sync, mut work: impl FnMut()) {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                attack();
            }
        });
        let _stop = Stop(&stop);
        let end = Instant::now() + LONG;
        while Instant::now() < end {
            work();
        }
    });
}

fn assert_not_secret(content: &[u8]) {
    assert!(!content.windows(6).any(|window| window == b"secret"), "the secret got in");
}

/// Two names change places; one moment each path is what it was, the next it is the other.
fn exchange(a: &Path, b: &Path) {
    let here = rustix::fs::CWD;
    let _ = rustix::fs::renameat_with(here, a, here, b, rustix::fs::RenameFlags::EXCHANGE);
}

#[test]
fn a_directory_swapped_for_a_link_never_leads_out() {
    let room = Room::new();
    let w = &room.workspace;
    w.write(p("a/dir/canary"), b"inside").unwrap();
    symlink(room.outside(), room.host("a/link")).unwrap();
    let (directory, link) = (room.host("a/dir"), room.host("a/link"));
    let mut read = 0;
    race(
        || exchange(&directory, &link),
        || {
            if let Ok(content) = w.read(p("a/dir/canary")) {
                assert_not_secret(&content);
                read += 1;
            }
            let _ = w.write(p("a/dir/canary"), b"inside");
            let _ = w.write(p("a/dir/new/file"), b"inside");
            let _ = w.append(p("a/dir/canary"), b"!");
            let _ = w.edit(p("a/dir/canary"), "side", "SIDE", Occurrence::All);
            let _ = w.remove(p("a/dir/new"), RemoveDepth::Recursive);
            let _ = w.rename(p("a/dir/canary"), p("a/dir/moved"));
            let _ = w.rename(p("a/dir/moved"), p("a/dir/canary"));
            let _ = w.make_dirs(p("a/dir/made/deep"));
            if let Ok(listing) = w.list(p("a/dir"), ListOptions::recursive()) {
                assert!(
                    listing.entries.iter().all(|entry| u64::try_from(SECRET.len()).unwrap() != entry.size)
                );
            }
            let found = w.search(p(""), "secret", &SearchOptions::default()).unwrap();
            assert!(found.matches.is_empty());
        },
    );
    assert!(read > 0, "the honest path was there at times");
    room.assert_outside_untouched();
}

#[test]
fn a_file_swapped_for_a_link_never_leads_out() {
    let room = Room::new();
    let w = &room.workspace;
    w.write(p("file"), b"inside").unwrap();
    symlink("../outside/canary", room.host("link")).unwrap();
    let (file, link) = (room.host("file"), room.host("link"));
    race(
        || exchange(&file, &link),
        || {
            if let Ok(content) = w.read(p("file")) {
                assert_not_secret(&content);
            }
            let _ = w.append(p("file"), b"!");
            let _ = w.edit(p("file"), "in", "IN", Occurrence::First);
            let _ = w.stat(p("file"));
        },
    );
    room.assert_outside_untouched();
}

#[test]
fn a_file_swapped_for_a_hard_link_never_leads_out() {
    let room = Room::new();
    let w = &room.workspace;
    w.write(p("file"), b"inside").unwrap();
    std::fs::hard_link(room.canary(), room.host("hard")).unwrap();
    let (file, hard) = (room.host("file"), room.host("hard"));
    race(
        || exchange(&file, &hard),
        || {
            for name in ["file", "hard"] {
                if let Ok(content) = w.read(p(name)) {
                    assert_not_secret(&content);
                }
                let _ = w.append(p(name), b"!");
            }
            let found = w.search(p(""), "secret", &SearchOptions::default()).unwrap();
            assert!(found.matches.is_empty());
        },
    );
    room.assert_outside_untouched();
}

/// Whether this file system (with kernels from 6.13 on, all usual ones) tells two changes in a row apart by
/// their times. Elsewhere a name that comes and goes within one tick leaves no trace.
fn has_fine_times(room: &Room) -> bool {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    let file = room.host("probe");
    std::fs::write(&file, "").unwrap();
    let mut times: Vec<i64> = (0..50)
        .map(|round| {
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600 + round % 2)).unwrap();
            std::fs::metadata(&file).unwrap().ctime_nsec()
        })
        .collect();
    std::fs::remove_file(file).unwrap();
    times.dedup();
    times.len() == 50
}

#[test]
fn a_second_name_that_comes_and_goes_gives_nothing_away() {
    let room = Room::new();
    if !has_fine_times(&room) {
        return;
    }
    let w = &room.workspace;
    let (file, canary) = (room.host("file"), room.canary());
    race(
        || {
            let _ = std::fs::hard_link(&canary, &file);
            let _ = std::fs::remove_file(&file);
        },
        || {
            if let Ok(content) = w.read(p("file")) {
                assert_not_secret(&content);
            }
            assert!(w.search(p(""), "secret", &SearchOptions::default()).unwrap().matches.is_empty());
            let _ = w.append(p("file"), b"!");
            let _ = w.remove(p("file"), RemoveDepth::Single);
        },
    );
    room.assert_outside_untouched();
}

#[test]
fn a_tree_being_removed_never_takes_the_outside_with_it() {
    const MANY: usize = 40;
    let room = Room::new();
    let w = &room.workspace;
    w.make_dirs(p("links")).unwrap();
    let pairs: Vec<_> = (0..MANY)
        .map(|number| (room.host(&format!("tree/{number}")), room.host(&format!("links/{number}"))))
        .collect();
    let build = || {
        let _ = std::fs::create_dir(room.host("tree"));
        for (directory, link) in &pairs {
            let _ = std::fs::create_dir(directory);
            let _ = std::fs::remove_dir_all(link);
            let _ = std::fs::remove_file(link);
            let _ = symlink(room.outside(), link);
        }
    };
    race(
        || pairs.iter().for_each(|(directory, link)| exchange(directory, link)),
        || {
            build();
            let _ = w.remove(p("tree"), RemoveDepth::Recursive);
        },
    );
    room.assert_outside_untouched();
}

#[test]
fn a_deep_directory_moved_about_never_leads_out() {
    let room = Room::new();
    let w = &room.workspace;
    w.write(p("a/b/c/d/canary"), b"inside").unwrap();
    symlink("../../../../canary", room.host("a/b/c/d/up")).unwrap();
    std::fs::write(room.host("canary"), "inside").unwrap();
    let (deep, shallow) = (room.host("a/b/c/d"), room.host("d"));
    race(
        || {
            let _ = std::fs::rename(&deep, &shallow);
            let _ = std::fs::rename(&shallow, &deep);
        },
        || {
            for path in ["a/b/c/d/up", "d/up", "a/b/c/d/canary"] {
                if let Ok(content) = w.read(p(path)) {
                    assert_eq!(content, b"inside");
                }
            }
        },
    );
    room.assert_outside_untouched();
}

#[test]
fn readers_see_the_old_content_or_the_new_one() {
    let room = Room::new();
    let w = &room.workspace;
    let contents = [vec![b'a'; 100_000], vec![b'b'; 50_000]];
    w.write(p("f"), &contents[0]).unwrap();
    race(
        || {
            for content in &contents {
                w.write(p("f"), content).unwrap();
            }
        },
        || {
            let content = w.read(p("f")).unwrap();
            assert!(contents.contains(&content));
        },
    );
    assert_eq!(room.names(), ["f"], "no momentary file stays");
}
