//! Which number stands for which path of the host.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::{Kind, Trap};

/// The file system's own root, which nobody inside can see.
pub(super) const ROOT: u64 = 1;
/// The first trap.
pub(super) const FIRST: u64 = 2;

/// More than any program looks at without forgetting some of it.
const MOST: usize = 16 * 1024;

#[derive(Debug)]
struct Node {
    path: PathBuf,
    kind: Kind,
    /// How often the kernel was told of it. It says when it has forgotten as often.
    known: u64,
}

#[derive(Debug)]
pub(super) struct Nodes {
    traps: Vec<(PathBuf, Kind)>,
    kinds: Vec<Kind>,
    below: HashMap<u64, Node>,
    by_path: HashMap<PathBuf, u64>,
    next: u64,
}

impl Nodes {
    pub(super) fn new(traps: &[Trap]) -> Self {
        let path = |trap: &Trap| PathBuf::from(OsStr::from_bytes(trap.path.to_bytes()));
        Self {
            traps: traps.iter().map(|trap| (path(trap), trap.kind)).collect(),
            kinds: traps.iter().map(|trap| trap.kind).collect(),
            below: HashMap::new(),
            by_path: HashMap::new(),
            next: FIRST + traps.len() as u64,
        }
    }

    pub(super) fn kinds(&self) -> &[Kind] {
        &self.kinds
    }

    fn trap(&self, node: u64) -> Option<&(PathBuf, Kind)> {
        self.traps.get(usize::try_from(node.checked_sub(FIRST)?).ok()?)
    }

    /// Whether it is a covered place itself, and nothing below one.
    pub(super) fn is_trap(&self, node: u64) -> bool {
        self.trap(node).is_some()
    }

    pub(super) fn get(&self, node: u64) -> Option<(&Path, Kind)> {
        match self.trap(node) {
            Some((path, kind)) => Some((path, *kind)),
            None => self.below.get(&node).map(|node| (node.path.as_path(), node.kind)),
        }
    }

    /// The number of `path`, which the kernel is told of once more. None when there is no room.
    pub(super) fn tell(&mut self, path: PathBuf, kind: Kind) -> Option<u64> {
        if let Some(&number) = self.by_path.get(&path)
            && let Some(node) = self.below.get_mut(&number)
            && node.kind == kind
        {
            node.known += 1;
            return Some(number);
        }
        if self.below.len() >= MOST {
            return None;
        }
        let number = self.next;
        self.next += 1;
        // Something of another kind in the same place gets a number of its own.
        self.by_path.insert(path.clone(), number);
        self.below.insert(number, Node { path, kind, known: 1 });
        Some(number)
    }

    pub(super) fn forget(&mut self, number: u64, count: u64) {
        let Some(node) = self.below.get_mut(&number) else { return };
        node.known = node.known.saturating_sub(count);
        if node.known == 0
            && let Some(node) = self.below.remove(&number)
            && self.by_path.get(&node.path) == Some(&number)
        {
            self.by_path.remove(&node.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_keeps_its_number_until_it_is_forgotten_as_often_as_told() {
        let trap = |path: &str| Trap { path: std::ffi::CString::new(path).unwrap(), kind: Kind::Directory };
        let mut nodes = Nodes::new(&[trap("/a"), trap("/b")]);
        assert_eq!(nodes.get(FIRST + 1), Some((Path::new("/b"), Kind::Directory)));
        assert!(nodes.is_trap(FIRST) && !nodes.is_trap(ROOT) && nodes.get(ROOT).is_none());
        let number = nodes.tell("/a/x".into(), Kind::File).unwrap();
        assert!(!nodes.is_trap(number));
        assert_eq!(nodes.tell("/a/x".into(), Kind::File), Some(number));
        nodes.forget(number, 1);
        assert_eq!(nodes.get(number), Some((Path::new("/a/x"), Kind::File)));
        let other = nodes.tell("/a/x".into(), Kind::Directory).unwrap();
        assert_ne!(other, number);
        nodes.forget(number, 1);
        assert_eq!(nodes.get(number), None);
        assert_eq!(nodes.tell("/a/x".into(), Kind::Directory), Some(other));
        nodes.forget(FIRST, u64::MAX);
        assert!(nodes.get(FIRST).is_some(), "traps are never forgotten");
    }

    #[test]
    fn the_table_has_an_end() {
        let mut nodes = Nodes::new(&[]);
        for index in 0..MOST {
            assert!(nodes.tell(index.to_string().into(), Kind::File).is_some());
        }
        assert_eq!(nodes.tell("more".into(), Kind::File), None);
        assert!(nodes.tell("7".into(), Kind::File).is_some());
    }
}
