//! Where the workspaces are seen, and which directories are the container's own.

use std::path::{Path, PathBuf};

use ringfence_model::config::{DockerSection, WorkspaceAccess};

use super::ContainerRequest;
use super::binds::{self, BindRules};
use super::forbidden::ForbiddenPlaces;
use super::refusal::Findings;
use super::spec::Mount;

/// Where the agent's workspace is seen when the sandbox has one of its own.
pub const AGENT: &str = "/agent";

/// Options of a tmpfs that weaken nothing.
const TMPFS_FLAGS: &[&str] = &["rw", "ro", "exec", "noexec", "nosuid", "nodev", "noatime"];
const TMPFS_VALUES: &[&str] = &["size", "mode", "uid", "gid", "nr_inodes"];

/// The workspaces, then the binds.
pub(super) fn check(
    request: &ContainerRequest<'_>,
    docker: &DockerSection,
    workdir: &Path,
    findings: &mut Findings,
) -> Vec<Mount> {
    let around = &request.surroundings;
    let forbidden = ForbiddenPlaces::new(around.home.as_deref(), &around.forbidden);
    let mut mounts = workspaces(request, workdir, &forbidden, findings);

    let roots = mounts.iter().map(|mount| mount.source.clone());
    let further = around.bind_roots.iter().filter_map(|root| std::fs::canonicalize(root).ok());
    let rules = BindRules {
        forbidden: &forbidden,
        roots: roots.chain(further).collect(),
        reserved: reserved(workdir),
        allow_external: docker.dangerously_allow_external_bind_sources == Some(true),
        allow_reserved: docker.dangerously_allow_reserved_container_targets == Some(true),
    };
    let mut bound: Vec<Mount> = Vec::new();
    for bind in docker.binds.iter().flatten() {
        let Some(mount) = binds::check(bind.as_str(), &rules, findings) else { continue };
        if bound.iter().any(|other| other.target == mount.target) {
            let rule = format!("another bind has the target {}", mount.target.display());
            findings.refuse("binds", bind.as_str(), rule, "give each bind a place of its own");
            continue;
        }
        bound.push(mount);
    }
    // Only with the break-glass key can a bind have a workspace's place; it takes it then.
    mounts.retain(|workspace| !bound.iter().any(|bind| bind.target == workspace.target));
    mounts.extend(bound);
    mounts
}

fn reserved(workdir: &Path) -> Vec<PathBuf> {
    vec![workdir.to_owned(), PathBuf::from(AGENT)]
}

/// The main workspace at the working directory; the agent's beside it when it is another one that may be seen.
fn workspaces(
    request: &ContainerRequest<'_>,
    workdir: &Path,
    forbidden: &ForbiddenPlaces,
    findings: &mut Findings,
) -> Vec<Mount> {
    let read_only = request.access == WorkspaceAccess::Ro;
    let Some(main) = workspace(request.workspace, forbidden, findings) else { return vec![] };
    if request.access == WorkspaceAccess::None {
        return vec![Mount { source: main, target: workdir.to_owned(), read_only: false }];
    }
    let Some(agents) = workspace(request.agent_workspace, forbidden, findings) else { return vec![] };
    if agents == main {
        return vec![Mount { source: main, target: workdir.to_owned(), read_only }];
    }
    vec![
        Mount { source: main, target: workdir.to_owned(), read_only: false },
        Mount { source: agents, target: PathBuf::from(AGENT), read_only },
    ]
}

fn workspace(path: &Path, forbidden: &ForbiddenPlaces, findings: &mut Findings) -> Option<PathBuf> {
    let shown = path.display().to_string();
    let mut refuse = |rule: String, remedy: &str| {
        findings.refuse("workspace", &shown, rule, remedy);
        None
    };
    if !path.is_absolute() {
        return refuse("the directory is not absolute".to_owned(), "give the whole path");
    }
    let resolved = match std::fs::canonicalize(path) {
        Ok(resolved) if resolved.is_dir() => resolved,
        Ok(_) => return refuse("it is no directory".to_owned(), "name a directory"),
        Err(error) => return refuse(format!("it cannot be resolved: {error}"), "make it first"),
    };
    for place in [path, &resolved] {
        if let Some((relation, what)) = forbidden.shown_by_workspace(place) {
            let rule = format!("it {} {}: {}", relation.words(), what.path.display(), what.why);
            return refuse(rule, "work in a directory below it, or with workspaceAccess: none");
        }
    }
    Some(resolved)
}

/// Directories in memory: `path` or `path:option,option`.
pub(super) fn tmpfs(docker: &DockerSection, workdir: &Path, findings: &mut Findings) -> Vec<String> {
    let nothing = ForbiddenPlaces::new(None, &[]);
    let rules = BindRules {
        forbidden: &nothing,
        roots: vec![],
        reserved: reserved(workdir),
        allow_external: false,
        allow_reserved: docker.dangerously_allow_reserved_container_targets == Some(true),
    };
    let mut checked = Vec::new();
    for text in docker.tmpfs.iter().flatten().map(|text| text.as_str().trim()).filter(|text| !text.is_empty())
    {
        let (path, options) =
            text.split_once(':').map_or((text, None), |(path, options)| (path, Some(options)));
        if let Some(wrong) = options.iter().flat_map(|options| options.split(',')).find(|o| !is_harmless(o)) {
            let rule = format!("{wrong:?} is no option that a directory in memory may have");
            let remedy = format!("use {} or {}", TMPFS_FLAGS.join(", "), TMPFS_VALUES.join("=…, "));
            findings.refuse("tmpfs", text, rule, remedy + "=…");
            continue;
        }
        if let Some(target) = binds::check_target("tmpfs", text, path, &rules, findings) {
            let options = options.map(|options| format!(":{options}")).unwrap_or_default();
            checked.push(format!("{}{options}", target.display()));
        }
    }
    checked
}

fn is_harmless(option: &str) -> bool {
    match option.split_once('=') {
        None => TMPFS_FLAGS.contains(&option),
        Some((name, value)) => {
            TMPFS_VALUES.contains(&name)
                && !value.is_empty()
                && value.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'%')
        }
    }
}
