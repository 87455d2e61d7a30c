//! A local sandbox on macOS: the policy as a Seatbelt profile, applied by `sandbox-exec`.
//!
//! Nothing here is macOS's own but the program that applies the profile, so all of it is compiled and tested
//! elsewhere too, with another program in its place (`providerOptions.seatbelt.program`).
//!
//! | module | what it holds |
//! |---|---|
//! | [`options`] | the provider's own section of the configuration |
//! | [`wrapper`] | limits, set inside of the fence right before the command |
//! | [`process`] | the one place where a command is started, and where it is ended |
//! | [`log`] | the kernel's log, listened to while a command runs |
//! | [`run`] | one run, from the profile to the result |

mod log;
mod options;
mod process;
mod run;
mod wrapper;

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use ringfence_fence::{CreateOptions, EventSink};
use ringfence_model::LockExt as _;
use ringfence_model::config::Precision;
use ringfence_model::{
    Assurance, Degradation, DegradationCode as Code, ExecRequest, ExecResult, Policy, PolicyMode, Result,
};
use ringfence_seatbelt::{Adapter, MacEnv, render};

use crate::approval::Approval;
use crate::complete::{self, Completed};
use crate::host::{Host, canonical_or_same};
use crate::streams::Streams;
use crate::system;
use options::{LAYERS, Options};
use run::Run;
use wrapper::Wrapper;

/// Provider and launcher, as results show it.
const ADAPTER: &str = "local/seatbelt";

/// What macOS does not promise, whatever the policy.
const NOT_PROMISED: [(Code, &str); 3] = [
    (
        Code::NoPrivateMounts,
        "no private mounts: the home directory and the place for temporary files are directories of the host, \
     removed at the end; /tmp itself is refused",
    ),
    (
        Code::NoProcessNamespace,
        "no process namespace: processes of the host are visible, and one that starts a session of its own can \
     outlive the command",
    ),
    (
        Code::NoLiveApproval,
        "no live approval: macOS cannot hold a call, so nobody is asked while the command runs",
    ),
];

/// A fence that is ready to be used: the policy is completed once and reused for each run.
#[derive(Debug)]
pub struct Seatbelt {
    host: Host,
    cwd: PathBuf,
    policy: Policy,
    options: Options,
    wrapper: Wrapper,
    notes: Vec<String>,
    /// Why the kernel's log could not be read, since a run tried to.
    log_problem: Mutex<Option<String>>,
}

impl Seatbelt {
    /// Completes the policy. Fails when a rule of it cannot be enforced, or when there is nothing that could
    /// apply a profile.
    pub fn prepare(options: CreateOptions) -> Result<Self> {
        let host = Host::from_environment(options.environment);
        let cwd = canonical_or_same(&options.cwd);
        complete::refuse_what_cannot_be_enforced(&options.policy, &cwd)?;
        complete::refuse_inspection(&options.policy)?;
        let settings = Options::new(options.provider_options.local()?)?;
        let Completed { policy, .. } = complete::complete_for(&system::MACOS, options.policy, &cwd, &host);
        let wrapper = Wrapper::new(&policy.limits);
        let mut fence = Self {
            host,
            cwd,
            policy,
            options: settings,
            wrapper,
            notes: vec![],
            log_problem: Mutex::default(),
        };
        let env = fence.mac_env(&fence.base().join("ringfence"));
        fence.adapter(env.clone()).probe()?;
        // What cannot be written as a profile is known now; what a run adds is its own directory.
        fence.notes = render(&fence.policy, &env)?.notes;
        Ok(fence)
    }

    /// The policy as it is enforced, with everything the fence added.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Runs one command in a fresh sandbox and waits for it. Nobody is asked.
    pub fn run(
        &self,
        request: &ExecRequest,
        streams: Streams<'_>,
        events: EventSink<'_>,
    ) -> Result<ExecResult> {
        Run::prepare(self, request)?.execute(streams, events)
    }

    /// The same as [`run`](Self::run): macOS cannot hold a call until somebody has answered, and the result
    /// says so in `degraded`.
    pub fn run_asking(
        &self,
        request: &ExecRequest,
        streams: Streams<'_>,
        events: EventSink<'_>,
        _approval: Option<Approval>,
    ) -> Result<ExecResult> {
        self.run(request, streams, events)
    }

    /// Nothing: the home directory is not a private one here.
    pub fn take_vanished(&self) -> Vec<PathBuf> {
        vec![]
    }

    /// Which layers hold, as far as it is known before the next run.
    #[must_use]
    pub fn assurance(&self) -> Assurance {
        let mut degraded = NOT_PROMISED.map(|(code, text)| Degradation::new(code, text)).to_vec();
        degraded.extend(self.wrapper.degraded.iter().cloned());
        if self.policy.network.is_by_name() {
            let text = "the hosts that are allowed cannot be reached: that needs Linux";
            degraded.push(Degradation::new(Code::NoWayOut, text));
        }
        if !self.options.is_systems_own() {
            let program = self.options.program.display();
            let text = format!("the profile is handed to {program}, which may do anything with it");
            degraded.push(Degradation::new(Code::OtherProgram, text));
        }
        match self.options.precision {
            Precision::Full => {}
            Precision::Writes => degraded
                .push(Degradation::new(Code::Precision, "precision writes: refused reads are not reported")),
            Precision::Off => degraded.push(Degradation::new(
                Code::Precision,
                "precision off: nothing that is refused is reported",
            )),
        }
        if let Some(problem) = &*self.log_problem.locked() {
            let text = format!(
                "the kernel's log cannot be read ({problem}): refusals are guessed from what the command says"
            );
            degraded.push(Degradation::new(Code::NoLog, text));
        }
        degraded.extend(self.notes.iter().map(Degradation::note));
        Assurance {
            requested: PolicyMode::Restricted,
            effective: PolicyMode::Restricted,
            active: true,
            adapter: ADAPTER.to_owned(),
            layers: LAYERS.to_vec(),
            degraded,
        }
    }

    fn set_log_problem(&self, problem: Option<String>) {
        *self.log_problem.locked() = problem;
    }

    /// Where the sandbox's own directory and the profile are made.
    fn base(&self) -> PathBuf {
        let base = self.host.variable("TMPDIR").map(Path::new).filter(|dir| dir.is_dir());
        canonical_or_same(base.unwrap_or(Path::new("/tmp")))
    }

    fn mac_env(&self, own: &Path) -> MacEnv {
        MacEnv::new(&self.host.home, own).with_mode(self.options.mode.clone())
    }

    fn adapter(&self, env: MacEnv) -> Adapter {
        Adapter::new(env, self.base()).with_tool(&self.options.program)
    }
}
