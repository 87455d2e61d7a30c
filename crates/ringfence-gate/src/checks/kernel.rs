//! Modules and settings of the kernel.

use ringfence_model::ViolationKind;

use super::{Check, Report};
use crate::finding::Rule;
use crate::shell::Cmd;

const MODULES: Rule = Rule::deny("kernel-module", "nothing an agent does needs a module of the kernel");
const SETTINGS: Rule = Rule::ask("kernel-setting", "leave the kernel's settings to a person");

/// `insmod`, `modprobe`, `rmmod` are refused; settings are asked.
#[derive(Debug)]
pub(super) struct Kernel;

impl Check for Kernel {
    fn name(&self) -> &'static str {
        "kernel"
    }

    fn kind(&self) -> ViolationKind {
        ViolationKind::CommandBlocked
    }

    fn command(&self, cmd: &Cmd<'_>, report: &mut Report<'_>) {
        match cmd.name {
            "insmod" | "modprobe" | "rmmod" | "kldload" | "kextload" => {
                report.add(MODULES, cmd.span, format!("`{}` changes the running kernel", cmd.name));
            }
            _ if cmd.args.len() == 2 && (cmd.has("--version") || cmd.has("--help")) => {}
            "kexec" | "depmod" | "setenforce" | "setsebool" | "auditctl" | "bpftool" | "bpftrace"
            | "aa-disable" | "aa-complain" | "apparmor_parser" | "csrutil" | "nvram" | "efibootmgr"
            | "grub-install" | "update-grub" | "grub-mkconfig" | "update-initramfs" | "dracut" => {
                report.add(SETTINGS, cmd.span, format!("`{}` changes the kernel or how it starts", cmd.name));
            }
            "sysctl" => {
                let sets = cmd.rest().iter().any(|arg| {
                    arg.is("-w")
                        || arg.is("-p")
                        || arg.val.prefix().starts_with("--write")
                        || arg.val.prefix().starts_with("--load")
                        || arg.is("--system")
                        || arg.val.split_once('=').is_some()
                });
                if sets {
                    report.add(SETTINGS, cmd.span, "`sysctl` changes settings of the kernel");
                }
            }
            "dmesg" if cmd.has("-C") || cmd.has("--clear") || cmd.has("-c") => {
                report.add(SETTINGS, cmd.span, "the kernel's messages are cleared");
            }
            _ => {}
        }
    }
}
