//! The words for every condition, from made-up findings; the findings themselves are tried in the kernel.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

use ringfence_linux::cgroup::{Probe, Support, Version};
use ringfence_linux::probe::{Namespace, ProcessAccess, Trial};
use rustix::io::Errno;

use super::kernel::{self, Place, Switches};
use super::*;

const USER: Place<'_> = Place { root: false, container: None, program: "/opt/ringfence" };
const REFUSED: Trial = Trial::NotStarted(Errno::PERM);

fn host(variables: &[(&str, &str)]) -> Host {
    let environment: BTreeMap<OsString, OsString> =
        variables.iter().map(|(name, value)| (name.into(), value.into())).collect();
    Host::from_environment(environment)
}

#[test]
fn the_condition_that_fails_is_named_with_its_remedy() {
    let docker = Place { container: Some("docker"), ..USER };
    for (switches, place, condition, remedy) in [
        (
            Switches { most: Some(0), ..Switches::default() },
            USER,
            "user.max_user_namespaces is 0",
            "sudo sysctl -w user.max_user_namespaces=15000",
        ),
        (
            Switches { unprivileged: Some(0), ..Switches::default() },
            USER,
            "kernel.unprivileged_userns_clone is 0",
            "sudo sysctl -w kernel.unprivileged_userns_clone=1",
        ),
        (
            Switches { apparmor: Some(1), ..Switches::default() },
            USER,
            "kernel.apparmor_restrict_unprivileged_userns is on",
            "profile ringfence /opt/ringfence flags=(unconfined)",
        ),
        (Switches::default(), docker, "the docker container", "--security-opt seccomp=unconfined"),
        (Switches::default(), USER, "the kernel refuses them", "CONFIG_USER_NS=y"),
    ] {
        let check = kernel::user_namespaces(REFUSED, &switches, &place);
        assert!(check.blocks(), "{check:?}");
        assert!(check.found.starts_with(condition), "{check:?}");
        assert!(check.remedy.as_ref().is_some_and(|text| text.contains(remedy)), "{check:?}");
    }
    assert_eq!(kernel::user_namespaces(Trial::Works, &Switches::default(), &USER).status, Status::Ok);
}

#[test]
fn switches_are_listed_one_by_one_and_root_is_not_held_by_those_for_others() {
    let off = Switches { most: Some(0), unprivileged: Some(0), apparmor: Some(1) };
    let status = |place: &Place<'_>| -> Vec<Status> {
        kernel::switch_checks(&off, place).iter().map(|check| check.status).collect()
    };
    assert_eq!(status(&USER), [Status::Missing, Status::Missing, Status::Degraded]);
    assert_eq!(status(&Place { root: true, ..USER }), [Status::Missing, Status::Ok, Status::Ok]);
    let absent = kernel::switch_checks(&Switches::default(), &USER);
    assert!(absent.iter().all(|check| check.status == Status::NotApplicable), "{absent:?}");
}

#[test]
fn a_single_missing_namespace_is_named() {
    let trials = Namespace::ALL.map(|kind| {
        (kind, if kind == Namespace::Network { Trial::NotStarted(Errno::NOSPC) } else { Trial::Works })
    });
    let check = kernel::namespaces(Trial::Works, &trials, &USER);
    assert!(check.blocks());
    assert!(check.found.starts_with("network: "), "{}", check.found);
    assert!(check.remedy.is_some_and(|text| text.contains("user.max_net_namespaces")));
}

#[test]
fn landlock_is_optional_unless_the_kernel_has_it_and_refuses() {
    assert_eq!(kernel::landlock_rules(7, Some(Trial::Works)).status, Status::Ok);
    assert_eq!(kernel::landlock_rules(3, Some(Trial::Works)).status, Status::Degraded);
    assert!(!kernel::landlock_rules(0, None).blocks());
    assert!(kernel::landlock_rules(7, Some(Trial::Refused(Errno::PERM))).blocks());
}

#[test]
fn a_supervisor_above_is_recognised() {
    let check = kernel::seccomp_notify(true, Trial::Refused(Errno::BUSY), Trial::Works);
    assert!(check.found.contains("inside another sandbox"), "{check:?}");
    let check = kernel::seccomp_notify(true, Trial::Works, Trial::Refused(Errno::INVAL));
    assert!(check.status == Status::Degraded && check.found.contains("another processor"), "{check:?}");
    assert_eq!(kernel::seccomp_notify(true, Trial::Works, Trial::Works).status, Status::Ok);
    assert!(
        kernel::seccomp_notify(false, Trial::Refused(Errno::INVAL), Trial::Works).found.contains("has none")
    );
}

#[test]
fn every_loss_has_a_cost_and_a_remedy() {
    let no = Trial::Refused(Errno::PERM);
    let none = Support::No { reason: "not writable".to_owned() };
    let some = Support::Yes { version: Version::V2, below: "/sys/fs/cgroup/x".to_owned() };
    let lost = [
        kernel::fresh_proc(Trial::Works, no, &USER),
        kernel::fresh_proc(no, no, &USER),
        kernel::namespaces(no, &[], &USER),
        kernel::seccomp_filter(no),
        kernel::seccomp_notify(true, no, no),
        kernel::landlock_rules(0, None),
        kernel::process_access(ProcessAccess { memory: no, descriptors: Trial::Works }),
        machine::limits(&Probe { memory: none.clone(), pids: some }),
        machine::limits(&Probe { memory: none.clone(), pids: none }),
        machine::in_container(Some("podman")),
        surroundings::nested(&host(&[("RINGFENCE", "1")])),
        surroundings::room_for(Path::new("/proc/nowhere/ledger.db")),
        tools::bubblewrap(&host(&[("PATH", "/nonexistent")])),
        tools::docker(&host(&[("PATH", "/nonexistent")])),
    ];
    for check in lost {
        assert!(matches!(check.status, Status::Missing | Status::Degraded), "{check:?}");
        assert!(check.cost.is_some() && check.remedy.is_some(), "{check:?}");
    }
}

#[test]
fn a_tool_that_fails_says_why() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("bwrap");
    let script = "#!/bin/sh\n[ \"$1\" = --version ] && echo bubblewrap 9.9 && exit\n\
        echo 'bwrap: No permissions to create new namespace' >&2\nexit 1\n";
    std::fs::write(&path, script).unwrap();
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let check = tools::bubblewrap(&host(&[("PATH", temp.path().to_str().unwrap())]));
    assert_eq!(check.status, Status::Degraded);
    assert!(check.found.contains("9.9 cannot start a sandbox: bwrap: No permissions"), "{}", check.found);
}

#[test]
fn seatbelt_is_named_as_impossible_here() {
    let check = tools::seatbelt();
    assert_eq!(check.status, Status::NotApplicable);
    assert!(check.found.contains("Linux container"));
}

#[test]
fn containers_are_recognised() {
    assert_eq!(
        machine::container(&host(&[("KUBERNETES_SERVICE_HOST", "10.0.0.1")])).as_deref(),
        Some("kubernetes")
    );
    if !Path::new("/.dockerenv").exists() && !Path::new("/run/.containerenv").exists() {
        assert_eq!(machine::container(&host(&[("container", "lxc")])).as_deref(), Some("lxc"));
    }
}

#[test]
fn the_choice_names_what_stands_in_the_way() {
    let tried = |status, launcher: Option<&str>| trial::Tried {
        check: Check::new("here", "this project", status, "cannot start").required(),
        launcher: launcher.map(str::to_owned),
    };
    let good = || tried(Status::Ok, Some("native"));
    let bad = || tried(Status::Missing, None);
    let switches = Switches { most: Some(0), ..Switches::default() };
    let userns = kernel::user_namespaces(REFUSED, &switches, &USER);

    assert_eq!(trial::choose(&[], &good(), &good()).launcher.as_deref(), Some("native"));
    let refused = trial::choose(std::slice::from_ref(&userns), &bad(), &bad());
    assert_eq!(refused.launcher, None);
    assert!(refused.why.contains("user.max_user_namespaces is 0"), "{}", refused.why);
    let elsewhere = trial::choose(&[], &good(), &bad());
    assert!(elsewhere.launcher.is_none() && elsewhere.why.contains("not for this project"));
    let weaker = || tried(Status::Degraded, Some("landlock"));
    let weaker = trial::choose(&[userns], &weaker(), &weaker());
    assert_eq!(weaker.launcher.as_deref(), Some("landlock"));
    assert!(weaker.why.contains("user.max_user_namespaces is 0"), "{}", weaker.why);
}
