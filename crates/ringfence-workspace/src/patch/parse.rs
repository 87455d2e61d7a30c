//! Reading the patch text.

use std::path::PathBuf;

use ringfence_model::{Error, ErrorKind, Result};

/// One file of a patch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Change {
    Add { path: PathBuf, content: String },
    Delete { path: PathBuf },
    Update { path: PathBuf, move_to: Option<PathBuf>, hunks: Vec<Hunk> },
}

/// One place of a file that changes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Hunk {
    /// Lines, each somewhere below the one before, after which the place is; from outer to inner.
    pub(crate) anchors: Vec<String>,
    pub(crate) lines: Vec<Line>,
    /// The place is the end of the file.
    pub(crate) at_end: bool,
    /// Its line in the patch, for messages.
    pub(crate) number: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Line {
    Keep(String),
    Remove(String),
    Add(String),
}

const BEGIN: &str = "*** Begin Patch";
const END: &str = "*** End Patch";
const ADD: &str = "*** Add File: ";
const DELETE: &str = "*** Delete File: ";
const UPDATE: &str = "*** Update File: ";
const MOVE: &str = "*** Move to: ";
const END_OF_FILE: &str = "*** End of File";

/// Numbered lines, one of which can be looked at before it is taken.
type Lines<'a> = std::iter::Peekable<std::iter::Enumerate<std::str::Lines<'a>>>;

pub(crate) fn parse(text: &str) -> Result<Vec<Change>> {
    let mut lines = text.lines().enumerate().peekable();
    while lines.next_if(|(_, line)| line.trim().is_empty()).is_some() {}
    match lines.next() {
        Some((_, line)) if line.trim() == BEGIN => {}
        other => {
            return Err(wrong(
                other.map_or(0, |(at, _)| at),
                &format!("the patch must begin with `{BEGIN}`"),
            ));
        }
    }
    let mut changes = Vec::new();
    loop {
        let Some((at, line)) = lines.next() else {
            return Err(wrong(
                text.lines().count().saturating_sub(1),
                &format!("the patch must end with `{END}`"),
            ));
        };
        let line = line.trim_end();
        if line.trim() == END {
            break;
        } else if let Some(path) = line.strip_prefix(ADD) {
            changes.push(Change::Add { path: path_of(path, at)?, content: added_content(&mut lines)? });
        } else if let Some(path) = line.strip_prefix(DELETE) {
            changes.push(Change::Delete { path: path_of(path, at)? });
        } else if let Some(path) = line.strip_prefix(UPDATE) {
            changes.push(update(path_of(path, at)?, at, &mut lines)?);
        } else if !line.is_empty() {
            return Err(wrong(at, &format!("expected `{ADD}…`, `{DELETE}…` or `{UPDATE}…`, not `{line}`")));
        }
    }
    if let Some((at, _)) = lines.find(|(_, line)| !line.trim().is_empty()) {
        return Err(wrong(at, "there is text after the end of the patch"));
    }
    if changes.is_empty() {
        return Err(wrong(0, "the patch changes nothing"));
    }
    Ok(changes)
}

fn path_of(text: &str, at: usize) -> Result<PathBuf> {
    match text.trim() {
        "" => Err(wrong(at, "the path is missing")),
        path => Ok(PathBuf::from(path)),
    }
}

fn added_content(lines: &mut Lines<'_>) -> Result<String> {
    let mut content = String::new();
    while let Some((at, line)) = lines.next_if(|(_, line)| !line.starts_with("*** ")) {
        match line.strip_prefix('+') {
            Some(line) => {
                content.push_str(line);
                content.push('\n');
            }
            None if line.trim().is_empty() => {}
            None => return Err(wrong(at, "each line of an added file must begin with `+`")),
        }
    }
    Ok(content)
}

fn update(path: PathBuf, at: usize, lines: &mut Lines<'_>) -> Result<Change> {
    let move_to = match lines.next_if(|(_, line)| line.starts_with(MOVE)) {
        Some((at, line)) => Some(path_of(&line[MOVE.len()..], at)?),
        None => None,
    };
    let mut hunks: Vec<Hunk> = Vec::new();
    while let Some((at, line)) =
        lines.next_if(|(_, line)| !line.starts_with("*** ") || line.trim_end() == END_OF_FILE)
    {
        if line.trim_end() == END_OF_FILE {
            let hunk =
                hunks.last_mut().ok_or_else(|| wrong(at, "there is nothing before the end of the file"))?;
            hunk.at_end = true;
        } else if let Some(anchor) = line.strip_prefix("@@") {
            let anchor = anchor_of(anchor);
            match hunks.last_mut() {
                // Several anchors in a row narrow the place down.
                Some(hunk) if hunk.lines.is_empty() => hunk.anchors.extend(anchor),
                _ => hunks.push(Hunk {
                    anchors: anchor.into_iter().collect(),
                    number: at + 1,
                    ..Hunk::default()
                }),
            }
        } else {
            if hunks.last().is_none_or(|hunk| hunk.at_end) {
                hunks.push(Hunk { number: at + 1, ..Hunk::default() });
            }
            if let Some(hunk) = hunks.last_mut() {
                hunk.lines.push(hunk_line(line, at)?);
            }
        }
    }
    if let Some(empty) = hunks.iter().find(|hunk| hunk.lines.is_empty()) {
        return Err(wrong(empty.number.saturating_sub(1), "the hunk has no lines"));
    }
    if hunks.is_empty() && move_to.is_none() {
        return Err(wrong(at, &format!("the update of {} changes nothing", path.display())));
    }
    Ok(Change::Update { path, move_to, hunks })
}

/// The text after `@@`. Line numbers of the classic format (`-1,3 +1,4 @@ text`) are not relied on.
fn anchor_of(text: &str) -> Option<String> {
    let text = text.strip_prefix(' ').unwrap_or(text);
    let mut words = text.split_whitespace();
    let numbered = words.next().is_some_and(|word| is_range(word, '-'))
        && words.next().is_some_and(|word| is_range(word, '+'));
    let anchor = match (numbered, text.split_once("@@")) {
        (true, Some((_, rest))) => rest.trim(),
        (true, None) => "",
        (false, _) => text.trim_end(),
    };
    (!anchor.trim().is_empty()).then(|| anchor.to_owned())
}

fn is_range(word: &str, sign: char) -> bool {
    word.strip_prefix(sign)
        .is_some_and(|range| !range.is_empty() && range.chars().all(|c| c.is_ascii_digit() || c == ','))
}

fn hunk_line(line: &str, at: usize) -> Result<Line> {
    let mut characters = line.chars();
    match characters.next() {
        Some(' ') => Ok(Line::Keep(characters.as_str().to_owned())),
        Some('-') => Ok(Line::Remove(characters.as_str().to_owned())),
        Some('+') => Ok(Line::Add(characters.as_str().to_owned())),
        // An empty line of context whose blank got lost.
        None => Ok(Line::Keep(String::new())),
        Some(_) => Err(wrong(at, "each line of a hunk must begin with a blank, `-` or `+`")),
    }
}

fn wrong(at: usize, why: &str) -> Error {
    Error::new(ErrorKind::Validation, format!("line {} of the patch: {why}", at + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(text: &str) -> String {
        parse(text).unwrap_err().message
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        for (text, want) in [
            ("hello", "line 1 of the patch: the patch must begin with `*** Begin Patch`"),
            (
                "*** Begin Patch\n*** Delete File: a",
                "line 2 of the patch: the patch must end with `*** End Patch`",
            ),
            (
                "*** Begin Patch\n*** Add File: a\nx\n*** End Patch",
                "line 3 of the patch: each line of an added file must begin with `+`",
            ),
            (
                "*** Begin Patch\n*** Update File: a\n@@\n?x\n*** End Patch",
                "line 4 of the patch: each line of a hunk must begin with a blank, `-` or `+`",
            ),
            (
                "*** Begin Patch\n*** Update File: a\n@@\n*** End Patch",
                "line 3 of the patch: the hunk has no lines",
            ),
            (
                "*** Begin Patch\n*** Update File:  \n*** End Patch",
                "line 2 of the patch: expected `*** Add File: …`, `*** Delete File: …` or `*** Update File: …`, not `*** Update File:`",
            ),
            ("*** Begin Patch\n*** End Patch", "line 1 of the patch: the patch changes nothing"),
            (
                "*** Begin Patch\n*** Delete File: a\n*** End Patch\nrm -rf /",
                "line 4 of the patch: there is text after the end of the patch",
            ),
        ] {
            assert_eq!(message(text), want, "{text}");
        }
    }

    #[test]
    fn anchors_of_both_kinds_are_understood() {
        assert_eq!(anchor_of(" fn main"), Some("fn main".to_owned()));
        assert_eq!(anchor_of(" -1,3 +1,4 @@ fn main"), Some("fn main".to_owned()));
        assert_eq!(anchor_of(" -1 +1 @@"), None);
        assert_eq!(anchor_of(""), None);
        assert_eq!(anchor_of(" -x is an option"), Some("-x is an option".to_owned()));
    }
}
