//! Commands that are worth a word, wherever they stand.

use ringfence_bash::{Context, Script, Span, SubStyle, Substitution, Visitor, walk};
use ringfence_model::config::Strictness;
use ringfence_model::{Severity, ViolationKind};

use super::{Check, Report};
use crate::finding::Rule;
use crate::shell::Cmd;

const EVAL: Rule = Rule::ask("eval", "write the command out instead of handing it to eval");
const KNOWN_EVAL: Rule = Rule::note("eval-known", "write the command itself");
const NETWORK: Rule =
    Rule::note("network-tool", "the fence reaches no host but those that are allowed by name");
const PROCESS: Rule = Rule::note("process-tool", "only processes inside the fence are reached");
const DECODE: Rule =
    Rule::note("base64-decode", "look at the decoded text before it is used").at(Severity::Critical);
const BACKQUOTE: Rule =
    Rule::note("backquote", "write $(…), which nests and quotes as it reads").at(Severity::Medium);
const SHELL: Rule = Rule::note("shell-command", "write the command itself");

const NETWORK_TOOLS: &[&str] =
    &["curl", "wget", "nc", "netcat", "ncat", "ssh", "scp", "rsync", "ftp", "sftp", "telnet", "socat"];
const PROCESS_TOOLS: &[&str] = &["kill", "pkill", "killall", "nohup", "disown"];

/// `eval` asks about a text that is not known; network tools, process tools, `sh -c`, backquotes and decoding are
/// only mentioned.
#[derive(Debug)]
pub(super) struct Pattern;

impl Check for Pattern {
    fn name(&self) -> &'static str {
        "dangerous_pattern"
    }

    fn kind(&self) -> ViolationKind {
        ViolationKind::DangerousPattern
    }

    fn script(&self, script: &Script, report: &mut Report<'_>) {
        let mut backquotes = Backquotes(vec![]);
        walk(script, &mut backquotes);
        for span in backquotes.0 {
            report.add(BACKQUOTE, span, "backquotes run a command");
        }
    }

    fn command(&self, cmd: &Cmd<'_>, report: &mut Report<'_>) {
        let name = cmd.name;
        if name == "eval" && cmd.args.len() > 1 {
            // A text that is known is judged like any other.
            let is_known = cmd.rest().iter().all(|arg| arg.known().is_some());
            if is_known && report.strictness != Strictness::Strict {
                report.add(KNOWN_EVAL, cmd.span, "`eval` runs text as a command");
            } else {
                report.add(
                    report.by_strictness(EVAL),
                    cmd.span,
                    "`eval` runs text that is not known before it runs",
                );
            }
        } else if NETWORK_TOOLS.contains(&name) {
            report.add(NETWORK, cmd.span, format!("`{name}` uses the network"));
        } else if PROCESS_TOOLS.contains(&name) {
            report.add(PROCESS, cmd.span, format!("`{name}` acts on other processes"));
        } else if name == "base64"
            && cmd.rest().iter().any(|arg| {
                arg.val.prefix().starts_with("-d") || arg.val.prefix().starts_with("--d") || arg.is("-D")
            })
        {
            report.add(DECODE, cmd.span, "`base64` decodes text");
        } else if crate::is_shell(name)
            && cmd
                .rest()
                .iter()
                .any(|arg| arg.val.prefix().starts_with('-') && arg.val.prefix().ends_with('c'))
        {
            report.add(SHELL, cmd.span, format!("`{name} -c` runs text as a command"));
        }
    }
}

/// Where a command stands in backquotes.
struct Backquotes(Vec<Span>);

impl<'t> Visitor<'t> for Backquotes {
    fn substitution(&mut self, _: &Context<'t>, span: Span, found: Substitution<'t>) {
        if matches!(found, Substitution::Command(SubStyle::Backquote, _)) {
            self.0.push(span);
        }
    }
}
