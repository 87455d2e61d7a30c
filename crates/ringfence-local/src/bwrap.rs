//! The plan of mounts as arguments for bwrap.
//!
//! The same view, with two differences of means: bwrap opens the paths itself (so a path that is swapped for
//! a link while it works is followed), and what it binds comes from the host, not from the root under
//! construction. So what is mounted within something else comes after it, and masks come last.

use std::collections::BTreeSet;
use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use ringfence_linux::bwrap::FIRST_DATA;
use ringfence_linux::plan::{BindAccess, MountStep};
use ringfence_model::{Degradation, DegradationCode, Error, ErrorKind, Result};

use crate::host::{Host, canonical};
use crate::view::c_path;

/// More than bwrap takes.
const MOST_OPTIONS: usize = 8000;
/// Descriptors are few: a process may usually have 1024.
const MOST_DATA: usize = 500;

const SET_USER_ID: u32 = 0o4000;

/// bwrap and how it is called.
#[derive(Debug)]
pub(crate) struct Arguments {
    pub(crate) program: CString,
    /// Each ended by a NUL.
    pub(crate) options: Vec<u8>,
    /// The contents of the descriptors that the options name.
    pub(crate) data: Vec<Vec<u8>>,
}

/// Finds bwrap: by its path, or on PATH but never in the project, whose files the command may have written.
pub(crate) fn find(wanted: &Path, host: &Host, cwd: &Path) -> std::result::Result<PathBuf, Degradation> {
    let runnable = |path: &Path| {
        path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    let no = |why: String| Err(Degradation::new(DegradationCode::LauncherUnavailable, why));
    let outside = |path: &Path| canonical(path).is_some_and(|real| !real.starts_with(cwd));
    if wanted.is_absolute() {
        return match (runnable(wanted), outside(wanted)) {
            (true, true) => Ok(wanted.to_owned()),
            (true, false) => no(format!("{} lies in the project", wanted.display())),
            (false, _) => no(format!("{} cannot be executed", wanted.display())),
        };
    }
    if wanted.components().count() != 1 {
        return no(format!("{} is neither a name nor an absolute path", wanted.display()));
    }
    let found = host.path.iter().map(|dir| dir.join(wanted)).find(|path| runnable(path) && outside(path));
    found.ok_or_else(|| {
        let why = format!("{} is not installed (not found on PATH)", wanted.display());
        Degradation::new(DegradationCode::BwrapMissing, why)
    })
}

impl Arguments {
    /// The same for what the host has now.
    pub(crate) fn as_it_is_now(&self, steps: &[MountStep]) -> Result<Self> {
        arguments(&path_of(&self.program), steps)
    }
}

/// Whether what bwrap said is about something that is masked, sealed or pinned, which may come and go.
pub(crate) fn is_of_a_cover(said: &str, steps: &[MountStep]) -> bool {
    let is_cover = |step: &&MountStep| {
        matches!(step, MountStep::Mask { .. } | MountStep::Seal { .. } | MountStep::Pin { .. })
    };
    let mut covers = steps.iter().filter(is_cover);
    covers.any(|step| said.contains(&*step.target().to_string_lossy()))
}

const HOSTNAME: &str = "ringfence";

/// Translates the plan.
pub(crate) fn arguments(program: &Path, steps: &[MountStep]) -> Result<Arguments> {
    let mut list = List::default();
    for flag in [
        "--unshare-user",
        "--unshare-ipc",
        "--unshare-pid",
        "--unshare-net",
        "--unshare-uts",
        "--unshare-cgroup-try",
        "--die-with-parent",
        "--new-session",
        "--as-pid-1",
    ] {
        list.word(flag);
    }
    list.words(["--hostname", HOSTNAME]);
    // One that is set-uid lets no ordinary user change them, and drops them all by itself. What the others
    // add serves the stage to close the device nodes, and to drop everything.
    if program.metadata().is_ok_and(|program| program.permissions().mode() & SET_USER_ID == 0) {
        list.words(["--cap-drop", "ALL", "--cap-add", "CAP_SYS_ADMIN", "--cap-add", "CAP_SETPCAP"]);
    }

    let (mut fixed, mut masks, mut read_only) = (Vec::new(), Vec::new(), Vec::new());
    let mut made = Made::default();
    for step in steps {
        let target = path_of(step.target());
        made.note(step, &target);
        match step {
            MountStep::Pin { .. } | MountStep::Seal { .. } => fixed.push((target, step)),
            MountStep::Mask { .. } => masks.push(target),
            MountStep::ReadOnly { .. } => read_only.push(target),
            _ => list.step(step, &target),
        }
    }
    // An outer one would cover the inner one if it came later.
    fixed.sort_by(|(a, _), (b, _)| a.cmp(b));
    for (target, step) in &fixed {
        list.fix(step, target, &made);
    }
    for target in &masks {
        list.mask(target);
    }
    for target in read_only.iter().map(PathBuf::as_path).chain([Path::new("/dev"), Path::new("/")]) {
        list.pair("--remount-ro", target);
    }
    if list.count > MOST_OPTIONS || list.data.len() > MOST_DATA {
        return Err(Error::new(
            ErrorKind::SandboxDenied,
            format!("this policy takes {} arguments for bwrap, more than it can be given", list.count),
        ));
    }
    Ok(Arguments { program: c_path(program)?, options: list.bytes, data: list.data })
}

fn path_of(path: &std::ffi::CStr) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(path.to_bytes()))
}

/// What exists only inside: below a fresh file system and not below a later bind.
#[derive(Debug, Default)]
struct Made {
    mounts: Vec<(PathBuf, bool)>,
    directories: BTreeSet<PathBuf>,
}

impl Made {
    fn note(&mut self, step: &MountStep, target: &Path) {
        match step {
            MountStep::Tmpfs { .. } => self.mounts.push((target.to_owned(), true)),
            MountStep::Bind { .. } => self.mounts.push((target.to_owned(), false)),
            MountStep::Dir { .. } => {
                self.directories.insert(target.to_owned());
            }
            _ => {}
        }
    }

    fn inside_only(&self, path: &Path) -> bool {
        let nearest = self
            .mounts
            .iter()
            .filter(|(mount, _)| path.starts_with(mount))
            .max_by_key(|(mount, _)| mount.components().count());
        nearest.is_none_or(|(_, fresh)| *fresh)
    }
}

#[derive(Debug, Default)]
struct List {
    bytes: Vec<u8>,
    count: usize,
    data: Vec<Vec<u8>>,
}

impl List {
    fn word(&mut self, word: impl AsRef<OsStr>) {
        self.bytes.extend_from_slice(word.as_ref().as_bytes());
        self.bytes.push(0);
        self.count += 1;
    }

    fn words<const N: usize>(&mut self, words: [&str; N]) {
        for word in words {
            self.word(word);
        }
    }

    fn pair(&mut self, option: &str, path: &Path) {
        self.word(option);
        self.word(path);
    }

    fn same(&mut self, option: &str, path: &Path) {
        self.pair(option, path);
        self.word(path);
    }

    fn perms(&mut self, mode: u32) {
        self.word("--perms");
        self.word(format!("{mode:04o}"));
    }

    /// A file with this content that nobody can change.
    fn file(&mut self, content: Vec<u8>, mode: u32, target: &Path) {
        let descriptor = FIRST_DATA + i32::try_from(self.data.len()).unwrap_or(i32::MAX - FIRST_DATA);
        self.data.push(content);
        self.perms(mode);
        self.word("--ro-bind-data");
        self.word(descriptor.to_string());
        self.word(target);
    }

    fn step(&mut self, step: &MountStep, target: &Path) {
        let device_directory = Path::new("/dev");
        // bwrap's own device directory has just what the plan puts into it.
        if target == device_directory {
            return self.pair("--dev", target);
        }
        if target.starts_with(device_directory) && !target.starts_with("/dev/shm") {
            return;
        }
        match step {
            MountStep::Dir { mode, .. } => {
                self.perms(*mode);
                self.pair("--dir", target);
            }
            MountStep::Symlink { target: leads_to, .. } => {
                self.word("--symlink");
                self.word(path_of(leads_to));
                self.word(target);
            }
            MountStep::Bind { source, access, .. } => {
                self.word(match access {
                    BindAccess::ReadOnly | BindAccess::Idmapped => "--ro-bind",
                    BindAccess::ReadWrite => "--bind",
                    BindAccess::Device => "--dev-bind",
                });
                self.word(path_of(source));
                self.word(target);
            }
            MountStep::Tmpfs { mode, size, .. } => {
                self.perms(*mode);
                if let Some(size) = size {
                    self.word("--size");
                    self.word(size.to_string());
                }
                self.pair("--tmpfs", target);
            }
            MountStep::Proc { .. } => self.pair("--proc", target),
            MountStep::Replace { content, .. } => self.file(content.clone(), 0o444, target),
            // A file to mount on is made by what is mounted; the rest has its own place in the order.
            MountStep::File { .. }
            | MountStep::Devpts { .. }
            | MountStep::Pin { .. }
            | MountStep::Seal { .. }
            | MountStep::Mask { .. }
            | MountStep::ReadOnly { .. } => {}
        }
    }

    fn fix(&mut self, step: &MountStep, target: &Path, made: &Made) {
        if made.inside_only(target) {
            if made.directories.contains(target) {
                self.perms(0o755);
                self.pair("--tmpfs", target);
                self.pair("--remount-ro", target);
            } else {
                self.file(vec![], 0o444, target);
            }
        } else if target.symlink_metadata().is_ok() {
            // One that vanished needs nothing, and must not be made; nor does one that vanishes before bwrap looks.
            let is_seal = matches!(step, MountStep::Seal { .. });
            self.same(if is_seal { "--ro-bind-try" } else { "--bind-try" }, target);
        }
    }

    fn mask(&mut self, target: &Path) {
        let Ok(metadata) = target.symlink_metadata() else { return };
        if metadata.is_dir() {
            self.perms(0);
            self.pair("--tmpfs", target);
            self.pair("--remount-ro", target);
        } else {
            self.file(vec![], 0, target);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn c(path: &str) -> CString {
        CString::new(path).unwrap()
    }

    fn words(arguments: &Arguments) -> Vec<String> {
        let text = String::from_utf8(arguments.options.clone()).unwrap();
        text.split_terminator('\0').map(str::to_owned).collect()
    }

    fn position(words: &[String], wanted: &[&str]) -> usize {
        words
            .windows(wanted.len())
            .position(|window| window == wanted)
            .unwrap_or_else(|| panic!("{wanted:?}"))
    }

    #[test]
    fn inner_mounts_come_after_outer_ones_and_masks_last() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("a/b")).unwrap();
        std::fs::write(root.join("a/b/secret"), "").unwrap();
        let path = |name: &str| root.join(name).to_str().unwrap().to_owned();
        let steps = [
            MountStep::Dir { path: c("/dev"), mode: 0o755 },
            MountStep::File { path: c("/dev/null") },
            MountStep::Bind { source: c("/dev/null"), target: c("/dev/null"), access: BindAccess::Device },
            MountStep::Bind { source: c(&path("")), target: c(&path("")), access: BindAccess::ReadWrite },
            MountStep::Mask { target: c(&path("a/b/secret")) },
            MountStep::Seal { target: c(&path("a/b")) },
            MountStep::Pin { target: c(&path("a")) },
            MountStep::Seal { target: c(&path("gone")) },
        ];
        let arguments = arguments(Path::new("/usr/bin/bwrap"), &steps).unwrap();
        let words = words(&arguments);
        let [pin, seal, mask] = [
            position(&words, &["--bind-try", &path("a"), &path("a")]),
            position(&words, &["--ro-bind-try", &path("a/b"), &path("a/b")]),
            position(&words, &["--perms", "0000", "--ro-bind-data", "10", &path("a/b/secret")]),
        ];
        assert!(pin < seal && seal < mask, "{words:?}");
        let lost = |name: &str| format!("Can't find source path {}: No such file or directory", path(name));
        assert!(is_of_a_cover(&lost("a/b"), &steps) && !is_of_a_cover(&lost("other"), &steps));
        assert!(!words.contains(&path("gone")), "what is gone must not be made on the host: {words:?}");
        assert!(
            !words.contains(&"--dev-bind".to_owned()),
            "bwrap has a directory of devices of its own: {words:?}"
        );
        assert_eq!(words[words.len() - 2..], ["--remount-ro", "/"]);
        assert_eq!(arguments.data, [Vec::<u8>::new()]);
    }

    #[test]
    fn a_protected_name_of_the_sandboxs_own_is_occupied() {
        let steps = [
            MountStep::Tmpfs { target: c("/home/u"), mode: 0o700, size: None },
            MountStep::File { path: c("/home/u/.bashrc") },
            MountStep::Seal { target: c("/home/u/.bashrc") },
        ];
        let words = words(&arguments(Path::new("/usr/bin/bwrap"), &steps).unwrap());
        position(&words, &["--perms", "0700", "--tmpfs", "/home/u"]);
        position(&words, &["--perms", "0444", "--ro-bind-data", "10", "/home/u/.bashrc"]);
    }

    #[test]
    fn a_bwrap_in_the_project_is_not_taken() {
        let temp = tempfile::tempdir().unwrap();
        let project = temp.path().canonicalize().unwrap();
        let planted = project.join("bwrap");
        std::fs::write(&planted, "#!/bin/sh\n").unwrap();
        std::fs::set_permissions(&planted, std::fs::Permissions::from_mode(0o755)).unwrap();
        let host = Host::from_environment([("PATH".into(), project.clone().into())].into());
        assert_eq!(
            find(Path::new("bwrap"), &host, &project).unwrap_err().code,
            DegradationCode::BwrapMissing
        );
        assert!(find(&planted, &host, &project).unwrap_err().text.contains("in the project"));
        assert!(find(Path::new("./bwrap"), &host, &project).is_err());
        assert_eq!(find(Path::new("bwrap"), &host, Path::new("/elsewhere")).unwrap(), planted);
    }
}
