//! From a completed policy to the plan of mounts and Landlock rules: what exists inside, and how.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CStr, CString, OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use ringfence_linux::fuse::{self as trap, Trap};
use ringfence_linux::landlock::{self, Rights};
use ringfence_linux::plan::{BindAccess, KERNELS_OWN, LandlockRule, MountStep};
use ringfence_model::policy::Filesystem;
use ringfence_model::{Access, DenyReason, Error, ErrorKind, PathOutcome, Result};

use crate::base_mounts::base_mounts;
use crate::host::everything;
use crate::names::Names;
use crate::scan::Found;
use crate::synthetic_etc::Replaced;

pub(crate) use crate::verdict::invisible;

/// The plan's part that comes from the policy.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct View {
    pub mounts: Vec<MountStep>,
    pub landlock: Vec<LandlockRule>,
    /// Host paths that are masked or sealed.
    pub fixed: Vec<PathBuf>,
    /// Trees in which only the supervisor makes and writes files.
    pub kept: Vec<PathBuf>,
    /// Masks of what is denied: any use of them is worth telling.
    pub traps: Vec<Trap>,
    /// Directories of the host that are there and closed.
    pub doors: Vec<CString>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Node {
    ReadOnly,
    ReadWrite,
    Private,
    /// A denied directory that a grant opens below: can be passed through, not listed.
    Passage,
}

/// By path, outermost first. As bytes, because comparing paths by their components takes several times as
/// long.
type Nodes = BTreeMap<OsString, Node>;

/// Lays out the view. `cwd` must be visible in it. With a supervisor, writes to protected names in private
/// directories are refused by it; without one, such names are occupied by files that can't be written.
pub fn lay_out(fs: &Filesystem, found: &Found, cwd: &Path, supervised: bool) -> Result<View> {
    Rooms::new(fs, &Files::default(), &|_| None, supervised)?.finish(fs, found, cwd)
}

/// Files of ours that are shown.
#[derive(Debug, Default)]
pub(crate) struct Files<'a> {
    /// In the place of the host's, where that is shown.
    pub(crate) replaced: &'a [Replaced],
    /// In directories that are the sandbox's own.
    pub(crate) own: &'a [Replaced],
}

/// A view in which everything is shown and made that will be, and nothing is covered yet.
#[derive(Debug)]
pub(crate) struct Rooms {
    view: View,
    placed: Nodes,
    supervised: bool,
}

impl Rooms {
    /// `size` says how much a private directory may hold.
    pub(crate) fn new(
        fs: &Filesystem,
        files: &Files<'_>,
        size: &dyn Fn(&Path) -> Option<u64>,
        supervised: bool,
    ) -> Result<Self> {
        let mut view = View::default();
        let nodes = collect_nodes(fs);
        if supervised {
            view.kept = kept(&nodes);
        }
        view.mounts = base_mounts();
        view.rule("/", Rights::List)?;
        view.rule("/dev", Rights::Device)?;
        view.rule("/dev/shm", Rights::Write)?;
        view.rule("/proc", Rights::Read)?;

        let mut placed = Nodes::new();
        for made in ["/dev", "/proc"] {
            placed.insert(OsString::from(made), Node::Private);
        }
        for (path, node) in nodes.iter().filter(|(path, _)| !placed.contains_key(*path)).collect::<Vec<_>>() {
            view.place(&mut placed, Path::new(path), *node, size)?;
        }
        view.hide_siblings(&placed)?;
        for (path, content) in files.replaced {
            if matches!(nearest(&placed, path), Some((_, Node::ReadOnly))) {
                view.mounts.push(MountStep::Replace { target: c_path(path)?, content: content.clone() });
            }
        }
        for (path, content) in files.own {
            if let outer @ Some((_, Node::Private)) = nearest(&placed, path) {
                view.mountpoint(outer, path, Kind::File)?;
                view.mounts.push(MountStep::Replace { target: c_path(path)?, content: content.clone() });
            }
        }
        Ok(Self { view, placed, supervised })
    }

    /// What all of the view's mounts begin with.
    pub(crate) fn mounts(&self) -> &[MountStep] {
        &self.view.mounts
    }

    /// Lets nobody inside own what is shown at `target`; whether it is shown, as a whole.
    pub(crate) fn idmap(&mut self, target: &CStr) -> bool {
        for step in &mut self.view.mounts {
            if let MountStep::Bind { source, target: shown, access: access @ BindAccess::ReadOnly } = step
                && source == shown
                && shown.as_c_str() == target
            {
                *access = BindAccess::Idmapped;
                return true;
            }
        }
        false
    }

    /// Covers what is denied and protected.
    pub(crate) fn finish(self, fs: &Filesystem, found: &Found, cwd: &Path) -> Result<View> {
        let Self { mut view, placed, supervised } = self;
        let mut names = Names::default();
        for path in denied_paths(fs, found) {
            if !names.lack(&path) {
                view.mask(fs, &placed, &path)?;
            }
        }
        view.protect(fs, found, &placed, supervised, &mut names)?;
        view.mounts.extend(kernels_own());
        for (path, node) in &placed {
            if *node == Node::Passage {
                view.mounts.push(MountStep::ReadOnly { target: c_path(Path::new(path))? });
            }
        }
        check_cwd(fs, &placed, cwd)?;
        Ok(view)
    }
}

/// Masks of what the kernel tells to this user and shall not tell inside.
fn kernels_own() -> impl Iterator<Item = MountStep> {
    let is_told = |path: &&&CStr| rustix::fs::access(**path, rustix::fs::Access::READ_OK).is_ok();
    let told = KERNELS_OWN.iter().filter(is_told);
    told.map(|path| MountStep::Mask { target: CString::from(*path) })
}

/// What may be written of the host's; and the private places around it, since Landlock has no way to allow
/// something in a directory and not in what is mounted below it.
fn kept(nodes: &Nodes) -> Vec<PathBuf> {
    let of_host = |node: &Node| *node == Node::ReadWrite;
    let around = |path: &OsString| {
        nodes.iter().any(|(below, node)| of_host(node) && Path::new(below).starts_with(Path::new(path)))
    };
    let is_kept =
        |(path, node): &(&OsString, &Node)| of_host(node) || (**node == Node::Private && around(path));
    nodes.iter().filter(is_kept).map(|(path, _)| PathBuf::from(path)).collect()
}

/// Every directory or file that is shown or made, outermost first.
fn collect_nodes(fs: &Filesystem) -> Nodes {
    let mut nodes = Nodes::new();
    let literal = |rules: &'_ [ringfence_model::PathRule]| {
        let paths = rules.iter().filter_map(|rule| rule.path.as_literal());
        paths.map(|path| path.as_os_str().to_owned()).collect::<Vec<_>>()
    };
    for path in literal(&fs.private) {
        nodes.insert(path, Node::Private);
    }
    for path in literal(&fs.allow_read) {
        if path == "/" {
            nodes = everything().map(|path| (path, Node::ReadOnly)).chain(nodes).collect();
        } else {
            nodes.insert(path, Node::ReadOnly);
        }
    }
    for path in literal(&fs.allow_write) {
        nodes.insert(path, Node::ReadWrite);
    }
    // What is denied is not shown, whatever allows it; masks take care of what lies below something shown.
    nodes.retain(|path, _| {
        !matches!(fs.decide(Path::new(path), Access::Read).outcome, PathOutcome::Denied(DenyReason::Denied))
    });
    for grant in fs.grants.iter().filter(|grant| grant.access != Access::Connect) {
        let node = if grant.access == Access::Write { Node::ReadWrite } else { Node::ReadOnly };
        nodes.insert(grant.path.clone().into_os_string(), node);
        for rule in fs.deny.iter().filter(|rule| rule.path.covers(&grant.path)) {
            if let Some(top) = grant.path.ancestors().skip(1).filter(|dir| rule.path.covers(dir)).last() {
                nodes.insert(top.as_os_str().to_owned(), Node::Passage);
            }
        }
    }
    nodes
}

/// The denied paths to cover: those named outright and those the walk found.
pub(crate) fn denied_paths(fs: &Filesystem, found: &Found) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = Vec::new();
    for rule in &fs.deny {
        match rule.path.as_literal() {
            Some(path) => paths.push(path.to_owned()),
            // A pattern within one directory (`/etc/ssh/ssh_host_*_key`) needs no walk.
            None => paths.extend(matches_in_parent(&rule.path)),
        }
    }
    paths.extend(found.denied.iter().cloned());
    // A person's grant is above every rule.
    paths.retain(|path| fs.decide(path, Access::Read).grant.is_none());
    paths.extend(found.sockets.iter().cloned());
    paths.extend(found.roots_own.iter().cloned());
    paths.sort_unstable_by(|a, b| in_order(a, b));
    paths.dedup();
    // A mask covers what is below it.
    let mut outermost: Vec<PathBuf> = Vec::new();
    for path in paths {
        if !outermost.last().is_some_and(|last| path.starts_with(last)) {
            outermost.push(path);
        }
    }
    outermost
}

fn matches_in_parent(pattern: &ringfence_model::PathPattern) -> Vec<PathBuf> {
    let components: Vec<&[u8]> = pattern.glob_components().collect();
    let is_plain = |c: &&[u8]| !c.iter().any(|b| matches!(b, b'*' | b'?' | b'[' | b'\\'));
    let Some((_, parents)) = components.split_last() else { return vec![] };
    if !parents.iter().all(is_plain) {
        return vec![];
    }
    let mut parent = PathBuf::from("/");
    parent.extend(parents.iter().map(|c| std::ffi::OsStr::from_bytes(c)));
    let entries = std::fs::read_dir(&parent).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| pattern.covers(path)).collect()
}

impl View {
    fn dir(&mut self, path: &Path, mode: u32) -> Result<()> {
        self.mounts.push(MountStep::Dir { path: c_path(path)?, mode });
        Ok(())
    }

    fn rule(&mut self, path: impl AsRef<Path>, rights: Rights) -> Result<()> {
        self.landlock.push(LandlockRule { path: c_path(path.as_ref())?, rights });
        Ok(())
    }

    fn write_rights(&self, path: &Path) -> Rights {
        if self.kept.iter().any(|kept| kept == path) { Rights::SupervisorOnly } else { Rights::Write }
    }

    fn place(
        &mut self,
        placed: &mut Nodes,
        path: &Path,
        node: Node,
        size: &dyn Fn(&Path) -> Option<u64>,
    ) -> Result<()> {
        let outer = nearest(placed, path);
        // Already shown, with at least these rights.
        let redundant = matches!(
            (outer.map(|(_, node)| node), node),
            (Some(Node::ReadWrite), Node::ReadOnly | Node::ReadWrite)
                | (Some(Node::ReadOnly), Node::ReadOnly)
        );
        if redundant {
            return Ok(());
        }
        if node == Node::Private || node == Node::Passage {
            // `/dev` is made by hand in the root, which becomes read-only; what is private in it is not.
            let nested_private = node == Node::Private
                && matches!(outer, Some((outer, Node::Private)) if outer != Path::new("/dev"));
            self.mountpoint(outer, path, Kind::Directory)?;
            if !nested_private {
                let mode = match node {
                    Node::Passage => 0o111,
                    _ if matches!(path.to_str(), Some("/tmp" | "/var/tmp" | "/dev/shm")) => 0o1777,
                    _ => 0o700,
                };
                self.mounts.push(MountStep::Tmpfs { target: c_path(path)?, mode, size: size(path) });
                if node == Node::Private {
                    self.rule(path, self.write_rights(path))?;
                }
            }
            placed.insert(path.as_os_str().to_owned(), node);
            return Ok(());
        }
        let Ok(metadata) = path.symlink_metadata() else { return Ok(()) };
        if metadata.is_symlink() {
            // `/bin -> usr/bin` and the like; what it leads to is shown by its own rule.
            if let Ok(target) = std::fs::read_link(path)
                && !matches!(outer, Some((_, Node::ReadOnly | Node::ReadWrite)))
            {
                self.parents(outer.map(|(path, _)| path), path)?;
                self.mounts.push(MountStep::Symlink { target: c_path(&target)?, path: c_path(path)? });
            }
            return Ok(());
        }
        let kind = if metadata.is_dir() { Kind::Directory } else { Kind::File };
        self.mountpoint(outer, path, kind)?;
        let (access, rights) = match node {
            Node::ReadWrite => (BindAccess::ReadWrite, self.write_rights(path)),
            _ => (BindAccess::ReadOnly, Rights::Read),
        };
        self.mounts.push(MountStep::Bind { source: c_path(path)?, target: c_path(path)?, access });
        self.rule(path, rights)?;
        placed.insert(path.as_os_str().to_owned(), node);
        Ok(())
    }

    /// Makes sure that `path` exists as a place to mount on. Below something shown it does already.
    fn mountpoint(&mut self, outer: Option<(&Path, Node)>, path: &Path, kind: Kind) -> Result<()> {
        if matches!(outer, Some((_, Node::ReadOnly | Node::ReadWrite))) {
            return Ok(());
        }
        self.parents(outer.map(|(path, _)| path), path)?;
        match kind {
            Kind::Directory => self.dir(path, 0o755),
            Kind::File => {
                self.mounts.push(MountStep::File { path: c_path(path)? });
                Ok(())
            }
        }
    }

    /// Makes the directories between `outer` (exclusive) and `path` (exclusive).
    fn parents(&mut self, outer: Option<&Path>, path: &Path) -> Result<()> {
        let outer = outer.unwrap_or(Path::new("/"));
        let mut between: Vec<&Path> = path.ancestors().skip(1).take_while(|dir| *dir != outer).collect();
        between.reverse();
        for dir in between.into_iter().filter(|dir| dir.parent().is_some()) {
            self.dir(dir, 0o755)?;
        }
        Ok(())
    }

    /// The host's directories beside those that are shown exist inside too, as closed doors: a look into
    /// them reads "Permission denied", as it should, and not "No such file".
    fn hide_siblings(&mut self, placed: &Nodes) -> Result<()> {
        let on_the_way: BTreeSet<&OsStr> = placed
            .keys()
            .flat_map(|path| above(path))
            .filter(|dir| nearest(placed, Path::new(dir)).is_none())
            .collect();
        // What the kernel shows of itself is no place of anybody's.
        for dir in on_the_way.iter().filter(|dir| !Path::new(dir).starts_with("/sys")) {
            for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
                let path = entry.path();
                let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
                if is_dir && !placed.contains_key(path.as_os_str()) && !on_the_way.contains(path.as_os_str())
                {
                    self.dir(&path, 0)?;
                    self.doors.push(c_path(&path)?);
                }
            }
        }
        Ok(())
    }

    /// Makes traps of the closed doors too. Landlock must let whoever wants to read behind one pass, because it
    /// is asked first and refuses silently. What the kernel tells of the machine nobody misses.
    pub(crate) fn trap_doors(&mut self) {
        for path in self.doors.iter().filter(|path| !path.to_bytes().starts_with(b"/sys/")) {
            self.traps.push(Trap { path: path.clone(), kind: trap::Kind::Directory });
            self.landlock.push(LandlockRule { path: path.clone(), rights: Rights::Read });
        }
    }

    fn mask(&mut self, fs: &Filesystem, placed: &Nodes, path: &Path) -> Result<()> {
        // A grant opened a way through it; what is not granted does not exist there.
        if placed.get(path.as_os_str()) == Some(&Node::Passage) {
            return Ok(());
        }
        let Ok(metadata) = path.symlink_metadata() else { return Ok(()) };
        let Some((outer, node)) = nearest(placed, path) else { return Ok(()) };
        if metadata.is_symlink() {
            // The link's target is on the list by its own path; the link itself holds nothing.
            return Ok(());
        }
        // Root inside has no power over other people's directories.
        if is_closed_to_me(path) {
            return Ok(());
        }
        // What its owner keeps from this user needs no mask: the kernel refuses it here as on the host.
        if node == Node::ReadOnly && !is_mine(&metadata) && is_unreadable(path) {
            return Ok(());
        }
        if node == Node::Private || node == Node::Passage {
            let kind = if metadata.is_dir() { Kind::Directory } else { Kind::File };
            self.mountpoint(Some((outer, node)), path, kind)?;
        }
        self.mounts.push(MountStep::Mask { target: c_path(path)? });
        self.fixed.push(path.to_owned());
        // Sockets are masked too, and judged when somebody connects.
        if !fs.decide(path, Access::Read).allowed() {
            let kind = if metadata.is_dir() { trap::Kind::Directory } else { trap::Kind::File };
            self.traps.push(Trap { path: c_path(path)?, kind });
        }
        Ok(())
    }

    /// What is denied can be written as little as read.
    fn is_masked(&self, path: &Path) -> bool {
        self.fixed.iter().any(|masked| path.starts_with(masked))
    }

    fn protect(
        &mut self,
        fs: &Filesystem,
        found: &Found,
        placed: &Nodes,
        supervised: bool,
        names: &mut Names,
    ) -> Result<()> {
        let mut paths: Vec<&Path> = fs.protect.iter().filter_map(|rule| rule.path.as_literal()).collect();
        paths.extend(found.protected.iter().map(PathBuf::as_path));
        paths.sort_unstable_by(|a, b| in_order(a, b));
        paths.dedup();
        let mut pinned: Vec<PathBuf> = Vec::new();
        // Where nobody else can change anything.
        let by_supervisor = supervised && landlock::abi() > 0;
        for path in paths {
            let Some((outer, node)) = nearest(placed, path) else { continue };
            let exists = if names.lack(path) { None } else { path.symlink_metadata().ok() };
            // A person may allow a change of settings, which is then made by the supervisor.
            let by_verdict = by_supervisor && fs.settings_of(path).is_some();
            match (node, exists) {
                (Node::ReadWrite, Some(_)) if by_verdict => self.fixed.push(path.to_owned()),
                (Node::ReadWrite, Some(metadata)) if !metadata.is_symlink() => {
                    // A directory that is mounted on cannot be renamed away. Nor can those above it: by the
                    // supervisor's verdict, or, without one, by being mounted on too.
                    let above = path.ancestors().skip(1).take_while(|dir| *dir != outer);
                    let mut to_pin: Vec<&Path> =
                        above.take(if supervised { 1 } else { usize::MAX }).collect();
                    to_pin.reverse();
                    for dir in to_pin {
                        if !pinned.iter().any(|done| done == dir) {
                            self.mounts.push(MountStep::Pin { target: c_path(dir)? });
                            pinned.push(dir.to_owned());
                        }
                    }
                    self.mounts.push(MountStep::Seal { target: c_path(path)? });
                    self.fixed.push(path.to_owned());
                }
                (Node::Private, _) if outer != path && !supervised && !self.is_masked(path) => {
                    self.mountpoint(Some((outer, node)), path, Kind::File)?;
                    self.mounts.push(MountStep::Seal { target: c_path(path)? });
                }
                _ => {}
            }
        }
        Ok(())
    }
}

fn is_mine(metadata: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    metadata.uid() == rustix::process::geteuid().as_raw()
}

/// Whether a directory above, of somebody else's, lets nobody pass who has no power over it. For root, who sees what is
/// behind such directories here.
fn is_closed_to_me(path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let group = rustix::process::getegid().as_raw();
    rustix::process::geteuid().is_root()
        && path.ancestors().skip(1).filter_map(|dir| dir.symlink_metadata().ok()).any(|dir| {
            let lets_pass = if dir.gid() == group { 0o011 } else { 0o001 };
            !is_mine(&dir) && dir.mode() & lets_pass == 0
        })
}

fn is_unreadable(path: &Path) -> bool {
    use rustix::fs::{Access, AtFlags, CWD, accessat};
    accessat(CWD, path, Access::READ_OK, AtFlags::EACCESS) == Err(rustix::io::Errno::ACCESS)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Directory,
    File,
}

/// The innermost placed node at or above `path`.
fn nearest<'a>(placed: &'a Nodes, path: &Path) -> Option<(&'a Path, Node)> {
    let path = path.as_os_str();
    let at = |dir: &OsStr| placed.get_key_value(dir).map(|(key, node)| (Path::new(key), *node));
    at(path).or_else(|| above(path).find_map(at))
}

/// Every directory before all that is below it, and that before its next sibling: the order of the components,
/// told from the bytes.
fn in_order(a: &Path, b: &Path) -> std::cmp::Ordering {
    let first = |&byte: &u8| if byte == b'/' { 0 } else { byte };
    let (a, b) = (a.as_os_str().as_bytes(), b.as_os_str().as_bytes());
    a.iter().map(first).cmp(b.iter().map(first))
}

/// The directories above a path without dots, innermost first.
fn above(path: &OsStr) -> impl Iterator<Item = &OsStr> {
    std::iter::successors(parent(path), |dir| parent(dir))
}

fn parent(path: &OsStr) -> Option<&OsStr> {
    let bytes = path.as_bytes();
    let slash = bytes.iter().rposition(|&b| b == b'/')?;
    (bytes.len() > 1).then(|| OsStr::from_bytes(&bytes[..slash.max(1)]))
}

fn check_cwd(fs: &Filesystem, placed: &Nodes, cwd: &Path) -> Result<()> {
    if fs.decide(cwd, Access::Read).allowed() && nearest(placed, cwd).is_some() {
        return Ok(());
    }
    Err(invisible(fs, cwd))
}

pub(crate) fn c_path(path: &Path) -> Result<CString> {
    CString::new(path.as_os_str().as_bytes())
        .map_err(|_| Error::new(ErrorKind::Validation, format!("path {path:?} contains a NUL byte")))
}
