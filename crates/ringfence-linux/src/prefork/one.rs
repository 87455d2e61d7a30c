//! A sandbox that is begun before anybody knows what it will be.
//!
//! Making namespaces takes as long as reading a configuration and planning from it, and neither needs the other. So
//! a program that will make one sandbox calls [`begin`] first thing. Pid 1 of a sandbox is cloned from it while it is
//! small, into the namespaces that only a clone can give. It makes the others itself, beside us, does what no policy
//! decides ([`init::found`](crate::init::found), and the mounts that every plan begins with) and waits. As soon as
//! it is known what is shown inside, [`build`] has it made; [`launch`](crate::launch::launch) sends the whole plan
//! and the command as an [order](super::wire), instead of cloning them with a process.
//!
//! Nothing but this code runs in it until then. It ends when this process does, or at [`forget`].

use std::os::fd::AsFd;
use std::sync::Mutex;

use ringfence_model::LockExt as _;
use rustix::io::Errno;
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

use super::child::{self, Order};
use super::wire;
use crate::idmapped_etc::Idmapped;
use crate::launch::{End, Maps, NAMESPACES, Sandboxed, control_pair};
use crate::plan::{BindAccess, Exec, MountStep, Plan};
use crate::report::Message;
use crate::sys::{self, Cloned, Sys};

/// Who pid 1 is and what it may do cannot be made later. All the others take several times as long, for which this
/// process would have to wait.
const FIRST: i32 = libc::CLONE_NEWUSER | libc::CLONE_NEWPID;

static BEGUN: Mutex<Option<Begun>> = Mutex::new(None);

#[derive(Debug)]
pub(crate) struct Begun {
    sandboxed: Sandboxed,
    /// The mounts that it makes, or was told to.
    made: Vec<MountStep>,
}

/// Begins a sandbox, which the first [`launch`](crate::launch::launch) of this process takes, if its plan begins
/// with the mounts of `ground`. Where that is not possible nothing happens: a launch does all of it then, and says
/// what is wrong.
///
/// To be called while this process has one thread only: what is begun allocates, and a thread that is not there
/// any more could hold the allocator's lock.
pub fn begin(ground: Vec<MountStep>) {
    let Ok((host, inside)) = control_pair() else { return };
    if !has_one_thread() {
        return;
    }
    let maps = Maps::identity();
    let processors = Processors::now();
    // SAFETY: the child never returns; it may allocate, since there is one thread.
    match unsafe { sys::clone(FIRST) } {
        Ok(Cloned::Child) => {
            drop(host);
            // It may have been given the place of its parent, which waits then.
            if let Some(processors) = processors.filter(|processors| sched_getcpu() == processors.here) {
                processors.move_on(None);
            }
            child::run(inside.as_fd(), &maps, NAMESPACES & !FIRST, &ground)
        }
        Ok(Cloned::Parent { pid, pidfd }) => {
            if let Some(processors) = processors {
                processors.move_on(Pid::from_raw(pid));
            }
            let sandboxed = Sandboxed { pid, pidfd, control: host, end: End::Kill };
            *BEGUN.locked() = Some(Begun { sandboxed, made: ground });
        }
        Err(_) => {}
    }
}

/// Has the sandbox that was begun, if there is one, make the first `mounts` of its plan while the rest of that is
/// still thought about. `idmapped` is that of the plan.
pub fn build(mounts: &[MountStep], idmapped: Option<&Idmapped>) {
    if let Some(begun) = &mut *BEGUN.locked() {
        // Mounts that were not sent are a part of the order.
        let _ = begun.build(mounts, idmapped);
    }
}

/// Ends what was begun and will not be used.
pub fn forget() {
    if let Some(begun) = take() {
        begun.forget();
    }
}

pub(crate) fn has_one_thread() -> bool {
    // A link for itself, one for its parent, and one for each thread.
    rustix::fs::stat(c"/proc/self/task").is_ok_and(|task| task.st_nlink == 3)
}

fn take() -> Option<Begun> {
    BEGUN.locked().take()
}

/// The sandbox that was begun, if there is one that fits. One that does not is ended.
pub(crate) fn take_for(plan: &Plan, exec: &Exec) -> Option<Begun> {
    let begun = take()?;
    if !plan.mounts.starts_with(&begun.made) || !exec.passed.is_empty() || exec.held {
        begun.forget();
        return None;
    }
    Some(begun)
}

impl Begun {
    fn build(&mut self, mounts: &[MountStep], idmapped: Option<&Idmapped>) -> std::io::Result<()> {
        let Some(new) = mounts.strip_prefix(&self.made[..]) else { return Ok(()) };
        let packed = wire::pack_mounts(new)?;
        let tree = match idmapped {
            Some(idmapped) if new.iter().any(is_idmapped) => Some(idmapped.tree()?),
            _ => None,
        };
        let mut descriptors = vec![packed.as_fd()];
        descriptors.extend(tree.as_ref().map(AsFd::as_fd));
        Message::Mounts.send_with(self.sandboxed.control.as_fd(), &descriptors)?;
        self.made = mounts.to_vec();
        Ok(())
    }

    /// Whether it has what only the host could prepare.
    pub(crate) fn has_idmapped(&self) -> bool {
        self.made.iter().any(is_idmapped)
    }

    /// Tells it what it is to be.
    pub(crate) fn continue_with(self, order: &Order<'_>) -> Sys<Sandboxed> {
        match order.send(self.sandboxed.control.as_fd()) {
            // One that is gone already said why.
            Ok(()) | Err(Errno::PIPE | Errno::CONNRESET) => Ok(self.sandboxed),
            Err(errno) => {
                self.forget();
                Err(errno)
            }
        }
    }

    pub(crate) fn forget(self) {
        self.sandboxed.kill();
    }
}

/// The kernel often leaves a new process on the processor of its parent, because another one is clearing away what ran
/// before; the two would do one after the other what they were made to do beside each other.
#[derive(Debug)]
struct Processors {
    here: usize,
    all: CpuSet,
    others: CpuSet,
}

impl Processors {
    /// None where there is only one, or it cannot be told.
    fn now() -> Option<Self> {
        let (here, all) = (sched_getcpu(), sched_getaffinity(None).ok()?);
        let mut others = all;
        others.unset(here);
        (others.count() > 0).then_some(Self { here, all, others })
    }

    /// Moves a process (none: this one) away from here, without keeping it there.
    fn move_on(&self, process: Option<Pid>) {
        if sched_setaffinity(process, &self.others).is_ok() {
            let _ = sched_setaffinity(process, &self.all);
        }
    }
}

fn is_idmapped(step: &MountStep) -> bool {
    matches!(step, MountStep::Bind { access: BindAccess::Idmapped, .. })
}
