//! What a container is called, and who it is.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use ringfence_model::Result;
use ringfence_model::config::{DockerSection, Scope, WorkspaceAccess};
use ringfence_workspace::session_slug;
use ringfence_workspace::slug::SHARED;
use sha1::{Digest as _, Sha1};

use super::ContainerRequest;
use super::binds::{plain_absolute, system_target};
use super::mounts::AGENT;
use super::refusal::Findings;

/// The mark of every container that is ours.
pub const LABEL_SANDBOX: &str = "ringfence.sandbox";
/// The key of the scope it is for.
pub const LABEL_SESSION_KEY: &str = "ringfence.sessionKey";
pub const LABEL_CREATED: &str = "ringfence.createdAtMs";
pub const LABEL_CONFIG_HASH: &str = "ringfence.configHash";

/// The part of a name that is left for the prefix when the longest slug follows.
const LONGEST_PREFIX: usize = 63 - 41;

/// Which register knows it; see [`registry_mark`].
pub const LABEL_REGISTRY: &str = "ringfence.registry";

/// What a container is named by. A sandbox that works in a project is that project's own: the same agent in two projects has two
/// containers, and none is taken for the other.
#[must_use]
pub fn container_key(scope_key: &str, workspace: &Path, access: WorkspaceAccess) -> String {
    match access {
        WorkspaceAccess::None => scope_key.trim().to_owned(),
        WorkspaceAccess::Ro | WorkspaceAccess::Rw => format!("{}@{}", scope_key.trim(), workspace.display()),
    }
}

/// The name of the container with that key.
pub fn container_name(docker: &DockerSection, container_key: &str) -> Result<String> {
    let mut findings = Findings::default();
    let name = name(&super::effective(docker), container_key, &mut findings);
    findings.settle()?;
    Ok(name)
}

/// Tells the registers of one machine apart: several people, or several homes of one, may share an engine.
#[must_use]
pub fn registry_mark(ledger: &Path) -> String {
    let digest = Sha1::digest(ledger.as_os_str().as_bytes());
    digest.iter().take(6).map(|byte| format!("{byte:02x}")).collect()
}

/// Who shares the container, by the key it is for.
#[must_use]
pub fn scope_of(scope_key: &str) -> Scope {
    match scope_key.strip_prefix("agent:") {
        _ if scope_key == SHARED => Scope::Shared,
        Some(agent) if !agent.contains(':') => Scope::Agent,
        _ => Scope::Session,
    }
}

pub(super) fn name(docker: &DockerSection, container_key: &str, findings: &mut Findings) -> String {
    let prefix = docker.container_prefix.as_ref().map_or("", |text| text.as_str());
    let safe = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-');
    if !prefix.as_bytes().first().is_some_and(u8::is_ascii_alphanumeric) || !prefix.bytes().all(safe) {
        let rule =
            "a container's name begins with a letter or digit and has no others than those, _, . and -";
        findings.refuse("containerPrefix", prefix, rule, "write something like ringfence-sbx-");
    } else if prefix.len() > LONGEST_PREFIX {
        // Cutting the name at its end would cut what tells two sessions apart.
        let rule =
            format!("with more than {LONGEST_PREFIX} characters two sessions could have one container");
        findings.refuse("containerPrefix", prefix, rule, "write a shorter one");
    }
    let slug = if container_key == SHARED { SHARED.to_owned() } else { session_slug(container_key) };
    ringfence_workspace::container_name(prefix, &slug)
}

pub(super) fn image(docker: &DockerSection, findings: &mut Findings) -> String {
    let image = docker.image.as_ref().map_or("", |text| text.as_str()).trim();
    let safe = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-' | b'/' | b':' | b'@');
    let begins = image.as_bytes().first().is_some_and(u8::is_ascii_alphanumeric);
    if !begins || !image.bytes().all(safe) || image.len() > 512 {
        let remedy = "write something like debian:bookworm-slim";
        findings.refuse("image", image, "it is no name of an image", remedy);
    }
    image.to_owned()
}

pub(super) fn workdir(docker: &DockerSection, findings: &mut Findings) -> PathBuf {
    let written = docker.workdir.as_ref().map_or("", |text| text.as_str());
    check_workdir(written).unwrap_or_else(|rule| {
        findings.refuse("workdir", written, rule, "write something like /workspace");
        // So that the checks of other keys speak of their own mistakes only.
        PathBuf::from("/workspace")
    })
}

fn check_workdir(written: &str) -> Result<PathBuf, String> {
    let path = plain_absolute(written).map_err(|rule| format!("the directory {rule}"))?;
    if let Some(rule) = system_target(&path) {
        return Err(rule);
    }
    if path.starts_with(AGENT) || written.contains(':') {
        return Err(format!("it is in {AGENT}, or has a colon"));
    }
    Ok(path)
}

/// The user that is written; else the owner of the workspace, so that what is made inside is his outside.
pub(super) fn user(docker: &DockerSection, workspace: &Path, findings: &mut Findings) -> Option<String> {
    let Some(written) = docker.user.as_ref().map(|text| text.as_str().trim()).filter(|text| !text.is_empty())
    else {
        return std::fs::metadata(workspace).ok().map(|found| format!("{}:{}", found.uid(), found.gid()));
    };
    let part = |part: &str| {
        let safe = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.');
        !part.is_empty() && !part.starts_with('-') && part.bytes().all(safe)
    };
    let (user, group) = written.split_once(':').map_or((written, None), |(user, group)| (user, Some(group)));
    if !part(user) || group.is_some_and(|group| !part(group)) {
        let remedy = "write 1000:1000 or a name that the image knows";
        findings.refuse("user", written, "it is neither user nor user:group", remedy);
    }
    Some(written.to_owned())
}

/// Everything, and what is written besides: leaving `ALL` out would be adding capabilities.
pub(super) fn dropped_capabilities(docker: &DockerSection, findings: &mut Findings) -> Vec<String> {
    let mut dropped = vec!["ALL".to_owned()];
    let written: Vec<&str> = docker.cap_drop.iter().flatten().map(|text| text.as_str().trim()).collect();
    if !written.iter().any(|name| name.eq_ignore_ascii_case("ALL")) {
        findings.warn("capDrop", "ALL stays in the list: a sandbox has no capabilities");
    }
    for name in written.into_iter().filter(|name| !name.is_empty() && !name.eq_ignore_ascii_case("ALL")) {
        if name.bytes().all(|b| b.is_ascii_alphabetic() || b == b'_') {
            dropped.push(name.to_ascii_uppercase());
        } else {
            findings.refuse("capDrop", name, "it is no name of a capability", "write ALL");
        }
    }
    dropped
}

pub(super) fn labels(request: &ContainerRequest<'_>, config_hash: &str) -> BTreeMap<String, String> {
    let mut labels = request.labels.clone();
    labels.extend(
        [
            (LABEL_SANDBOX, "1".to_owned()),
            (LABEL_SESSION_KEY, request.scope_key.to_owned()),
            (LABEL_CREATED, request.created_at_ms.to_string()),
            (LABEL_CONFIG_HASH, config_hash.to_owned()),
        ]
        .map(|(name, value)| (name.to_owned(), value)),
    );
    labels
}
