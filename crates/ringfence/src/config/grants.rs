//! Permanent grants, in the user's own file: `grants: [{path, access, recursive}]`.
//!
//! The file is changed in place of the reader's eye: comments, order and layout stay. Writers take turns by
//! a lock beside it, and the new text replaces the old one in a single step.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use jsonc_parser::cst::{CstInputValue, CstNode, CstRootNode};
use ringfence_model::config::{ConfigFile, PermanentGrant, Text};
use ringfence_model::{Access, Error, ErrorKind, Result};
use rustix::fs::{FlockOperation, OFlags, flock};

use super::source;

/// The effect of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    Written,
    /// It was so already.
    Unchanged,
}

/// Adds a grant to the user's file, which is made when there is none. A grant that another one covers is
/// not added; one that is wider than another for the same path takes its place.
pub fn add_permanent_grant(file: &Path, grant: &PermanentGrant) -> Result<Change> {
    if !(Path::new(&grant.path).is_absolute() || grant.path == "~" || grant.path.starts_with("~/")) {
        let message = format!("a grant needs an absolute path, not `{}`", grant.path);
        return Err(Error::new(ErrorKind::Validation, message));
    }
    edit(file, |root| {
        let object = root.object_value_or_set();
        let list = object.array_value_or_set("grants");
        let mut same_path = Vec::new();
        for element in list.elements() {
            let Some(known) = read_grant(&element) else { continue };
            if covers(&known, grant) {
                return Change::Unchanged;
            }
            if covers(grant, &known) {
                same_path.push(element);
            }
        }
        same_path.into_iter().for_each(CstNode::remove);
        list.append(to_input(grant));
        list.ensure_multiline();
        Change::Written
    })
}

/// Removes every grant for exactly this path; says how many there were.
pub fn revoke_permanent_grant(file: &Path, path: &str) -> Result<usize> {
    if !file.exists() {
        return Ok(0);
    }
    let mut removed = 0;
    edit(file, |root| {
        let list = root.object_value().and_then(|object| object.array_value("grants"));
        for element in list.iter().flat_map(|list| list.elements()) {
            if read_grant(&element).is_some_and(|grant| grant.path == path) {
                element.remove();
                removed += 1;
            }
        }
        if removed > 0 { Change::Written } else { Change::Unchanged }
    })?;
    Ok(removed)
}

/// Writes down that nobody is asked about this path or address again.
pub fn add_never_ask(file: &Path, resource: &str) -> Result<Change> {
    add_to_list(file, "neverAsk", resource)
}

/// Removes exactly this; says how many there were.
pub fn remove_never_ask(file: &Path, resource: &str) -> Result<usize> {
    remove_from_list(file, &["neverAsk"], |text| text == resource)
}

/// Adds a text to a list of the user's file, which is made when there is none.
pub(super) fn add_to_list(file: &Path, name: &str, text: &str) -> Result<Change> {
    edit(file, |root| {
        let list = root.object_value_or_set().array_value_or_set(name);
        if list.elements().iter().any(|element| text_of(element).as_deref() == Some(text)) {
            return Change::Unchanged;
        }
        list.append(CstInputValue::String(text.to_owned()));
        list.ensure_multiline();
        Change::Written
    })
}

/// Removes what is meant from a list of the user's file, whichever of its names it has there; says how many there were.
pub(super) fn remove_from_list(
    file: &Path,
    names: &[&str],
    is_meant: impl Fn(&str) -> bool,
) -> Result<usize> {
    if !file.exists() {
        return Ok(0);
    }
    let mut removed = 0;
    edit(file, |root| {
        let object = root.object_value();
        let lists = names.iter().filter_map(|name| object.as_ref()?.array_value(name));
        for element in lists.flat_map(|list| list.elements()) {
            if text_of(&element).is_some_and(|text| is_meant(&text)) {
                element.remove();
                removed += 1;
            }
        }
        if removed > 0 { Change::Written } else { Change::Unchanged }
    })?;
    Ok(removed)
}

/// What nobody is asked about, by the user's file.
pub fn never_asked(file: &Path) -> Result<Vec<String>> {
    let list = read(file)?.never_ask.unwrap_or_default();
    Ok(list.into_iter().map(Text::into_string).collect())
}

/// The agents that a file has a section for.
pub fn agent_names(file: &Path) -> Result<Vec<String>> {
    Ok(read(file)?.agents.unwrap_or_default().into_keys().collect())
}

/// The provider that a file names.
pub fn provider_named(file: &Path) -> Result<Option<String>> {
    Ok(read(file)?.provider.value().map(Text::into_string))
}

fn text_of(element: &CstNode) -> Option<String> {
    element.as_string_lit()?.decoded_value().ok()
}

/// The grants in the user's file.
pub fn permanent_grants(file: &Path) -> Result<Vec<PermanentGrant>> {
    Ok(read(file)?.grants.unwrap_or_default())
}

fn covers(wide: &PermanentGrant, narrow: &PermanentGrant) -> bool {
    wide.path == narrow.path
        && (wide.access == narrow.access || wide.access == Access::Write)
        && (wide.recursive || !narrow.recursive)
}

fn read_grant(element: &CstNode) -> Option<PermanentGrant> {
    let text = element.to_string();
    let value = source::to_value(&source::parse_ast(&text).ok()??, &source::Lines::new(&text)).ok()?;
    serde_json::from_value(value).ok()
}

fn to_input(grant: &PermanentGrant) -> CstInputValue {
    CstInputValue::Object(vec![
        ("path".to_owned(), CstInputValue::String(grant.path.clone())),
        ("access".to_owned(), CstInputValue::String(grant.access.to_string())),
        ("recursive".to_owned(), CstInputValue::Bool(grant.recursive)),
    ])
}

/// Changes the file under the lock; nothing is written when nothing changes. A file that is not a valid
/// configuration is not touched: what is added to it would have no effect.
pub(super) fn edit(file: &Path, change: impl FnOnce(&CstRootNode) -> Change) -> Result<Change> {
    // A link (as managers of dotfiles make them) stays one: its target is what changes.
    let target = std::fs::canonicalize(file).unwrap_or_else(|_| file.to_path_buf());
    let (Some(directory), Some(name)) = (target.parent(), target.file_name()) else {
        return Err(Error::new(ErrorKind::InvalidConfig, format!("{} is not a file", file.display())));
    };
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)
        .map_err(|error| failed("create", directory, error))?;
    let _lock = lock(directory, name)?;
    let text = match std::fs::read_to_string(&target) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => "{\n}\n".to_owned(),
        Err(error) => return Err(failed("read", &target, error)),
    };
    let text = text.trim_start_matches('\u{feff}');
    valid(&target, text)?;
    let root = CstRootNode::parse(text, &source::options())
        .map_err(|error| Error::new(ErrorKind::InvalidConfig, format!("{}: {error}", target.display())))?;
    if change(&root) == Change::Unchanged {
        return Ok(Change::Unchanged);
    }
    let text = root.to_string();
    valid(&target, &text)?;
    replace(directory, &target, &text)?;
    Ok(Change::Written)
}

/// What the user's file says; nothing when there is none.
pub(super) fn read(file: &Path) -> Result<ConfigFile> {
    match std::fs::read_to_string(file) {
        Ok(text) => valid(file, &text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(ConfigFile::default()),
        Err(error) => Err(failed("read", file, error)),
    }
}

fn valid(file: &Path, text: &str) -> Result<ConfigFile> {
    source::parse(file, text).map(|parsed| parsed.config).map_err(|problem| {
        Error::new(ErrorKind::InvalidConfig, problem.to_string())
            .hint("put the file right first; `ringfence config check` shows everything that is wrong")
    })
}

/// Held until dropped; released by the kernel when the process ends in any way.
fn lock(directory: &Path, name: &std::ffi::OsStr) -> Result<File> {
    let mut lock_name = std::ffi::OsString::from(".");
    lock_name.push(name);
    lock_name.push(".lock");
    let path = directory.join(lock_name);
    let file = new_file(&path, OpenOptions::new().create(true).truncate(false))
        .map_err(|error| failed("lock", &path, error))?;
    flock(&file, FlockOperation::LockExclusive).map_err(|error| failed("lock", &path, error.into()))?;
    Ok(file)
}

/// Opens for writing what only its owner can read, and never through a link.
fn new_file(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let no_follow = OFlags::NOFOLLOW.bits().cast_signed();
    options.write(true).mode(0o600).custom_flags(no_follow).open(path)
}

/// Writes beside the file, then renames over it: a reader sees the old text or the new one, never half.
fn replace(directory: &Path, target: &Path, text: &str) -> Result<()> {
    let temporary = Temporary(directory.join(format!(".sandbox.json.{}.tmp", std::process::id())));
    // Left over from a process that had our number and died: we hold the lock, so nobody uses it.
    let _ = std::fs::remove_file(&temporary.0);
    let mut file = new_file(&temporary.0, OpenOptions::new().create_new(true))
        .map_err(|error| failed("write", &temporary.0, error))?;
    file.write_all(text.as_bytes())
        .and_then(|()| file.sync_all())
        .and_then(|()| std::fs::rename(&temporary.0, target))
        .map_err(|error| failed("write", target, error))?;
    // The rename itself is safe on disk only with its directory; a directory that cannot be synced (some
    // network file systems) is no reason to report a failure that did not happen.
    if let Ok(directory) = File::open(directory) {
        let _ = directory.sync_all();
    }
    Ok(())
}

/// Removed when dropped; after the rename there is nothing left to remove.
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn failed(what: &str, path: &Path, error: io::Error) -> Error {
    Error::new(ErrorKind::InvalidConfig, format!("cannot {what} {}", path.display())).caused_by(error)
}
