//! What the fence needs to know of the machine and of the person: gathered once, passed on as data.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// Facts about the caller, taken from its environment by whoever starts the sandbox.
#[derive(Debug, Clone)]
pub struct Host {
    /// The home directory, canonical where it exists.
    pub home: PathBuf,
    /// The directories of `PATH`, in order, absolute ones only.
    pub path: Vec<PathBuf>,
    /// The caller's whole environment.
    pub environment: BTreeMap<OsString, OsString>,
}

impl Host {
    #[must_use]
    pub fn from_environment(environment: BTreeMap<OsString, OsString>) -> Self {
        let home = canonical_or_same(&home_directory(&environment));
        let path = environment
            .get(OsStr::new("PATH"))
            .map(|path| std::env::split_paths(path).filter(|dir| dir.is_absolute()).collect())
            .unwrap_or_else(|| vec!["/usr/local/bin".into(), "/usr/bin".into(), "/bin".into()]);
        Self { home, path, environment }
    }

    #[must_use]
    pub fn variable(&self, name: &str) -> Option<&OsStr> {
        self.environment.get(OsStr::new(name)).map(OsString::as_os_str)
    }
}

/// The home directory: `HOME`, or what the user database says of this user; never the root.
#[must_use]
pub fn home_directory(environment: &BTreeMap<OsString, OsString>) -> PathBuf {
    let proper = |home: &PathBuf| home.is_absolute() && home != Path::new("/");
    let named = environment.get(OsStr::new("HOME")).map(PathBuf::from);
    named
        .filter(proper)
        .or_else(|| registered_home().filter(proper))
        .unwrap_or_else(|| PathBuf::from("/home/sandbox"))
}

fn registered_home() -> Option<PathBuf> {
    let users = std::fs::read_to_string("/etc/passwd").ok()?;
    let own = rustix::process::geteuid().as_raw().to_string();
    // name:password:uid:gid:comment:home:shell
    let fields = |line: &str| {
        let mut fields = line.split(':').skip(2);
        (fields.next()? == own).then(|| fields.nth(2).map(PathBuf::from))?
    };
    users.lines().find_map(fields)
}

/// The path with every link resolved; a part that does not exist stays as it is.
///
/// One or two opens and a look at where it led: far fewer system calls than resolving component by component.
#[must_use]
pub fn canonical_or_same(path: &Path) -> PathBuf {
    if let Some(canonical) = canonical(path) {
        return canonical;
    }
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => canonical_or_same(parent).join(name),
        _ => path.to_owned(),
    }
}

/// The path with every link resolved, if it exists.
#[cfg(not(target_os = "linux"))]
#[must_use]
pub fn canonical(path: &Path) -> Option<PathBuf> {
    path.canonicalize().ok()
}

/// The path with every link resolved, if it exists.
#[cfg(target_os = "linux")]
#[must_use]
pub fn canonical(path: &Path) -> Option<PathBuf> {
    use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    if is_plain(path) {
        // Without links on the way the text is the truth already.
        match openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS) {
            Ok(_) => return Some(path.to_owned()),
            Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR) => return None,
            Err(_) => {}
        }
    }
    let opened = rustix::fs::open(path, flags, Mode::empty()).ok()?;
    let link = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&opened));
    let target = rustix::fs::readlink(link, Vec::new()).ok()?;
    Some(PathBuf::from(<OsString as std::os::unix::ffi::OsStringExt>::from_vec(target.into_bytes())))
}

/// Whether the path is absolute and holds nothing that a canonical one does not, as far as its text tells.
#[cfg(target_os = "linux")]
fn is_plain(path: &Path) -> bool {
    let bytes = std::os::unix::ffi::OsStrExt::as_bytes(path.as_os_str());
    let mut components = bytes.split(|&b| b == b'/');
    components.next() == Some(b"") && components.all(|name| !matches!(name, b"" | b"." | b".."))
}

/// What the root directory holds, one by one: shown as a whole it would cover what is private. What the kernel
/// tells of the machine is no file of anybody's.
#[cfg(target_os = "linux")]
pub(crate) fn everything() -> impl Iterator<Item = OsString> {
    let entries = std::fs::read_dir("/").into_iter().flatten().flatten();
    entries.map(|entry| entry.path().into_os_string()).filter(|path| path != "/sys")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_resolved_and_what_is_missing_stays() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap();
        std::fs::create_dir(root.join("real")).unwrap();
        std::os::unix::fs::symlink("real", root.join("link")).unwrap();
        for (given, want) in [
            ("real", Some("real")),
            ("link", Some("real")),
            ("link/../real", Some("real")),
            ("./real//", Some("real")),
            ("gone", None),
            ("real/gone/deeper", None),
        ] {
            assert_eq!(canonical(&root.join(given)), want.map(|want| root.join(want)), "{given}");
        }
        assert_eq!(canonical(Path::new("/")), Some(PathBuf::from("/")));
        assert_eq!(canonical_or_same(&root.join("link/new/file")), root.join("real/new/file"));
    }
}
