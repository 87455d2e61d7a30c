//! Binds: which directories of the host a container may see besides its workspaces, and where.

use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Component, Path, PathBuf};

use super::forbidden::{ForbiddenPlaces, Relation};
use super::refusal::Findings;
use super::spec::Mount;

const KEY: &str = "binds";
pub(super) const EXTERNAL: &str = "dangerouslyAllowExternalBindSources";
pub(super) const RESERVED: &str = "dangerouslyAllowReservedContainerTargets";

/// Where the container's own system is; a mount there breaks it or opens a door.
const SYSTEM_TARGETS: &[&str] = &["/proc", "/sys", "/dev"];

/// What the rules of binds depend on.
#[derive(Debug)]
pub(super) struct BindRules<'a> {
    pub(super) forbidden: &'a ForbiddenPlaces,
    /// With links resolved.
    pub(super) roots: Vec<PathBuf>,
    /// Where the workspaces are seen.
    pub(super) reserved: Vec<PathBuf>,
    pub(super) allow_external: bool,
    pub(super) allow_reserved: bool,
}

/// `host:container[:ro|rw]`, checked.
pub(super) fn check(text: &str, rules: &BindRules<'_>, findings: &mut Findings) -> Option<Mount> {
    let (source, target, read_only) = parse(text, findings)?;
    let source = check_source(text, source, rules, findings);
    let target = check_target(KEY, text, target, rules, findings);
    Some(Mount { source: source?, target: target?, read_only })
}

fn parse<'t>(text: &'t str, findings: &mut Findings) -> Option<(&'t str, &'t str, bool)> {
    let parts: Vec<&str> = text.split(':').collect();
    let (source, target, options) = match parts.as_slice() {
        [source, target] => (*source, *target, "rw"),
        [source, target, options] => (*source, *target, *options),
        _ => {
            let rule =
                "a bind has the form host:container or host:container:ro, and no path in it has a colon";
            findings.refuse(KEY, text, rule, "write it like /data/set:/data:ro");
            return None;
        }
    };
    let mut read_only = false;
    for option in options.split(',') {
        match option {
            "ro" => read_only = true,
            "rw" => {}
            _ => {
                let rule = format!("{option:?} is no option of a bind");
                findings.refuse(KEY, text, rule, "use ro or rw, or leave it out");
                return None;
            }
        }
    }
    Some((source, target, read_only))
}

fn check_source(text: &str, source: &str, rules: &BindRules<'_>, findings: &mut Findings) -> Option<PathBuf> {
    let mut refuse = |rule: String, remedy: &str| {
        findings.refuse(KEY, text, rule, remedy);
        None
    };
    let path = match plain_absolute(source) {
        Ok(path) => path,
        Err(rule) => {
            return refuse(format!("the source {rule}"), "write the whole path, as `pwd -P` prints it");
        }
    };
    let resolved = match std::fs::canonicalize(&path) {
        Ok(resolved) => resolved,
        Err(error) => {
            let rule = format!("the source cannot be resolved: {error}");
            return refuse(rule, "make it first; an engine would make a missing directory as root");
        }
    };
    // Both: what the name means to a reader, and where it really leads.
    for place in [&path, &resolved] {
        if let Some((relation, forbidden)) = rules.forbidden.touched_by(place) {
            let led =
                if *place == path { String::new() } else { format!(" leads to {}, which", place.display()) };
            let rule = format!(
                "the source{led} {} {}: {}",
                relation.words(),
                forbidden.path.display(),
                forbidden.why
            );
            return refuse(
                rule,
                "bind a directory that holds only what the sandbox may see, or copy that there",
            );
        }
    }
    if let Some(rule) = special_file(&resolved) {
        return refuse(rule.to_owned(), "bind a directory or an ordinary file");
    }
    if rules.roots.iter().any(|root| resolved.starts_with(root)) {
        return Some(resolved);
    }
    if rules.allow_external {
        let shown = resolved.display();
        findings.break_glass(EXTERNAL, format!("the bind {text:?} shows {shown}, which is in no workspace"));
        return Some(resolved);
    }
    let roots: Vec<String> = rules.roots.iter().map(|root| root.display().to_string()).collect();
    let rule = format!("the source is outside of the directories that may be bound ({})", roots.join(", "));
    refuse(rule, &format!("move it into one of them, or set docker.{EXTERNAL} to true if it must be seen"))
}

/// Sockets, devices and pipes lead out of the fence; so may a file that has another name somewhere else.
fn special_file(path: &Path) -> Option<&'static str> {
    let Ok(found) = std::fs::symlink_metadata(path) else { return Some("the source is gone") };
    let kind = found.file_type();
    if kind.is_dir() {
        return None;
    }
    if kind.is_socket() {
        return Some("the source is a socket, and whoever serves it is outside of the fence");
    }
    if !kind.is_file() {
        return Some("the source is a device or a pipe");
    }
    (found.nlink() > 1).then_some("the source is a file with several names, and one of them may be forbidden")
}

/// Checks a place inside the container; `key` is the setting that `text` was written in.
pub(super) fn check_target(
    key: &str,
    text: &str,
    target: &str,
    rules: &BindRules<'_>,
    findings: &mut Findings,
) -> Option<PathBuf> {
    let path = match plain_absolute(target) {
        Ok(path) => path,
        Err(rule) => {
            findings.refuse(key, text, format!("the target {rule}"), "write a path such as /data");
            return None;
        }
    };
    if let Some(rule) = system_target(&path) {
        findings.refuse(key, text, rule, "choose another place, such as /data");
        return None;
    }
    let reserved = rules.reserved.iter().find_map(|place| Some((Relation::between(&path, place)?, place)));
    let Some((relation, place)) = reserved else { return Some(path) };
    let rule = format!("the target {} {}, where a workspace is seen", relation.words(), place.display());
    if rules.allow_reserved {
        findings.break_glass(RESERVED, format!("{key} {text:?}: {rule}"));
        return Some(path);
    }
    let remedy = format!("choose another place, such as /data, or set docker.{RESERVED} to true");
    findings.refuse(key, text, rule, remedy);
    None
}

/// Why nothing may be mounted there, whoever wants it.
pub(super) fn system_target(path: &Path) -> Option<String> {
    if path == Path::new("/") {
        return Some("the target is the root, which is the image's".to_owned());
    }
    let place = SYSTEM_TARGETS.iter().find(|place| path.starts_with(place))?;
    Some(format!("the target is in {place}, which is the container's own"))
}

/// An absolute path without `..`; what changes nothing (`//`, `/./`, a slash at the end) is taken out.
pub(super) fn plain_absolute(text: &str) -> Result<PathBuf, &'static str> {
    if !text.starts_with('/') {
        return Err("is not absolute");
    }
    if text.chars().any(char::is_control) {
        return Err("has a control character");
    }
    let path = Path::new(text);
    if path.components().any(|component| component == Component::ParentDir) {
        return Err("goes up with `..`");
    }
    Ok(path.components().collect())
}
