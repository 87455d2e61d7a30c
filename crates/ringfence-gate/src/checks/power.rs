//! Turning the machine off.

use ringfence_model::ViolationKind;

use super::{Check, Report};
use crate::finding::Rule;
use crate::shell::Cmd;

const DENY: Rule = Rule::deny("power", "nothing an agent does needs the machine to stop");
const ASK: Rule = Rule::ask("power-maybe", "nothing an agent does needs the machine to stop");

const VERBS: &[&str] = &[
    "poweroff",
    "reboot",
    "halt",
    "kexec",
    "soft-reboot",
    "suspend",
    "hibernate",
    "hybrid-sleep",
    "suspend-then-hibernate",
    "rescue",
    "emergency",
    "exit",
    "switch-root",
];

/// shutdown, reboot, halt, poweroff, run levels 0 and 6, and the same through systemd.
#[derive(Debug)]
pub(super) struct Power;

impl Check for Power {
    fn name(&self) -> &'static str {
        "power"
    }

    fn kind(&self) -> ViolationKind {
        ViolationKind::CommandBlocked
    }

    fn command(&self, cmd: &Cmd<'_>, report: &mut Report<'_>) {
        let off = match cmd.name {
            "shutdown" | "reboot" | "halt" | "poweroff" | "pm-suspend" | "pm-hibernate" => true,
            "init" | "telinit" => {
                cmd.sub().is_some_and(|level| matches!(level, "0" | "6" | "1" | "s" | "S" | "u"))
            }
            "systemctl" | "loginctl" => {
                cmd.rest().iter().any(|arg| arg.known().is_some_and(|word| VERBS.contains(&word)))
            }
            _ => false,
        };
        if off {
            report.add(DENY, cmd.span, format!("`{}` stops or suspends the machine", cmd.name));
        } else if cmd.is(&["busctl", "dbus-send", "gdbus", "qdbus"]) && cmd.args.len() > 2 {
            report.add(ASK, cmd.span, format!("`{}` talks to services of the machine", cmd.name));
        }
    }
}
