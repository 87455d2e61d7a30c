//! The text of `apply_patch`.

use std::path::{Path, PathBuf};

use ringfence_model::Result;
use ringfence_workspace::Patch;
use ringfence_workspace::patch::PatchSource;

/// Some files, in memory. Every path is taken as it is, so that nothing but the patch decides.
struct Files;

impl PatchSource for Files {
    fn tidy(&self, path: &Path) -> Result<PathBuf> {
        Ok(path.to_owned())
    }

    fn content(&self, path: &Path) -> Result<Option<Vec<u8>>> {
        Ok(match path.to_str() {
            Some("a.txt") => Some(b"one\ntwo\nthree\ntwo\n".to_vec()),
            Some("b.txt") => Some(b"no newline at the end".to_vec()),
            Some("c.txt") => Some(b"\xff\xfe\0".to_vec()),
            _ => None,
        })
    }
}

/// A patch that is read names the paths it touches: what its outcome changes is among them, and a second reading of the same
/// text has the same outcome.
pub fn patch(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(mut patch) = Patch::parse(text) else { return };
    let outcome = patch.outcome(&Files);
    assert_eq!(outcome.as_ref().ok(), Patch::parse(text).unwrap().outcome(&Files).as_ref().ok());
    let named: Vec<PathBuf> = patch.paths_mut().map(|path| path.clone()).collect();
    let Ok(outcome) = outcome else { return };
    for path in outcome.before.keys().chain(outcome.after.keys()) {
        assert!(named.contains(path), "{} is changed and was not named", path.display());
    }
}
