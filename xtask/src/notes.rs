//! What tests wrote down that they did not do on this machine, by name.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use ringfence_testing::NOTES;

/// A file for one run of tests.
#[derive(Debug)]
pub(crate) struct Notes(PathBuf);

impl Notes {
    pub(crate) fn at(path: PathBuf) -> Self {
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Lets the tests of `command` write here.
    pub(crate) fn hear(&self, command: &mut Command) {
        command.env(NOTES, &self.0);
    }

    /// One line for each test and reason, for the summary.
    pub(crate) fn lines(&self) -> Vec<String> {
        readable(&std::fs::read_to_string(&self.0).unwrap_or_default())
    }
}

/// A test that was tried twice says it twice.
fn readable(text: &str) -> Vec<String> {
    let lines: BTreeSet<String> = text
        .lines()
        .filter_map(|line| {
            let (kind, rest) = line.split_once('\t')?;
            let (test, why) = rest.split_once('\t')?;
            Some(format!("{kind}: {}: {why}", test.strip_prefix("suite::").unwrap_or(test)))
        })
        .collect();
    lines.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_test_is_named_once() {
        let text =
            "skipped\tsuite::a::b\tno node: x\ndegraded\tc\tlandlock: y\nskipped\tsuite::a::b\tno node: x\n";
        assert_eq!(readable(text), ["degraded: c: landlock: y", "skipped: a::b: no node: x"]);
    }
}
