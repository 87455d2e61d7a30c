//! Containers: inspect, create, start, remove, list.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use bollard::models::{
    ContainerCreateBody, HostConfig, HostConfigLogConfig, Mount as WireMount, MountBindOptions,
    MountBindOptionsPropagationEnum, MountType, ResourcesUlimits,
};
use bollard::query_parameters::{
    ContainerArchiveInfoOptionsBuilder, CreateContainerOptionsBuilder, ListContainersOptionsBuilder,
    RemoveContainerOptionsBuilder,
};
use ringfence_model::{Error, ErrorKind, Result};

use super::{Engine, QUICK, SLOW, podman};
use crate::options::{ContainerSpec, Mount};

/// A container as the engine knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    pub id: String,
    pub name: String,
    pub running: bool,
    pub image: String,
    pub labels: BTreeMap<String, String>,
}

/// What is added to a specification for one purpose: the guest, and the filter it needs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Extras {
    pub mounts: Vec<Mount>,
    pub labels: BTreeMap<String, String>,
    /// Used unless the specification has a filter of its own.
    pub seccomp: Option<String>,
    /// It ends, and is removed, with the connection to it; see [`Engine::tie`].
    pub tied: bool,
    /// What a tied one runs, instead of nothing.
    pub main: Option<Vec<String>>,
    /// Nothing but `sh` is needed inside, and what processes leave behind is collected: with a guest that is the guest's work.
    pub keeper: bool,
    /// Paths of the container that are covered with nothing.
    pub hidden: Vec<String>,
    /// Paths of the container that cannot be written.
    pub read_only: Vec<String>,
}

/// What every container runs: nothing, for ever.
const IDLE: [&str; 2] = ["sleep", "infinity"];
/// What one runs that ends with its input.
const TIED: [&str; 1] = ["cat"];
/// The same where nothing but `sh` may be: it waits for a child, and so also for those that others leave to it. What kills the child is no
/// reason to end; the end of its input is.
const KEEPER_IDLE: &str = "while :; do sleep infinity || (while read -r line; do :; done); done";
const KEEPER_TIED: &str = "while :; do (while read -r line; do :; done); case $? in 0) exit ;; esac; done";

/// What an engine covers or makes read-only by itself: those who say more have to say this too.
const ALWAYS_HIDDEN: [&str; 12] = [
    "/proc/acpi",
    "/proc/asound",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/sys/devices/virtual/powercap",
    "/sys/firmware",
];
const ALWAYS_READ_ONLY: [&str; 5] =
    ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"];

impl Engine {
    /// The container of that name; none when there is none.
    pub async fn inspect(&self, name: &str) -> Result<Option<Found>> {
        let (docker, wanted) = (self.docker().clone(), name.to_owned());
        let what = format!("inspect the container {name}");
        let answer =
            self.call(&what, QUICK, async move { docker.inspect_container(&wanted, None).await }).await;
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) if error.kind == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let config = answer.config.unwrap_or_default();
        Ok(Some(Found {
            id: answer.id.unwrap_or_default(),
            name: name.to_owned(),
            running: answer.state.and_then(|state| state.running).unwrap_or_default(),
            image: config.image.unwrap_or_default(),
            labels: config.labels.unwrap_or_default().into_iter().collect(),
        }))
    }

    /// All containers that have this label with this value, running or not.
    pub async fn list(&self, label: &str, value: &str) -> Result<Vec<Found>> {
        let filters = HashMap::from([("label".to_owned(), vec![format!("{label}={value}")])]);
        let options = ListContainersOptionsBuilder::default().all(true).filters(&filters).build();
        let docker = self.docker().clone();
        let all = self
            .call("list containers", QUICK, async move { docker.list_containers(Some(options)).await })
            .await?;
        Ok(all
            .into_iter()
            .map(|container| Found {
                id: container.id.unwrap_or_default(),
                name: container
                    .names
                    .unwrap_or_default()
                    .first()
                    .map(|name| name.trim_start_matches('/').to_owned())
                    .unwrap_or_default(),
                running: container.state.is_some_and(|state| state.to_string() == "running"),
                image: container.image.unwrap_or_default(),
                labels: container.labels.unwrap_or_default().into_iter().collect(),
            })
            .collect())
    }

    /// Makes a container of exactly what `spec` says; it does not run yet.
    pub async fn create(&self, spec: &ContainerSpec, extras: &Extras) -> Result<String> {
        let mut body = body(spec, extras)?;
        let _profile = if self.is_podman().await? { podman::adapt(&mut body)? } else { None };
        let options = CreateContainerOptionsBuilder::default().name(&spec.name).build();
        let docker = self.docker().clone();
        let what = format!("create the container {} of the image {}", spec.name, spec.image);
        let made =
            self.call(&what, SLOW, async move { docker.create_container(Some(options), body).await }).await?;
        Ok(made.id)
    }

    /// Whether a container, running or not, has one of these files.
    pub(crate) async fn has_one_of(&self, name: &str, files: &[&str]) -> Result<bool> {
        for file in files {
            let options = ContainerArchiveInfoOptionsBuilder::default().path(file).build();
            let (docker, its) = (self.docker().clone(), name.to_owned());
            let what = format!("look for {file} in the container {name}");
            let found =
                self.call(&what, QUICK, async move {
                    docker.get_container_archive_info(&its, Some(options)).await
                })
                .await;
            match found {
                Ok(_) => return Ok(true),
                Err(error) if error.kind == ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }

    pub async fn start(&self, name: &str) -> Result<()> {
        let (docker, its) = (self.docker().clone(), name.to_owned());
        let what = format!("start the container {name}");
        self.call(&what, SLOW, async move { docker.start_container(&its, None).await }).await
    }

    /// Ends all that runs in it and removes it with its own volumes. One that is gone is no error.
    pub async fn remove(&self, name: &str) -> Result<()> {
        let options = RemoveContainerOptionsBuilder::default().force(true).v(true).build();
        let (docker, its) = (self.docker().clone(), name.to_owned());
        let what = format!("remove the container {name}");
        let removed =
            self.call(&what, SLOW, async move { docker.remove_container(&its, Some(options)).await }).await;
        match removed {
            Err(error) if error.kind == ErrorKind::NotFound => Ok(()),
            // Somebody else is at it.
            Err(error)
                if error.kind == ErrorKind::ConcurrentAccess && error.message.contains("in progress") =>
            {
                Ok(())
            }
            other => other,
        }
    }
}

fn body(spec: &ContainerSpec, extras: &Extras) -> Result<ContainerCreateBody> {
    let mounts = spec.mounts.iter().chain(&extras.mounts).map(mount).collect::<Result<Vec<_>>>()?;
    let mut security: Vec<String> = spec.security_opt.clone();
    if !security.iter().any(|option| option.starts_with("no-new-privileges")) {
        security.push("no-new-privileges".to_owned());
    }
    if let Some(profile) = &extras.seccomp
        && !security.iter().any(|option| option.starts_with("seccomp"))
    {
        security.push(format!("seccomp={profile}"));
    }
    let host = HostConfig {
        readonly_rootfs: Some(spec.read_only_root),
        tmpfs: Some(spec.tmpfs.iter().map(|entry| tmpfs(entry, spec.memory)).collect()),
        network_mode: Some(spec.network.clone()),
        cap_drop: Some(spec.cap_drop.clone()),
        security_opt: Some(security),
        pids_limit: Some(i64::from(spec.pids_limit)),
        memory: Some(number(spec.memory)),
        memory_swap: Some(number(spec.memory_swap)),
        nano_cpus: Some(number(spec.nano_cpus)),
        ulimits: Some(
            spec.ulimits
                .iter()
                .map(|limit| ResourcesUlimits {
                    name: Some(limit.name.clone()),
                    soft: Some(limit.soft.map_or(-1, number)),
                    hard: Some(limit.hard.map_or(-1, number)),
                })
                .collect(),
        ),
        dns: (!spec.dns.is_empty()).then(|| spec.dns.clone()),
        extra_hosts: (!spec.extra_hosts.is_empty()).then(|| spec.extra_hosts.clone()),
        mounts: Some(mounts),
        // Said although they are the defaults: an engine may be configured to have others.
        privileged: Some(false),
        auto_remove: Some(extras.tied),
        // What a tied container says is heard by whoever is tied to it, and written down nowhere.
        log_config: extras
            .tied
            .then(|| HostConfigLogConfig { typ: Some("none".to_owned()), ..HostConfigLogConfig::default() }),
        ipc_mode: Some("private".to_owned()),
        publish_all_ports: Some(false),
        masked_paths: (!extras.hidden.is_empty()).then(|| with(&ALWAYS_HIDDEN, &extras.hidden)),
        readonly_paths: (!extras.read_only.is_empty()).then(|| with(&ALWAYS_READ_ONLY, &extras.read_only)),
        ..HostConfig::default()
    };
    let labels = spec.labels.iter().chain(&extras.labels);
    Ok(ContainerCreateBody {
        image: Some(spec.image.clone()),
        user: spec.user.clone(),
        working_dir: Some(text(&spec.workdir)?),
        env: Some(spec.env.iter().map(|(name, value)| format!("{name}={value}")).collect()),
        entrypoint: Some(vec![]),
        cmd: Some(match (extras.keeper, extras.tied) {
            (false, true) if extras.main.is_some() => extras.main.clone().unwrap_or_default(),
            (false, true) => TIED.map(str::to_owned).to_vec(),
            (false, false) => IDLE.map(str::to_owned).to_vec(),
            (true, true) => ["sh", "-c", KEEPER_TIED].map(str::to_owned).to_vec(),
            (true, false) => ["sh", "-c", KEEPER_IDLE].map(str::to_owned).to_vec(),
        }),
        // A keeper without `sleep` waits for input that never comes.
        open_stdin: Some(extras.tied || extras.keeper),
        stdin_once: Some(extras.tied),
        attach_stdin: Some(extras.tied),
        labels: Some(labels.map(|(name, value)| (name.clone(), value.clone())).collect()),
        host_config: Some(host),
        ..ContainerCreateBody::default()
    })
}

fn with(always: &[&str], more: &[String]) -> Vec<String> {
    always.iter().map(|path| (*path).to_owned()).chain(more.iter().cloned()).collect()
}

/// `path:option,option` as the two halves that the engine takes. What is kept in memory must leave some of it for programs:
/// files cannot be killed when it is short.
fn tmpfs(entry: &str, memory: u64) -> (String, String) {
    let (path, options) = entry.split_once(':').unwrap_or((entry, ""));
    let mut options: Vec<String> = options.split(',').filter(|o| !o.is_empty()).map(str::to_owned).collect();
    if !options.iter().any(|option| option.starts_with("size=")) {
        options.push(format!("size={}", memory / 2));
    }
    (path.to_owned(), options.join(","))
}

fn mount(mount: &Mount) -> Result<WireMount> {
    Ok(WireMount {
        typ: Some(MountType::BIND),
        source: Some(text(&mount.source)?),
        target: Some(text(&mount.target)?),
        read_only: Some(mount.read_only),
        bind_options: Some(MountBindOptions {
            propagation: Some(MountBindOptionsPropagationEnum::RPRIVATE),
            ..MountBindOptions::default()
        }),
        ..WireMount::default()
    })
}

fn text(path: &Path) -> Result<String> {
    let message =
        || format!("the container engine cannot be told of a path that is not text: {}", path.display());
    PathBuf::from(path)
        .into_os_string()
        .into_string()
        .map_err(|_| Error::new(ErrorKind::InvalidConfig, message()))
}

fn number(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
