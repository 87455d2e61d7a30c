//! Whole profiles, so that a reviewer sees what a change does to them.
//!
//! `UPDATE_GOLDEN=1 cargo test -p ringfence-seatbelt` writes the files anew.

use std::path::Path;

use ringfence_seatbelt::{Mode, render};

use crate::profile::{env, usual};
use crate::sbpl::Profile;

fn check(name: &str, mode: Mode) {
    let text = render(&usual(), &env().with_mode(mode)).unwrap().text().to_owned();
    Profile::parse(&text).unwrap();
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/golden").join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&file, &text).unwrap();
    }
    let want = std::fs::read_to_string(&file).unwrap_or_default();
    assert_eq!(text, want, "{name} differs; see the module's documentation");
}

#[test]
fn strict_profile() {
    check("strict.sb", Mode::Strict);
}

#[test]
fn no_network_profile() {
    check("no-network.sb", Mode::NoNetwork);
}

#[test]
fn read_only_profile() {
    check("read-only.sb", Mode::ReadOnly);
}
