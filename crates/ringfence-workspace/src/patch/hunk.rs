//! Finding the place of a hunk and changing it.

use std::path::Path;

use ringfence_model::{Error, ErrorKind, Result};

use super::parse::{Hunk, Line};

/// Whether a line of the file is the one that is wanted.
type Agree = fn(&[u8], &[u8]) -> bool;

/// How exactly lines must agree. Models reproduce text well and blanks less well, so a looser comparison is
/// tried when no exact place is found.
const LOOSENESS: [Agree; 3] = [
    |file, wanted| file == wanted,
    |file, wanted| file.trim_ascii_end() == wanted.trim_ascii_end(),
    |file, wanted| file.trim_ascii() == wanted.trim_ascii(),
];

/// The file with all hunks applied, in order, each below the one before.
pub(super) fn apply(path: &Path, content: &[u8], hunks: &[Hunk]) -> Result<Vec<u8>> {
    let mut text = Text::split(content);
    let mut from = 0;
    for hunk in hunks {
        from = apply_one(path, &mut text, hunk, from)?;
    }
    Ok(text.join())
}

/// Gives the line after the changed place.
fn apply_one(path: &Path, text: &mut Text, hunk: &Hunk, from: usize) -> Result<usize> {
    let not_found = |what: &str, line: &str| {
        let message =
            format!("line {} of the patch: {what} not found in {}: {line}", hunk.number, path.display());
        Error::new(ErrorKind::Validation, message).hint("read the file again and copy its lines exactly")
    };
    let mut from = from;
    for anchor in &hunk.anchors {
        let at =
            find(&text.lines, &[anchor.as_bytes()], from).ok_or_else(|| not_found("the anchor", anchor))?;
        from = at + 1;
    }
    let old: Vec<&[u8]> = hunk
        .lines
        .iter()
        .filter_map(|line| match line {
            Line::Keep(line) | Line::Remove(line) => Some(line.as_bytes()),
            Line::Add(_) => None,
        })
        .collect();
    let at = match (old.is_empty(), hunk.at_end) {
        (true, false) if !hunk.anchors.is_empty() => from,
        (true, _) => text.lines.len(),
        (false, true) => {
            find_at_end(&text.lines, &old, from).ok_or_else(|| not_found("the text", &shown(&old)))?
        }
        (false, false) => find(&text.lines, &old, from).ok_or_else(|| not_found("the text", &shown(&old)))?,
    };
    let mut new = Vec::new();
    let mut kept = at;
    for line in &hunk.lines {
        match line {
            // The file's own line stays, blanks and all.
            Line::Keep(_) => {
                new.push(text.lines[kept].clone());
                kept += 1;
            }
            Line::Remove(_) => kept += 1,
            Line::Add(line) => new.push(text.new_line(line)),
        }
    }
    let after = at + new.len();
    text.lines.splice(at..at + old.len(), new);
    Ok(after)
}

fn shown(lines: &[&[u8]]) -> String {
    let lines: Vec<_> = lines.iter().take(3).map(|line| String::from_utf8_lossy(line)).collect();
    format!("`{}`", lines.join("⏎"))
}

fn find(lines: &[Vec<u8>], wanted: &[&[u8]], from: usize) -> Option<usize> {
    let last = lines.len().checked_sub(wanted.len())?;
    LOOSENESS.iter().find_map(|agree| (from..=last).find(|&at| matches_at(lines, wanted, at, *agree)))
}

fn find_at_end(lines: &[Vec<u8>], wanted: &[&[u8]], from: usize) -> Option<usize> {
    let at = lines.len().checked_sub(wanted.len())?;
    (at >= from && LOOSENESS.iter().any(|agree| matches_at(lines, wanted, at, *agree))).then_some(at)
}

fn matches_at(lines: &[Vec<u8>], wanted: &[&[u8]], at: usize, agree: Agree) -> bool {
    lines[at..].iter().zip(wanted).all(|(line, wanted)| agree(line, wanted))
}

/// A file as lines, with what is needed to put it together again byte for byte.
struct Text {
    /// Without the newline; with the carriage return where there is one.
    lines: Vec<Vec<u8>>,
    ends_with_newline: bool,
    /// The file's lines end in CR LF, so new ones do, too.
    carriage_returns: bool,
}

impl Text {
    fn split(content: &[u8]) -> Self {
        let ends_with_newline = content.is_empty() || content.ends_with(b"\n");
        let body = content.strip_suffix(b"\n").unwrap_or(content);
        let lines: Vec<Vec<u8>> = if content.is_empty() {
            vec![]
        } else {
            body.split(|&byte| byte == b'\n').map(<[u8]>::to_vec).collect()
        };
        let returns = lines.iter().filter(|line| line.ends_with(b"\r")).count();
        Self { carriage_returns: returns > 0 && returns * 2 >= lines.len(), lines, ends_with_newline }
    }

    fn new_line(&self, text: &str) -> Vec<u8> {
        let mut line = text.as_bytes().to_vec();
        if self.carriage_returns && !line.ends_with(b"\r") {
            line.push(b'\r');
        }
        line
    }

    fn join(self) -> Vec<u8> {
        let mut content = self.lines.join(&b'\n');
        if self.ends_with_newline && !self.lines.is_empty() {
            content.push(b'\n');
        }
        content
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn hunk(lines: &[&str]) -> Hunk {
        let line = |text: &&str| match text.split_at(1) {
            ("-", rest) => Line::Remove(rest.to_owned()),
            ("+", rest) => Line::Add(rest.to_owned()),
            (_, rest) => Line::Keep(rest.to_owned()),
        };
        Hunk { lines: lines.iter().map(line).collect(), ..Hunk::default() }
    }

    #[track_caller]
    fn check(content: &str, hunks: &[Hunk], want: &str) {
        let got = apply(Path::new("f"), content.as_bytes(), hunks).unwrap();
        assert_eq!(String::from_utf8(got).unwrap(), want);
    }

    #[test]
    fn lines_are_replaced_where_they_are_found() {
        check("a\nb\nc\n", &[hunk(&[" a", "-b", "+B"])], "a\nB\nc\n");
        check("a\nb\nc", &[hunk(&["-c", "+C"])], "a\nb\nC");
        check("a\r\nb\r\n", &[hunk(&["-b", "+x"])], "a\r\nx\r\n");
        check("  a  \nb\n", &[hunk(&[" a", "+x"])], "  a  \nx\nb\n");
        check("", &[hunk(&["+x"])], "x\n");
        check("a\n", &[hunk(&["-a"])], "");
    }

    #[test]
    fn hunks_apply_below_one_another() {
        check("x\ny\nx\ny\n", &[hunk(&["-x", "+1"]), hunk(&["-x", "+2"])], "1\ny\n2\ny\n");
    }

    #[test]
    fn an_anchor_and_the_end_choose_among_equal_places() {
        let anchored = Hunk { anchors: vec!["two".to_owned()], ..hunk(&["-x", "+1"]) };
        check("one\nx\ntwo\nx\n", &[anchored], "one\nx\ntwo\n1\n");
        let last = Hunk { at_end: true, ..hunk(&["-x", "+1"]) };
        check("x\nx\n", &[last], "x\n1\n");
    }

    #[test]
    fn a_place_that_is_not_there_is_an_error() {
        let error = apply(Path::new("f"), b"a\n", &[hunk(&["-nope"])]).unwrap_err();
        assert!(error.message.contains("not found in f: `nope`"), "{error}");
    }

    proptest! {
        #[test]
        fn a_hunk_without_changes_changes_no_byte(content in "([ab]{0,3}\r?\n?){0,6}") {
            let lines: Vec<String> = content.lines().map(|line| format!(" {line}")).collect();
            if !lines.is_empty() {
                let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
                let got = apply(Path::new("f"), content.as_bytes(), &[hunk(&lines)]).unwrap();
                prop_assert_eq!(got, content.into_bytes());
            }
        }
    }
}
