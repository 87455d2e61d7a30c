//! What a fence by each launcher does not promise, in codes and words.

use std::path::PathBuf;

use ringfence_linux::landlock;
use ringfence_model::config::Precision;
use ringfence_model::{Degradation, DegradationCode as Code};

pub(crate) fn no_landlock() -> Degradation {
    Degradation::new(
        Code::NoLandlock,
        "this kernel has no Landlock: one layer less; a program made to win races against the supervisor could create \
         protected names (which is told afterwards), and files that are given as standard streams can be opened again for more",
    )
}

/// Why allowed hosts are not reached all the same.
pub(crate) fn no_way_out(why: &str) -> Degradation {
    Degradation::new(Code::NoWayOut, format!("the hosts that are allowed cannot be reached: {why}"))
}

/// For a sandbox on the host's own network, with rules that allow datagrams.
pub(crate) fn no_datagrams() -> Degradation {
    Degradation::new(
        Code::NoWayOut,
        "rules with /udp allow connections but no datagrams: these leave from a network of the sandbox's own only",
    )
}

pub(crate) fn files_uncounted() -> Degradation {
    Degradation::new(
        Code::FileLimit,
        "bwrap limits how much the sandbox's own directories hold, not how many files",
    )
}

pub(crate) fn search_incomplete() -> Degradation {
    Degradation::new(
        Code::SearchIncomplete,
        "the project has too many files to look for denied names in all of it",
    )
}

pub(crate) fn no_supervisor() -> Degradation {
    Degradation::new(
        Code::NoSupervisor,
        "a supervisor above listens already (this is inside another sandbox): nothing that is refused is reported, \
         and nobody can be asked; local sockets and late files are not judged; and it may open and write files for \
         the command by its own rules, so that what only this fence forbids is not held",
    )
}

pub(crate) fn no_tripwire() -> Degradation {
    Degradation::new(
        Code::NoTripwire,
        "no tripwire (several shells share the sandbox, or the kernel did not let it be mounted): questions about \
         denied files are refused but not reported, and with precision writes so are reads",
    )
}

pub(crate) fn slow_supervisor() -> Degradation {
    Degradation::new(
        Code::SlowSupervisor,
        "this kernel cannot wake the supervisor on the caller's processor (Linux 6.6 can): each call it looks at \
         takes several times as long",
    )
}

/// Accesses that are not told, or not refused, and why.
pub(crate) fn unseen(precision: Precision, no_tripwire: Option<&String>) -> Option<Degradation> {
    const LATE: &str = "not refused is the reading of denied names that appear or are replaced from outside \
                        meanwhile, nor the change of attributes of protected ones by a descriptor";
    let (code, text) = match (precision, no_tripwire) {
        (Precision::Full, None) => return None,
        (Precision::Full, Some(why)) => (
            Code::QuestionsUnreported,
            format!(
                "programs that only ask about something denied (its size, whether it exists) are refused, but that \
                 is not reported ({why})"
            ),
        ),
        (Precision::Writes, None) => (
            Code::Precision,
            format!(
                "precision writes: not reported is what the sandbox lacks in its own home and temporary \
                 directories, and {LATE}"
            ),
        ),
        (Precision::Writes, Some(why)) => (
            Code::ReadsUnreported,
            format!("precision writes: reads of hidden paths are refused but not reported ({why}), and {LATE}"),
        ),
        (Precision::Off, _) => (
            Code::Precision,
            "precision off: reads of hidden paths are refused but not reported, and not refused is what is done to \
             denied and protected names that appear meanwhile, nor the connection to a local socket that somebody \
             outside makes meanwhile in a directory that is shown"
                .to_owned(),
        ),
    };
    Some(Degradation::new(code, text))
}

/// For a sandbox on the host's own files.
pub(crate) fn without_namespaces(
    abi: u32,
    precision: Precision,
    by_supervisor: &[PathBuf],
) -> Vec<Degradation> {
    let mut degraded = vec![
        Degradation::new(
            Code::NoNamespaces,
            "no namespaces: processes of the host can be counted in /proc, and the supervisor alone keeps their \
             names and arguments back",
        ),
        Degradation::new(
            Code::DirectoriesOnHost,
            "the home directory and the place for temporary files are on the host's disk (removed at the end, not \
             limited by memory); /tmp itself is refused, TMPDIR names another place",
        ),
        Degradation::new(
            Code::NoOwnNetwork,
            "no network of its own: on loopback it reaches its own servers only, and programs of the host reach them too; \
             no datagrams; no System V IPC",
        ),
        Degradation::new(
            Code::NamesVisible,
            "names, sizes and times of hidden files can be seen, their contents cannot",
        ),
    ];
    if !by_supervisor.is_empty() {
        const MOST: usize = 5;
        let mut names: Vec<String> =
            by_supervisor.iter().take(MOST).map(|path| path.display().to_string()).collect();
        if let Some(more) = by_supervisor.len().checked_sub(MOST).filter(|more| *more > 0) {
            names.push(format!("{more} more"));
        }
        degraded.push(Degradation::new(
            Code::KeptBySupervisor,
            format!(
                "kept back by the supervisor, which opens every file on behalf of the command, and not by Landlock, \
                 because they lie in a directory that may be written: {}",
                names.join(", ")
            ),
        ));
    }
    if !rustix::process::geteuid().is_root() {
        degraded.push(Degradation::new(
            Code::BoundingSet,
            "the bounding set of capabilities is not empty, which only root can make it; no_new_privs keeps it from \
             having an effect",
        ));
    }
    if precision != Precision::Full {
        degraded.push(Degradation::new(
            Code::PrecisionRaised,
            "precision is full: without mounts the supervisor must see every open",
        ));
    }
    if !landlock::has_scopes(abi) {
        degraded.push(Degradation::new(
            Code::SignalsReachHost,
            "this kernel's Landlock cannot keep signals inside: processes of the same user can be signalled; local \
             sockets are refused altogether (Linux 6.12 has both)",
        ));
    }
    degraded
}

/// For a fence around the network alone.
pub(crate) fn network_only() -> Vec<Degradation> {
    [
        "NETWORK ONLY: no file is protected, the command reads and writes whatever its user can",
        "no rule about files is enforced, and nothing that is refused is reported",
        "programs of the host can be reached through their local sockets, and do what the command may not",
        "processes of the host are visible and can be signalled",
    ]
    .map(|text| Degradation::new(Code::NetworkOnly, text))
    .to_vec()
}
