//! What runs between `sandbox-exec` and the command, inside the fence: it sets the limits, closes what is
//! the host's, and leaves a sign that the fence holds.

use std::ffi::OsString;
use std::path::Path;

use ringfence_model::{Degradation, DegradationCode, Limits};
use ringfence_seatbelt::adapter::SHELL;
use rustix::process::{Resource, getrlimit};

/// The limits of a policy as `ulimit` sets them.
#[derive(Debug)]
pub(super) struct Wrapper {
    /// `-S -t 60`, in the order in which they can be set.
    settings: Vec<String>,
    pub(super) degraded: Vec<Degradation>,
}

impl Wrapper {
    pub(super) fn new(limits: &Limits) -> Self {
        let mut wrapper = Self { settings: vec!["-c 0".to_owned()], degraded: vec![] };
        // At the soft limit of CPU time comes a signal that nothing else sends, a second later the end.
        wrapper.limit(Resource::Cpu, 't', 1, limits.max_cpu_seconds, 1);
        wrapper.limit(Resource::Fsize, 'f', 1024, limits.max_file_size_bytes, 0);
        wrapper.limit(Resource::Stack, 's', 1024, limits.max_stack_bytes, 0);
        // The last one: with few descriptors the shell itself could not go on.
        wrapper.limit(Resource::Nofile, 'n', 1, limits.max_open_files, 0);
        if limits.max_memory_bytes.is_some() {
            wrapper.degraded.push(Degradation::new(
                DegradationCode::MemoryLimit,
                "memory is not limited: macOS has no limit that holds",
            ));
        }
        if limits.max_processes.is_some() {
            wrapper.degraded.push(Degradation::new(
                DegradationCode::ProcessLimit,
                "the number of processes is not limited: macOS counts all processes of the user together",
            ));
        }
        wrapper
    }

    /// Lowers a limit, never raises one: what the user has already is the tighter one then.
    fn limit(&mut self, resource: Resource, letter: char, unit: u64, limit: Option<u64>, headroom: u64) {
        let Some(limit) = limit else { return };
        let own = getrlimit(resource);
        for (kind, own, limit) in
            [('S', own.current, limit), ('H', own.maximum, limit.saturating_add(headroom))]
        {
            if own.is_none_or(|own| limit < own) {
                // Rounded up, because a value equal to the limit is within it; but not above what may be set.
                let rounded = limit.div_ceil(unit);
                let fits = own.is_none_or(|own| rounded.saturating_mul(unit) <= own);
                let amount = if fits { rounded } else { limit / unit };
                self.settings.push(format!("-{kind} -{letter} {amount}"));
            }
        }
    }

    /// The command line inside of the fence. The file `started` is made when everything is set; descriptors
    /// in `open` are closed.
    pub(super) fn argv(&self, started: &Path, open: &[u32], command: &[OsString]) -> Vec<OsString> {
        let (few, others): (Vec<_>, Vec<_>) =
            self.settings.iter().partition(|setting| setting.contains("-n "));
        let mut script = String::new();
        for setting in others {
            script.push_str(&format!("ulimit {setting} && "));
        }
        script.push_str(": > \"$1\" || exit 125; shift; ");
        for fd in open {
            script.push_str(&format!("exec {fd}>&-; "));
        }
        for setting in few {
            script.push_str(&format!("ulimit {setting} || exit 125; "));
        }
        script.push_str("exec -- \"$@\"");
        // -p: no functions and no options from the environment, which the caller may have chosen.
        let mut argv: Vec<OsString> = [SHELL, "-p", "-c", &script, "ringfence"].map(OsString::from).to_vec();
        argv.push(started.as_os_str().to_owned());
        argv.extend_from_slice(command);
        argv
    }
}

/// The descriptors of this process that are not the command's. Most close by themselves when a program is
/// executed; those that this process was given at its own start do not.
pub(super) fn open_descriptors() -> Vec<u32> {
    let entries = std::fs::read_dir("/dev/fd").into_iter().flatten().flatten();
    let mut open: Vec<u32> =
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(|fd| *fd > 2).collect();
    open.sort_unstable();
    open
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_stays_a_list_of_words() {
        let command = ["printf", "%s", "a b\"; rm -rf / #$(id)"].map(OsString::from);
        let argv = Wrapper::new(&Limits::default()).argv(Path::new("/own/started"), &[3, 17], &command);
        assert_eq!(argv[..3], ["/bin/bash", "-p", "-c"]);
        assert_eq!(
            argv[3],
            "ulimit -c 0 && : > \"$1\" || exit 125; shift; exec 3>&-; exec 17>&-; exec -- \"$@\""
        );
        assert_eq!(argv[4..6], ["ringfence", "/own/started"]);
        assert_eq!(argv[6..], command);
    }

    #[test]
    fn limits_are_set_and_what_macos_cannot_limit_is_said() {
        let limits = Limits {
            max_cpu_seconds: Some(5),
            max_file_size_bytes: Some(1025),
            max_open_files: Some(20),
            max_memory_bytes: Some(1 << 30),
            max_processes: Some(10),
            ..Limits::default()
        };
        let wrapper = Wrapper::new(&limits);
        for setting in ["-S -t 5", "-H -t 6", "-S -f 2", "-H -f 2", "-S -n 20", "-H -n 20"] {
            assert!(wrapper.settings.iter().any(|set| set == setting), "{setting} in {:?}", wrapper.settings);
        }
        let codes: Vec<DegradationCode> = wrapper.degraded.iter().map(|lost| lost.code).collect();
        assert_eq!(codes, [DegradationCode::MemoryLimit, DegradationCode::ProcessLimit]);
    }
}
