//! The gate: options in, verdicts out.

use std::sync::Arc;

use ringfence_model::config::{SafetyMode, Strictness};
use serde::Serialize;

use crate::checks::{self, Check, Context};
use crate::code::{self, Language};
use crate::finding::{Decision, Finding};
use crate::shell::{Eval, Place};

/// What the gate goes by.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// What happens to a command that no list mentions.
    pub mode: SafetyMode,
    /// How strict the checks are.
    pub strictness: Strictness,
}

/// What is to be judged.
#[derive(Clone, Debug)]
pub struct Request {
    /// The language of the code.
    pub language: Language,
    /// The code, byte for byte.
    pub code: String,
    /// The working directory.
    pub cwd: String,
    /// The home directory.
    pub home: String,
    /// The project, if it is not the working directory.
    pub project: Option<String>,
}

impl Request {
    /// A shell command.
    pub fn shell(code: impl Into<String>, home: impl Into<String>, cwd: impl Into<String>) -> Self {
        Self { language: Language::Shell, code: code.into(), cwd: cwd.into(), home: home.into(), project: None }
    }
}

/// What the gate says.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Verdict {
    /// What is to happen.
    pub decision: Decision,
    /// Why, strictest first.
    pub findings: Vec<Finding>,
}

/// Judges requests. Made once, used from any number of threads.
#[derive(Clone)]
pub struct Gate {
    options: Options,
    checks: Arc<[Box<dyn Check>]>,
}

impl std::fmt::Debug for Gate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<_> = self.checks.iter().map(|check| check.name()).collect();
        f.debug_struct("Gate").field("options", &self.options).field("checks", &names).finish()
    }
}

impl Gate {
    /// A gate with the built-in checks.
    pub fn new(options: Options) -> Self {
        Self::with_checks(options, checks::built_in())
    }

    /// A gate with these checks.
    pub fn with_checks(options: Options, checks: Vec<Box<dyn Check>>) -> Self {
        Self { options, checks: checks.into() }
    }

    /// Judges one request.
    pub fn judge(&self, request: &Request) -> Verdict {
        let mut context = Context::new(Arc::clone(&self.checks), self.options.strictness);
        let place = Place::from(request);
        code::judge(request.language, &request.code, place, Some(&request.cwd), 0, &mut context);
        let decision = context.findings.decision();
        Verdict { decision, findings: context.findings.into_sorted() }
    }
}

/// Judges a shell text into `context`.
pub(crate) fn judge_shell(text: &str, place: Place<'_>, cwd: Option<&str>, level: usize, context: &mut Context) {
    context.text(text);
    let script = match ringfence_bash::parse(text) {
        Ok(script) => script,
        Err(error) => {
            let span = error.span();
            context.trouble("unparseable", span, &format!("the text cannot be read: {}", error.message()));
            return;
        }
    };
    context.script(&script, None);
    Eval::new(place, cwd, level, context).text(&script);
}
