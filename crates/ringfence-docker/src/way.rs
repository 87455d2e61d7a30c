//! What runs commands in a container: our guest, or the image's own `sh`.

use std::path::PathBuf;

use ringfence_fence::{Background, CreateOptions, EventSink};
use ringfence_local::verdict::blocking;
use ringfence_model::{
    Assurance, Degradation, DegradationCode as Code, ExecRequest, ExecResult, Filesystem, Layer, PolicyMode,
    Result,
};

use crate::engine::Engine;
use crate::guest::{Link, inside};
use crate::options::ContainerSpec;
use crate::plain::{self, Masks, Place, Shells};
use ringfence_model::now_ms;

/// What every container has: the engine makes them with these or not at all.
const OF_THE_CONTAINER: [Layer; 8] = [
    Layer::Container,
    Layer::MountNamespace,
    Layer::PidNamespace,
    Layer::NetworkNamespace,
    Layer::IpcNamespace,
    Layer::UtsNamespace,
    Layer::Cgroup,
    Layer::Capabilities,
];

/// What the guest says about itself that is not true inside a container.
const NOT_IN_A_CONTAINER: [Code; 2] = [Code::NoNamespaces, Code::DirectoriesOnHost];

/// What shells without a guest do not promise.
const NOT_WITHOUT_A_GUEST: [(Code, &str); 4] = [
    (
        Code::RefusalsGuessed,
        "what is refused is not told: it is guessed from the words of a command that failed, and marked as not certain; nobody is asked",
    ),
    (
        Code::LateFiles,
        "denied files of the workspace are hidden, and protected ones read-only, as they were when the container was made: what is made or replaced later is not",
    ),
    (Code::ExitCodes, "a program that looks for the shell's descriptors in /proc can lie about exit codes"),
    (
        Code::MixedOutput,
        "what jobs that a command left behind print while the next one runs is part of its output",
    ),
];

/// One of the two.
#[derive(Debug)]
pub(crate) enum Way {
    Guest(Box<Link>),
    Plain(Box<Plain>),
}

/// Shells of the image.
#[derive(Debug)]
pub(crate) struct Plain {
    shells: Shells,
    /// In the container's words.
    files: Filesystem,
    directory: PathBuf,
    assurance: Assurance,
}

impl Plain {
    /// `why` there is no guest.
    pub(crate) async fn open(
        engine: &Engine,
        spec: &ContainerSpec,
        options: &CreateOptions,
        masks: &Masks,
        why: &str,
    ) -> Result<Self> {
        let policy = inside::policy(&options.policy, spec);
        let mut env = inside::environment(&options.policy, &options.environment, spec);
        env.extend(policy.environment.set.clone());
        let scratch = spec.tmpfs.first().and_then(|entry| entry.split(':').next()).unwrap_or("/tmp");
        // The image's own may be read-only, or somebody else's.
        if !spec.env.iter().any(|(name, _)| name == "HOME") {
            env.insert("HOME".to_owned(), scratch.to_owned());
        }
        let place = Place {
            engine: engine.clone(),
            container: spec.name.clone(),
            cwd: spec.workdir.to_string_lossy().into_owned(),
            env,
            scratch: scratch.to_owned(),
            limits: policy.limits.clone(),
        };
        let background: Option<Background> = options.hooks.background.clone();
        let shells = Shells::open(place, background).await?;
        let mut layers = OF_THE_CONTAINER.to_vec();
        layers.push(Layer::Seccomp);
        let limits = &policy.limits;
        if limits.max_cpu_seconds.or(limits.max_file_size_bytes).or(limits.max_open_files).is_some() {
            layers.push(Layer::Rlimits);
        }
        let no_guest = format!("no guest in the container, whose own sh runs commands: {why}");
        let mut degraded = vec![Degradation::new(Code::NoGuest, no_guest)];
        degraded.extend(NOT_WITHOUT_A_GUEST.map(|(code, text)| Degradation::new(code, text)));
        if masks.incomplete {
            degraded.push(Degradation::new(
                Code::SearchIncomplete,
                "not all denied and protected files of the workspace could be found",
            ));
        }
        let assurance = Assurance {
            requested: PolicyMode::Restricted,
            effective: PolicyMode::Restricted,
            active: true,
            adapter: "docker/sh".to_owned(),
            layers,
            degraded,
        };
        let directory = spec.workdir.clone();
        Ok(Self { shells, files: policy.filesystem, directory, assurance })
    }

    async fn execute(
        &self,
        shell: Option<&str>,
        request: ExecRequest,
        events: EventSink<'_>,
    ) -> Result<ExecResult> {
        let directory = request.cwd.clone().unwrap_or_else(|| self.directory.clone());
        let mut result = self.shells.execute(shell, request, self.assurance.clone(), events).await?;
        let guessed = plain::violation(&result, &self.files, &directory, now_ms());
        result.violations.extend(guessed);
        let blocking = blocking(&result.violations, result.exit_code);
        let why = blocking.map(|violation| (violation.message.clone(), violation.resource.clone()));
        result.blocked = why.is_some();
        (result.blocked_reason, result.blocked_resource) = why.unzip();
        Ok(result)
    }
}

impl Way {
    /// The layers that hold, and what is not promised.
    pub(crate) fn assurance(&self) -> Assurance {
        let link = match self {
            Self::Plain(plain) => return plain.assurance.clone(),
            Self::Guest(link) => link,
        };
        let inner = link.assurance();
        let mut layers = OF_THE_CONTAINER.to_vec();
        layers.extend(inner.layers.iter().filter(|layer| !OF_THE_CONTAINER.contains(layer)));
        let lost = inner.degraded.iter().filter(|lost| !NOT_IN_A_CONTAINER.contains(&lost.code));
        Assurance {
            requested: PolicyMode::Restricted,
            effective: inner.effective,
            active: true,
            adapter: "docker/guest".to_owned(),
            layers,
            degraded: lost.cloned().collect(),
        }
    }

    pub(crate) async fn execute(
        &self,
        shell: Option<&str>,
        request: ExecRequest,
        events: EventSink<'_>,
    ) -> Result<ExecResult> {
        match self {
            Self::Guest(link) => link.execute(shell, request, events).await,
            Self::Plain(plain) => plain.execute(shell, request, events).await,
        }
    }

    pub(crate) fn cancel(&self, shell: Option<&str>) {
        match self {
            Self::Guest(link) => link.cancel(shell),
            Self::Plain(plain) => plain.shells.cancel(shell),
        }
    }

    pub(crate) fn close_shell(&self, name: &str) {
        match self {
            Self::Guest(link) => link.close_shell(name),
            Self::Plain(plain) => plain.shells.close_shell(name),
        }
    }

    pub(crate) async fn close(&self) {
        match self {
            Self::Guest(link) => link.close().await,
            Self::Plain(plain) => plain.shells.close().await,
        }
    }

    /// Whether hosts are reached from it by name.
    pub(crate) fn connects(&self) -> bool {
        match self {
            Self::Guest(link) => link.connects(),
            Self::Plain(_) => false,
        }
    }

    pub(crate) fn is_alive(&self) -> bool {
        match self {
            Self::Guest(link) => link.is_alive(),
            Self::Plain(plain) => plain.shells.is_alive(),
        }
    }
}
