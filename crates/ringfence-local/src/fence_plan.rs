//! A fence for one launcher: the plan, and what it promises.
//!
//! All launchers start from [`PlanInputs`]. One of them makes a [`FencePlan`] of it, once per policy; [`Ready`] is one
//! run of that.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ffi::{CString, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ringfence_linux::idmapped_etc::Idmapped;
use ringfence_linux::launch::{LaunchError, Place, Sandboxed, Stdio, launch};
use ringfence_linux::plan::{Exec, MountStep, Plan};
use ringfence_linux::seccomp::{self, NotifySet, Sends, Shared};
use ringfence_linux::supervisor::{self, Bound, Watched};
use ringfence_linux::{fuse, landlock, prefork, subreaper};
use ringfence_model::config::Precision;
use ringfence_model::{
    Access, Assurance, Degradation, DegradationCode, Error, ErrorKind, Layer, NetworkPolicy, Policy,
    PolicyMode, Result,
};
use rustix::fs::{Mode, OFlags};

use crate::bwrap;
use crate::environment::{self, Places};
use crate::helper::Helper;
use crate::host::Host;
use crate::host_view::{self, OwnDirectory};
use crate::inspection::{Inspection, OwnFiles};
use crate::launcher::{LaunchOptions, Launcher, NAMESPACES};
use crate::limits::LimitPlan;
use crate::not_promised;
use crate::scan::{self, Found};
use crate::synthetic_etc::Users;
use crate::view::{self, Files, Rooms, View};
use crate::way_out::Elsewhere;

/// What a machine of its own calls itself.
const HOSTNAME: &str = "ringfence";

/// The policy of a sandbox and the facts about its host, from which every launcher starts.
#[derive(Debug)]
pub(crate) struct PlanInputs {
    pub(crate) host: Host,
    pub(crate) cwd: PathBuf,
    /// Completed.
    pub(crate) policy: Policy,
    pub(crate) users: Users,
    pub(crate) found: Found,
    pub(crate) precision: Precision,
    pub(crate) limits: LimitPlan,
    /// Where requests to hosts are looked into.
    pub(crate) inspection: Option<Inspection>,
    pub(crate) options: LaunchOptions,
    /// Who makes connections, if this machine does not.
    pub(crate) elsewhere: Option<Arc<dyn Elsewhere>>,
}

/// Hears the first mounts of a plan as soon as they are known, while the rest is still planned: whoever builds them
/// may begin. The owners of `/etc` are translated as the second argument says.
pub(crate) type HeadStart<'a> = &'a dyn Fn(&[MountStep], Option<&Idmapped>);

/// For whoever begins with the whole plan.
pub(crate) fn no_head_start(_: &[MountStep], _: Option<&Idmapped>) {}

/// A fence by one launcher.
#[derive(Debug)]
pub(crate) struct FencePlan {
    pub(crate) launcher: Launcher,
    policy: Option<Policy>,
    pub(crate) plan: Plan,
    watched: Watched,
    /// Directories that are the sandbox's own where there are mounts.
    usual: Vec<PathBuf>,
    helper: Option<Helper>,
    /// Hosts are to be reached by name.
    by_name: bool,
    degraded: Vec<Degradation>,
}

/// Why a sandbox by this launcher reaches no host, if so.
fn no_way_out(launcher: Launcher) -> Option<&'static str> {
    match launcher {
        Launcher::Native | Launcher::Bwrap => None,
        Launcher::Landlock if landlock::refuses_tcp(landlock::abi()) => None,
        Launcher::Landlock => {
            Some("this kernel's Landlock does not know TCP (Linux 6.7 does), so there are no sockets at all")
        }
        Launcher::NetworkOnly => Some("this launcher has no supervisor that would connect"),
    }
}

/// Why there is no fence by a launcher.
#[derive(Debug)]
pub(crate) enum NoFence {
    /// It does not work on this machine; another one may.
    Unavailable(Degradation),
    /// The policy cannot be enforced, or is wrong.
    Refused(ringfence_model::Error),
}

impl NoFence {
    fn unavailable(why: impl Into<String>) -> Self {
        Self::Unavailable(Degradation::new(DegradationCode::LauncherUnavailable, why))
    }
}

impl From<ringfence_model::Error> for NoFence {
    fn from(error: ringfence_model::Error) -> Self {
        Self::Refused(error)
    }
}

impl PlanInputs {
    pub(crate) fn build(
        &self,
        launcher: Launcher,
        head_start: HeadStart<'_>,
    ) -> std::result::Result<FencePlan, NoFence> {
        let mut fence_plan = match launcher {
            Launcher::Native => self.with_mounts(launcher, head_start)?,
            Launcher::Bwrap => self.by_bwrap()?,
            Launcher::Landlock => self.on_host_files()?,
            Launcher::NetworkOnly => self.network_only(),
        };
        if self.found.incomplete && launcher != Launcher::NetworkOnly {
            fence_plan.degraded.push(not_promised::search_incomplete());
        }
        fence_plan.degraded.extend(self.limits.degraded.iter().cloned());
        fence_plan.by_name = self.policy.network.is_by_name();
        if fence_plan.by_name
            && let Some(why) = no_way_out(launcher)
        {
            fence_plan.degraded.push(not_promised::no_way_out(why));
        } else if launcher == Launcher::Landlock && self.policy.network.has_datagrams() {
            fence_plan.degraded.push(not_promised::no_datagrams());
        }
        Ok(fence_plan)
    }

    fn with_mounts(&self, launcher: Launcher, head_start: HeadStart<'_>) -> Result<FencePlan> {
        let (mut view, idmapped) = self.view(launcher, head_start)?;
        let mut degraded = Vec::new();
        let tripwire = self.tripwire(launcher);
        match (&tripwire, self.precision) {
            // Whoever opens or executes something is seen before it could run into a trap. What is not seen are
            // questions about what lies in a denied directory.
            (Ok(()), Precision::Full) => view.traps.retain(|trap| trap.kind == fuse::Kind::Directory),
            (Ok(()), Precision::Writes) => view.trap_doors(),
            (Ok(()), Precision::Off) | (Err(_), _) => view.traps.clear(),
        }
        let abi = landlock::abi();
        if abi == 0 {
            degraded.push(not_promised::no_landlock());
        }
        degraded.extend(not_promised::unseen(self.precision, tripwire.as_ref().err()));
        let supervised = self.precision != Precision::Off || self.policy.network.is_by_name();
        let spare = supervised && !self.options.requires(Layer::Supervisor);
        let plan = Plan {
            hostname: CString::new(HOSTNAME).unwrap_or_default(),
            mounts: view.mounts,
            idmapped,
            traps: view.traps,
            landlock: (abi > 0).then_some((abi, view.landlock)),
            without_tcp: false,
            rlimits: self.limits.rlimits.clone(),
            filter: filter(self.precision, &self.policy.network),
            supervised,
            unsupervised_filter: spare.then(seccomp::static_program),
        };
        let watched = Watched {
            fixed: view.fixed,
            kept: view.kept,
            most_processes: self.limits.uncounted_processes,
            ..Watched::default()
        };
        Ok(FencePlan {
            launcher,
            policy: None,
            plan,
            watched,
            usual: vec![],
            helper: None,
            by_name: false,
            degraded,
        })
    }

    /// The view, and the mount of `/etc` with translated owners, where that is possible: elsewhere what only
    /// root can read there is looked for and masked.
    fn view(&self, launcher: Launcher, head_start: HeadStart<'_>) -> Result<(View, Option<Arc<Idmapped>>)> {
        let fs = &self.policy.filesystem;
        let mut replaced =
            self.users.replaced(fs, &self.host.home, HOSTNAME, self.policy.network.is_by_name());
        let inspection = self.inspection.as_ref();
        replaced.extend(inspection.iter().flat_map(|inspection| inspection.replaced()).cloned());
        let files = Files { replaced: &replaced, own: inspection.map_or(&[], Inspection::own_files) };
        let mut rooms =
            Rooms::new(fs, &files, &|place| self.limits.room(place), self.precision != Precision::Off)?;
        // The one file of it that somebody wants would be refused with the others.
        let translated = launcher == Launcher::Native
            && rustix::process::geteuid().is_root()
            && !scan::is_wanted(fs, Path::new("/etc"));
        let idmapped = if translated { Idmapped::new(c"/etc").ok() } else { None };
        let idmapped = idmapped.filter(|_| rooms.idmap(c"/etc"));
        head_start(rooms.mounts(), idmapped.as_ref());
        let found = if idmapped.is_some() { Cow::Borrowed(&self.found) } else { self.found_with_roots_own() };
        Ok((rooms.finish(fs, &found, &self.cwd)?, idmapped.map(Arc::new)))
    }

    fn found_with_roots_own(&self) -> Cow<'_, Found> {
        if !rustix::process::geteuid().is_root() {
            return Cow::Borrowed(&self.found);
        }
        let mut found = self.found.clone();
        found.roots_own = scan::closed_to_others(Path::new("/etc"), &self.policy.filesystem.deny);
        found.roots_own.retain(|path| !scan::is_wanted(&self.policy.filesystem, path));
        Cow::Owned(found)
    }

    /// Whether what is hidden or denied can be covered by something that tells; if not, why.
    fn tripwire(&self, launcher: Launcher) -> std::result::Result<(), String> {
        if launcher != Launcher::Native {
            return Err("bwrap mounts no file system of ours".to_owned());
        }
        fuse::probe().map_err(|error| format!("/dev/fuse cannot be opened: {error}"))
    }

    fn by_bwrap(&self) -> std::result::Result<FencePlan, NoFence> {
        let LaunchOptions { bwrap, stage, .. } = &self.options;
        let program = bwrap::find(bwrap, &self.host, &self.cwd).map_err(NoFence::Unavailable)?;
        let Some(stage) = stage else {
            let why = "no program is configured that bwrap could execute inside (providerOptions.stage)";
            return Err(NoFence::unavailable(why));
        };
        let opened = rustix::fs::open(stage, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
        let stage = opened.map_err(|errno| {
            let error = std::io::Error::from(errno);
            NoFence::unavailable(format!("the program for the inside, {}: {error}", stage.display()))
        })?;
        // bwrap is started with all of its mounts.
        let mut fence_plan = self.with_mounts(Launcher::Bwrap, &no_head_start)?;
        let arguments = bwrap::arguments(&program, &fence_plan.plan.mounts)?;
        fence_plan.helper = Some(Helper { arguments, stage });
        fence_plan.degraded.push(not_promised::files_uncounted());
        Ok(fence_plan)
    }

    fn on_host_files(&self) -> std::result::Result<FencePlan, NoFence> {
        let abi = landlock::abi();
        if abi == 0 {
            return Err(NoFence::unavailable("the kernel has no Landlock, or it is switched off"));
        }
        let (mut policy, hidden) = host_view::for_host(self.policy.clone());
        self.users.deny_hosts(&mut policy.filesystem);
        let found = self.found_with_roots_own();
        let view = host_view::lay_out(&policy.filesystem, &hidden, &found, &self.cwd)?;
        host_view::open_descriptors(&mut policy);
        let shared = Shared {
            no_internet: !landlock::refuses_tcp(abi),
            no_local: !landlock::has_scopes(abi),
            by_name: self.policy.network.is_by_name(),
        };
        // Files that only the supervisor refuses would be readable without it.
        let spare = !self.options.requires(Layer::Supervisor) && view.exposed.is_empty();
        let alone = Shared { no_local: true, ..shared };
        let plan = Plan {
            hostname: CString::new(HOSTNAME).unwrap_or_default(),
            mounts: vec![],
            idmapped: None,
            traps: vec![],
            landlock: Some((abi, view.landlock)),
            without_tcp: true,
            rlimits: self.limits.rlimits.clone(),
            filter: seccomp::shared_program(
                shared,
                &NotifySet { datagrams: shared.by_name, ..NotifySet::everything() },
            ),
            supervised: true,
            unsupervised_filter: spare.then(|| seccomp::shared_program(alone, &NotifySet::off())),
        };
        let watched = Watched {
            fixed: view.fixed,
            kept: view.kept,
            most_processes: self.limits.uncounted_processes,
            ..Watched::default()
        };
        let degraded = not_promised::without_namespaces(abi, self.precision, &view.by_supervisor);
        Ok(FencePlan {
            launcher: Launcher::Landlock,
            policy: Some(policy),
            plan,
            watched,
            usual: hidden,
            helper: None,
            by_name: false,
            degraded,
        })
    }

    fn network_only(&self) -> FencePlan {
        let plan = Plan {
            hostname: CString::new(HOSTNAME).unwrap_or_default(),
            mounts: vec![],
            idmapped: None,
            traps: vec![],
            landlock: None,
            without_tcp: false,
            rlimits: self.limits.rlimits.clone(),
            filter: seccomp::program_among_host_processes(),
            supervised: false,
            unsupervised_filter: None,
        };
        FencePlan {
            launcher: Launcher::NetworkOnly,
            policy: None,
            plan,
            watched: Watched::default(),
            usual: vec![],
            helper: None,
            by_name: false,
            degraded: not_promised::network_only(),
        }
    }
}

fn filter(precision: Precision, network: &NetworkPolicy) -> Vec<seccomp::sock_filter> {
    // Only where datagrams leave is every one of them worth a look.
    let sends = if network.has_datagrams() { Sends::All } else { Sends::Sendto };
    match precision {
        // Somebody has to connect; nothing else is looked at.
        Precision::Off if network.is_by_name() => {
            seccomp::combined_program(&NotifySet { sends, ..NotifySet::connections() })
        }
        Precision::Off => seccomp::static_program(),
        Precision::Full => seccomp::combined_program(&NotifySet { execs: true, sends, ..NotifySet::full() }),
        Precision::Writes => seccomp::combined_program(&NotifySet { sends, ..NotifySet::writes() }),
    }
}

impl FencePlan {
    /// Which layers hold. `supervised` is false when a run found a supervisor above.
    pub(crate) fn assurance(&self, limits: &LimitPlan, supervised: bool, why: &[Degradation]) -> Assurance {
        let mut layers = match self.launcher {
            Launcher::Native | Launcher::Bwrap => NAMESPACES.to_vec(),
            Launcher::Landlock => vec![],
            Launcher::NetworkOnly => vec![Layer::UserNamespace, Layer::NetworkNamespace],
        };
        layers.extend([Layer::Capabilities, Layer::Seccomp]);
        if self.plan.landlock.is_some() {
            layers.push(Layer::Landlock);
        }
        let mut degraded = self.degraded.clone();
        if self.plan.supervised && supervised {
            layers.push(Layer::Supervisor);
        } else if self.plan.supervised {
            degraded.push(not_promised::no_supervisor());
            if self.by_name && no_way_out(self.launcher).is_none() {
                degraded.push(not_promised::no_way_out(
                    "a supervisor above listens already, and nobody connects",
                ));
            }
        }
        if limits.needs_cgroup() {
            layers.push(Layer::Cgroup);
        }
        layers.push(Layer::Rlimits);
        degraded.extend(why.iter().cloned());
        let effective = match self.launcher {
            // A fence for the network alone restricts no file; nobody shall take it for one that does.
            Launcher::NetworkOnly => PolicyMode::None,
            _ => PolicyMode::Restricted,
        };
        Assurance {
            requested: PolicyMode::Restricted,
            effective,
            active: true,
            adapter: self.launcher.adapter(),
            layers,
            degraded,
        }
    }

    /// Prepares one run.
    pub(crate) fn ready<'a>(&'a self, inputs: &'a PlanInputs) -> Result<Ready<'a>> {
        let policy = self.policy.as_ref().unwrap_or(&inputs.policy);
        let own = match self.launcher {
            Launcher::Landlock => {
                let base = inputs.host.variable("TMPDIR").map(Path::new).filter(|dir| dir.is_dir());
                let own =
                    OwnDirectory::new(&crate::host::canonical_or_same(base.unwrap_or(Path::new("/tmp"))))?;
                own.furnish(&inputs.host.home, &policy.filesystem);
                // Inside another fence nobody of ours sees the opens, and to look for these would be told as an attempt.
                if inputs.host.variable("RINGFENCE").is_none() {
                    own.point_to_refused(&inputs.host.home, &policy.filesystem);
                }
                Some(own)
            }
            Launcher::Native | Launcher::Bwrap | Launcher::NetworkOnly => None,
        };
        let (mut plan, mut policy) = (Cow::Borrowed(&self.plan), Cow::Borrowed(policy));
        let mut watched = Cow::Borrowed(&self.watched);
        if let Some(own) = &own {
            let (home, own_home) = (inputs.host.home.clone(), own.places.home.clone());
            let machine = rustix::system::uname();
            let machine = machine.nodename().to_string_lossy();
            let mut replaced = inputs.users.replaced(&policy.filesystem, &own_home, &machine, self.by_name);
            if let Some(inspection) = &inputs.inspection {
                replaced.extend(inspection.replaced().iter().cloned());
                inspection.write_own_files(&own.certificates()).map_err(|error| {
                    Error::new(ErrorKind::SpawnFailed, "cannot write whom programs inside shall trust")
                        .caused_by(error)
                })?;
            }
            let usual = self.usual.clone();
            let mut landlocked = Vec::new();
            if let Some((_, rules)) = &mut plan.to_mut().landlock {
                rules.push(own.landlock_rule());
                landlocked.clone_from(rules);
            }
            let own_memory = own.memory.clone();
            let watched = watched.to_mut();
            watched.kept.push(own_memory.clone());
            watched.shared = Some(supervisor::Shared {
                home,
                own_home,
                usual,
                own_memory,
                bound: Bound::default(),
                replaced,
                landlocked,
            });
            policy.to_mut().filesystem.allow_write.push(own.rule());
        }
        Ok(Ready { fence_plan: self, plan, policy, watched, own })
    }
}

/// One run of a fence.
#[derive(Debug)]
pub(crate) struct Ready<'a> {
    pub(crate) fence_plan: &'a FencePlan,
    pub(crate) plan: Cow<'a, Plan>,
    pub(crate) policy: Cow<'a, Policy>,
    pub(crate) watched: Cow<'a, Watched>,
    own: Option<OwnDirectory>,
}

impl Ready<'_> {
    /// Refuses a working directory that the command may not see. With mounts it is not there to be entered;
    /// Landlock lets anybody enter.
    pub(crate) fn refuse_unseen(&self, cwd: &Path) -> Result<()> {
        let fs = &self.policy.filesystem;
        let seen = self.fence_plan.launcher != Launcher::Landlock || fs.decide(cwd, Access::Read).allowed();
        if seen { Ok(()) } else { Err(view::invisible(fs, cwd)) }
    }

    pub(crate) fn places(&self, host: &Host) -> Places {
        match (&self.own, self.fence_plan.launcher) {
            (Some(own), _) => own.places.clone(),
            (None, Launcher::NetworkOnly) => {
                let variable =
                    |name: &str, usual: &str| host.variable(name).map_or(usual.into(), PathBuf::from);
                Places {
                    home: host.home.clone(),
                    tmp: variable("TMPDIR", "/tmp"),
                    run: variable("XDG_RUNTIME_DIR", "/run"),
                }
            }
            (None, _) => Places::usual(host),
        }
    }

    /// The environment of a command in `cwd`, with the call's own variables.
    pub(crate) fn environment(
        &self,
        inputs: &PlanInputs,
        cwd: &Path,
        call: &BTreeMap<String, String>,
    ) -> BTreeMap<OsString, OsString> {
        let PlanInputs { policy, host, inspection, .. } = inputs;
        let mut env = environment::build(policy, host, &self.places(host), cwd, call);
        if let Some(inspection) = inspection {
            let files = match (&self.own, self.fence_plan.launcher) {
                (Some(own), _) => OwnFiles::At(own.certificates()),
                (None, Launcher::Native | Launcher::Bwrap) => OwnFiles::AtTheirPlace,
                (None, Launcher::Landlock | Launcher::NetworkOnly) => OwnFiles::None,
            };
            let is_said = |name: &str| policy.environment.set.contains_key(name) || call.contains_key(name);
            inspection.furnish(&mut env, &files, is_said);
        }
        env
    }

    pub(crate) fn launch(
        &self,
        exec: &Exec,
        stdio: Stdio,
        place: Place<'_>,
    ) -> std::result::Result<Sandboxed, LaunchError> {
        if self.fence_plan.launcher != Launcher::Native {
            prefork::one::forget();
        }
        match (&self.fence_plan.helper, self.fence_plan.launcher) {
            (Some(helper), _) => helper.launch(&self.plan, exec, stdio, place),
            (None, Launcher::Native | Launcher::Bwrap) => launch(&self.plan, exec, stdio, place),
            (None, launcher) => {
                let kept = subreaper::Options {
                    network: launcher == Launcher::NetworkOnly,
                    directory: self.own.as_ref().map(|own| own.c_path.as_c_str()),
                };
                subreaper::launch(&self.plan, exec, stdio, kept, place)
            }
        }
    }
}

#[cfg(test)]
mod tests;
