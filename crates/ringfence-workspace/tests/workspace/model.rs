//! Random operations on a real workspace and on a map in memory give the same.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use ringfence_workspace::{FileKind, ListOptions, RemoveDepth, Workspace};

use crate::room::Room;

#[derive(Debug, Clone)]
enum Action {
    Write(PathBuf, Vec<u8>),
    WriteNew(PathBuf, Vec<u8>),
    Append(PathBuf, Vec<u8>),
    MakeDirs(PathBuf),
    Remove(PathBuf, RemoveDepth),
    Rename(PathBuf, PathBuf),
    Read(PathBuf),
    Exists(PathBuf),
}

#[derive(Debug, Clone, PartialEq)]
enum Node {
    File(Vec<u8>),
    Directory,
}

/// What came of an action, as far as both sides can say.
#[derive(Debug, PartialEq)]
enum Outcome {
    Refused,
    Done,
    Said(bool),
    Content(Vec<u8>),
}

fn path() -> impl Strategy<Value = PathBuf> {
    let name = proptest::sample::select(&["a", "b", "a..b", "..c"][..]);
    proptest::collection::vec(name, 1..4).prop_map(|names| names.iter().collect())
}

fn action() -> impl Strategy<Value = Action> {
    let content = || proptest::collection::vec(any::<u8>(), 0..8);
    let depth = prop_oneof![Just(RemoveDepth::Single), Just(RemoveDepth::Recursive)];
    prop_oneof![
        (path(), content()).prop_map(|(path, content)| Action::Write(path, content)),
        (path(), content()).prop_map(|(path, content)| Action::WriteNew(path, content)),
        (path(), content()).prop_map(|(path, content)| Action::Append(path, content)),
        path().prop_map(Action::MakeDirs),
        (path(), depth).prop_map(|(path, depth)| Action::Remove(path, depth)),
        (path(), path()).prop_map(|(from, to)| Action::Rename(from, to)),
        path().prop_map(Action::Read),
        path().prop_map(Action::Exists),
    ]
}

#[derive(Debug, Default)]
struct Model(BTreeMap<PathBuf, Node>);

impl Model {
    fn parents(path: &Path) -> impl Iterator<Item = &Path> {
        path.ancestors().skip(1).filter(|parent| !parent.as_os_str().is_empty())
    }

    fn below_a_file(&self, path: &Path) -> bool {
        Self::parents(path).any(|parent| matches!(self.0.get(parent), Some(Node::File(_))))
    }

    fn make_parents(&mut self, path: &Path) {
        for parent in Self::parents(path) {
            self.0.entry(parent.to_owned()).or_insert(Node::Directory);
        }
    }

    fn has_children(&self, path: &Path) -> bool {
        self.0.keys().any(|key| key != path && key.starts_with(path))
    }

    fn write(&mut self, path: &Path, content: Vec<u8>) -> Outcome {
        if self.below_a_file(path) || self.0.get(path) == Some(&Node::Directory) {
            return Outcome::Refused;
        }
        self.make_parents(path);
        self.0.insert(path.to_owned(), Node::File(content));
        Outcome::Done
    }

    fn apply(&mut self, action: &Action) -> Outcome {
        match action {
            Action::Write(path, content) => self.write(path, content.clone()),
            Action::WriteNew(path, content) => {
                if self.below_a_file(path) {
                    return Outcome::Refused;
                }
                if self.0.contains_key(path) {
                    return Outcome::Said(false);
                }
                self.write(path, content.clone());
                Outcome::Said(true)
            }
            Action::Append(path, content) => {
                let mut whole = match self.0.get(path) {
                    Some(Node::File(old)) => old.clone(),
                    _ => vec![],
                };
                whole.extend(content);
                self.write(path, whole)
            }
            Action::MakeDirs(path) => {
                if self.below_a_file(path) || matches!(self.0.get(path), Some(Node::File(_))) {
                    return Outcome::Refused;
                }
                self.make_parents(path);
                Outcome::Said(self.0.insert(path.clone(), Node::Directory).is_none())
            }
            Action::Remove(path, depth) => {
                if self.below_a_file(path) {
                    return Outcome::Refused;
                }
                if !self.0.contains_key(path) {
                    return Outcome::Said(false);
                }
                if *depth == RemoveDepth::Single && self.has_children(path) {
                    return Outcome::Refused;
                }
                self.0.retain(|key, _| !key.starts_with(path));
                Outcome::Said(true)
            }
            Action::Rename(from, to) => self.rename(from, to),
            Action::Read(path) => match self.0.get(path) {
                Some(Node::File(content)) => Outcome::Content(content.clone()),
                _ => Outcome::Refused,
            },
            Action::Exists(path) => Outcome::Said(self.0.contains_key(path)),
        }
    }

    fn rename(&mut self, from: &Path, to: &Path) -> Outcome {
        if self.below_a_file(from) || !self.0.contains_key(from) || self.below_a_file(to) {
            return Outcome::Refused;
        }
        self.make_parents(to);
        if from == to {
            return Outcome::Done;
        }
        let source = self.0[from].clone();
        let fits = match (&source, self.0.get(to)) {
            (_, None) => true,
            (Node::File(_), Some(Node::File(_))) => true,
            (Node::Directory, Some(Node::Directory)) => !self.has_children(to),
            _ => false,
        };
        if to.starts_with(from) || !fits {
            return Outcome::Refused;
        }
        let moved: Vec<_> = self.0.keys().filter(|key| key.starts_with(from)).cloned().collect();
        for key in moved {
            if let Some(node) = self.0.remove(&key) {
                let below = key.strip_prefix(from).unwrap();
                let new = if below.as_os_str().is_empty() { to.to_owned() } else { to.join(below) };
                self.0.insert(new, node);
            }
        }
        Outcome::Done
    }
}

fn really(workspace: &Workspace, action: &Action) -> Outcome {
    let done = |outcome: ringfence_model::Result<()>| outcome.map_or(Outcome::Refused, |()| Outcome::Done);
    let said = |outcome: ringfence_model::Result<bool>| outcome.map_or(Outcome::Refused, Outcome::Said);
    match action {
        Action::Write(path, content) => done(workspace.write(path, content)),
        Action::WriteNew(path, content) => said(workspace.write_new(path, content)),
        Action::Append(path, content) => done(workspace.append(path, content)),
        Action::MakeDirs(path) => said(workspace.make_dirs(path)),
        Action::Remove(path, depth) => said(workspace.remove(path, *depth)),
        Action::Rename(from, to) => done(workspace.rename(from, to)),
        Action::Read(path) => workspace.read(path).map_or(Outcome::Refused, Outcome::Content),
        Action::Exists(path) => Outcome::Said(workspace.exists(path)),
    }
}

fn everything(workspace: &Workspace) -> BTreeMap<PathBuf, Node> {
    let listing = workspace.list(Path::new(""), ListOptions::recursive()).unwrap();
    let nodes = listing.entries.into_iter().map(|entry| match entry.kind {
        FileKind::Directory => (entry.path, Node::Directory),
        _ => {
            let content = workspace.read(&entry.path).unwrap();
            (entry.path, Node::File(content))
        }
    });
    nodes.collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn a_workspace_behaves_like_a_map(actions in proptest::collection::vec(action(), 1..25)) {
        let room = Room::new();
        let mut model = Model::default();
        for action in &actions {
            let want = model.apply(action);
            let got = really(&room.workspace, action);
            prop_assert_eq!(got, want, "{:?}", action);
            prop_assert_eq!(everything(&room.workspace), model.0.clone(), "after {:?}", action);
        }
        room.assert_outside_untouched();
    }
}
