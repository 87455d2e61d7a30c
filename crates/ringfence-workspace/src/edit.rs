//! Replacing text exactly.

use std::path::Path;

use ringfence_model::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

use crate::workspace::Workspace;

/// Which occurrences of a text are replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Occurrence {
    #[default]
    First,
    /// There must be exactly one.
    Only,
    All,
}

impl Workspace {
    /// Replaces `old` by `new`; gives the number of replacements. An error when `old` does not occur.
    pub fn edit(&self, path: &Path, old: &str, new: &str, which: Occurrence) -> Result<usize> {
        self.must_be_writable(path)?;
        let (changed, count) = replaced(path, &self.read(path)?, old, new, which)?;
        self.write(path, &changed)?;
        Ok(count)
    }
}

/// The content of a file, shown as `path`, with `old` replaced by `new`, and the number of replacements. An error when `old`
/// does not occur.
pub fn replaced(
    path: &Path,
    content: &[u8],
    old: &str,
    new: &str,
    which: Occurrence,
) -> Result<(Vec<u8>, usize)> {
    let invalid = |why: String| Error::new(ErrorKind::Validation, why);
    if old.is_empty() {
        return Err(invalid("the text to replace is empty".to_owned()));
    }
    let found = positions(content, old.as_bytes());
    let shown = path.display();
    match (which, found.len()) {
        (_, 0) => {
            let error = invalid(format!("the text to replace does not occur in {shown}"));
            return Err(error.hint("read the file and copy the text exactly, blanks included"));
        }
        (Occurrence::Only, many @ 2..) => {
            let error = invalid(format!("the text to replace occurs {many} times in {shown}"));
            return Err(error.hint("give more of the text around it, or replace all"));
        }
        _ => {}
    }
    let wanted = match which {
        Occurrence::First | Occurrence::Only => &found[..1],
        Occurrence::All => &found[..],
    };
    let mut changed = Vec::with_capacity(content.len());
    let mut done = 0;
    for &at in wanted {
        changed.extend_from_slice(&content[done..at]);
        changed.extend_from_slice(new.as_bytes());
        done = at + old.len();
    }
    changed.extend_from_slice(&content[done..]);
    Ok((changed, wanted.len()))
}

/// Where `needle` begins in `content`, left to right, without overlaps.
pub(crate) fn positions(content: &[u8], needle: &[u8]) -> Vec<usize> {
    let mut found = Vec::new();
    let Some(&first) = needle.first() else { return found };
    let mut at = 0;
    while at + needle.len() <= content.len() {
        if content[at] == first && content[at..].starts_with(needle) {
            found.push(at);
            at += needle.len();
        } else {
            at += 1;
        }
    }
    found
}
