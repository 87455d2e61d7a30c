//! The gate: options in, verdicts out.

use std::sync::Arc;

use ringfence_model::config::{ConfirmFrom, Entry, SafetyConfig, SafetyMode, Strictness};
use ringfence_model::{Filesystem, Severity, ViolationKind};
use serde::Serialize;

use crate::checks::{self, Check, Context, Seen};
use crate::code::reading::CodeReader;
use crate::code::{self, Language};
use crate::finding::{ByteSpan, Decision, Finding};
use crate::programs;
use crate::risk::{self, Assessment, Category, Risk};
use crate::rules::{self, CommandRule, List, RuleError};
use crate::shell::{Eval, Place};

/// What the gate goes by.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// What happens to a command that a check wants to ask about, or that no list mentions.
    pub mode: SafetyMode,
    /// How strict the checks are.
    pub strictness: Strictness,
    /// Commands that pass without asking.
    pub allow: Vec<CommandRule>,
    /// Commands that are refused without asking.
    pub deny: Vec<CommandRule>,
    /// When not empty: commands that none of these mentions are refused, and one runs at a time, without operators.
    pub only: Vec<CommandRule>,
    /// From which risk on a person is asked about what no check objects to.
    pub confirm_from: ConfirmFrom,
}

impl Options {
    /// Reads the part of a configuration that is about commands, and tries the examples of its rules.
    pub fn from_config(safety: &SafetyConfig, strictness: Strictness) -> Result<Self, RuleError> {
        let read = |entries: &[Entry], list| -> Result<Vec<CommandRule>, RuleError> {
            entries.iter().map(|entry| CommandRule::parse(entry, list)).collect()
        };
        Ok(Self {
            mode: safety.mode,
            strictness,
            allow: read(&safety.allowlist, List::Allow)?,
            deny: read(&safety.denylist, List::Deny)?,
            only: vec![],
            confirm_from: safety.confirm_from,
        })
    }

    /// Takes over the lists of what may run at all (`allowedCommands`, `blockedCommands`).
    pub fn restricted_to(mut self, allowed: &[Entry], blocked: &[Entry]) -> Result<Self, RuleError> {
        for entry in blocked {
            self.deny.extend(programs::rules(entry, List::Deny)?);
        }
        for entry in allowed {
            self.only.extend(programs::rules(entry, List::Allow)?);
        }
        Ok(self)
    }
}

/// What is to be judged.
#[derive(Clone, Debug)]
pub struct Request {
    /// The language of the code.
    pub language: Language,
    /// The code, byte for byte.
    pub code: String,
    /// The working directory; empty when it is not known.
    pub cwd: String,
    /// The home directory.
    pub home: String,
    /// The project, if it is not the working directory.
    pub project: Option<String>,
    /// More directories that are worked in like the project.
    pub also: Vec<String>,
    /// The file rules of the fence that it would run in; none when nothing holds it. They only ever take findings
    /// away: what they allow on purpose is nobody else's to refuse.
    pub files: Option<Arc<Filesystem>>,
    /// Whether the request asks for more than the sandbox gives; a person is asked then.
    pub escalated: bool,
}

impl Request {
    /// Code in a language, at home and in a project.
    pub fn new(
        language: Language,
        code: impl Into<String>,
        home: impl Into<String>,
        cwd: impl Into<String>,
    ) -> Self {
        Self {
            language,
            code: code.into(),
            cwd: cwd.into(),
            home: home.into(),
            project: None,
            also: vec![],
            files: None,
            escalated: false,
        }
    }

    /// The same request, for a fence with these file rules.
    #[must_use]
    pub fn within(mut self, files: impl Into<Arc<Filesystem>>) -> Self {
        self.files = Some(files.into());
        self
    }

    fn known_cwd(&self) -> Option<&str> {
        Some(self.cwd.as_str()).filter(|cwd| !cwd.is_empty())
    }

    /// A shell command.
    pub fn shell(code: impl Into<String>, home: impl Into<String>, cwd: impl Into<String>) -> Self {
        Self::new(Language::Shell, code, home, cwd)
    }
}

/// What the gate says.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Verdict {
    /// What is to happen.
    pub decision: Decision,
    /// How risky it is, and where it should run.
    pub risk: Assessment,
    /// What a shell command does to the world; none for other languages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub category: Option<Category>,
    /// Why, strictest first.
    pub findings: Vec<Finding>,
    /// What the text does, in a few words: the programs it runs.
    pub intent: String,
    /// Where a shell is afterwards, if that can be told: the directory in which the next text begins.
    #[serde(skip)]
    pub cwd: Option<String>,
    /// The rule that "allow always" would write, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proposal: Option<String>,
}

impl Verdict {
    /// The name of the check that decided; `composite` when all of them let it pass.
    pub fn check(&self) -> &'static str {
        self.deciding().map_or("composite", |finding| finding.check)
    }

    /// What there is to say about it when it passes, or the finding that stops it.
    pub fn passed(&self) -> Result<&[Finding], &Finding> {
        self.deciding().map_or(Ok(&self.findings), Err)
    }

    fn deciding(&self) -> Option<&Finding> {
        self.findings.first().filter(|finding| finding.decision != Decision::Allow)
    }

    /// What a refusal is recorded as: the kind of the check that decided.
    pub fn violation(&self) -> Option<ViolationKind> {
        self.findings.first().filter(|finding| finding.decision == Decision::Deny).map(|finding| finding.kind)
    }
}

/// Judges requests. Made once, used from any number of threads.
#[derive(Clone)]
pub struct Gate {
    options: Arc<Options>,
    checks: Arc<[Box<dyn Check>]>,
    reader: Option<Arc<dyn CodeReader>>,
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
        Self { options: Arc::new(options), checks: checks.into(), reader: None }
    }

    /// The same gate, which has Python and JavaScript read by this reader. Without one they are asked about.
    #[must_use]
    pub fn reading_code_by(mut self, reader: Arc<dyn CodeReader>) -> Self {
        self.reader = Some(reader);
        self
    }

    fn context(&self) -> Context {
        let listed = !self.options.only.is_empty();
        Context::new(Arc::clone(&self.checks), self.options.strictness, listed, self.reader.clone())
    }

    /// Judges one request. The same request always gets the same verdict.
    pub fn judge(&self, request: &Request) -> Verdict {
        let mut context = self.context();
        let place = Place::from(request);
        code::judge(request.language, &request.code, place, request.known_cwd(), 0, &mut context);
        let vouched = request.language == Language::Shell && self.apply_rules(&mut context);
        let whole = ByteSpan { start: 0, end: u32::try_from(request.code.len()).unwrap_or(u32::MAX) };
        if request.escalated {
            let message = "the request asks for more than the sandbox gives";
            context.findings.push(by_rule("escalation", Decision::Ask, whole, message.to_owned(), None));
        }
        if self.options.mode == SafetyMode::Deny && request.language != Language::Shell {
            let message = "the mode is `deny`, and lists are for shell commands";
            context.findings.push(by_rule("mode", Decision::Deny, whole, message.to_owned(), None));
        }
        let risk = risk::assess(request.language, &request.code, &context);
        let is_open = !vouched && context.findings.decision() != Decision::Deny;
        if is_open && self.asks_for_its_risk(&risk, request) {
            context.findings.push(confirmation(&risk, whole));
        }
        let decision = context.findings.decision();
        let proposal = match (decision, context.seen.as_slice()) {
            // A rule that lasts is offered only for programs, never for secrets, hooks or what cannot be read.
            (Decision::Ask, [only]) if context.findings.list().iter().all(is_about_a_program) => {
                rules::propose(only)
            }
            _ => None,
        };
        let intent = intent(request.language, &context.seen);
        let cwd = context.cwd.take();
        let findings = context.findings.into_sorted();
        let category = (request.language == Language::Shell).then(|| Category::of(risk.level, decision));
        Verdict { decision, risk, category, findings, intent, cwd, proposal }
    }

    /// Every command of a shell text, with its words resolved.
    pub fn commands(&self, request: &Request) -> Vec<Seen> {
        let mut context = self.context();
        judge_shell(&request.code, Place::from(request), request.known_cwd(), 0, &mut context);
        context.seen
    }

    /// Whether a person has to agree although no check objects.
    fn asks_for_its_risk(&self, risk: &Assessment, request: &Request) -> bool {
        let from = match self.options.confirm_from {
            ConfirmFrom::Never => return false,
            ConfirmFrom::Unfenced if request.files.is_some() => return false,
            ConfirmFrom::Unfenced | ConfirmFrom::Critical => Risk::Critical,
            ConfirmFrom::High => Risk::High,
        };
        risk.requires_confirmation && risk.level >= from && self.options.mode != SafetyMode::Allow
    }

    /// Applies the lists of the user. Whether the allow list vouches for every command.
    fn apply_rules(&self, context: &mut Context) -> bool {
        let options = &self.options;
        let mut allowed: Vec<u32> = vec![];
        let mut refused: Vec<Finding> = vec![];
        for (index, seen) in context.seen.iter().enumerate() {
            if let Some(rule) = options.deny.iter().find(|rule| rule.matches(seen, List::Deny)) {
                let message = format!("`{}` is on the deny list ({})", rule.text, rule.source);
                refused.push(by_rule(
                    "denylist",
                    Decision::Deny,
                    seen.span.into(),
                    message,
                    Some(seen.number),
                ));
            }
            let inner = context.seen[index + 1..].iter().any(|other| seen.span.contains(other.span));
            let transparent = crate::is_wrapper(&seen.name) && inner;
            if !options.only.is_empty()
                && !transparent
                && (programs::is_always_blocked(&seen.name)
                    || !options.only.iter().any(|rule| rule.matches(seen, List::Allow)))
            {
                let message = format!("`{}` is not among the commands that may run", seen.name);
                refused.push(by_rule("only", Decision::Deny, seen.span.into(), message, Some(seen.number)));
            }
            if options.allow.iter().any(|rule| rule.matches(seen, List::Allow)) {
                allowed.push(seen.number);
            } else if options.mode == SafetyMode::Deny && !transparent {
                let message = format!("`{}` is not on the allow list, and the mode is `deny`", seen.name);
                refused.push(by_rule("mode", Decision::Deny, seen.span.into(), message, Some(seen.number)));
            }
        }
        let complete = context.saw_all();
        let plain = |number: u32| context.seen.iter().any(|seen| seen.number == number && seen.plain);
        let vouched: Vec<u32> = allowed.into_iter().filter(|number| complete && plain(*number)).collect();
        context.findings.retain_mut(|finding| {
            let by_list = finding.command.is_some_and(|number| vouched.contains(&number));
            // What cannot be told is asked about, whatever a list or the mode says.
            let readable = finding.check != "evasion" && finding.check != "characters";
            if finding.decision == Decision::Ask && readable && (by_list || options.mode == SafetyMode::Allow)
            {
                finding.decision = Decision::Allow;
            }
            true
        });
        let all = !vouched.is_empty() && context.seen.iter().all(|seen| vouched.contains(&seen.number));
        refused.into_iter().for_each(|finding| context.findings.push(finding));
        all
    }
}

fn is_about_a_program(finding: &Finding) -> bool {
    finding.decision == Decision::Allow
        || matches!(finding.rule, "publish" | "lasting-loss")
        || matches!(finding.check, "system" | "risk")
}

fn confirmation(risk: &Assessment, span: ByteSpan) -> Finding {
    let level = risk.level.name();
    let message = format!("the risk is {level}: {}", risk.patterns.join(", "));
    Finding {
        check: "risk",
        suggestion: "`safety.confirmFrom` says from which risk on a person is asked",
        severity: Severity::High,
        ..by_rule("needs-confirmation", Decision::Ask, span, message, None)
    }
}

fn by_rule(
    rule: &'static str,
    decision: Decision,
    span: ByteSpan,
    message: String,
    command: Option<u32>,
) -> Finding {
    Finding {
        check: "rules",
        kind: ViolationKind::CommandBlocked,
        decision,
        severity: Severity::Medium,
        span,
        message,
        suggestion: "change the list or the mode in the configuration",
        rule,
        path: None,
        command,
    }
}

fn intent(language: Language, seen: &[Seen]) -> String {
    if language != Language::Shell {
        return format!("runs {} code", language.name());
    }
    let mut names: Vec<&str> = vec![];
    for seen in seen {
        let name = if seen.name.is_empty() { "an unknown command" } else { &seen.name };
        if !names.contains(&name) && names.len() < 8 {
            names.push(name);
        }
    }
    if names.is_empty() { "runs nothing".to_owned() } else { format!("runs {}", names.join(", ")) }
}

/// Judges a shell text into `context`.
pub(crate) fn judge_shell(
    text: &str,
    place: Place<'_>,
    cwd: Option<&str>,
    level: usize,
    context: &mut Context,
) {
    context.text(text);
    let script = match ringfence_bash::parse(text) {
        Ok(script) => script,
        Err(error) => {
            context.unreadable(&error, None);
            return;
        }
    };
    context.script(&script, None);
    let mut eval = Eval::new(place, cwd, level, context);
    eval.text(&script);
    let after = eval.st.cwd.as_deref().map(str::to_owned);
    context.cwd = after;
}
