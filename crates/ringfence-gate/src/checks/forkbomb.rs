//! Functions that only multiply, and names that should not be functions.

use ringfence_bash::{Command, CommandKind, Context, FrameKind, Simple, Span, Visitor};
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

    fn function(&self, name: &str, body: &Command, span: Span, report: &mut Report<'_>) {
        let mut calls = Calls { name, parallel: 0 };
        // The walk starts at a script, so the body is looked at through one.
        let script = ringfence_bash::Script {
            span: body.span,
            items: vec![ringfence_bash::Item {
                span: body.span,
                first: ringfence_bash::Pipeline {
                    span: body.span,
                    negations: 0,
                    time: None,
                    stages: vec![ringfence_bash::Stage { command: body.clone(), pipe: None }],
                },
                rest: vec![],
                background: false,
            }],
        };
        ringfence_bash::walk(&script, &mut calls);
        if calls.parallel >= 2 {
            report.add(BOMB, span, format!("the function `{name}` starts itself more than once at a time"));
        } else if calls.parallel == 1 {
            report.add(MAYBE, span, format!("the function `{name}` starts itself in the background"));
        }
        if SHADOWED.contains(&name) {
            report.add(SHADOW, span, format!("a function takes the place of `{name}`"));
        }
        debug_assert!(!matches!(body.kind, CommandKind::Simple(_)));
    }
}

struct Calls<'n> {
    name: &'n str,
    parallel: usize,
}

impl<'t> Visitor<'t> for Calls<'_> {
    fn simple(&mut self, context: &Context<'t>, _: &'t Command, simple: &'t Simple) {
        let called = simple.words.first().and_then(ringfence_bash::Word::as_literal);
        if called.as_deref() == Some(self.name)
            && context.inside(|kind| {
                matches!(kind, FrameKind::Background)
                    || matches!(kind, FrameKind::Pipeline { len, .. } if *len > 1)
            })
        {
            self.parallel += 1;
        }
    }
}
