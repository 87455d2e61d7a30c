//! Which process wrote something, and whether it is still there.
//!
//! A bare process id is not enough: ids are reused, machines restart and containers have ids of their
//! own. The mark also carries the boot, the pid namespace and the process's start time.

use std::fmt;

/// A process, marked so that another one can tell later whether it is still alive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Owner {
    boot: String,
    namespace: String,
    pid: u32,
    started: String,
}

impl Owner {
    /// This process.
    pub(crate) fn current() -> Self {
        let pid = std::process::id();
        Self {
            boot: machine::boot(),
            namespace: machine::pid_namespace(),
            pid,
            started: machine::start_time(pid).unwrap_or_default(),
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    pub(crate) fn parse(mark: &str) -> Option<Self> {
        let mut parts = mark.split(':').map(str::to_owned);
        let (boot, namespace, pid, started) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        Some(Self { boot, namespace, pid: pid.parse().ok()?, started })
    }

    /// False only when it is certain that the process is gone: a living process must never lose what
    /// it holds, while a dead one's things can wait.
    pub(crate) fn is_alive(&self) -> bool {
        let known_and_other =
            |mine: &str, theirs: &str| !mine.is_empty() && !theirs.is_empty() && mine != theirs;
        if known_and_other(&machine::boot(), &self.boot) {
            return false;
        }
        if known_and_other(&machine::pid_namespace(), &self.namespace) {
            return true;
        }
        machine::is_running(self.pid, &self.started)
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}:{}", self.boot, self.namespace, self.pid, self.started)
    }
}

/// Whether the process of that mark may still be there; an unreadable mark belongs to nobody.
pub(crate) fn is_alive(mark: &str) -> bool {
    Owner::parse(mark).is_some_and(|owner| owner.is_alive())
}

#[cfg(target_os = "linux")]
mod machine {
    pub(super) fn boot() -> String {
        let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        // A few digits tell two boots of one machine apart.
        id.chars().filter(char::is_ascii_hexdigit).take(12).collect()
    }

    pub(super) fn pid_namespace() -> String {
        std::fs::read_link("/proc/self/ns/pid")
            .ok()
            .and_then(|link| Some(link.to_str()?.strip_prefix("pid:[")?.strip_suffix(']')?.to_owned()))
            .unwrap_or_default()
    }

    /// The start time in clock ticks since boot; none when there is no such process, or only its corpse.
    pub(super) fn start_time(pid: u32) -> Option<String> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The program's name may hold anything, blanks and parentheses included; what follows may not.
        let mut fields = stat.get(stat.rfind(')')? + 1..)?.split_ascii_whitespace();
        let state = fields.next()?;
        if matches!(state, "Z" | "X") {
            return None;
        }
        fields.nth(18).map(str::to_owned)
    }

    pub(super) fn is_running(pid: u32, started: &str) -> bool {
        if !std::path::Path::new("/proc/self/stat").exists() {
            return super::answers_signals(pid);
        }
        start_time(pid).is_some_and(|now| started.is_empty() || now == started)
    }
}

#[cfg(not(target_os = "linux"))]
mod machine {
    pub(super) fn boot() -> String {
        String::new()
    }

    pub(super) fn pid_namespace() -> String {
        String::new()
    }

    pub(super) fn start_time(_pid: u32) -> Option<String> {
        None
    }

    pub(super) fn is_running(pid: u32, _started: &str) -> bool {
        super::answers_signals(pid)
    }
}

fn answers_signals(pid: u32) -> bool {
    let Some(pid) = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw) else {
        return false;
    };
    rustix::process::test_kill_process(pid) != Err(rustix::io::Errno::SRCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_alive_and_its_mark_survives_the_way_through_text() {
        let me = Owner::current();
        assert!(me.is_alive());
        assert_eq!(Owner::parse(&me.to_string()), Some(me));
    }

    #[test]
    fn an_ended_process_is_gone() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let mut owner = Owner::current();
        owner.pid = child.id();
        owner.started = machine::start_time(child.id()).unwrap_or_default();
        assert!(owner.is_alive());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!owner.is_alive());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_reused_id_and_an_earlier_boot_are_somebody_else() {
        let me = Owner::current();
        assert!(!Owner { started: "1".to_owned(), ..me.clone() }.is_alive());
        assert!(!Owner { boot: "other".to_owned(), ..me.clone() }.is_alive());
        assert!(Owner { namespace: "1".to_owned(), pid: 4_000_000, ..me }.is_alive(), "not ours to judge");
    }

    #[test]
    fn nonsense_is_nobody() {
        assert!(!is_alive(""));
        assert!(!is_alive("a:b:c:d"));
    }
}
