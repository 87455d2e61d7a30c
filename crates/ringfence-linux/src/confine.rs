//! A process that locks itself in before it reads what it does not trust.
//!
//! For work that needs no files, no network and no other process: reading text from one descriptor and
//! answering on it. After [`confine`] the kernel lets it do that, ask for memory, and end; any other system
//! call ends it. No call that is left takes a path, an address or a process, so there is nothing for a
//! namespace to hide.

use rustix::io::Errno;

use crate::landlock::{self, Ruleset};
use crate::seccomp::{self, Arch, Call, Program, Test, Verdict, call, sock_filter};
use crate::sys::{self, Sys};

/// Reads and writes here; every other descriptor is closed.
const CHANNEL: u32 = 0;

/// Far more than reading a text takes.
const MOST_MEMORY: u64 = 1 << 30;
/// Seconds of processor time, should nobody be there to end it.
const MOST_CPU: u64 = 600;

const fn prot_exec() -> Test {
    Test::any_of(2, libc::PROT_EXEC as u64)
}

/// What may be called, and the arguments with which it may not.
const ALLOWED: &[(Call, &[Test])] = &[
    (call!(read), &[Test::int_is_not(0, CHANNEL)]),
    (call!(write), &[Test::int_is_not(0, CHANNEL)]),
    // Memory, none of it executable.
    (call!(brk), &[]),
    (call!(mmap), &[prot_exec()]),
    (call!(mprotect), &[prot_exec()]),
    (call!(mremap), &[]),
    (call!(munmap), &[]),
    (call!(madvise), &[]),
    // Seeds of hash tables; locks; clocks where they are not read without a call.
    (call!(getrandom), &[]),
    (call!(futex), &[]),
    (call!(clock_gettime), &[]),
    // Being interrupted, and the end.
    (call!(rt_sigreturn), &[]),
    (call!(restart_syscall), &[]),
    (call!(sigaltstack), &[]),
    (call!(rt_sigprocmask), &[]),
    (call!(exit), &[]),
    (call!(exit_group), &[]),
];

fn program(arch: Arch) -> Vec<sock_filter> {
    let mut program = Program::for_arch(arch).all_others(Verdict::Kill);
    for (call, forbidden) in ALLOWED {
        if let Some(number) = call.number(arch) {
            if !forbidden.is_empty() {
                program.add(number, forbidden, Verdict::Kill);
            }
            program.add(number, &[], Verdict::Allow);
        }
    }
    program.assemble()
}

/// Locks this process in, for good. It must have one thread only, as right after its start. Afterwards it can
/// read and write descriptor 0, and compute. Every other descriptor is closed, whoever owns it. Fails where the
/// kernel has no filters of system calls.
pub fn confine() -> Sys<()> {
    // SAFETY: the caller gives up everything but the channel.
    unsafe { sys::close_all_but(&mut [0]) }?;
    sys::set_rlimit(libc::RLIMIT_AS, MOST_MEMORY, MOST_MEMORY)?;
    sys::set_rlimit(libc::RLIMIT_CPU, MOST_CPU, MOST_CPU)?;
    sys::set_rlimit(libc::RLIMIT_CORE, 0, 0)?;
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)?;
    rustix::thread::set_no_new_privs(true)?;
    sys::give_up_capabilities()?;
    let abi = landlock::abi();
    if abi > 0 {
        // A second lock on the same door: where too many are on it already, the filter holds alone.
        match Ruleset::without_tcp(abi).and_then(|ruleset| ruleset.restrict_self()) {
            Ok(()) | Err(Errno::TOOBIG) => {}
            Err(errno) => return Err(errno),
        }
    }
    seccomp::install(&program(Arch::HOST))
        .map_err(|error| error.raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error))
}

#[cfg(test)]
mod tests {
    use rustix::fs::{Mode, OFlags};
    use rustix::process::{Pid, WaitOptions};

    use super::*;
    use crate::sys::Cloned;

    /// How a child ends that confines itself and then does this.
    fn after(work: impl FnOnce()) -> rustix::process::WaitStatus {
        // SAFETY: the child ends in its arm; `work` makes system calls only.
        match unsafe { sys::clone(0) }.unwrap() {
            Cloned::Child => {
                if confine().is_err() {
                    sys::exit_now(99);
                }
                work();
                sys::exit_now(7)
            }
            Cloned::Parent { pid, .. } => {
                let pid = Pid::from_raw(pid).unwrap();
                rustix::process::waitpid(Some(pid), WaitOptions::empty()).unwrap().unwrap().1
            }
        }
    }

    #[test]
    fn computing_and_the_channel_are_left() {
        let status = after(|| {
            // SAFETY: open since the start of the process.
            let _ = rustix::io::write(unsafe { sys::borrow(0) }, b"");
            // SAFETY: memory of its own, which nobody else uses.
            let memory = unsafe {
                rustix::mm::mmap_anonymous(
                    std::ptr::null_mut(),
                    1 << 20,
                    rustix::mm::ProtFlags::READ | rustix::mm::ProtFlags::WRITE,
                    rustix::mm::MapFlags::PRIVATE,
                )
            };
            if memory.is_err() {
                sys::exit_now(1);
            }
        });
        assert_eq!(status.exit_status(), Some(7), "{status:?}");
    }

    #[test]
    fn everything_else_ends_the_process() {
        let open: &dyn Fn() = &|| drop(rustix::fs::open("/", OFlags::RDONLY, Mode::empty()));
        let connect: &dyn Fn() = &|| {
            drop(rustix::net::socket(
                rustix::net::AddressFamily::UNIX,
                rustix::net::SocketType::STREAM,
                None,
            ));
        };
        // SAFETY: the kernel ends the process that asks for it.
        let start: &dyn Fn() = &|| drop(unsafe { sys::clone(0) });
        let signal: &dyn Fn() = &|| {
            let _ = rustix::process::test_kill_process(rustix::process::getpid());
        };
        let duplicate: &dyn Fn() = &|| {
            let _ = sys::duplicate_above(0, 10);
        };
        let elsewhere: &dyn Fn() = &|| {
            // SAFETY: only passed to a call that ends the process.
            let _ = rustix::io::write(unsafe { sys::borrow(2) }, b"x");
        };
        let execute: &dyn Fn() = &|| {
            // SAFETY: memory of its own; nothing is put there.
            let _ = unsafe {
                rustix::mm::mmap_anonymous(
                    std::ptr::null_mut(),
                    4096,
                    rustix::mm::ProtFlags::READ | rustix::mm::ProtFlags::EXEC,
                    rustix::mm::MapFlags::PRIVATE,
                )
            };
        };
        for (name, work) in [
            ("open", open),
            ("socket", connect),
            ("clone", start),
            ("kill", signal),
            ("dup", duplicate),
            ("write elsewhere", elsewhere),
            ("executable memory", execute),
        ] {
            let status = after(work);
            assert_eq!(status.terminating_signal(), Some(libc::SIGSYS), "{name}: {status:?}");
        }
    }
}
