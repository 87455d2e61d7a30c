//! The system calls a container with a guest may make.
//!
//! The engine's own default would do for everything but the guest: older ones refuse it to look at the calls it supervises, to
//! answer them, and to part with descriptors it shares. This list is as strict as the default elsewhere, and stricter about sockets.
//! What runs in the guest's fence is held by the guest's own filter as well, which refuses these three again.

use serde_json::{Value, json};
use syscalls::{aarch64, x86_64};

/// Refused to everything in the container, root or not.
const REFUSED: &[(&str, &[&str])] = &[
    (
        "mounts are what shows a container its files",
        &[
            "mount",
            "umount",
            "umount2",
            "pivot_root",
            "chroot",
            "open_tree",
            "open_tree_attr",
            "move_mount",
            "fsopen",
            "fsconfig",
            "fsmount",
            "fspick",
            "mount_setattr",
            "listmount",
            "statmount",
        ],
    ),
    ("leaves the container's namespaces", &["setns"]),
    (
        "reads or changes other processes, or the kernel's view of them",
        &["process_madvise", "kcmp", "move_pages", "migrate_pages", "lookup_dcookie"],
    ),
    ("opens files by handle, past every mount", &["open_by_handle_at", "name_to_handle_at"]),
    (
        "parts of the kernel with a long record of holes that programs do without",
        &[
            "bpf",
            "userfaultfd",
            "perf_event_open",
            "io_uring_setup",
            "io_uring_enter",
            "io_uring_register",
            "fanotify_init",
            "modify_ldt",
            "vm86",
            "vm86old",
            "map_shadow_stack",
        ],
    ),
    ("kernel keyrings are not of the container", &["add_key", "request_key", "keyctl"]),
    (
        "belongs to the machine",
        &[
            "init_module",
            "finit_module",
            "delete_module",
            "create_module",
            "query_module",
            "get_kernel_syms",
            "kexec_load",
            "kexec_file_load",
            "reboot",
            "swapon",
            "swapoff",
            "acct",
            "quotactl",
            "quotactl_fd",
            "sethostname",
            "setdomainname",
            "vhangup",
            "syslog",
            "settimeofday",
            "clock_settime",
            "clock_settime64",
            "adjtimex",
            "clock_adjtime",
            "clock_adjtime64",
            "stime",
            "iopl",
            "ioperm",
            "nfsservctl",
            "_sysctl",
            "sysfs",
            "ustat",
            "uselib",
            "afs_syscall",
            "tuxcall",
            "security",
            "lsm_set_self_attr",
            "set_mempolicy_home_node",
        ],
    ),
];

/// Allowed with some arguments only, see [`profile`].
const CONDITIONAL: &[&str] = &["clone", "clone3", "unshare", "socket", "personality"];

/// Every flag that makes a namespace.
const NEW_NAMESPACES: u64 = 0x7e02_0000;
/// Local ones, both versions of IP, and the list of interfaces.
const FAMILIES: [u64; 4] = [1, 2, 10, 16];
/// Nothing, what debuggers and `setarch` set, and the question what is set.
const PERSONALITIES: [u64; 6] = [0, 0x8, 0x2_0000, 0x2_0008, 0x4_0000, 0xffff_ffff];
const ENOSYS: u32 = 38;

fn is_refused(name: &str) -> bool {
    REFUSED.iter().any(|(_, names)| names.contains(&name))
}

/// The profile, as the engine's API takes it.
#[must_use]
pub(crate) fn profile() -> String {
    let known =
        x86_64::Sysno::iter().map(|call| call.name()).chain(aarch64::Sysno::iter().map(|call| call.name()));
    let mut allowed: Vec<&str> = known
        // Names that C libraries have and the tables lack.
        .chain(["fstatat64", "newfstatat"])
        .filter(|name| !is_refused(name) && !CONDITIONAL.contains(name))
        .collect();
    allowed.sort_unstable();
    allowed.dedup();
    let equals = |index: u32, value: u64| json!([{ "index": index, "value": value, "op": "SCMP_CMP_EQ" }]);
    let without_namespaces =
        json!([{ "index": 0, "value": NEW_NAMESPACES, "valueTwo": 0, "op": "SCMP_CMP_MASKED_EQ" }]);
    let mut rules = vec![
        json!({ "names": allowed, "action": "SCMP_ACT_ALLOW" }),
        json!({ "names": ["clone", "unshare"], "action": "SCMP_ACT_ALLOW", "args": without_namespaces }),
        // Its flags lie behind a pointer; libraries fall back to clone.
        json!({ "names": ["clone3"], "action": "SCMP_ACT_ERRNO", "errnoRet": ENOSYS }),
    ];
    let allow_with = |name: &str, value: u64| -> Value {
        json!({ "names": [name], "action": "SCMP_ACT_ALLOW", "args": equals(0, value) })
    };
    rules.extend(FAMILIES.map(|family| allow_with("socket", family)));
    rules.extend(PERSONALITIES.map(|persona| allow_with("personality", persona)));
    json!({
        "defaultAction": "SCMP_ACT_ERRNO",
        "archMap": [
            { "architecture": "SCMP_ARCH_X86_64", "subArchitectures": [] },
            { "architecture": "SCMP_ARCH_AARCH64", "subArchitectures": [] },
        ],
        "syscalls": rules,
    })
    .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the guest needs, and refuses to everything in its fence.
    #[cfg(target_os = "linux")]
    const FOR_THE_GUEST: [&str; 3] = ["process_vm_readv", "process_vm_writev", "pidfd_getfd"];

    fn allowed() -> Vec<String> {
        let profile: Value = serde_json::from_str(&profile()).unwrap();
        assert_eq!(profile["defaultAction"], "SCMP_ACT_ERRNO");
        let names = profile["syscalls"][0]["names"].as_array().unwrap();
        names.iter().map(|name| name.as_str().unwrap().to_owned()).collect()
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn what_the_local_fence_refuses_altogether_a_container_refuses_too() {
        let allowed = allowed();
        let entries = ringfence_linux::seccomp::deny_table();
        let always = entries.iter().filter(|entry| entry.when.is_empty() && entry.is_worth_telling());
        let missing: Vec<&str> = always
            .map(|entry| entry.call.name)
            .filter(|name| allowed.iter().any(|allowed| allowed == name) && !FOR_THE_GUEST.contains(name))
            .collect();
        assert!(missing.is_empty(), "{missing:?}");
        assert!(FOR_THE_GUEST.iter().all(|name| allowed.iter().any(|allowed| allowed == name)));
    }

    #[test]
    fn everyday_calls_are_allowed_and_every_refused_name_exists() {
        let allowed = allowed();
        for name in ["read", "openat", "execve", "landlock_restrict_self", "seccomp", "futex", "statx"] {
            assert!(allowed.iter().any(|allowed| allowed == name), "{name}");
        }
        assert!(allowed.len() > 250, "{}", allowed.len());
    }
}
