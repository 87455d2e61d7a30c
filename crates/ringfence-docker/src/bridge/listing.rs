//! Reading what `list.sh` says.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;

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

/// Batches of `COUNT NUL (NAME NUL)… LINE… NUL`, each line `MODE SIZE SECONDS NAME`, up to `end STATUS NUL`, for each directory.
/// A directory that could not be listed is none; none at all when the text is not that.
pub(super) fn read_listings(mut text: &[u8]) -> Option<Vec<Option<Vec<BridgeEntry>>>> {
    let mut all = Vec::new();
    let mut entries = Vec::new();
    while !text.is_empty() {
        let head = std::str::from_utf8(until_nul(&mut text)?).ok()?;
        if let Some(status) = head.strip_prefix("end ") {
            let mut entries = std::mem::take(&mut entries);
            entries.sort_by(|one: &BridgeEntry, other| one.name.cmp(&other.name));
            all.push((status == "0").then_some(entries));
            continue;
        }
        let count: usize = head.parse().ok()?;
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
    entries.is_empty().then_some(all)
}

/// Contents, each followed by a line of `mark` and a status. A file that could not be read is none.
pub(super) fn read_contents(mut text: &[u8], mark: &str) -> Option<Vec<Option<Vec<u8>>>> {
    let mark = format!("\n{mark} ");
    let mut all = Vec::new();
    while !text.is_empty() {
        let end = text.windows(mark.len()).position(|window| window == mark.as_bytes())?;
        let after = &text[end + mark.len()..];
        let line = after.iter().position(|byte| *byte == b'\n')?;
        all.push((&after[..line] == b"0").then(|| text[..end].to_vec()));
        text = &after[line + 1..];
    }
    Some(all)
}

/// What `locate.sh` says: a directory, what comes below it, and what is there.
pub(super) fn read_located(mut text: &[u8]) -> Option<(PathBuf, PathBuf, Option<FileStat>)> {
    let path = |bytes: &[u8]| PathBuf::from(OsString::from_vec(bytes.to_vec()));
    let (directory, below) = (path(until_nul(&mut text)?), path(until_nul(&mut text)?));
    let line = until_nul(&mut text)?;
    let stat = if line.is_empty() { None } else { Some(read_stat(line)?) };
    text.is_empty().then_some((directory, below, stat))
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
        let second = ["1", "./z", "41ed 0 0 ./z\n", "end 0", "end 81", "end 0", ""].join("\0");
        let text = first + &second;
        let listings = read_listings(text.as_bytes()).unwrap();
        let [Some(entries), None, Some(empty)] = &listings[..] else { panic!("{listings:?}") };
        let names: Vec<_> = entries.iter().map(|entry| entry.name.to_str().unwrap()).collect();
        assert_eq!(names, ["a\nb", "c d", "z"]);
        assert_eq!(entries[1].stat.size, 2);
        assert_eq!(empty.len(), 0);
    }

    #[test]
    fn anything_else_is_not_understood() {
        for text in ["x", "1\0", "1\0a\0\0", "1\0./a\0nonsense\0", "9\0./a\0\0", "1\0./a\x0081a4 1 0 ./a\n\0"]
        {
            assert_eq!(read_listings(text.as_bytes()), None, "{text:?}");
        }
        assert_eq!(read_listings(b""), Some(vec![]));
        for text in ["", "a\0", "a\0b\0", "a\0b\0c\0", "a\0b\0\0more"] {
            assert_eq!(read_located(text.as_bytes()), None, "{text:?}");
        }
    }

    #[test]
    fn contents_end_at_their_mark_only() {
        let text = b"a\nMARK\n b\n\nMARK 0\n\nMARK 81\n\nMARK 0\n";
        let want = vec![Some(b"a\nMARK\n b\n".to_vec()), None, Some(vec![])];
        assert_eq!(read_contents(text, "MARK"), Some(want));
        assert_eq!(read_contents(b"cut off", "MARK"), None);
        assert_eq!(read_contents(b"cut off\nMARK 0", "MARK"), None);
    }
}
