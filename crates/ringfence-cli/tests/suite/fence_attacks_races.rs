//! Races against the look that is taken at a call before the kernel makes it.
//!
//! What a mount or a mask enforces is not touched by them. What only the supervisor's verdict refuses, names
//! that did not exist at the start, can be won by a program made for it; then the last look tells of it.

use std::path::Path;

use crate::suite::fence_support::{Fenced, RACES, names};
use crate::suite::support::Room;

/// Whatever of a protected name is there afterwards was told.
#[track_caller]
fn everything_is_told(git: &Path, ran: &Fenced) {
    for name in names(git) {
        let path = git.join(name);
        let told = ran.resources().iter().any(|resource| Path::new(resource) == path);
        assert!(told, "{} is there and was not told: {ran:?}", path.display());
    }
}

#[test]
fn a_race_that_creates_a_protected_name_is_told() {
    for race in ["create", "mkdir", "rename", "link", "symlink"] {
        let room = Room::new();
        room.helper(&RACES);
        let ran = room.fenced(&format!("mkdir -p n/.git; cd n; ../races {race} 1"));
        everything_is_told(&room.project.join("n/.git"), &ran);
    }
}

#[test]
fn a_race_of_directories_that_creates_a_protected_name_is_told() {
    let room = Room::new();
    room.helper(&RACES);
    let ran = room.fenced("mkdir -p n/.git n/other; cd n; ln -s .git door; ../races swap-create 1");
    everything_is_told(&room.project.join("n/.git"), &ran);
}
