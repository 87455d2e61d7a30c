//! Rights on files, and signals to everything.

use ringfence_model::ViolationKind;

use super::removal::{Zone, zone};
use super::{Check, Report};
use crate::finding::Rule;
use crate::shell::Cmd;
use crate::shell::args::{Options, operands};

const OUTSIDE: Rule = Rule::ask("rights-outside-project", "change rights only on files of the project");
const SETUID: Rule = Rule::ask("set-user-id", "no program of a project needs this bit");
const EVERYTHING: Rule = Rule::ask("signal-everything", "name the process");

/// `chmod`, `chown` outside of the project; set-user-id; signals to all processes.
#[derive(Debug)]
pub(super) struct Permissions;

impl Check for Permissions {
    fn name(&self) -> &'static str {
        "permissions"
    }

    fn kind(&self) -> ViolationKind {
        ViolationKind::DangerousPattern
    }

    fn command(&self, cmd: &Cmd<'_>, report: &mut Report<'_>) {
        match cmd.name {
            "chmod" | "chown" | "chgrp" | "chattr" | "setfacl" | "chcon" => rights(cmd, report),
            "kill" | "killall5" => signals(cmd, report),
            "pkill" | "killall" => {
                let broad = cmd.rest().iter().any(|arg| {
                    let word = arg.val.prefix();
                    (word.starts_with("-u")
                        || word.starts_with("-U")
                        || word.starts_with("--euid")
                        || word.starts_with("--user"))
                        || matches!(word, "." | ".*" | "")
                        || matches!(arg.known(), Some("init" | "systemd" | "sshd"))
                });
                if broad {
                    report.add(
                        EVERYTHING,
                        cmd.span,
                        format!("`{}` reaches many processes at once", cmd.name),
                    );
                }
            }
            _ => {}
        }
    }
}

fn rights(cmd: &Cmd<'_>, report: &mut Report<'_>) {
    let words = operands(cmd.rest(), Options { short: "", long: &["--reference", "--from"] });
    let mode = words.first().map(|arg| arg.show()).unwrap_or_default();
    let numeric = mode.trim_start_matches('0');
    let special = numeric.len() == 4 && numeric.starts_with(['2', '4', '6', '7', '3', '5'])
        || mode.split(',').any(|part| part.contains('s') && part.contains(['+', '=']));
    let plus_s = cmd.rest().iter().any(|arg| arg.is("+s") || arg.is("-s"));
    if cmd.name == "chmod" && (special || plus_s && mode.contains('s')) {
        report.add(SETUID, cmd.span, "the program would run with its owner's rights");
    }
    for target in words.iter().skip(1) {
        let Some(path) = cmd.path(&target.val) else { continue };
        match zone(&path, cmd.place) {
            Zone::Critical | Zone::Home | Zone::Outside => {
                report.add(
                    OUTSIDE,
                    target.span,
                    format!("rights of `{}` are changed, outside of the project", path.show()),
                );
            }
            Zone::Project | Zone::Scratch | Zone::Inside => {}
        }
    }
}

fn signals(cmd: &Cmd<'_>, report: &mut Report<'_>) {
    let mut signal_seen = false;
    for arg in cmd.rest() {
        let word = arg.val.prefix();
        let everything = matches!(arg.known(), Some("-1")) && (signal_seen || cmd.args.len() == 2)
            || matches!(arg.known(), Some("1" | "0"));
        if word.starts_with('-') {
            signal_seen = true;
        }
        // A number is one process; the output of another command is any number of them.
        if everything || arg.val.segs() == [crate::value::Seg::Unknown] && is_substitution(cmd, arg) {
            report.add(EVERYTHING, arg.span, "the signal reaches many or unknown processes");
        }
    }
}

/// An unquoted gap may become many words; a variable of the text is one process.
fn is_substitution(cmd: &Cmd<'_>, arg: &crate::value::Arg) -> bool {
    cmd.level == 0 && arg.span.end - arg.span.start > 12
}
