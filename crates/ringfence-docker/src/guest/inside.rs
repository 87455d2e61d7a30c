//! The policy, in the container's words.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use ringfence_fence::jobs::JobInfo;
use ringfence_model::{
    Environment, ExecResult, Grant, PathPattern, PathRule, Policy, RuleLayer, RuleSource, Violation,
};
use ringfence_workspace::PathMap;

use crate::options::{ContainerSpec, Mount};

/// A name that no image has a use for.
const HOME: &str = "/home/sandbox";

/// The policy for the guest: the same rules about the same files, where the container has them.
#[must_use]
pub fn policy(policy: &Policy, spec: &ContainerSpec) -> Policy {
    let map = spec.path_map();
    let mut inside = policy.clone();
    let files = &mut inside.filesystem;
    for rules in [&mut files.allow_write, &mut files.allow_read] {
        translate(rules, &map);
    }
    for rules in [&mut files.deny, &mut files.protect] {
        *rules = rules.iter().flat_map(|rule| holding_inside(rule, &spec.mounts)).collect();
    }
    // Secrets of the host's system are not in the image: what it has under their names is its own.
    files.deny.retain(|rule| {
        let built_in = rule.source.layer == RuleLayer::BuiltIn;
        let elsewhere = rule.path.as_literal().is_some_and(|path| map.to_host(path).is_none());
        !(built_in && elsewhere)
    });
    // The container's own places for temporary files are private to it.
    files.private.clear();
    for entry in &spec.tmpfs {
        let path = entry.split(':').next().unwrap_or_default();
        files.allow_write.push(of_the_container(Path::new(path)));
    }
    // So are its terminals.
    files.allow_write.push(of_the_container(Path::new("/dev/pts")));
    for mount in &spec.mounts {
        let rules = if mount.read_only { &mut files.allow_read } else { &mut files.allow_write };
        rules.push(of_the_container(&mount.target));
    }
    for grant in &mut files.grants {
        if let Some(path) = map.to_container(&grant.path) {
            grant.path = path;
        }
    }
    // The whole tree is held by the container's own limits.
    inside.limits.max_memory_bytes = None;
    inside.limits.max_processes = None;
    inside.environment = Environment { pass: vec!["*".to_owned()], set: policy.environment.set.clone() };
    inside
}

fn of_the_container(path: &Path) -> PathRule {
    PathRule::new(PathPattern::literal(path), RuleSource::layer(RuleLayer::Detected).with_key("container"))
}

/// What a rule that takes something away says about each mount, under its name inside: also a rule about a directory that the mount
/// lies in. One that is about no mount is about a path of the image; one for every depth holds everywhere by itself.
fn holding_inside(rule: &PathRule, mounts: &[Mount]) -> Vec<PathRule> {
    let anchored = rule.path.to_syntax().starts_with('/');
    let moved = |mount: &Mount| rule.path.moved(&mount.source, &mount.target);
    let inside: Vec<PathPattern> = if anchored { mounts.iter().flat_map(moved).collect() } else { vec![] };
    if inside.is_empty() {
        return vec![rule.clone()];
    }
    inside.into_iter().map(|path| PathRule::new(path, rule.source.clone())).collect()
}

/// A rule about a place that the container sees elsewhere is about that place.
fn translate(rules: &mut [PathRule], map: &PathMap) {
    for rule in rules {
        let text = rule.path.to_syntax().into_owned();
        let moved = match rule.path.as_literal() {
            Some(path) => map.to_container(path).map(|path| PathPattern::literal(&path)),
            None => moved_glob(&text, map),
        };
        if let Some(moved) = moved {
            rule.path = moved;
        }
    }
}

/// The part before the first component with a wildcard is a plain path.
fn moved_glob(text: &str, map: &PathMap) -> Option<PathPattern> {
    let special = text.find(['*', '?', '[', '\\'])?;
    let end = text[..special].rfind('/')?;
    let (plain, rest) = text.split_at(end);
    let moved = map.to_container(Path::new(if plain.is_empty() { return None } else { plain }))?;
    let moved = PathPattern::literal(&moved).to_syntax().into_owned();
    Some(PathPattern::parse(&format!("{moved}{rest}")))
}

/// What of the caller's environment goes in: what the policy passes, unless it is about the host itself.
#[must_use]
pub fn environment(
    policy: &Policy,
    caller: &BTreeMap<OsString, OsString>,
    spec: &ContainerSpec,
) -> BTreeMap<String, String> {
    use ringfence_model::environment::{DEFAULT_PASS, PORTABLE};
    let own: Vec<String> = policy
        .environment
        .pass
        .iter()
        .filter(|name| !DEFAULT_PASS.contains(&name.as_str()) || PORTABLE.contains(&name.as_str()))
        .cloned()
        .collect();
    let passing = Environment { pass: own, set: BTreeMap::new() };
    let mut inside: BTreeMap<String, String> = passing
        .select(caller)
        .into_iter()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    inside.extend(spec.env.iter().cloned());
    // The fence gives its sandbox a private one. It must not be the workspace, which would be private then.
    inside.insert("HOME".to_owned(), HOME.to_owned());
    inside
}

/// Back to where the host has it, as far as it does.
#[must_use]
pub fn outside(grant: Grant, map: &PathMap) -> Grant {
    let path = map.to_host(&grant.path).unwrap_or_else(|| grant.path.clone());
    Grant { path, ..grant }
}

/// What was refused, as the host names it: the same file under both names must not be two in the ledger.
#[must_use]
pub fn told_outside(violation: Violation, map: &PathMap) -> Violation {
    let Some(host) = map.to_host(Path::new(&violation.resource)) else { return violation };
    let host = host.display().to_string();
    let message = violation.message.replace(&violation.resource, &host);
    Violation { resource: host, message, ..violation }
}

/// What came of a command, as the host names it.
#[must_use]
pub fn result_outside(result: ExecResult, map: &PathMap) -> ExecResult {
    let violations = told_all(result.violations, map);
    let blocked_resource = result.blocked_resource.map(|resource| name_outside(resource, map));
    let blocking =
        violations.iter().rev().find(|violation| Some(&violation.resource) == blocked_resource.as_ref());
    let blocked_reason = blocking.map(|violation| violation.message.clone()).or(result.blocked_reason);
    ExecResult { violations, blocked_resource, blocked_reason, ..result }
}

/// A job, as the host names what it was refused.
#[must_use]
pub fn job_outside(job: JobInfo, map: &PathMap) -> JobInfo {
    let violations = told_all(job.violations, map);
    let blocked_resource = job.blocked_resource.map(|resource| name_outside(resource, map));
    JobInfo { violations, blocked_resource, ..job }
}

fn told_all(violations: Vec<Violation>, map: &PathMap) -> Vec<Violation> {
    violations.into_iter().map(|violation| told_outside(violation, map)).collect()
}

fn name_outside(resource: String, map: &PathMap) -> String {
    map.to_host(Path::new(&resource)).map_or(resource, |host| host.display().to_string())
}

/// Where the container has a directory of the host; one that it has not may be one of its own.
#[must_use]
pub fn directory(path: &Path, map: &PathMap) -> PathBuf {
    map.to_container(path).unwrap_or_else(|| path.to_owned())
}

#[cfg(test)]
mod tests {
    use ringfence_model::Access;
    use serde_json::json;

    use super::*;
    use crate::options::{ContainerRequest, Forbidden, Surroundings, build};

    /// The host denies something about a project and about a file that is shown besides; the same holds inside.
    #[test]
    fn what_is_denied_or_protected_on_the_host_is_so_inside() {
        let room = tempfile::tempdir().unwrap();
        let top = room.path().canonicalize().unwrap();
        let (project, shown) = (top.join("me/project"), top.join("vault/shown"));
        std::fs::create_dir_all(&project).unwrap();
        std::fs::create_dir_all(&shown).unwrap();
        let bind = format!("{}:/shown:ro", shown.display());
        let section = serde_json::from_value(json!({ "binds": [bind] })).unwrap();
        let mut request = ContainerRequest::new(&section, "key", &project);
        request.surroundings = Surroundings {
            bind_roots: vec![shown.clone()],
            forbidden: Vec::<Forbidden>::new(),
            ..Surroundings::default()
        };
        let spec = build(&request).unwrap();
        let rules = |texts: &[String]| texts.iter().map(|text| PathRule::built_in(text.as_str())).collect();
        let at = |path: &Path, rest: &str| format!("{}{rest}", path.display());
        let mut host = Policy::default();
        host.filesystem.allow_write = rules(&[at(&project, "")]);
        host.filesystem.allow_read = rules(&[at(&shown, "")]);
        host.filesystem.deny =
            rules(&[at(&top, "/vault"), at(&top, "/me/**/*.pem"), at(&project, "/private")]);
        host.filesystem.protect = rules(&[at(&top, "/*/project/.git")]);
        let inside = policy(&host, &spec);
        for (outside, name, access, allowed) in [
            (shown.join("a"), "/shown/a", Access::Read, false),
            (project.join("x/key.pem"), "/workspace/x/key.pem", Access::Read, false),
            (project.join("private/x"), "/workspace/private/x", Access::Read, false),
            (project.join(".git/config"), "/workspace/.git/config", Access::Write, false),
            (project.join("src/a"), "/workspace/src/a", Access::Write, true),
        ] {
            assert_eq!(host.filesystem.decide(&outside, access).allowed(), allowed, "{}", outside.display());
            let decided = inside.filesystem.decide(Path::new(name), access);
            assert_eq!(decided.allowed(), allowed, "{name}: {:?}", inside.filesystem);
        }
    }
}
