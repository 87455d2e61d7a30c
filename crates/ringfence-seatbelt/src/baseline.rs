//! What any program needs to start on macOS, each with its reason. Data, not code.

/// Readable by every command.
pub(crate) const READ: &[(&str, &str)] = &[
    ("/bin", "the shell and its tools"),
    ("/sbin", "system tools on the default PATH"),
    ("/usr/bin", "tools on the default PATH"),
    ("/usr/sbin", "tools on the default PATH"),
    ("/usr/lib", "dyld and the libraries of every program"),
    ("/usr/libexec", "helpers that tools start"),
    ("/usr/share", "locales, terminfo, time zones"),
    ("/System", "frameworks and the cache that dyld maps libraries from"),
    ("/Library/Apple", "libraries delivered by updates"),
    ("/Library/Developer", "the tools behind /usr/bin/git, clang and make"),
    ("/Library/Preferences", "settings that frameworks read at start"),
    ("/private/etc", "the shell's start-up files, host and service names"),
    ("/private/var/db", "time zone, dyld and the selected developer tools"),
    ("/private/var/select", "which shell /bin/sh is"),
    ("/dev/random", "seeds"),
    ("/dev/urandom", "seeds"),
    ("/dev/autofs_nowait", "opened by the C library before it looks up paths"),
];

/// Readable and writable by every command.
pub(crate) const WRITE: &[(&str, &str)] = &[
    ("/dev/null", "where output is thrown away"),
    ("/dev/zero", "a source of zeros"),
    ("/dev/tty", "the command's own terminal"),
    ("/dev/ptmx", "new pseudo terminals"),
    ("/dev/fd", "the command's own descriptors: process substitution"),
    ("/dev/stdin", "the command's own descriptors"),
    ("/dev/stdout", "the command's own descriptors"),
    ("/dev/stderr", "the command's own descriptors"),
    ("/dev/dtracehelper", "opened by dyld at every start"),
];

/// Refused whatever the policy allows, because a rule above is wider than it should be.
pub(crate) const DENY: &[(&str, &str)] = &[
    ("/System/Volumes/Data", "the second name of every user's files, below /System"),
    ("/private/etc/master.passwd", "password hashes, below /etc"),
    ("/private/var/db/dslocal", "password hashes, below /private/var/db"),
];

/// Services of the system that a program without windows asks for.
pub(crate) const MACH_SERVICES: &[(&str, &str)] = &[
    ("com.apple.bsd.dirhelper", "the user's temporary directory"),
    ("com.apple.logd", "writing to the log"),
    ("com.apple.system.logger", "writing to the log"),
    ("com.apple.system.notification_center", "the C library's change notices"),
    ("com.apple.system.opendirectoryd.libinfo", "names of users and groups"),
    ("com.apple.system.opendirectoryd.membership", "groups of the user"),
];

/// Values of the kernel that stay hidden, because they show other processes' secrets.
pub(crate) const HIDDEN_SYSCTLS: &[(&str, &str)] = &[
    ("kern.procargs", "arguments and environment of other processes"),
    ("kern.procargs2", "arguments and environment of other processes"),
];

/// Terminals: what may be controlled, not only read and written. A terminal that was opened outside and
/// handed in needs this much; opening one is another matter.
pub(crate) const CONTROLLED: &[&str] =
    &["/dev/tty", "/dev/ptmx", "/dev/ttys[0-9]*", "/dev/fd", "/dev/dtracehelper"];

/// Pseudo terminals, and the mark that the system gives to those made inside. Without the mark any
/// terminal window of the user could be opened, its keys read and its text forged.
pub(crate) const OWN_TERMINALS: (&str, &str) = ("^/dev/ttys[0-9]+$", "com.apple.sandbox.pty");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_has_a_reason_and_stands_once() {
        for table in [READ, WRITE, DENY, MACH_SERVICES, HIDDEN_SYSCTLS] {
            let mut names: Vec<&str> = table.iter().map(|(name, _)| *name).collect();
            assert!(table.iter().all(|(name, why)| !name.is_empty() && !why.is_empty()));
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), table.len());
        }
    }
}
