use std::cell::RefCell;

use ringfence_model::PathRule;
use ringfence_model::config::LocalOptions;

use super::*;
use crate::complete;

fn inputs(project: &Path) -> PlanInputs {
    let host = Host::from_environment(std::env::vars_os().collect());
    let mut policy = Policy::default();
    policy.filesystem.allow_write.push(PathRule::built_in(project));
    policy.filesystem.deny.push(PathRule::built_in(project.join(".env")));
    let policy = complete::complete(policy, project, &host).policy;
    PlanInputs {
        cwd: project.to_owned(),
        found: scan::scan(&policy.filesystem, &scan::roots(&policy.filesystem)),
        users: Users::default(),
        precision: Precision::Full,
        limits: LimitPlan::new(&policy.limits, &host.home),
        host,
        inspection: None,
        options: LaunchOptions::new(LocalOptions::default()).unwrap(),
        policy,
        elsewhere: None,
    }
}

#[test]
fn a_head_start_is_the_beginning_of_the_plan() {
    let project = tempfile::tempdir().unwrap();
    std::fs::write(project.path().join(".env"), "secret").unwrap();
    let inputs = inputs(&project.path().canonicalize().unwrap());
    let heard = RefCell::new(Vec::new());
    let hear = |mounts: &[MountStep], _: Option<&Idmapped>| heard.borrow_mut().push(mounts.to_vec());
    let fence_plan = inputs.build(Launcher::Native, &hear).unwrap();
    let heard = heard.into_inner();
    assert_eq!(heard.len(), 1, "it is given once");
    let rest = fence_plan.plan.mounts.strip_prefix(&heard[0][..]).unwrap();
    assert!(!heard[0].iter().any(|step| matches!(step, MountStep::Mask { .. })));
    assert!(rest.iter().any(|step| matches!(step, MountStep::Mask { .. })), "{rest:?}");
}

#[test]
fn launchers_without_mounts_of_ours_have_no_head_start() {
    let project = tempfile::tempdir().unwrap();
    let inputs = inputs(&project.path().canonicalize().unwrap());
    for launcher in [Launcher::Bwrap, Launcher::Landlock, Launcher::NetworkOnly] {
        // Whether it works on this machine does not matter.
        let _ = inputs.build(launcher, &|_, _| panic!("{launcher:?} took a head start"));
    }
}
