//! The checks, each in its own file, all in one list.

use std::sync::Arc;

use ringfence_bash::{Command, Script, Span};
use ringfence_model::ViolationKind;
use ringfence_model::config::Strictness;

use crate::code::reading::{CodeReader, Reading};
use crate::finding::{Decision, Finding, Findings, Rule};
use crate::risk::Assessment;
use crate::shell::Cmd;
use crate::value::Arg;

mod characters;
mod confirmation;
mod disk;
mod environment;
mod evasion;
mod forkbomb;
pub(crate) mod git;
mod heredoc;
mod kernel;
mod metacharacter;
pub(crate) mod outflow;
mod pattern;
mod permissions;
mod persistence;
mod power;
mod privilege;
pub(crate) mod removal;
pub(crate) mod secrets;
mod sharing;
mod system;
mod variable;
pub(crate) mod writes;

pub(crate) use characters::is_mixed;
pub(crate) use evasion::takes_words_only;

/// Something that looks at what would run. Every method has an empty body: a check says only what it wants
/// to see.
pub trait Check: Send + Sync {
    /// A name that stays; it is shown with every finding.
    fn name(&self) -> &'static str;

    /// What a refusal by this check is recorded as.
    fn kind(&self) -> ViolationKind;

    /// The text, before it is parsed.
    fn text(&self, _text: &str, _report: &mut Report<'_>) {}

    /// Why a text could not be read. A person is asked in any case.
    fn unreadable(&self, _error: &ringfence_bash::Error, _report: &mut Report<'_>) {}

    /// The tree of a text.
    fn script(&self, _script: &Script, _report: &mut Report<'_>) {}

    /// A function that a text defines.
    fn function(&self, _name: &str, _body: &Command, _span: Span, _report: &mut Report<'_>) {}

    /// A simple command with its words resolved; or redirections or assignments alone, without words.
    fn command(&self, _cmd: &Cmd<'_>, _report: &mut Report<'_>) {}
}

/// The checks in the order in which they look. Adding one takes a file and a line here.
pub fn built_in() -> Vec<Box<dyn Check>> {
    vec![
        Box::new(heredoc::Heredoc),
        Box::new(metacharacter::Metacharacter),
        Box::new(variable::Variable),
        Box::new(pattern::Pattern),
        Box::new(removal::Removal),
        Box::new(privilege::Privilege),
        Box::new(power::Power),
        Box::new(disk::Disk),
        Box::new(kernel::Kernel),
        Box::new(forkbomb::ForkBomb),
        Box::new(characters::Characters),
        Box::new(evasion::Evasion),
        Box::new(environment::Environment),
        Box::new(git::Git),
        Box::new(secrets::Secrets),
        Box::new(persistence::Persistence),
        Box::new(permissions::Permissions),
        Box::new(system::System),
        Box::new(sharing::Sharing),
        Box::new(outflow::Outflow),
        Box::new(confirmation::Confirmation),
    ]
}

/// Where a check puts what it found.
#[derive(Debug)]
pub struct Report<'a> {
    findings: &'a mut Findings,
    check: &'static str,
    kind: ViolationKind,
    /// Where findings of an inner text are shown.
    outer: Option<Span>,
    command: Option<u32>,
    /// How strict the checks are.
    pub strictness: Strictness,
    /// Whether only commands of a list may run, one at a time.
    pub listed: bool,
}

impl Report<'_> {
    /// The rule as the strictness has it: what is asked about is refused when the checks are strict.
    #[must_use]
    pub fn by_strictness(&self, rule: Rule) -> Rule {
        match self.strictness {
            Strictness::Strict => Rule { decision: Decision::Deny, ..rule },
            Strictness::Minimal | Strictness::Standard => rule,
        }
    }

    /// Adds a finding.
    pub fn add(&mut self, rule: Rule, span: Span, message: impl Into<String>) {
        self.add_about(None, rule, span, message);
    }

    /// Adds a finding about a file.
    pub fn add_about(&mut self, path: Option<String>, rule: Rule, span: Span, message: impl Into<String>) {
        self.findings.push(Finding {
            check: self.check,
            kind: self.kind,
            decision: rule.decision,
            severity: rule.severity,
            span: self.outer.unwrap_or(span).into(),
            message: message.into(),
            suggestion: rule.suggestion,
            rule: rule.name,
            path,
            command: self.command,
        });
    }
}

/// A command that was seen, for the rules of the user and for the risk.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Its number in the text.
    pub number: u32,
    /// The words.
    pub args: Vec<Arg>,
    /// The program's name without directories; empty when it is not known.
    pub name: String,
    /// Where.
    pub span: Span,
    /// Whether it is nothing but its words: no file is written by redirection, no variable set for it.
    pub plain: bool,
    /// Whether it stands in the text itself and not in a text within it.
    pub level: usize,
}

/// What the evaluator reports to.
pub(crate) struct Context {
    checks: Arc<[Box<dyn Check>]>,
    strictness: Strictness,
    listed: bool,
    pub(crate) findings: Findings,
    pub(crate) seen: Vec<Seen>,
    /// Where the shell of the text is at its end.
    pub(crate) cwd: Option<String>,
    /// What the code was read as, if the text is code.
    pub(crate) reading: Option<Reading>,
    /// The highest risk of code within the text.
    pub(crate) risk: Option<Assessment>,
    reader: Option<Arc<dyn CodeReader>>,
    number: u32,
}

fn is_file(target: &Arg) -> bool {
    !target
        .known()
        .is_some_and(|word| matches!(word, "/dev/null" | "/dev/stdout" | "/dev/stderr" | "1" | "2"))
}

/// Commands beyond this are judged, but not kept for the rules of the user.
const MOST_SEEN: usize = 1024;

impl Context {
    pub(crate) fn new(
        checks: Arc<[Box<dyn Check>]>,
        strictness: Strictness,
        listed: bool,
        reader: Option<Arc<dyn CodeReader>>,
    ) -> Self {
        let findings = Findings::default();
        Self {
            checks,
            strictness,
            listed,
            findings,
            seen: vec![],
            cwd: None,
            reading: None,
            risk: None,
            reader,
            number: 0,
        }
    }

    /// An empty one with the same checks, for a text within the text.
    pub(crate) fn fork(&self) -> Self {
        Self::new(Arc::clone(&self.checks), self.strictness, self.listed, self.reader())
    }

    pub(crate) fn reader(&self) -> Option<Arc<dyn CodeReader>> {
        self.reader.clone()
    }

    /// Whether every command is in `seen`.
    pub(crate) fn saw_all(&self) -> bool {
        self.seen.len() < MOST_SEEN
    }

    fn each(
        &mut self,
        outer: Option<Span>,
        command: Option<u32>,
        look: impl Fn(&dyn Check, &mut Report<'_>),
    ) {
        for check in self.checks.iter() {
            let mut report = Report {
                findings: &mut self.findings,
                check: check.name(),
                kind: check.kind(),
                outer,
                command,
                strictness: self.strictness,
                listed: self.listed,
            };
            look(check.as_ref(), &mut report);
        }
    }

    pub(crate) fn text(&mut self, text: &str) {
        self.each(None, None, |check, report| check.text(text, report));
    }

    pub(crate) fn unreadable(&mut self, error: &ringfence_bash::Error, outer: Option<Span>) {
        self.each(outer, None, |check, report| check.unreadable(error, report));
        let message = format!("the command cannot be parsed: {}", error.message());
        self.trouble("unparseable", outer.unwrap_or_else(|| error.span()), &message);
    }

    pub(crate) fn script(&mut self, script: &Script, outer: Option<Span>) {
        self.each(outer, None, |check, report| check.script(script, report));
    }

    pub(crate) fn function(&mut self, name: &str, body: &Command, span: Span) {
        self.each(None, None, |check, report| check.function(name, body, span, report));
    }

    pub(crate) fn command(&mut self, cmd: &Cmd<'_>) {
        self.number += 1;
        let number = self.number;
        if !cmd.args.is_empty() && self.seen.len() < MOST_SEEN {
            self.seen.push(Seen {
                number,
                args: cmd.args.to_vec(),
                name: cmd.name.to_owned(),
                span: cmd.span,
                plain: cmd.assigned.is_empty()
                    && !cmd
                        .redirs
                        .iter()
                        .any(|redir| redir.writes() && redir.target.as_ref().is_some_and(is_file)),
                level: cmd.level,
            });
        }
        self.each(None, Some(number), |check, report| check.command(cmd, report));
    }

    /// Something that cannot be told, so that a person must be asked.
    pub(crate) fn trouble(&mut self, rule: &'static str, span: Span, message: &str) {
        let suggestion = "write the command out plainly, so that it can be judged";
        let rule = Rule::ask(rule, suggestion);
        let number = self.number;
        let mut report = Report {
            findings: &mut self.findings,
            check: evasion::NAME,
            kind: ViolationKind::DangerousPattern,
            outer: None,
            command: (number > 0).then_some(number),
            strictness: self.strictness,
            listed: self.listed,
        };
        report.add(rule, span, message);
    }

    /// A file that code names and that may hold secrets.
    pub(crate) fn secret(&mut self, path: Option<String>, span: Span, message: &str) {
        let mut report = Report {
            findings: &mut self.findings,
            check: secrets::NAME,
            kind: ViolationKind::SensitiveFileAccess,
            outer: None,
            command: (self.number > 0).then_some(self.number),
            strictness: self.strictness,
            listed: self.listed,
        };
        report.add_about(path, secrets::RULE, span, message);
    }

    pub(crate) fn endless(&mut self, span: Span) {
        self.trouble("endless-loop", span, "an endless loop starts processes in the background");
    }

    /// Code within the text has this risk.
    pub(crate) fn raise(&mut self, risk: Assessment) {
        if self.risk.as_ref().is_none_or(|known| known.level < risk.level) {
            self.risk = Some(risk);
        }
    }

    /// Takes over what was found in code within the text.
    pub(crate) fn adopt(&mut self, inner: Context, span: Span) {
        if let Some(risk) = inner.risk {
            self.raise(risk);
        }
        for mut finding in inner.findings.into_sorted() {
            finding.span = span.into();
            finding.command = Some(self.number);
            self.findings.push(finding);
        }
    }
}
