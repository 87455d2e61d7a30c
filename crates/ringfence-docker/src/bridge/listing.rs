//! Reading what `list.sh` says.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;

use ringfence_workspace::{FileKind, FileStat};

/// An entry of a directory in a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BridgeEntry {
    pub name: OsString,
    /// Of the entry itself: a link is a link here.
    pub stat: FileStat,
}

/// Reads one line of `stat -c '%f %s %Y'`.
pub(super) fn read_stat(line: &[u8]) -> Option<FileStat> {
    let line = std::str::from_utf8(line).ok()?;
    let mut fields = line.trim_end_matches('\n').split(' ');
    let (mode, size, seconds) = (fields.next()?, fields.next()?, fields.next()?);
    let kind = match u32::from_str_radix(mode, 16).ok()? & 0o17_0000 {
        0o10_0000 => FileKind::File,
        0o04_0000 => FileKind::Directory,
        0o12_0000 => FileKind::Symlink,
        _ => FileKind::Other,
    };
    let seconds: i64 = seconds.parse().ok()?;
    let stat = FileStat { kind, size: size.parse().ok()?, modified_ms: seconds.saturating_mul(1000) };
    fields.next().is_none().then_some(stat)
}

/// Batches of `COUNT NUL (NAME NUL)… LINE… NUL`, each line `MODE SIZE SECONDS NAME`. None when it is not that.
pub(super) fn read_listing(mut text: &[u8]) -> Option<Vec<BridgeEntry>> {
    let mut entries = Vec::new();
    while !text.is_empty() {
        let count: usize = std::str::from_utf8(until_nul(&mut text)?).ok()?.parse().ok()?;
        let mut names = Vec::new();
        for _ in 0..count {
            names.push(until_nul(&mut text)?.strip_prefix(b"./")?);
        }
        let mut lines = until_nul(&mut text)?;
        for name in names {
            // An entry that went away after its name was told has no line.
            let Some((stat, rest)) = line_of(lines, name) else { continue };
            lines = rest;
            entries.push(BridgeEntry { name: OsString::from_vec(name.to_vec()), stat });
        }
        if !lines.is_empty() {
            return None;
        }
    }
    entries.sort_by(|one, other| one.name.cmp(&other.name));
    Some(entries)
}

fn line_of<'t>(lines: &'t [u8], name: &[u8]) -> Option<(FileStat, &'t [u8])> {
    let mut blanks = lines.iter().enumerate().filter(|(_, byte)| **byte == b' ').map(|(at, _)| at);
    let third = blanks.nth(2)?;
    let stat = read_stat(&lines[..third])?;
    let rest = lines[third + 1..].strip_prefix(b"./")?.strip_prefix(name)?.strip_prefix(b"\n")?;
    Some((stat, rest))
}

fn until_nul<'t>(text: &mut &'t [u8]) -> Option<&'t [u8]> {
    let end = text.iter().position(|byte| *byte == 0)?;
    let (part, rest) = (&text[..end], &text[end + 1..]);
    *text = rest;
    Some(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stat_says_is_understood() {
        let stat = |kind, size, modified_ms| Some(FileStat { kind, size, modified_ms });
        for (line, want) in [
            ("81a4 12 1700000000\n", stat(FileKind::File, 12, 1_700_000_000_000)),
            ("41ed 4096 0", stat(FileKind::Directory, 4096, 0)),
            ("a1ff 3 -5", stat(FileKind::Symlink, 3, -5000)),
            ("2190 0 1", stat(FileKind::Other, 0, 1000)),
            ("81a4 12", None),
            ("81a4 12 1 2", None),
            ("wat 12 1", None),
            ("", None),
        ] {
            assert_eq!(read_stat(line.as_bytes()), want, "{line}");
        }
    }

    #[test]
    fn entries_that_went_away_are_left_out_and_odd_names_are_kept() {
        let first = ["3", "./a\nb", "./gone", "./c d", "81a4 1 0 ./a\nb\n81a4 2 0 ./c d\n", ""].join("\0");
        let second = ["1", "./z", "41ed 0 0 ./z\n", ""].join("\0");
        let text = first + &second;
        let entries = read_listing(text.as_bytes()).unwrap();
        let names: Vec<_> = entries.iter().map(|entry| entry.name.to_str().unwrap()).collect();
        assert_eq!(names, ["a\nb", "c d", "z"]);
        assert_eq!(entries[1].stat.size, 2);
    }

    #[test]
    fn anything_else_is_not_understood() {
        for text in ["x", "1\0", "1\0a\0\0", "1\0./a\0nonsense\0", "9\0./a\0\0"] {
            assert_eq!(read_listing(text.as_bytes()), None, "{text:?}");
        }
        assert_eq!(read_listing(b""), Some(vec![]));
    }
}
