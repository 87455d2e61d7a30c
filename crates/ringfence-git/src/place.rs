//! Directories that git takes for its own.

use std::ffi::OsStr;
use std::io::Read as _;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::names::{self, Entry, Judged, Kind};
use crate::{config, todo};

/// Larger files are not looked through.
const LARGEST: u64 = 256 * 1024;
/// A directory with more entries than that is not looked through.
const MOST: usize = 20_000;

/// What git sees in a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    Plain,
    /// It has objects and refs: another directory may say that its config and hooks are here.
    Common,
    /// A repository, or what a linked worktree has of one.
    Whole,
}

/// What is about to be made, or was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Made {
    File,
    Directory,
    Symlink,
    /// A socket, a pipe or a device.
    Other,
}

/// What git sees in `directory`, once it has an entry `added`. What cannot be looked at may be there.
#[must_use]
pub fn standing(directory: BorrowedFd<'_>, added: Option<&OsStr>) -> Standing {
    let added = added.and_then(OsStr::to_str).map(names::folded);
    let has = |name: &str| {
        added.as_deref() == Some(&name.to_ascii_lowercase())
            || !matches!(
                rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW),
                Err(Errno::NOENT | Errno::NOTDIR)
            )
    };
    let is_common = has("refs") && has("objects");
    match (is_common, is_common || has("commondir")) {
        (_, true) if has("HEAD") => Standing::Whole,
        (true, _) => Standing::Common,
        (false, _) => Standing::Plain,
    }
}

/// Whether a directory becomes one of git's by entries of this name.
#[must_use]
pub fn is_mark(name: &OsStr) -> bool {
    let name = name.to_str().map(names::folded);
    name.is_some_and(|name| matches!(name.as_str(), "head" | "objects" | "refs" | "commondir"))
}

/// Whether a name at `path` could be something that git believes, if one of the directories above is one of git's.
#[must_use]
pub fn may_be_believed(path: &Path) -> bool {
    path.iter().filter_map(OsStr::to_str).any(|name| {
        let name = names::folded(name);
        let is_file = matches!(name.as_str(), "config" | "config.worktree" | "commondir");
        is_file || matches!(name.as_str(), "hooks" | "info") || names::STATES.contains(&name.as_str())
    })
}

/// Which kind of git directory lies at `path`.
#[must_use]
pub fn kind(path: &Path) -> Kind {
    let above = path.parent().and_then(Path::file_name);
    if above.is_some_and(|name| name == "worktrees") { Kind::Worktree } else { Kind::Main }
}

/// Why something must not be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refused;

/// The verdict on a new name, or on a file that is to be changed in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Fine,
    /// By its content, when it is renamed into place; not otherwise.
    Judged(Judged),
    Refused,
}

/// Judges the name `below` in the git directory at `path`.
#[must_use]
pub fn judge(standing: Standing, path: &Path, below: &Path, made: Made) -> Verdict {
    let Some(parts) = parts(below) else { return unreadable(standing) };
    match standing {
        Standing::Plain => Verdict::Fine,
        Standing::Common if !names::is_believed(&parts) => Verdict::Fine,
        Standing::Common if made == Made::Directory && parts.len() == 1 => Verdict::Fine,
        Standing::Common if parts == ["config"] && made == Made::File => Verdict::Judged(Judged::Config),
        Standing::Common => Verdict::Refused,
        Standing::Whole => match (names::entry(kind(path), &parts), made) {
            (Entry::Data | Entry::Probe, Made::File) => Verdict::Fine,
            (Entry::Data | Entry::Free | Entry::Empty, Made::Directory) => Verdict::Fine,
            (Entry::Probe, Made::Symlink) => Verdict::Fine,
            // That of a submodule's own git directory.
            (Entry::Data, Made::Symlink) if matches!(parts[..], ["modules", .., name] | ["worktrees", _, "modules", .., name] if names::is_probe(name)) => {
                Verdict::Fine
            }
            (Entry::Judged(judged), Made::File) => Verdict::Judged(judged),
            _ => Verdict::Refused,
        },
    }
}

/// A name that is not text is no name of git's; among the objects it would be somebody else's.
fn unreadable(standing: Standing) -> Verdict {
    if standing == Standing::Plain { Verdict::Fine } else { Verdict::Refused }
}

fn parts(path: &Path) -> Option<Vec<&str>> {
    path.iter().map(OsStr::to_str).collect()
}

/// What stands in the way of a directory becoming one of git's: everything in it must be data, or a file whose content is
/// harmless. Those are given back to be put there anew, because somebody may still hold the old ones open.
pub fn examine(
    directory: BorrowedFd<'_>,
    path: &Path,
    standing: Standing,
) -> Result<Vec<(&'static str, String)>, Refused> {
    let mut anew = Vec::new();
    let mut look = |below: &Path, kind: FileType| {
        let made = made(kind);
        match judge(standing, path, below, made) {
            Verdict::Fine => Ok(()),
            Verdict::Judged(Judged::Config) if below == Path::new("config") => {
                let text = read(directory, below).ok_or(Refused)?;
                config::judge(place_of(path), None, &text).map_err(|_| Refused)?;
                anew.push(("config", text));
                Ok(())
            }
            Verdict::Judged(Judged::Commondir) if below == Path::new("commondir") => {
                let text = read(directory, below).ok_or(Refused)?;
                judge_content(Judged::Commondir, path, None, &text).map_err(|_| Refused)?;
                anew.push(("commondir", names::COMMONDIR.to_owned()));
                Ok(())
            }
            Verdict::Judged(_) | Verdict::Refused => Err(Refused),
        }
    };
    match standing {
        Standing::Plain => {}
        Standing::Common => {
            for name in ["config", "config.worktree", "commondir", "hooks", "info"] {
                let Ok(stat) = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) else {
                    continue;
                };
                let kind = FileType::from_raw_mode(stat.st_mode);
                // What a link leads to may become anything.
                if kind == FileType::Symlink {
                    return Err(Refused);
                }
                look(Path::new(name), kind)?;
                if kind == FileType::Directory {
                    for (below, kind) in list(directory, Path::new(name))? {
                        look(&below, kind)?;
                    }
                }
            }
        }
        Standing::Whole => {
            for (below, kind) in below(directory, path, Path::new(""), MOST)? {
                look(&below, kind)?;
            }
        }
    }
    Ok(anew)
}

/// Judges a directory that is moved into the git directory at `path`, to be called `to` there: by everything in it.
pub fn examine_moved(
    standing: Standing,
    path: &Path,
    to: &Path,
    moved: BorrowedFd<'_>,
) -> Result<(), Refused> {
    if judge(standing, path, to, Made::Directory) != Verdict::Fine {
        return Err(Refused);
    }
    if standing == Standing::Whole {
        // Repositories are moved as a whole, and were judged when they came to be.
        let parts = parts(to).ok_or(Refused)?;
        if names::entry(kind(path), &parts) == Entry::Free
            || names::entry(kind(path), &parts[..1]) == Entry::Free
        {
            return Ok(());
        }
    }
    let mut open = vec![std::path::PathBuf::new()];
    let mut count = 0;
    while let Some(relative) = open.pop() {
        for (below, kind) in list(moved, &relative)? {
            count += 1;
            if count > MOST || judge(standing, path, &to.join(&below), made(kind)) != Verdict::Fine {
                return Err(Refused);
            }
            if kind == FileType::Directory {
                open.push(below);
            }
        }
    }
    Ok(())
}

/// The entries of a git directory that are not data as a whole.
fn below(
    directory: BorrowedFd<'_>,
    path: &Path,
    relative: &Path,
    most: usize,
) -> Result<Vec<(std::path::PathBuf, FileType)>, Refused> {
    let mut found = Vec::new();
    for (name, kind) in list(directory, relative)? {
        let entry = parts(&name).map(|parts| names::entry(self::kind(path), &parts));
        if kind == FileType::Directory && entry != Some(Entry::Free) {
            found.extend(below(directory, path, &name, most)?);
        }
        found.push((name, kind));
        if found.len() > most {
            return Err(Refused);
        }
    }
    Ok(found)
}

/// The names in a directory below `directory`, each with what it is. What cannot be listed is not understood.
fn list(directory: BorrowedFd<'_>, relative: &Path) -> Result<Vec<(std::path::PathBuf, FileType)>, Refused> {
    let here = open(directory, relative)?;
    let mut found = Vec::new();
    for entry in Dir::read_from(&here).map_err(|_| Refused)? {
        let entry = entry.map_err(|_| Refused)?;
        let name = entry.file_name().to_bytes();
        if name == b"." || name == b".." {
            continue;
        }
        let stat =
            rustix::fs::statat(&here, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW).map_err(|_| Refused)?;
        found.push((relative.join(OsStr::from_bytes(name)), FileType::from_raw_mode(stat.st_mode)));
        if found.len() > MOST {
            return Err(Refused);
        }
    }
    Ok(found)
}

/// Follows no link.
fn open(directory: BorrowedFd<'_>, relative: &Path) -> Result<OwnedFd, Refused> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let open = |from: BorrowedFd<'_>, name: &OsStr| rustix::fs::openat(from, name, flags, Mode::empty());
    let mut here = open(directory, OsStr::new(".")).map_err(|_| Refused)?;
    for name in relative {
        here = open(here.as_fd(), name).map_err(|_| Refused)?;
    }
    Ok(here)
}

/// All names below a directory. None when it cannot be listed, or holds more than can be looked at while a call waits.
#[must_use]
pub fn names_below(directory: BorrowedFd<'_>) -> Option<Vec<std::path::PathBuf>> {
    let mut names = Vec::new();
    let mut open = vec![std::path::PathBuf::new()];
    while let Some(relative) = open.pop() {
        for (below, kind) in list(directory, &relative).ok()? {
            if kind == FileType::Directory {
                open.push(below.clone());
            }
            names.push(below);
            if names.len() == MOST {
                return None;
            }
        }
    }
    Some(names)
}

/// The text of an ordinary file; none when it is anything else, or too large.
#[must_use]
pub fn read(directory: BorrowedFd<'_>, name: &Path) -> Option<String> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::openat(directory, name, flags, Mode::empty()).ok()?;
    if FileType::from_raw_mode(rustix::fs::fstat(&file).ok()?.st_mode) != FileType::RegularFile {
        return None;
    }
    let mut text = String::new();
    std::fs::File::from(file).take(LARGEST + 1).read_to_string(&mut text).ok()?;
    (text.len() as u64 <= LARGEST).then_some(text)
}

/// Where the config of the git directory at `path` stands.
#[must_use]
pub fn place_of(path: &Path) -> config::Place {
    let names: Vec<&OsStr> = path.iter().collect();
    let is_module = names.windows(2).any(|pair| pair[0] == ".git" && pair[1] == "modules");
    if is_module { config::Place::Module } else { config::Place::Repository }
}

/// Judges what is to be the content of a file that counts by it; gives what is to be told.
pub fn judge_content(
    judged: Judged,
    path: &Path,
    old: Option<&str>,
    new: &str,
) -> Result<Vec<String>, config::Refused> {
    match judged {
        Judged::Config => config::judge(place_of(path), old, new),
        Judged::Todo if todo::is_harmless(new) => Ok(vec![]),
        Judged::Todo => Err(config::Refused::Added("exec".to_owned())),
        Judged::Options if todo::are_options_harmless(new) => Ok(vec![]),
        Judged::Strategy if todo::is_gits_strategy(new) => Ok(vec![]),
        Judged::Options | Judged::Strategy => Err(config::Refused::Added("strategy".to_owned())),
        Judged::Commondir if new.trim_end() == names::COMMONDIR.trim_end() => Ok(vec![]),
        Judged::Commondir => Err(config::Refused::Added("commondir".to_owned())),
    }
}

fn made(kind: FileType) -> Made {
    match kind {
        FileType::RegularFile => Made::File,
        FileType::Directory => Made::Directory,
        FileType::Symlink => Made::Symlink,
        _ => Made::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn made_of(names: &[&str]) -> tempfile::TempDir {
        let temp = tempfile::tempdir().unwrap();
        for name in names {
            let path = temp.path().join(name);
            if let Some(name) = name.strip_suffix('/') {
                fs::create_dir_all(temp.path().join(name)).unwrap();
            } else {
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, if name.ends_with("config") { "[core]\n\tbare = true\n" } else { "" })
                    .unwrap();
            }
        }
        temp
    }

    #[test]
    fn a_directory_is_known_by_what_it_holds() {
        for (names, added, want) in [
            (&["HEAD", "objects/", "refs/"][..], None, Standing::Whole),
            (&["HEAD", "objects/"], Some("refs"), Standing::Whole),
            (&["HEAD", "objects/"], Some("REF\u{17f}"), Standing::Whole),
            (&["HEAD", "objects/"], None, Standing::Plain),
            (&["objects/", "refs/"], None, Standing::Common),
            (&["commondir"], Some("HEAD"), Standing::Whole),
            (&["objects/", "config.py"], None, Standing::Plain),
        ] {
            let temp = made_of(names);
            let directory = fs::File::open(temp.path()).unwrap();
            assert_eq!(standing(directory.as_fd(), added.map(OsStr::new)), want, "{names:?} {added:?}");
        }
    }

    #[test]
    fn it_becomes_one_of_gits_only_with_data_in_it() {
        let whole = |names: &[&str]| {
            let temp = made_of(names);
            let directory = fs::File::open(temp.path()).unwrap();
            examine(directory.as_fd(), temp.path(), Standing::Whole)
        };
        assert_eq!(whole(&["HEAD", "refs/heads/a", "objects/", "hooks/", "info/exclude"]), Ok(vec![]));
        assert_eq!(
            whole(&["config", "modules/x/config"]),
            Ok(vec![("config", "[core]\n\tbare = true\n".to_owned())])
        );
        for names in [
            &["hooks/x"][..],
            &["x"],
            &["info/attributes"],
            &["commondir"],
            &["rebase-merge/git-rebase-todo"],
        ] {
            assert_eq!(whole(names), Err(Refused), "{names:?}");
        }
        let temp = made_of(&["objects/"]);
        std::os::unix::fs::symlink("objects", temp.path().join("refs")).unwrap();
        let directory = fs::File::open(temp.path()).unwrap();
        assert_eq!(examine(directory.as_fd(), temp.path(), Standing::Whole), Err(Refused), "a link");
    }

    #[test]
    fn git_tries_out_links_in_its_own_directories_only() {
        let symlink =
            |below: &str| judge(Standing::Whole, Path::new("/p/.git"), Path::new(below), Made::Symlink);
        for below in ["tAbC12x", "modules/a/b/tAbC12x", "worktrees/w/modules/a/tAbC12x"] {
            assert_eq!(symlink(below), Verdict::Fine, "{below}");
        }
        for below in
            ["hooks", "config", "modules/a", "modules/a/hooks", "objects/tAbC12x", "worktrees/w/tAbC12x"]
        {
            assert_eq!(symlink(below), Verdict::Refused, "{below}");
        }
    }

    #[test]
    fn what_only_holds_objects_and_refs_may_be_somebodys_code() {
        let common = |names: &[&str]| {
            let temp = made_of(names);
            let directory = fs::File::open(temp.path()).unwrap();
            examine(directory.as_fd(), temp.path(), Standing::Common).map(|anew| !anew.is_empty())
        };
        assert_eq!(common(&["config.py", "hooks/useState.ts", "index/a.py", "info/x", "x"]), Ok(false));
        assert_eq!(common(&["config"]), Ok(true));
        assert_eq!(common(&["config/x"]), Ok(false));
        assert_eq!(common(&["hooks/pre-commit"]), Err(Refused));
    }

    #[test]
    fn a_directory_too_large_to_look_at_is_told_apart() {
        let temp = made_of(&["a/b/c/d/e/hooks/"]);
        let directory = fs::File::open(temp.path()).unwrap();
        let names = names_below(directory.as_fd()).unwrap();
        assert!(names.contains(&"a/b/c/d/e/hooks".into()), "{names:?}");
        for number in 0..20_000 {
            fs::write(temp.path().join(number.to_string()), "").unwrap();
        }
        assert_eq!(names_below(directory.as_fd()), None);
    }
}
