//! Letting git keep its own house.
//!
//! A repository's `config` is protected, because some of its keys make the host's git run programs. But
//! git rewrites that file in everyday work (`git init`, `git remote add`, `git checkout -b`), always by
//! renaming `config.lock` over it. The supervisor makes that rename itself when every key of the new
//! content is known to be harmless: it copies the bytes it has judged, so nothing can change between the
//! look and the deed.

use std::io::Read as _;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::removal::Own;

const LARGEST: u64 = 64 * 1024;

/// Keys (lower-case, section and name; the subsection is left out) that run nothing and redirect nothing.
const HARMLESS: [&str; 37] = [
    "core.repositoryformatversion",
    "core.filemode",
    "core.bare",
    "core.logallrefupdates",
    "core.symlinks",
    "core.ignorecase",
    "core.precomposeunicode",
    "core.autocrlf",
    "core.eol",
    "core.safecrlf",
    "core.quotepath",
    "core.abbrev",
    "core.compression",
    "core.sparsecheckout",
    "core.sparsecheckoutcone",
    "extensions.objectformat",
    "extensions.refstorage",
    "extensions.partialclone",
    "remote.url",
    "remote.fetch",
    "remote.tagopt",
    "remote.prune",
    "remote.promisor",
    "remote.partialclonefilter",
    "branch.remote",
    "branch.merge",
    "branch.rebase",
    "branch.description",
    "branch.vscode-merge-base",
    "user.name",
    "user.email",
    "init.defaultbranch",
    "pull.rebase",
    "pull.ff",
    "push.default",
    "submodule.url",
    "submodule.active",
];

/// Whether the path is that of a repository's config.
pub(super) fn is_config(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name == "config")
        && path.ancestors().any(|above| above.file_name().is_some_and(|name| name == ".git"))
}

/// Renames `from` to the protected `to` when `to` is a git config and the content is harmless. None: not
/// this module's business, the protection stands.
pub(super) fn replace(root: BorrowedFd<'_>, own: &Own, from: &Path, to: &Path) -> Option<Result<(), Errno>> {
    if to.file_name()? != "config" || from.file_name()? != "config.lock" || from.parent()? != to.parent()? {
        return None;
    }
    let directory = open_directory(root, to.parent()?).ok()?;
    let content = read_lock(directory.as_fd()).ok()?;
    is_harmless(&content).then(|| place(directory.as_fd(), own, &content))
}

fn open_directory(root: BorrowedFd<'_>, path: &Path) -> Result<std::os::fd::OwnedFd, Errno> {
    let relative = path.strip_prefix("/").unwrap_or(path);
    rustix::fs::openat2(
        root,
        relative,
        OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
        ResolveFlags::IN_ROOT | ResolveFlags::NO_SYMLINKS,
    )
}

fn read_lock(directory: BorrowedFd<'_>) -> Result<String, Errno> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::openat(directory, c"config.lock", flags, Mode::empty())?;
    if FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode) != FileType::RegularFile {
        return Err(Errno::INVAL);
    }
    let mut text = String::new();
    std::fs::File::from(file).take(LARGEST + 1).read_to_string(&mut text).map_err(|_| Errno::INVAL)?;
    if text.len() as u64 > LARGEST { Err(Errno::FBIG) } else { Ok(text) }
}

/// Puts the judged bytes in place: a new file is renamed in; one that exists (and is sealed in the
/// sandbox's view) is reached by the host's path and rewritten as the same file, so that the seal stays on it.
fn place(directory: BorrowedFd<'_>, own: &Own, content: &str) -> Result<(), Errno> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let existing = rustix::fs::statat(directory, c"config", AtFlags::SYMLINK_NOFOLLOW);
    let written = match existing {
        Err(Errno::NOENT) => {
            let file = rustix::fs::openat(directory, c"config", flags, Mode::from_raw_mode(0o644))?;
            own.remember(directory, c"config");
            write_all(&file, content.as_bytes())
        }
        Err(errno) => Err(errno),
        Ok(existing) => {
            let path = host_path(directory)?.join("config");
            let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let file =
                rustix::fs::openat2(rustix::fs::CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)?;
            let opened = rustix::fs::fstat(&file)?;
            if (opened.st_dev, opened.st_ino) != (existing.st_dev, existing.st_ino) {
                return Err(Errno::ACCESS);
            }
            rustix::fs::ftruncate(&file, 0)?;
            write_all(&file, content.as_bytes())
        }
    };
    written?;
    rustix::fs::unlinkat(directory, c"config.lock", AtFlags::empty())
}

fn host_path(directory: BorrowedFd<'_>) -> Result<std::path::PathBuf, Errno> {
    use std::os::fd::AsRawFd;
    std::fs::read_link(format!("/proc/self/fd/{}", directory.as_raw_fd())).map_err(|_| Errno::NOENT)
}

pub(super) fn write_all(file: impl AsFd, mut bytes: &[u8]) -> Result<(), Errno> {
    while !bytes.is_empty() {
        let written = rustix::io::write(&file, bytes)?;
        bytes = &bytes[written..];
    }
    Ok(())
}

/// Whether every key is on the list. Whatever is not understood is not harmless; that includes values that go
/// on in the next line, since where they end is a matter of quotes and comments, and git itself writes none.
#[must_use]
pub fn is_harmless(text: &str) -> bool {
    if text.contains('\0') || text.contains('\r') {
        return false;
    }
    let mut section = String::new();
    for line in text.split('\n') {
        let line = line.trim();
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        if line.ends_with('\\') {
            return false;
        }
        let rest = if let Some(header) = line.strip_prefix('[') {
            let Some((name, rest)) = split_header(header) else { return false };
            section = name;
            rest.trim()
        } else {
            line
        };
        // A second section on the same line would be taken for a part of this one's key or value by us, and
        // not by git.
        if rest.is_empty() || rest.starts_with(['#', ';']) {
            continue;
        }
        let key = rest.split_once('=').map_or(rest, |(key, _)| key).trim().to_ascii_lowercase();
        if !HARMLESS.contains(&format!("{section}.{key}").as_str()) {
            return false;
        }
    }
    true
}

/// `core]` or `remote "origin"]`: the section's name in lower case, and what follows the bracket.
fn split_header(header: &str) -> Option<(String, &str)> {
    let bracket = header.find(']')?;
    let end = match header.find('"').filter(|&quote| quote < bracket) {
        // A subsection may contain anything, an escaped quote too.
        Some(open) => {
            let mut escaped = false;
            let close = header[open + 1..].char_indices().find_map(|(at, c)| {
                let ends = c == '"' && !escaped;
                escaped = c == '\\' && !escaped;
                ends.then_some(open + 1 + at)
            })?;
            // Nothing but the bracket may follow.
            header[close + 1..].starts_with(']').then_some(close + 1)?
        }
        None => bracket,
    };
    let name = header[..end].split(|c: char| c == '"' || c.is_whitespace()).next()?;
    // The old form `[section.subsection]`.
    let name = name.split('.').next()?.to_ascii_lowercase();
    let is_plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    is_plain.then(|| (name, &header[end + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_git_writes_in_everyday_work_is_harmless() {
        assert!(is_harmless(
            "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n\tlogallrefupdates = true\n\
             [remote \"origin\"]\n\turl = https://example.com/x.git\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n\
             [branch \"we\\\"ird]\"]\n\tremote = origin\n\tmerge = refs/heads/main\n\
             # a comment \\\n[user] name = A B\n[core] # nothing\n"
        ));
    }

    #[test]
    fn what_runs_or_redirects_is_not() {
        for text in [
            "[core]\n\tfsmonitor = /tmp/evil\n",
            "[core]\n\thooksPath = hooks\n",
            "[core]\n sshCommand = x\n",
            "[CORE] FSMONITOR=x\n",
            "[alias]\n st = !evil\n",
            "[include]\n path = ../evil\n",
            "[includeIf \"gitdir:~/\"]\n path = x\n",
            "[filter \"x\"]\n clean = evil\n",
            "[diff \"x\"]\n textconv = evil\n",
            "[credential]\n helper = !evil\n",
            "[remote \"o\"]\n uploadpack = evil\n",
            "[remote \"o\"]\n url = x \\\n y\n vcs = evil\n",
            "[url \"ext::evil\"]\n insteadOf = x\n",
            "[submodule \"x\"]\n update = !evil\n",
            "[core.x]\n editor = evil\n",
            "[broken\n",
            "fsmonitor = evil\n",
            "[user]\n name = x ; \\\n[core] fsmonitor = evil\n",
            "[user]\n name = \"x\\\n\"\n[core] fsmonitor = evil\n",
            "[user] name = x\r[core] fsmonitor = evil\n",
            "[user][core] fsmonitor = evil\n",
            "[remote \"x\\\"]\n[core]\n fsmonitor = evil\n",
            "[user]\n name = x\n[core]\n\tfsmonitor\n",
            "[core] fsmonitor = \"evil\" # ]\n",
            "[core] fsmonitor = \"]\"\n",
            "[user \"x\"] [core] fsmonitor = evil\n",
        ] {
            assert!(!is_harmless(text), "{text}");
        }
    }
}
