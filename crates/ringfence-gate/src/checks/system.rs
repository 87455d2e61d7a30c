//! Accounts, network, containers and files of the machine.

use ringfence_model::{Access, ViolationKind};

use super::removal::SYSTEM as SYSTEM_DIRECTORIES;
use super::{Check, Report, writes};
use crate::finding::Rule;
use crate::shell::Cmd;

const FILE: Rule = Rule::ask("system-file", "write below the project or /tmp");
const ACCOUNT: Rule = Rule::ask("account", "leave accounts to a person");
const NETWORK: Rule = Rule::ask("network-setting", "leave the machine's network to a person");
const CONTAINER: Rule =
    Rule::ask("container-rights", "run the container without the host's files and rights");
const SETTING: Rule = Rule::ask("machine-setting", "leave the machine's settings to a person");
const SOCKET: Rule = Rule::ask("raw-connection", "use a tool whose hosts can be allowed");
const ATTACH: Rule = Rule::ask("attach", "start the program under the debugger instead");
const PUSH: Rule =
    Rule::ask("force-push", "push without force, or with --force-with-lease to a branch of your own");
const SHARE: Rule = Rule::ask("lasting-loss", "name the files to be removed");

const ACCOUNTS: &[&str] = &[
    "useradd",
    "adduser",
    "userdel",
    "deluser",
    "usermod",
    "groupadd",
    "groupdel",
    "groupmod",
    "addgroup",
    "vipw",
    "vigr",
    "pwck",
    "newusers",
    "chage",
    "faillock",
    "pam-auth-update",
    "dscl",
];
const SETTINGS: &[&str] = &[
    "hostnamectl",
    "timedatectl",
    "localectl",
    "update-alternatives",
    "ldconfig",
    "alternatives",
    "hwclock",
    "ntpdate",
    "sysrc",
    "defaults",
    "scutil",
    "networksetup",
    "spctl",
    "ufw",
    "firewall-cmd",
    "tc",
    "iw",
    "rfkill",
    "nmcli",
];

/// What changes the machine rather than the project.
#[derive(Debug)]
pub(super) struct System;

impl Check for System {
    fn name(&self) -> &'static str {
        "system"
    }

    fn kind(&self) -> ViolationKind {
        ViolationKind::CommandBlocked
    }

    fn command(&self, cmd: &Cmd<'_>, report: &mut Report<'_>) {
        writes::for_each(cmd, |target, _| {
            let Some(path) = cmd.path(&target.val) else { return };
            let shown = path.show();
            if path.below("/dev/tcp") || path.below("/dev/udp") {
                report.add(SOCKET, target.span, format!("`{shown}` is a connection, not a file"));
                return;
            }
            let system = SYSTEM_DIRECTORIES.iter().filter(|dir| **dir != "/dev").any(|dir| path.within(dir));
            let other = ["/root", "/var", "/run", "/srv", "/opt"].iter().any(|dir| path.within(dir))
                && !path.within("/var/tmp");
            let place = cmd.place;
            let own = place.projects().any(|project| path.below(project))
                || place.allowing(&path, Access::Write).is_some();
            if path.is_root() || system && !own || other && !own && !place.works_below(&path) {
                report.add_about(path.known(), FILE, target.span, format!("`{shown}` belongs to the system"));
            }
        });
        for redir in cmd.redirs {
            if let Some(target) = &redir.target
                && let Some(path) = cmd.path(&target.val)
                && (path.below("/dev/tcp") || path.below("/dev/udp"))
            {
                report.add(SOCKET, target.span, format!("`{}` is a connection, not a file", path.show()));
            }
        }
        self.programs(cmd, report);
    }
}

impl System {
    fn programs(&self, cmd: &Cmd<'_>, report: &mut Report<'_>) {
        let name = cmd.name;
        let any = |words: &[&str]| {
            cmd.rest().iter().any(|arg| arg.known().is_some_and(|word| words.contains(&word)))
        };
        if ACCOUNTS.contains(&name) {
            report.add(ACCOUNT, cmd.span, format!("`{name}` changes accounts"));
        } else if SETTINGS.contains(&name)
            && cmd.args.len() > 1
            && !any(&["status", "show", "list", "--help", "--version", "read"])
        {
            report.add(SETTING, cmd.span, format!("`{name}` changes settings of the machine"));
        }
        match name {
            "ip" if any(&["set", "add", "del", "delete", "flush", "replace", "change"]) => {
                report.add(NETWORK, cmd.span, "`ip` changes the machine's network");
            }
            "ifconfig" if cmd.args.len() > 2 => {
                report.add(NETWORK, cmd.span, "`ifconfig` changes the machine's network")
            }
            "iptables" | "ip6tables" | "nft" | "ebtables" | "pfctl" | "route" | "brctl" | "ifup"
            | "ifdown" | "arp" => {
                let lists = any(&["-L", "-S", "list", "-n", "-nL", "-s"]) || cmd.args.len() == 1;
                if !lists {
                    report.add(NETWORK, cmd.span, format!("`{name}` changes the machine's network"));
                }
            }
            "docker" | "podman" | "nerdctl" | "ctr" | "crictl" | "buildah" => containers(cmd, report),
            "gdb" | "lldb" | "strace" | "ltrace" | "perf" if any(&["-p", "--pid", "attach"]) => {
                report.add(ATTACH, cmd.span, format!("`{name}` takes hold of a running process"));
            }
            "dropdb" | "dropuser" => report.add(SHARE, cmd.span, format!("`{name}` removes data for good")),
            "terraform" | "tofu" | "pulumi" if any(&["destroy", "apply", "up"]) => {
                report.add(SHARE, cmd.span, format!("`{name}` changes what runs elsewhere"));
            }
            "kubectl" | "helm" if any(&["delete", "drain", "uninstall"]) => {
                report.add(SHARE, cmd.span, format!("`{name}` changes what runs elsewhere"));
            }
            "git" => push(cmd, report),
            _ => {}
        }
    }
}

fn push(cmd: &Cmd<'_>, report: &mut Report<'_>) {
    if !cmd.rest().iter().take(6).any(|arg| arg.is("push")) {
        return;
    }
    let forced = cmd.rest().iter().any(|arg| {
        let word = arg.val.prefix();
        word == "--force"
            || word == "--mirror"
            || word == "--delete"
            || word.starts_with(['+', ':']) && word.len() > 1
            || word.starts_with('-') && !word.starts_with("--") && word.contains(['f', 'd'])
    });
    if forced {
        report.add(PUSH, cmd.span, "the history that others have is replaced");
    }
}

fn containers(cmd: &Cmd<'_>, report: &mut Report<'_>) {
    let mut iter = cmd.rest().iter().peekable();
    let words: Vec<String> = cmd.rest().iter().map(crate::value::Arg::show).collect();
    let has = |word: &str| words.iter().any(|known| known == word);
    if has("prune") || (has("rm") || has("rmi")) && has("-f") || has("volume") && has("rm") {
        report.add(SHARE, cmd.span, "containers, images or volumes are removed for good");
    }
    while let Some(arg) = iter.next() {
        let word = arg.show();
        let value = match word.as_str() {
            "-v" | "--volume" | "--mount" | "--net" | "--network" | "--pid" | "--ipc" | "--userns"
            | "--cap-add" | "--device" | "--security-opt" => iter.peek().map(|next| next.show()),
            _ => word
                .split_once('=')
                .map(|(_, value)| value.to_owned())
                .or_else(|| word.strip_prefix("-v").map(str::to_owned)),
        };
        let option = word.split('=').next().unwrap_or_default();
        let bad = match option {
            "--privileged" | "--cap-add" | "--device" | "--security-opt" => true,
            "--net" | "--network" | "--pid" | "--ipc" | "--userns" => value.as_deref() == Some("host"),
            _ if option.starts_with("-v")
                || option.starts_with("--volume")
                || option.starts_with("--mount") =>
            {
                value.is_some_and(|value| {
                    let source = value
                        .split(',')
                        .find_map(|part| part.strip_prefix("source=").or_else(|| part.strip_prefix("src=")))
                        .unwrap_or_else(|| value.split(':').next().unwrap_or_default())
                        .to_owned();
                    let path = crate::path::AbsPath::literal(&source);
                    source.starts_with('/') && !cmd.place.works_in(&path) && !path.below("/tmp")
                        || source.contains("docker.sock")
                })
            }
            _ => false,
        };
        if bad {
            report.add(
                CONTAINER,
                arg.span,
                format!("`{}` gives the container rights on the host", arg.show()),
            );
        }
    }
}
