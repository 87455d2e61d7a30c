//! Whether a command may run: judged before it does, by the rules of one project.
//!
//! The gate is advice; whatever passes it runs inside the fence. The consequence of a verdict is decided in one place,
//! [`Core::admit`](crate::session::Core::admit).
//!
//! Calls that the fence itself will refuse and ask about, exactly and when they happen, are not asked about here a
//! second time: `cat ~/.ssh/config` passes the gate when the policy denies that file.

mod worker;

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

pub use ringfence_gate::reading::{CodeReader, InProcess};
pub use ringfence_gate::rules::{CommandRule, List, RuleError};
pub use ringfence_gate::{Decision, Finding, Gate, Language, Options, Request, Verdict, policy, risk, rules};
use ringfence_model::config::{GateMode, Launcher};
use ringfence_model::{Access, Error, ErrorKind, Filesystem, PathOutcome, Policy, Result};

pub use worker::{READ_CODE, Worker, serve_reader};

use crate::setup::Setup;

/// Judges what is to run in one project.
#[derive(Debug, Clone)]
pub struct Gatekeeper {
    gate: Gate,
    setup: Arc<Setup>,
    home: String,
    project: String,
    /// The directory in which commands begin.
    start: String,
    /// Built for the first question: most commands pass without one. None: files are not fenced in, so nothing
    /// can be left to the fence.
    policy: OnceLock<Option<Policy>>,
    /// More directories of the project.
    also: Vec<String>,
}

impl Gatekeeper {
    /// The gate that a project's configuration describes.
    pub fn new(setup: &Arc<Setup>) -> Result<Self> {
        Ok(Self {
            gate: gate_of(setup)?,
            setup: Arc::clone(setup),
            home: setup.home.to_string_lossy().into_owned(),
            project: setup.project.to_string_lossy().into_owned(),
            start: setup.start().to_string_lossy().into_owned(),
            also: vec![],
            policy: OnceLock::new(),
        })
    }

    /// The same gate, which has Python and JavaScript read by this reader. Without one they are asked about.
    #[must_use]
    pub fn reading_code_by(mut self, reader: Arc<dyn CodeReader>) -> Self {
        self.gate = self.gate.reading_code_by(reader);
        self
    }

    /// The same gate for commands that work in the first of these directories; the others belong to it. None: in the
    /// project.
    #[must_use]
    pub fn working_in(mut self, directories: Vec<PathBuf>) -> Self {
        let mut names = directories.into_iter().map(|path| path.to_string_lossy().into_owned());
        if let Some(first) = names.next() {
            if self.start == self.project {
                self.start.clone_from(&first);
            }
            self.project = first;
        }
        self.also = names.collect();
        self
    }

    /// Whether anything is judged, and who may say otherwise.
    #[must_use]
    pub fn mode(&self) -> GateMode {
        self.setup.loaded.config.safety.gate
    }

    fn policy(&self) -> Option<&Policy> {
        self.policy.get_or_init(|| fenced(&self.setup)).as_ref()
    }

    /// The directory in which commands begin.
    #[must_use]
    pub fn start(&self) -> &str {
        &self.start
    }

    /// The gate's verdict, and nothing else. `cwd`: where it would run; none when that is not known.
    #[must_use]
    pub fn judge(&self, language: Language, code: &str, cwd: Option<&str>) -> Verdict {
        self.judge_as(language, code, cwd, Circumstances { is_fenced: true, escalated: false })
    }

    /// As [`judge`](Self::judge), under other circumstances.
    #[must_use]
    pub fn judge_as(
        &self,
        language: Language,
        code: &str,
        cwd: Option<&str>,
        circumstances: Circumstances,
    ) -> Verdict {
        let mut request = Request {
            project: Some(self.project.clone()),
            also: self.also.clone(),
            escalated: circumstances.escalated,
            ..Request::new(language, code, self.home.as_str(), cwd.unwrap_or_default())
        };
        let verdict = self.gate.judge(&request);
        // The rules of the fence only take findings away, and most commands have none.
        if verdict.decision == Decision::Allow || !circumstances.is_fenced {
            return verdict;
        }
        request.files = self.policy().map(|policy| Arc::new(policy.filesystem.clone()));
        self.gate.judge(&request)
    }

    /// The gate itself.
    #[must_use]
    pub fn gate(&self) -> &Gate {
        &self.gate
    }

    /// Whether everything that would be asked about is what the fence refuses exactly, and asks about itself.
    #[must_use]
    pub fn is_left_to_the_fence(&self, verdict: &Verdict) -> bool {
        self.policy().is_some_and(|policy| {
            left_to_the_fence(verdict, &policy.filesystem, !policy.network.allow_network)
        })
    }
}

/// How a command would run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Circumstances {
    /// A fence holds it.
    pub is_fenced: bool,
    /// An agent wants more than the fence gives.
    pub escalated: bool,
}

/// The gate that a configuration describes, its lists of commands included. Nobody makes one in another way.
pub fn gate_of(setup: &Setup) -> Result<Gate> {
    let config = &setup.loaded.config;
    let options = Options::from_config(&config.safety, config.validation_strictness)
        .and_then(|options| options.restricted_to(&config.allowed_commands, &config.blocked_commands))
        .map_err(|error| {
            Error::new(ErrorKind::InvalidConfig, error.to_string())
                .hint("`ringfence config check` shows where it is written")
        })?;
    Ok(Gate::new(options))
}

/// The policy of a project whose files are fenced in.
#[must_use]
pub fn fenced(setup: &Setup) -> Option<Policy> {
    let config = &setup.loaded.config;
    let holds =
        !setup.is_switched_off() && config.launcher != Launcher::NetworkOnly && config.provider != "none";
    holds.then(|| setup.policy())
}

/// Whether everything that would be asked about is what a fence with these rules refuses, and asks about itself: a
/// file that cannot be read, a file that cannot be written, or, where it holds those, a connection. A file that a person
/// granted was asked about before. Which file a variable names, the fence sees when it is written or removed.
#[must_use]
fn left_to_the_fence(verdict: &Verdict, rules: &Filesystem, holds_connections: bool) -> bool {
    let held = |path: &String| {
        let decided = rules.decide(path.as_ref(), Access::Read);
        decided.grant.is_some() || decided.outcome != PathOutcome::Allowed
    };
    let is_unwritable = |path: &String| !rules.decide(path.as_ref(), Access::Write).allowed();
    let mut asking = verdict.findings.iter().filter(|finding| finding.decision == Decision::Ask);
    asking.all(|finding| match (finding.check, finding.rule) {
        ("secrets", _) => finding.path.as_ref().is_some_and(held),
        ("persistence", "runs-later") | ("system", "system-file") => {
            finding.path.as_ref().is_some_and(is_unwritable)
        }
        ("system", "raw-connection") | ("outflow", _) | ("evasion", "data-sent" | "sends-data") => {
            holds_connections
        }
        ("dangerous_variable", "redirect-to-variable" | "remove-file-variable") => true,
        _ => false,
    })
}
