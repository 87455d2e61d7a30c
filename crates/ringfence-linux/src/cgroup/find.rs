//! Where groups can be made: `/proc/self/cgroup` says which groups this process is in, and
//! `/proc/self/mountinfo` where they can be seen.

use super::Version;
use super::group;
use ringfence_model::LockExt as _;
use rustix::fs::{Access, AtFlags, Mode, OFlags};
use rustix::io::Errno;
use std::cell::LazyCell;
use std::ffi::{CStr, OsStr};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, Weak};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Controller {
    Memory,
    Pids,
}

impl Controller {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Pids => "pids",
        }
    }
}

/// A directory in which a group can be made.
#[derive(Debug)]
pub(super) struct Base {
    pub(super) version: Version,
    pub(super) path: PathBuf,
    pub(super) dir: Arc<OwnedFd>,
    controllers: Vec<Controller>,
}

impl Base {
    /// That directory, if groups can be made in it as far as its permissions go.
    pub(super) fn open(path: &Path, version: Version, controller: Controller) -> Result<Self, Errno> {
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        let dir = rustix::fs::open(path, flags, Mode::empty())?;
        rustix::fs::accessat(&dir, c".", Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS)?;
        Ok(Self { version, path: path.to_owned(), dir: shared(path, dir)?, controllers: vec![controller] })
    }

    pub(super) fn has(&self, controller: Controller) -> bool {
        self.controllers.contains(&controller)
    }

    pub(super) fn refused(&self, errno: Errno) -> String {
        let names: Vec<_> = self.controllers.iter().map(|controller| controller.name()).collect();
        format!("no {} group can be made in {}: {errno}", names.join(" or "), self.path.display())
    }
}

/// The descriptor that others have of that directory already, where there is one: thousands of groups may lie in it.
fn shared(path: &Path, dir: OwnedFd) -> Result<Arc<OwnedFd>, Errno> {
    static OPEN: Mutex<Vec<(PathBuf, Weak<OwnedFd>)>> = Mutex::new(Vec::new());
    let identity = |dir: &OwnedFd| rustix::fs::fstat(dir).map(|stat| (stat.st_dev, stat.st_ino));
    let mut open = OPEN.locked();
    open.retain(|(_, dir)| dir.strong_count() > 0);
    let known = open.iter().filter(|(known, _)| known == path).find_map(|(_, dir)| dir.upgrade());
    if let Some(known) = known
        && identity(&known)? == identity(&dir)?
    {
        return Ok(known);
    }
    let dir = Arc::new(dir);
    open.push((path.to_owned(), Arc::downgrade(&dir)));
    Ok(dir)
}

/// A place for each controller, or the reason why there is none.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) bases: Vec<Base>,
    refusals: Vec<(Controller, String)>,
}

impl Found {
    pub(super) fn get(&self, controller: Controller) -> Result<&Base, String> {
        self.bases.iter().find(|base| base.has(controller)).ok_or_else(|| {
            let refusal = self.refusals.iter().find(|(other, _)| *other == controller);
            refusal.map_or_else(String::new, |(_, reason)| reason.clone())
        })
    }

    pub(super) fn reasons(&self) -> Vec<String> {
        self.refusals.iter().map(|(_, reason)| reason.clone()).collect()
    }
}

/// What is asked about this process and machine.
struct Sight<'a> {
    cgroups: &'a [u8],
    /// Where the hierarchies usually are. Looking there spares the list of mounts, which takes the kernel
    /// longer to write than everything else here.
    usual: &'a Path,
    mountinfo: LazyCell<Vec<u8>, Box<dyn FnOnce() -> Vec<u8>>>,
}

impl Sight<'_> {
    /// Our own group in the hierarchy of that controller of version 1, or in version 2.
    fn locate(&self, controller: Option<&str>) -> Option<Place> {
        let own = own_group(self.cgroups, controller)?;
        let below = Path::new(OsStr::from_bytes(own.strip_prefix(b"/")?));
        // A group outside of our cgroup namespace is written with `..`; it cannot be reached.
        if below.components().any(|part| part == Component::ParentDir) {
            return None;
        }
        let (magic, mounts) = match controller {
            Some(name) => (CGROUP_SUPER_MAGIC, [self.usual.join(name), PathBuf::new()]),
            None => (CGROUP2_SUPER_MAGIC, [self.usual.to_owned(), self.usual.join("unified")]),
        };
        let mut usual = mounts.into_iter().map(|mount| Place { own: under(&mount, below), mount });
        usual
            .find(|place| rustix::fs::statfs(&place.own).is_ok_and(|stat| stat.f_type == magic))
            .or_else(|| locate_in(own, &self.mountinfo, controller))
    }
}

fn under(mount: &Path, below: &Path) -> PathBuf {
    if below == Path::new("") { mount.to_owned() } else { mount.join(below) }
}

const CGROUP_SUPER_MAGIC: rustix::fs::FsWord = 0x0027_e0eb;
const CGROUP2_SUPER_MAGIC: rustix::fs::FsWord = 0x6367_7270;

pub(super) fn find(wanted: &[Controller]) -> Found {
    fn read(path: &CStr) -> Vec<u8> {
        group::read_all(rustix::fs::CWD, path).unwrap_or_default()
    }
    let cgroups = read(c"/proc/self/cgroup");
    let mountinfo = LazyCell::new(Box::new(|| read(c"/proc/self/mountinfo")) as Box<_>);
    find_in(&Sight { cgroups: &cgroups, usual: Path::new("/sys/fs/cgroup"), mountinfo }, wanted)
}

fn find_in(sight: &Sight<'_>, wanted: &[Controller]) -> Found {
    let mut found = Found::default();
    let unified = sight.locate(None);
    let in_unified = unified.as_ref().map(|place| controllers_of(&place.mount)).unwrap_or_default();
    for &controller in wanted {
        let mut reason = None;
        if let Some(place) = unified.as_ref().filter(|_| lists(&in_unified, controller)) {
            match v2_base(place, controller) {
                Ok(base) => {
                    add(&mut found, base, controller);
                    continue;
                }
                Err(refusal) => reason = refusal,
            }
        }
        let name = controller.name();
        if let Some(place) = sight.locate(Some(name)) {
            match Base::open(&place.own, Version::V1, controller) {
                Ok(base) => {
                    add(&mut found, base, controller);
                    continue;
                }
                Err(errno) => reason = Some(not_writable(controller, &place.own, errno)),
            }
        }
        let reason = reason.unwrap_or_else(|| format!("the {name} controller is not mounted anywhere"));
        found.refusals.push((controller, reason));
    }
    found
}

/// One directory serves all its controllers.
fn add(found: &mut Found, base: Base, controller: Controller) {
    match found.bases.iter_mut().find(|known| known.path == base.path) {
        Some(known) => known.controllers.push(controller),
        None => found.bases.push(base),
    }
}

fn not_writable(controller: Controller, path: &Path, errno: Errno) -> String {
    format!("no {} group can be made in {}: {errno}", controller.name(), path.display())
}

/// The nearest group, from our own upwards, whose children have the controller and where we may make some.
///
/// Processes and controllers for children exclude each other in version 2, so it is mostly the parent. A
/// process may only be moved by those who can write `cgroup.procs` of the group that has both.
fn v2_base(place: &Place, controller: Controller) -> Result<Base, Option<String>> {
    let mut reason = None;
    for path in place.own.ancestors().take_while(|path| path.starts_with(&place.mount)) {
        let base = match Base::open(path, Version::V2, controller) {
            Ok(base) => base,
            Err(errno) => {
                reason.get_or_insert_with(|| not_writable(controller, path, errno));
                continue;
            }
        };
        let passes_on = enabled(&base, controller) || (path == place.own && enable(&base, controller));
        if !passes_on {
            let name = controller.name();
            reason.get_or_insert_with(|| {
                format!("{} does not pass the {name} controller on to its children", path.display())
            });
            continue;
        }
        match rustix::fs::accessat(&base.dir, c"cgroup.procs", Access::WRITE_OK, AtFlags::EACCESS) {
            Ok(()) => return Ok(base),
            Err(errno) => {
                reason.get_or_insert_with(|| not_writable(controller, path, errno));
            }
        }
    }
    Err(reason)
}

/// The controllers that version 2 has at all; on many machines some or all belong to version 1.
fn controllers_of(mount: &Path) -> String {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let dir = rustix::fs::open(mount, flags, Mode::empty());
    dir.and_then(|dir| group::read(dir.as_fd(), c"cgroup.controllers")).unwrap_or_default()
}

fn lists(names: &str, controller: Controller) -> bool {
    names.split_ascii_whitespace().any(|name| name == controller.name())
}

fn enabled(base: &Base, controller: Controller) -> bool {
    let names = group::read(base.dir.as_fd(), c"cgroup.subtree_control").unwrap_or_default();
    lists(&names, controller)
}

/// Succeeds in the root group, and in one that holds no process.
fn enable(base: &Base, controller: Controller) -> bool {
    let text = format!("+{}", controller.name());
    group::set(base.dir.as_fd(), c"cgroup.subtree_control", text.as_bytes()).is_ok()
}

/// Where our own group is seen, and the mount it is seen through.
#[derive(Debug, PartialEq, Eq)]
struct Place {
    own: PathBuf,
    mount: PathBuf,
}

/// Our group in the hierarchy of that controller of version 1, or in version 2.
fn own_group<'a>(cgroups: &'a [u8], controller: Option<&str>) -> Option<&'a [u8]> {
    cgroups.split(|byte| *byte == b'\n').find_map(|line| {
        let mut fields = line.splitn(3, |byte| *byte == b':');
        let (id, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        let matches = match controller {
            Some(name) => controllers.split(|byte| *byte == b',').any(|known| known == name.as_bytes()),
            None => id == b"0" && controllers.is_empty(),
        };
        matches.then_some(path)
    })
}

/// The directory of that group. The last mount that shows it counts, as it may cover earlier ones.
fn locate_in(own: &[u8], mountinfo: &[u8], controller: Option<&str>) -> Option<Place> {
    mountinfo.split(|byte| *byte == b'\n').rev().find_map(|line| {
        let mut fields = line.split(|byte| *byte == b' ');
        let root = unescape(fields.nth(3)?);
        let mount = unescape(fields.next()?);
        let mut after_dash = fields.skip_while(|field| *field != b"-").skip(1);
        let (kind, options) = (after_dash.next()?, after_dash.nth(1)?);
        let matches = match controller {
            Some(name) => {
                kind == b"cgroup"
                    && options.split(|byte| *byte == b',').any(|option| option == name.as_bytes())
            }
            None => kind == b"cgroup2",
        };
        if !matches {
            return None;
        }
        let below = Path::new(OsStr::from_bytes(own)).strip_prefix(OsStr::from_bytes(&root)).ok()?;
        let mount = PathBuf::from(OsStr::from_bytes(&mount));
        Some(Place { own: under(&mount, below), mount })
    })
}

/// Undoes the octal escapes of mountinfo.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&byte, after)) = rest.split_first() {
        let escaped = match after {
            [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', ..] if byte == b'\\' => {
                Some((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'))
            }
            _ => None,
        };
        plain.push(escaped.unwrap_or(byte));
        rest = if escaped.is_some() { &after[3..] } else { after };
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    const CGROUP: &[u8] = b"8:pids:/\n4:cpu,memory:/api/x\n1:name=systemd:/\n0::/user.slice/a.scope\n";
    const MOUNTS: &[u8] = b"32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,memory\n\
        39 31 0:36 / /sys/fs/cgroup/my\\040pids rw,relatime shared:3 - cgroup cgroup rw,pids\n\
        41 31 0:38 /user.slice /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw,nsdelegate\n";

    #[test]
    fn own_groups_are_found() {
        assert_eq!(own_group(CGROUP, Some("memory")), Some(&b"/api/x"[..]));
        assert_eq!(own_group(CGROUP, Some("pids")), Some(&b"/"[..]));
        assert_eq!(own_group(CGROUP, Some("mem")), None);
        assert_eq!(own_group(CGROUP, None), Some(&b"/user.slice/a.scope"[..]));
        assert_eq!(own_group(b"", None), None);
    }

    fn sight(cgroups: &'static [u8], mountinfo: &'static [u8]) -> Sight<'static> {
        let mountinfo = LazyCell::new(Box::new(move || mountinfo.to_vec()) as Box<_>);
        Sight { cgroups, usual: Path::new("/nonexistent"), mountinfo }
    }

    #[test]
    fn their_directories_are_found() {
        let place = |own: &str, mount: &str| Some(Place { own: own.into(), mount: mount.into() });
        let seen = sight(CGROUP, MOUNTS);
        assert_eq!(seen.locate(Some("memory")), place("/sys/fs/cgroup/cpu/api/x", "/sys/fs/cgroup/cpu"));
        assert_eq!(seen.locate(Some("pids")), place("/sys/fs/cgroup/my pids", "/sys/fs/cgroup/my pids"));
        assert_eq!(seen.locate(None), place("/sys/fs/cgroup/unified/a.scope", "/sys/fs/cgroup/unified"));
        assert_eq!(sight(b"0::/system.slice\n", MOUNTS).locate(None), None, "not below what is mounted");
        assert_eq!(sight(b"8:pids:/../outside\n", MOUNTS).locate(Some("pids")), None);
        assert_eq!(sight(b"8:pids:/\n", b"garbage\n\n1 2 3 - \n").locate(Some("pids")), None);
    }

    #[test]
    fn the_usual_place_is_the_mounted_one() {
        let mut seen = sight(b"", b"");
        let (cgroups, mountinfo) =
            (std::fs::read("/proc/self/cgroup").unwrap(), std::fs::read("/proc/self/mountinfo").unwrap());
        seen.cgroups = &cgroups;
        seen.usual = Path::new("/sys/fs/cgroup");
        for controller in [Some("memory"), Some("pids"), None] {
            let listed =
                own_group(&cgroups, controller).and_then(|own| locate_in(own, &mountinfo, controller));
            if let (Some(usual), Some(listed)) = (seen.locate(controller), listed) {
                assert_eq!(usual, listed);
            }
        }
    }

    #[test]
    fn without_mounts_there_is_a_reason() {
        let found = find_in(&sight(CGROUP, b""), &[Controller::Pids]);
        assert!(found.bases.is_empty());
        assert_eq!(found.reasons(), ["the pids controller is not mounted anywhere"]);
    }
}
