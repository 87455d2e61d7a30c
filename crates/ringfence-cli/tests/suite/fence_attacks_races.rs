//! Races against the look that is taken at a call before it is made.
//!
//! Another thread changes the path in memory, or the directories it leads through, while the supervisor
//! judges the call. Names that did not exist at the start are refused by its verdict alone; so it makes such
//! calls itself, and Landlock refuses them to everybody inside.

use crate::suite::fence_support::{Fenced, RACES, names};
use crate::suite::support::Room;

const RACES_OF_ONE_NAME: [&str; 13] = [
    "create",
    "mkdir",
    "rename",
    "link",
    "symlink",
    "fifo",
    "exchange",
    "tmpfile",
    "openat2",
    "how",
    "from-tmp",
    "from-null",
    "ringfence",
];

/// How often the helper tried.
#[track_caller]
fn tries(ran: &Fenced) -> u64 {
    let number = ran.stdout.split_whitespace().next().and_then(|number| number.parse().ok());
    number.unwrap_or_else(|| panic!("{ran:?}"))
}

#[test]
fn the_helper_wins_where_nobody_looks() {
    for race in RACES_OF_ONE_NAME {
        let directory = tempfile::tempdir().unwrap();
        for name in [".git", ".ringfence"] {
            std::fs::create_dir(directory.path().join(name)).unwrap();
        }
        // Exchanging needs something to exchange with.
        if race == "exchange" {
            std::fs::write(directory.path().join(".git/config"), "").unwrap();
            std::fs::write(directory.path().join("source"), "evil").unwrap();
        }
        RACES.unfenced(&[race, "1"], directory.path());
        let made = [".git", ".ringfence"].map(|name| names(&directory.path().join(name)));
        assert!(made.iter().any(|names| !names.is_empty()), "{race}");
    }
}

#[test]
fn no_race_creates_a_protected_name() {
    for race in RACES_OF_ONE_NAME {
        let room = Room::new();
        room.helper(&RACES);
        let ran = room.fenced(&format!("mkdir -p n/.git n/.ringfence; cd n; ../races {race} 2"));
        assert!(tries(&ran) > 20, "{race}: {ran:?}");
        let made = [".git", ".ringfence"].map(|name| names(&room.project.join("n").join(name)));
        assert!(made.iter().all(Vec::is_empty), "{race}: {made:?}\n{ran:?}");
    }
}

#[test]
fn no_race_of_directories_creates_a_protected_name() {
    let room = Room::new();
    room.helper(&RACES);
    let ran = room.fenced("mkdir -p n/.git n/other; cd n; ln -s .git door; ../races swap-create 3");
    assert!(tries(&ran) > 20, "{ran:?}");
    // The directory called .git may be the one that was called other; it holds no config either way.
    let made: Vec<_> =
        names(&room.project.join("n")).into_iter().filter(|path| path.ends_with(".git/config")).collect();
    assert!(made.is_empty(), "{made:?}\n{ran:?}");
}
