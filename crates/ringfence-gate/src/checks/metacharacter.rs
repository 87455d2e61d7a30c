//! Operators of the shell, by strictness.

use ringfence_bash::{Command, Connector, Context, Direction, Error, FrameKind, ParamOp, PartKind, Pipe};
use ringfence_bash::{Part, Script, Span, SubStyle, Substitution, Visitor, walk};
use ringfence_model::config::Strictness;
use ringfence_model::{Severity, ViolationKind};

use super::{Check, Report};
use crate::finding::Rule;
use crate::shell::Cmd;

const CHAINING: Rule = Rule::deny("strict-chaining", "run one command at a time").at(Severity::Medium);
const BACKGROUND: Rule = Rule::deny("strict-background", "run it in the foreground").at(Severity::Medium);
const PIPE: Rule = Rule::ask("strict-pipe", "run one command at a time").at(Severity::Medium);
const EXPANSION: Rule = Rule::ask("strict-expansion", "write the value out").at(Severity::Medium);

const LISTED: Rule =
    Rule::deny("list-operator", "run one command at a time, without operators").at(Severity::Medium);
const NOTED: Rule = Rule::note("operators", "").at(Severity::Medium);

/// Chains, pipes, background, substitutions. The least strict checks pass them, the usual ones mention them, the
/// strict ones refuse them or ask; where only commands of a list may run, each of them is refused.
#[derive(Debug)]
pub(super) struct Metacharacter;

impl Check for Metacharacter {
    fn name(&self) -> &'static str {
        "shell_metacharacter"
    }

    fn kind(&self) -> ViolationKind {
        ViolationKind::ShellMetacharacterAbuse
    }

    fn unreadable(&self, error: &Error, report: &mut Report<'_>) {
        if report.listed {
            report.add(LISTED, error.span(), "only commands of a list may run, and this cannot be read");
        }
    }

    fn script(&self, script: &Script, report: &mut Report<'_>) {
        let found = operators(script);
        let Some((_, first, _)) = found.first() else { return };
        if report.listed {
            for (_, span, what) in found {
                report.add(LISTED, span, format!("only commands of a list may run, and {what} is used"));
            }
            return;
        }
        match report.strictness {
            Strictness::Minimal => {}
            Strictness::Standard => {
                let mut kinds: Vec<&str> = vec![];
                for (_, _, what) in &found {
                    if !kinds.contains(what) {
                        kinds.push(what);
                    }
                }
                report.add(NOTED, *first, format!("operators of the shell are used: {}", kinds.join(", ")));
            }
            Strictness::Strict => {
                for (rule, span, what) in found {
                    report.add(rule, span, format!("{what} is used, and the checks are strict"));
                }
            }
        }
    }

    fn command(&self, cmd: &Cmd<'_>, report: &mut Report<'_>) {
        if let (true, Some(redir)) = (report.listed, cmd.redirs.first()) {
            report.add(LISTED, redir.span, "only commands of a list may run, and a redirection is used");
        }
    }
}

fn operators(script: &Script) -> Vec<(Rule, Span, &'static str)> {
    let mut found = Found(vec![]);
    if let [first, second, ..] = script.items.as_slice() {
        found.0.push((CHAINING, first.span.to(second.span), "`;` or a new line"));
    }
    walk(script, &mut found);
    found.0
}

struct Found(Vec<(Rule, Span, &'static str)>);

impl<'t> Visitor<'t> for Found {
    fn command(&mut self, context: &Context<'t>, command: &'t Command) {
        for frame in &context.frames {
            let entry = match frame.kind {
                FrameKind::AndOr(Connector::And) => (CHAINING, frame.span, "`&&`"),
                FrameKind::AndOr(Connector::Or) => (CHAINING, frame.span, "`||`"),
                FrameKind::Background => (BACKGROUND, frame.span, "`&`"),
                FrameKind::Pipeline { into: Some(Pipe::Stdout | Pipe::StdoutAndStderr), .. } => {
                    (PIPE, command.span, "`|`")
                }
                _ => continue,
            };
            self.0.push(entry);
        }
    }

    fn substitution(&mut self, _: &Context<'t>, span: Span, found: Substitution<'t>) {
        let what = match found {
            Substitution::Command(SubStyle::Backquote, _) => "a backquote",
            Substitution::Command(..) => "`$(`",
            Substitution::Process(Direction::Read, _) => "`<(`",
            Substitution::Process(Direction::Write, _) => "`>(`",
        };
        self.0.push((EXPANSION, span, what));
    }

    fn part(&mut self, _: &Context<'t>, part: &'t Part) {
        if let PartKind::Param(param) = &part.kind
            && (param.op != ParamOp::Plain
                || part.span.end - part.span.start > 1 + u32::try_from(param.name.len()).unwrap_or(0))
        {
            self.0.push((EXPANSION, part.span, "`${`"));
        }
    }
}
