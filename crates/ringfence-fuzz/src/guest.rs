//! The lines between a guest in a container and the host side.

use ringfence_local::guest::wire::{Order, Word};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A line that is understood means the same after it was written and read again; so a relay cannot change it.
pub fn guest_wire(bytes: &[u8]) {
    for line in bytes.split(|byte| *byte == b'\n') {
        again::<Word>(line);
        again::<Order>(line);
    }
}

fn again<T: Serialize + DeserializeOwned>(line: &[u8]) {
    let Ok(said) = serde_json::from_slice::<T>(line) else { return };
    let written = serde_json::to_vec(&said).expect("what was read can be written");
    assert!(!written.contains(&b'\n'), "one message is one line");
    let read: T = serde_json::from_slice(&written).expect("what was written can be read");
    assert_eq!(serde_json::to_vec(&read).ok(), Some(written));
}
