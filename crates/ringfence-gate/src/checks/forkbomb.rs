//! Functions that only multiply, and names that should not be functions.

use ringfence_bash::{Command, CommandKind, Context, Frame, FrameKind, Script, Simple, Span, Visitor, walk};
use ringfence_model::ViolationKind;

use super::{Check, Report};
use crate::finding::Rule;

const BOMB: Rule = Rule::deny("fork-bomb", "a function must not start itself in the background");
const MAYBE: Rule = Rule::ask("fork-bomb-maybe", "a function must not start itself in the background");
const SHADOW: Rule = Rule::ask("shadowed-command", "give the function a name of its own");

/// Names that a later command would use without thinking.
const SHADOWED: &[&str] = &[
    "cd", "ls", "cat", "cp", "mv", "rm", "git", "sudo", "su", "ssh", "curl", "wget", "make", "cargo", "npm",
    "node", "python", "python3", "pip", "echo", "printf", "test", "[", "exit", "set", "export", "unset",
    "source", ".", "eval", "exec", "command", "builtin", "trap", "read", "grep", "find", "sed", "awk",
    "bash", "sh", "env", "true", "false", "kill", "pwd", "pushd", "popd", "type", "which", "docker", "chmod",
    "chown", "tar", "mkdir", "touch", "head", "tail",
];

/// Self-calls in the background or in a pipe.
#[derive(Debug)]
pub(super) struct ForkBomb;

impl Check for ForkBomb {
    fn name(&self) -> &'static str {
        "fork_bomb"
    }

    fn kind(&self) -> ViolationKind {
        ViolationKind::DangerousPattern
    }

    fn script(&self, script: &Script, report: &mut Report<'_>) {
        let mut calls = Calls::default();
        walk(script, &mut calls);
        for (name, span) in &calls.functions {
            let of_itself =
                calls.calls.iter().filter(|call| call.from == *name && calls.leads(&call.to, name));
            let (mut all, mut parallel) = (0, 0);
            for call in of_itself {
                // In a loop, one call is many.
                all += if call.is_looped { 2 } else { 1 };
                parallel += usize::from(call.is_parallel);
            }
            if all >= 2 && parallel >= 1 {
                report.add(
                    BOMB,
                    *span,
                    format!("the function `{name}` starts itself more than once at a time"),
                );
            } else if parallel == 1 {
                report.add(MAYBE, *span, format!("the function `{name}` starts itself in the background"));
            }
        }
    }

    fn function(&self, name: &str, _: &Command, span: Span, report: &mut Report<'_>) {
        if SHADOWED.contains(&name) {
            report.add(SHADOW, span, format!("a function takes the place of `{name}`"));
        }
    }
}

/// A call of a function in the body of one.
struct Call {
    from: String,
    to: String,
    is_parallel: bool,
    is_looped: bool,
}

/// The functions of a text, and which of them call which.
#[derive(Default)]
struct Calls {
    functions: Vec<(String, Span)>,
    calls: Vec<Call>,
}

impl Calls {
    /// Whether a call of `from` comes to `to` in the end.
    fn leads(&self, from: &str, to: &str) -> bool {
        let mut seen = vec![from];
        let mut next = 0;
        while let Some(at) = seen.get(next).copied() {
            next += 1;
            if at == to {
                return true;
            }
            for call in self.calls.iter().filter(|call| call.from == at) {
                if !seen.contains(&call.to.as_str()) && seen.len() < 256 {
                    seen.push(&call.to);
                }
            }
        }
        false
    }
}

/// What runs the command that follows, in the same shell or beside it.
const IN_FRONT: &[&str] = &["command", "builtin", "time", "exec", "nohup", "setsid", "coproc", "eval"];

impl<'t> Visitor<'t> for Calls {
    fn command(&mut self, _: &Context<'t>, command: &'t Command) {
        if let CommandKind::Function(function) = &command.kind
            && let Some(name) = function.name.as_literal()
            && self.functions.len() < 256
        {
            self.functions.push((name, command.span));
        }
    }

    fn simple(&mut self, context: &Context<'t>, _: &'t Command, simple: &'t Simple) {
        let Some(from) = context.function().and_then(ringfence_bash::Word::as_literal) else { return };
        let mut words = simple.words.iter().map(ringfence_bash::Word::as_literal);
        let called = words.find(|word| word.as_deref().is_none_or(|word| !IN_FRONT.contains(&word)));
        let Some(Some(to)) = called else { return };
        // Only what is inside of the function counts: that it is defined in the background says nothing.
        let is_body = |frame: &&Frame<'t>| !matches!(frame.kind, FrameKind::Function(_));
        let inner: Vec<FrameKind<'t>> =
            context.frames.iter().rev().take_while(is_body).map(|frame| frame.kind).collect();
        let is_parallel = inner.iter().any(|kind| match kind {
            FrameKind::Background | FrameKind::Coproc | FrameKind::ProcSub(_) => true,
            FrameKind::Pipeline { len, .. } => *len > 1,
            _ => false,
        });
        let is_looped = inner.contains(&FrameKind::Loop);
        if self.calls.len() < 4096 {
            self.calls.push(Call { from, to, is_parallel, is_looped });
        }
    }
}
