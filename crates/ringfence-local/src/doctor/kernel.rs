//! What the kernel lets this user do.

use ringfence_linux::probe::{self, Namespace, Trial};
use ringfence_linux::{landlock, seccomp};

use super::{Check, Status};

const WITHOUT_NAMESPACES: &str =
    "the launchers native and bwrap cannot start; what is left is landlock, which promises less";

/// Where we stand; it decides which remedy helps.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) root: bool,
    /// The kind of container we are in.
    pub(super) container: Option<&'a str>,
    pub(super) program: &'a str,
}

/// The switches by which systems turn user namespaces off; none where the kernel does not have one.
#[derive(Debug, Clone, Default)]
pub(super) struct Switches {
    pub(super) most: Option<u64>,
    pub(super) unprivileged: Option<u64>,
    pub(super) apparmor: Option<u64>,
}

impl Switches {
    pub(super) fn read() -> Self {
        let number = |path: &str| std::fs::read_to_string(path).ok()?.trim().parse().ok();
        Self {
            most: number("/proc/sys/user/max_user_namespaces"),
            unprivileged: number("/proc/sys/kernel/unprivileged_userns_clone"),
            apparmor: number("/proc/sys/kernel/apparmor_restrict_unprivileged_userns"),
        }
    }
}

pub(super) fn checks(place: &Place<'_>) -> Vec<Check> {
    let switches = Switches::read();
    let user = probe::user_namespace();
    let mut checks = vec![user_namespaces(user, &switches, place)];
    checks.extend(switch_checks(&switches, place));
    checks.push(namespaces(user, &Namespace::ALL.map(|kind| (kind, probe::namespace(kind))), place));
    checks.push(fresh_proc(user, probe::fresh_proc(), place));
    let abi = landlock::abi();
    checks.push(landlock_rules(abi, if abi > 0 { Some(probe::landlock(abi)) } else { None }));
    checks.push(seccomp_filter(probe::seccomp_filter()));
    checks.push(seccomp_notify(seccomp::notify_supported(), probe::seccomp_notify(), probe::sync_wake_up()));
    checks.push(process_access(probe::process_access()));
    checks
}

/// The options that give a container what a sandbox inside it needs.
pub(super) fn container_remedy(kind: &str) -> String {
    let tool = if kind == "podman" { "podman" } else { "docker" };
    match kind {
        "kubernetes" => {
            "set securityContext.seccompProfile.type: Unconfined, securityContext.procMount: Unmasked \
            and spec.hostUsers: false on the pod"
                .to_owned()
        }
        "docker" | "podman" => format!(
            "{tool} run --security-opt seccomp=unconfined --security-opt apparmor=unconfined \
             --security-opt {} …",
            if tool == "podman" { "unmask=ALL" } else { "systempaths=unconfined" }
        ),
        _ => "allow user namespaces and an unmasked /proc in the container's settings".to_owned(),
    }
}

pub(super) fn user_namespaces(trial: Trial, switches: &Switches, place: &Place<'_>) -> Check {
    const ID: &str = "userNamespaces";
    const TITLE: &str = "user namespaces";
    let Some(error) = trial.error() else {
        return Check::new(ID, TITLE, Status::Ok, "one can be made, with this user in it").required();
    };
    let (condition, remedy) = if switches.most == Some(0) {
        (
            "user.max_user_namespaces is 0".to_owned(),
            "sudo sysctl -w user.max_user_namespaces=15000".to_owned(),
        )
    } else if switches.unprivileged == Some(0) && !place.root {
        (
            "kernel.unprivileged_userns_clone is 0".to_owned(),
            "sudo sysctl -w kernel.unprivileged_userns_clone=1".to_owned(),
        )
    } else if switches.apparmor.is_some_and(|value| value != 0) && !place.root {
        (
            "kernel.apparmor_restrict_unprivileged_userns is on and no profile lets this program".to_owned(),
            apparmor_remedy(place.program),
        )
    } else if let Some(kind) = place.container {
        (format!("the {kind} container does not let them be made"), container_remedy(kind))
    } else {
        (
            "the kernel refuses them".to_owned(),
            "use a kernel with CONFIG_USER_NS=y, and look for what else may refuse: dmesg | tail".to_owned(),
        )
    };
    Check::new(ID, TITLE, Status::Missing, format!("{condition} ({error})"))
        .required()
        .costs(WITHOUT_NAMESPACES)
        .remedy(remedy)
}

fn apparmor_remedy(program: &str) -> String {
    format!(
        "printf 'abi <abi/4.0>,\\nprofile ringfence {} flags=(unconfined) {{\\n  userns,\\n}}\\n' \
         | sudo tee /etc/apparmor.d/ringfence && sudo apparmor_parser -r /etc/apparmor.d/ringfence",
        program
    )
}

/// Each switch by itself, so that the one that is off can be seen.
pub(super) fn switch_checks(switches: &Switches, place: &Place<'_>) -> Vec<Check> {
    let mut checks = Vec::new();
    let absent = "this kernel has no such switch";

    let check =
        |status, found: String| Check::new("maxUserNamespaces", "user.max_user_namespaces", status, found);
    checks.push(match switches.most {
        None => check(Status::NotApplicable, absent.to_owned()),
        Some(0) => check(Status::Missing, "0".to_owned())
            .required()
            .costs("no user namespace can be made")
            .remedy("sudo sysctl -w user.max_user_namespaces=15000"),
        Some(most) => check(Status::Ok, most.to_string()),
    });

    let check = |status, found: &str| {
        Check::new("unprivilegedUsernsClone", "kernel.unprivileged_userns_clone", status, found)
    };
    checks.push(match switches.unprivileged {
        None => check(Status::NotApplicable, absent),
        Some(0) if place.root => check(Status::Ok, "0, which does not concern root"),
        Some(0) => check(Status::Missing, "0")
            .required()
            .costs("only root can make user namespaces")
            .remedy("sudo sysctl -w kernel.unprivileged_userns_clone=1"),
        Some(_) => check(Status::Ok, "1"),
    });

    let check = |status, found: &str| {
        Check::new("apparmorUserns", "kernel.apparmor_restrict_unprivileged_userns", status, found)
    };
    checks.push(match switches.apparmor {
        None => check(Status::NotApplicable, absent),
        Some(0) => check(Status::Ok, "0"),
        Some(_) if place.root => check(Status::Ok, "on, which does not concern root"),
        // With a profile it is harmless; whether there is one shows in the namespaces themselves.
        Some(_) => check(Status::Degraded, "on")
            .costs("only programs with an AppArmor profile that says `userns` get rights in user namespaces")
            .remedy(apparmor_remedy(place.program)),
    });
    checks
}

pub(super) fn namespaces(user: Trial, trials: &[(Namespace, Trial)], place: &Place<'_>) -> Check {
    const ID: &str = "namespaces";
    const TITLE: &str = "other namespaces";
    if !user.works() {
        return Check::new(ID, TITLE, Status::Missing, "not without user namespaces")
            .required()
            .costs(WITHOUT_NAMESPACES)
            .remedy("see user namespaces");
    }
    let names = |works: bool| -> Vec<&str> {
        trials.iter().filter(|(_, trial)| trial.works() == works).map(|(kind, _)| kind.name()).collect()
    };
    let failed = names(false);
    if failed.is_empty() {
        return Check::new(ID, TITLE, Status::Ok, names(true).join(", ")).required();
    }
    let errors: Vec<String> = trials
        .iter()
        .filter_map(|(kind, trial)| Some(format!("{}: {}", kind.name(), trial.error()?)))
        .collect();
    let remedy = match place.container {
        Some(kind) => container_remedy(kind),
        None => format!(
            "raise the limits that are 0: {}",
            failed
                .iter()
                .map(|name| format!("user.max_{}_namespaces", sysctl(name)))
                .collect::<Vec<_>>()
                .join(", ")
        ),
    };
    Check::new(ID, TITLE, Status::Missing, errors.join("; "))
        .required()
        .costs("the sandbox would share these with the host, so the launchers native and bwrap do not start")
        .remedy(remedy)
}

fn sysctl(namespace: &str) -> &str {
    match namespace {
        "mount" => "mnt",
        "network" => "net",
        other => other,
    }
}

pub(super) fn fresh_proc(user: Trial, trial: Trial, place: &Place<'_>) -> Check {
    const ID: &str = "freshProc";
    const TITLE: &str = "a fresh /proc";
    let Some(error) = trial.error() else {
        return Check::new(ID, TITLE, Status::Ok, "can be mounted in a user namespace").required();
    };
    let check = Check::new(
        ID,
        TITLE,
        Status::Missing,
        format!("cannot be mounted in a user namespace ({error})"),
    )
    .required()
    .costs(
        "the host's /proc would show the host's processes, so the launchers native and bwrap do not start",
    );
    match place.container {
        _ if !user.works() => check.remedy("see user namespaces"),
        Some(kind) => check.remedy(container_remedy(kind)),
        None => check.remedy("unmount what covers parts of /proc: findmnt -R /proc"),
    }
}

pub(super) fn landlock_rules(abi: u32, trial: Option<Trial>) -> Check {
    const ID: &str = "landlock";
    const TITLE: &str = "Landlock";
    let enable = "boot with landlock in the list: add lsm=landlock,… (the rest from /sys/kernel/security/lsm) to the \
        kernel's command line; needs Linux 5.13 with CONFIG_SECURITY_LANDLOCK=y";
    match trial {
        None => Check::new(ID, TITLE, Status::Missing, "the kernel has none, or it is switched off")
            .costs("one layer less below the mounts; the fence starts without it and says so")
            .remedy(enable),
        Some(trial) => match trial.error() {
            Some(error) => Check::new(ID, TITLE, Status::Missing, format!("ABI {abi}, but refused ({error})"))
                .required()
                .costs("the fence refuses to start: it does not leave out a layer the kernel says it has")
                .remedy("allow landlock_create_ruleset, landlock_add_rule and landlock_restrict_self in the \
                    seccomp profile around this program"),
            None if abi < 6 => Check::new(ID, TITLE, Status::Degraded, format!("ABI {abi}"))
                .costs("no scoping of signals and abstract sockets by Landlock; the namespaces still separate them")
                .remedy("Linux 6.12 or newer has ABI 6"),
            None => Check::new(ID, TITLE, Status::Ok, format!("ABI {abi}")),
        },
    }
}

pub(super) fn seccomp_filter(trial: Trial) -> Check {
    const ID: &str = "seccomp";
    const TITLE: &str = "seccomp filter";
    match trial.error() {
        None => Check::new(ID, TITLE, Status::Ok, "can be installed").required(),
        Some(error) => Check::new(ID, TITLE, Status::Missing, format!("cannot be installed ({error})"))
            .required()
            .costs("no fence can start: dangerous system calls would stay open")
            .remedy("use a kernel with CONFIG_SECCOMP_FILTER=y, or allow seccomp(2) in the profile around this program"),
    }
}

pub(super) fn seccomp_notify(known: bool, trial: Trial, sync: Trial) -> Check {
    const ID: &str = "seccompNotify";
    const TITLE: &str = "seccomp user notification";
    let cost = "refusals still happen but are not reported exactly, and nobody can be asked";
    match trial.error() {
        None => match sync.error() {
            None => Check::new(
                ID,
                TITLE,
                Status::Ok,
                "a listener can be installed, and is woken on the caller's processor",
            ),
            Some(error) => {
                let found =
                    format!("a listener can be installed, but is woken on another processor ({error})");
                Check::new(ID, TITLE, Status::Degraded, found)
                    .costs("each call that the supervisor looks at takes several times as long")
                    .remedy("use Linux 6.6 or newer")
            }
        },
        Some(error) if error.raw_os_error() == Some(libc::EBUSY) => Check::new(
            ID,
            TITLE,
            Status::Missing,
            "a supervisor is above us already: we are inside another sandbox",
        )
        .costs(cost)
        .remedy("start ringfence outside of the other sandbox, or run with --precision off"),
        Some(error) => {
            let found = if known { format!("refused ({error})") } else { "the kernel has none".to_owned() };
            Check::new(ID, TITLE, Status::Missing, found)
                .costs(cost)
                .remedy("use Linux 5.5 or newer, or run with --precision off")
        }
    }
}

pub(super) fn process_access(access: probe::ProcessAccess) -> Check {
    const ID: &str = "processAccess";
    const TITLE: &str = "access to supervised processes";
    let mut refused = Vec::new();
    for (call, trial) in [("process_vm_readv", access.memory), ("pidfd_getfd", access.descriptors)] {
        if let Some(error) = trial.error() {
            refused.push(format!("{call}: {error}"));
        }
    }
    if refused.is_empty() {
        return Check::new(ID, TITLE, Status::Ok, "process_vm_readv and pidfd_getfd");
    }
    let status = if access.memory.works() { Status::Degraded } else { Status::Missing };
    Check::new(ID, TITLE, status, refused.join("; "))
        .costs("the supervisor cannot see what a refused call was about")
        .remedy("sudo sysctl -w kernel.yama.ptrace_scope=1, or allow both calls in the seccomp profile around this program")
}
