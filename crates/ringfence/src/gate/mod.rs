//! Whether a command may run: judged before it does, by the rules of one project.
//!
//! [`Gatekeeper::admit`] is the one way: *allow* runs, *ask* asks whoever the caller brings, *deny* is refused.
//! It is advice and approval; whatever it lets pass runs inside the fence.
//!
//! What the fence itself will refuse and ask about, exactly and at the moment it happens, is not asked here a
//! second time: `cat ~/.ssh/config` passes the gate when the policy denies that file.

mod outcome;
mod quote;
mod whereabouts;
mod worker;

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

pub use ringfence_gate::reading::{CodeReader, InProcess};
pub use ringfence_gate::rules::{CommandRule, List, RuleError};
pub use ringfence_gate::{Decision, Finding, Gate, Language, Options, Request, Verdict, policy, risk, rules};
use ringfence_model::config::{GateMode, Launcher};
use ringfence_model::{
    Access, Command, Decision as Answer, DenyReason, Filesystem, PathOutcome, Policy, Result,
};

pub use outcome::{Admission, EVENT, Passed, REFUSED, Refusal, Why, invalid_rule};
pub use quote::text_of;
pub use whereabouts::Whereabouts;
pub use worker::{READ_CODE, Worker, serve_reader};

use crate::config::{self, Change};
use crate::setup::Setup;

/// Judges what is to run in one project.
#[derive(Debug, Clone)]
pub struct Gatekeeper {
    gate: Gate,
    setup: Arc<Setup>,
    home: String,
    project: String,
    /// Built for the first question: most commands pass without one. None: files are not fenced in, so nothing
    /// can be left to the fence.
    policy: OnceLock<Option<Policy>>,
    user_file: PathBuf,
}

/// What a caller does with a question: a person's answer, or none when there is nobody to ask.
pub type AskFn<'a> = &'a dyn Fn(&str, &Verdict) -> Option<Answer>;

impl Gatekeeper {
    /// The gate that a project's configuration describes.
    pub fn new(setup: &Arc<Setup>) -> Result<Self> {
        let config = &setup.loaded.config;
        let options = Options::from_config(&config.safety, config.validation_strictness)
            .and_then(|options| options.restricted_to(&config.allowed_commands, &config.blocked_commands))
            .map_err(|error| invalid_rule(&error))?;
        Ok(Self {
            gate: Gate::new(options),
            setup: Arc::clone(setup),
            home: setup.home.to_string_lossy().into_owned(),
            project: setup.project.to_string_lossy().into_owned(),
            policy: OnceLock::new(),
            user_file: setup.ringfence_home.join("sandbox.json"),
        })
    }

    /// The same gate, which has Python and JavaScript read by this reader. Without one they are asked about.
    #[must_use]
    pub fn reading_code_by(mut self, reader: Arc<dyn CodeReader>) -> Self {
        self.gate = self.gate.reading_code_by(reader);
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
    pub fn project(&self) -> &str {
        &self.project
    }

    /// What the gate says, and nothing else. `cwd`: where it would run; none when that is not known.
    #[must_use]
    pub fn judge(&self, language: Language, code: &str, cwd: Option<&str>) -> Verdict {
        let mut request = Request::new(language, code, self.home.as_str(), cwd.unwrap_or_default());
        request.project = Some(self.project.clone());
        let verdict = self.gate.judge(&request);
        // The rules of the fence only take findings away, and most commands have none.
        if verdict.decision == Decision::Allow {
            return verdict;
        }
        request.files = self.policy().map(|policy| Arc::new(policy.filesystem.clone()));
        self.gate.judge(&request)
    }

    /// Whether a command may run, in `cwd` (none: not known). Asks when that is needed; an answer "always"
    /// becomes a rule in the user's own file.
    pub fn admit(
        &self,
        command: &Command,
        cwd: Option<&str>,
        ask: AskFn<'_>,
    ) -> Result<Box<Admission>, Box<Refusal>> {
        self.admit_code(Language::Shell, &text_of(command), cwd, ask)
    }

    /// As [`admit`](Self::admit), for code in any language.
    pub fn admit_code(
        &self,
        language: Language,
        code: &str,
        cwd: Option<&str>,
        ask: AskFn<'_>,
    ) -> Result<Box<Admission>, Box<Refusal>> {
        let verdict = self.judge(language, code, cwd);
        let refuse = |verdict, why| Err(Box::new(Refusal::new(code, verdict, why, &self.user_file)));
        let how = match verdict.decision {
            _ if self.mode() == GateMode::Off => Passed::Unjudged,
            Decision::Allow => Passed::Allowed,
            Decision::Deny => return refuse(verdict, Why::Denied),
            Decision::Ask if self.is_left_to_the_fence(&verdict) => Passed::LeftToTheFence,
            Decision::Ask => match ask(code, &verdict) {
                None => return refuse(verdict, Why::NobodyToAsk),
                Some(Answer::Deny) => return refuse(verdict, Why::NotApproved),
                Some(Answer::Abort) => return refuse(verdict, Why::Aborted),
                Some(answer) => Passed::Approved(answer),
            },
        };
        let kept = match (&how, &verdict.proposal) {
            (Passed::Approved(Answer::AllowPermanent), Some(rule)) => Some(self.keep(rule)),
            _ => None,
        };
        Ok(Box::new(Admission { code: code.to_owned(), verdict, how, kept }))
    }

    /// Lets commands that a rule matches pass from now on.
    pub fn keep(&self, rule: &str) -> Result<Change> {
        config::add_rule(&self.user_file, List::Allow, rule)
    }

    fn is_left_to_the_fence(&self, verdict: &Verdict) -> bool {
        self.policy().is_some_and(|policy| {
            left_to_the_fence(verdict, &policy.filesystem, !policy.network.allow_network)
        })
    }
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
/// file on the deny list, a file that cannot be written, or, where it holds those, a connection. A file that a person
/// granted was asked about before, and the host's file is not what a private directory has under that name. Which file a variable names, the fence sees when it is
/// written or removed.
#[must_use]
pub fn left_to_the_fence(verdict: &Verdict, rules: &Filesystem, holds_connections: bool) -> bool {
    let held = |path: &String| {
        let decided = rules.decide(path.as_ref(), Access::Read);
        decided.grant.is_some()
            || matches!(decided.outcome, PathOutcome::Denied(DenyReason::Denied) | PathOutcome::Private)
    };
    let is_unwritable = |path: &String| !rules.decide(path.as_ref(), Access::Write).allowed();
    let mut asking = verdict.findings.iter().filter(|finding| finding.decision == Decision::Ask);
    asking.all(|finding| match (finding.check, finding.rule) {
        ("secrets", _) => finding.path.as_ref().is_some_and(held),
        ("persistence", "runs-later") | ("system", "system-file") => {
            finding.path.as_ref().is_some_and(is_unwritable)
        }
        ("system", "raw-connection") => holds_connections,
        ("dangerous_variable", "redirect-to-variable" | "remove-file-variable") => true,
        _ => false,
    })
}
