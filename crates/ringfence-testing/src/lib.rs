//! What tests say when this machine does not let them do all they are for.
//!
//! A test that ends early looks like one that passed, and runners hide what it printed. So it fails, unless
//! somebody hears the reason:
//!
//! - [`NOTES`] names a file to write reasons to; `cargo xtask test` prints what was written at its end.
//! - [`WITHOUT`] names what the machine is known to lack, separated by commas: `fence,node`.
//!
//! A fence is what nearly all tests are about. Without it they fail although reasons are listed, unless
//! [`WITHOUT`] names it.
#![forbid(unsafe_code)]

use std::ffi::OsStr;
use std::io::Write as _;

/// The environment variable with the file that reasons go to.
pub const NOTES: &str = "RINGFENCE_TEST_NOTES";

/// The environment variable with what the machine lacks.
pub const WITHOUT: &str = "RINGFENCE_TESTS_WITHOUT";

/// What tests call a sandbox that can be started.
pub const FENCE: &str = "fence";

/// Says that (a part of) the test at hand does not run, because the machine has no `thing`.
///
/// # Panics
/// When nobody hears it.
#[track_caller]
pub fn lacks(thing: &str, why: &str) {
    let notes = std::env::var_os(NOTES);
    let without = std::env::var(WITHOUT).unwrap_or_default();
    assert!(
        is_accepted(thing, &without, notes.as_deref()),
        "this test cannot run without {thing}, and nobody said that there is none: {why}\n\
         Set {WITHOUT}={thing} where that is as it should be."
    );
    note(notes.as_deref(), "skipped", &format!("no {thing}: {why}"));
}

/// Says what a launcher does not promise, in its own words, so that the test at hand does not ask for it.
pub fn degraded(launcher: &str, why: &str) {
    note(std::env::var_os(NOTES).as_deref(), "degraded", &format!("{launcher}: {why}"));
}

fn is_accepted(thing: &str, without: &str, notes: Option<&OsStr>) -> bool {
    without.split(',').any(|named| named.trim() == thing) || (notes.is_some() && thing != FENCE)
}

/// One line for each, with the name of the test.
#[expect(clippy::print_stderr, reason = "for who runs one test by hand")]
fn note(notes: Option<&OsStr>, kind: &str, text: &str) {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    let line = format!("{kind}\t{test}\t{}\n", text.split_whitespace().collect::<Vec<_>>().join(" "));
    eprint!("{line}");
    if let Some(path) = notes {
        let file = std::fs::OpenOptions::new().append(true).create(true).open(path);
        let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
        assert!(written.is_ok(), "{}: {written:?}", path.display());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_hears_is_no_reason() {
        let notes = Some(OsStr::new("somewhere"));
        assert!(!is_accepted("node", "", None));
        assert!(is_accepted("node", "", notes));
        assert!(is_accepted("node", "python3, node", None));
        assert!(!is_accepted(FENCE, "node", notes));
        assert!(is_accepted(FENCE, "fence", None));
    }

    #[test]
    fn reasons_are_lines_of_one_file() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("notes");
        note(Some(path.as_os_str()), "skipped", "no node:\n not found");
        note(Some(path.as_os_str()), "degraded", "landlock: x");
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2, "{text}");
        assert!(lines[0].starts_with("skipped\t") && lines[0].ends_with("\tno node: not found"), "{text}");
    }
}
