//! Operators of the shell, by strictness.

use ringfence_bash::{Command, Context, Item, PartKind, Script, Span, Substitution, Visitor, walk};
use ringfence_bash::{Part, Pipe};
use ringfence_model::config::Strictness;
use ringfence_model::{Severity, ViolationKind};

use super::{Check, Report};
use crate::finding::Rule;

const CHAINING: Rule = Rule::deny("strict-chaining", "run one command at a time").at(Severity::Medium);
const BACKGROUND: Rule = Rule::deny("strict-background", "run it in the foreground").at(Severity::Medium);
const PIPE: Rule = Rule::ask("strict-pipe", "run one command at a time").at(Severity::Medium);
const EXPANSION: Rule = Rule::ask("strict-expansion", "write the value out").at(Severity::Medium);

/// Chains, pipes, background, substitutions: nothing below the strict checks, where they are refused or asked.
#[derive(Debug)]
pub(super) struct Metacharacter;

impl Check for Metacharacter {
    fn name(&self) -> &'static str {
        "shell_metacharacter"
    }

    fn kind(&self) -> ViolationKind {
        ViolationKind::ShellMetacharacterAbuse
    }

    fn script(&self, script: &Script, report: &mut Report<'_>) {
        if report.strictness != Strictness::Strict {
            return;
        }
        lists(&script.items, report);
        let mut found = Found(vec![]);
        walk(script, &mut found);
        for (rule, span, what) in found.0 {
            report.add(rule, span, format!("{what} is used, and the checks are strict"));
        }
    }
}

fn lists(items: &[Item], report: &mut Report<'_>) {
    if let [first, second, ..] = items {
        report.add(
            CHAINING,
            first.span.to(second.span),
            "`;` or a new line is used, and the checks are strict",
        );
    }
}

struct Found(Vec<(Rule, Span, &'static str)>);

impl<'t> Visitor<'t> for Found {
    fn command(&mut self, context: &Context<'t>, command: &'t Command) {
        use ringfence_bash::FrameKind as Kind;
        for frame in &context.frames {
            let entry = match frame.kind {
                Kind::AndOr(ringfence_bash::Connector::And) => (CHAINING, frame.span, "`&&`"),
                Kind::AndOr(ringfence_bash::Connector::Or) => (CHAINING, frame.span, "`||`"),
                Kind::Background => (BACKGROUND, frame.span, "`&`"),
                Kind::Pipeline { into: Some(Pipe::Stdout | Pipe::StdoutAndStderr), .. } => {
                    (PIPE, command.span, "`|`")
                }
                _ => continue,
            };
            self.0.push(entry);
        }
    }

    fn substitution(&mut self, _: &Context<'t>, span: Span, found: Substitution<'t>) {
        let what = match found {
            Substitution::Command(ringfence_bash::SubStyle::Backquote, _) => "a backquote",
            Substitution::Command(..) => "`$(`",
            Substitution::Process(ringfence_bash::Direction::Read, _) => "`<(`",
            Substitution::Process(ringfence_bash::Direction::Write, _) => "`>(`",
        };
        self.0.push((EXPANSION, span, what));
    }

    fn part(&mut self, _: &Context<'t>, part: &'t Part) {
        if let PartKind::Param(param) = &part.kind
            && (param.op != ringfence_bash::ParamOp::Plain
                || part.span.end - part.span.start > 1 + u32::try_from(param.name.len()).unwrap_or(0))
        {
            self.0.push((EXPANSION, part.span, "`${`"));
        }
    }
}
