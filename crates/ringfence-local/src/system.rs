//! The directories that every machine of a kind has. Data, not code.

/// What the local fence adds to every policy.
#[derive(Debug)]
pub(crate) struct System {
    /// Shown read-only where they exist.
    pub(crate) readable: &'static [&'static str],
    /// Empty, writable and the sandbox's own.
    pub(crate) private: &'static [&'static str],
    /// Below the system's directories, but nobody's business.
    pub(crate) secrets: &'static [&'static str],
}

pub(crate) const LINUX: System = System {
    readable: &[
        "/usr",
        "/bin",
        "/sbin",
        "/lib",
        "/lib32",
        "/lib64",
        "/libx32",
        "/etc",
        "/opt",
        "/nix/store",
        "/gnu/store",
        // How many processors there are; some runtimes ask here.
        "/sys/devices/system/cpu",
    ],
    private: &["/tmp", "/var/tmp", "/dev", "/dev/shm", "/proc", "/run"],
    secrets: &[
        "/etc/shadow",
        "/etc/shadow-",
        "/etc/gshadow",
        "/etc/gshadow-",
        "/etc/passwd-",
        "/etc/sudoers",
        "/etc/sudoers.d",
        "/etc/ssl/private",
        "/etc/ssh/ssh_host_*_key",
        "/etc/krb5.keytab",
        "/etc/wireguard",
        "/etc/NetworkManager/system-connections",
        "/etc/docker",
        "/etc/kubernetes",
        "/etc/rancher",
        "/etc/machine-id",
    ],
};

/// Devices and what a program needs to start are rules of the Seatbelt profile itself.
pub(crate) const MACOS: System = System {
    readable: &[
        "/usr",
        "/bin",
        "/sbin",
        "/etc",
        // Homebrew and MacPorts.
        "/opt",
        "/System",
        "/Library/Apple",
        "/Library/Developer",
        "/Library/Frameworks",
        "/Library/Java",
        "/Applications/Xcode.app",
        "/nix/store",
    ],
    private: &["/tmp", "/var/tmp"],
    secrets: &[
        "/etc/master.passwd",
        "/etc/sudoers",
        "/etc/sudoers.d",
        "/etc/ssl/private",
        "/etc/ssh/ssh_host_*_key",
        "/etc/krb5.keytab",
        "/etc/wireguard",
        "/etc/docker",
        "/etc/kubernetes",
        "/Library/Keychains",
        "/var/db/dslocal",
    ],
};

impl System {
    /// The kind that this program was built for.
    pub(crate) fn this() -> &'static Self {
        if cfg!(target_os = "linux") { &LINUX } else { &MACOS }
    }
}
