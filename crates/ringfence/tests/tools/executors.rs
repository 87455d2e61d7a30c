//! `run_code` where the level of the code decides about its sandbox.

use std::sync::Arc;
use std::time::Duration;

use ringfence::fence::{CreateOptions, wait_for};
use ringfence::gate::InProcess;
use ringfence::local::provider::LocalProvider;
use ringfence::manager::{Manager, ManagerOptions, built_in};
use ringfence::model::ErrorKind;
use ringfence::permission::AutoApprove;
use ringfence::pool::{Pool, PoolConfig};
use ringfence::session::{Managed, Pooled};
use ringfence::setup::Setup;
use ringfence::tools::{Executors, OpenTools, ToolResult, Tools};
use serde_json::json;

use crate::world::World;

/// The configuration of a sandbox that shows one more file than the session's own.
fn setup(world: &World, shown: &str) -> Setup {
    let shown = world.home.join(shown);
    std::fs::write(&shown, "shown\n").unwrap();
    let call = serde_json::from_value(json!({ "allowRead": [shown] })).unwrap();
    Setup::load(&world.project, world.setup.env.clone(), call, None).unwrap()
}

/// The same, as a pool wants it.
fn options(world: &World, shown: &str) -> CreateOptions {
    let setup = setup(world, shown);
    CreateOptions {
        environment: setup.env.clone(),
        provider_options: setup.local_options(&[], None).unwrap(),
        ..CreateOptions::new(world.project.clone(), setup.policy())
    }
}

fn tools(world: &World, executors: Executors) -> Tools {
    let options = OpenTools {
        executors: Some(executors),
        code_reader: Some(Arc::new(InProcess)),
        service: Some(Arc::new(AutoApprove)),
        ..OpenTools::default()
    };
    options.open(&world.setup).unwrap()
}

fn run(tools: &Tools, code: &str, sandbox: &str) -> ToolResult {
    tools.call("run_code", &json!({ "language": "shell", "code": code, "sandbox": sandbox }))
}

#[test]
fn safe_code_stays_and_the_rest_goes_where_it_must() {
    // Code is allowed to run; what the fence refuses, nobody is asked about.
    let config = json!({ "ask": "never" });
    let Some(world) = World::configured(OpenTools::default(), config, &[]) else { return };
    let setup = setup(&world, "docker");
    let options = ManagerOptions::new(&setup, |_| ());
    let docker = Managed::new(Arc::new(Manager::new(setup, built_in().unwrap(), options)), "docker");
    let tools = tools(&world, Executors { docker: Some(Arc::new(docker)), ..Executors::default() });

    let safe = run(&tools, "cat ~/docker; pwd", "inherit");
    assert_eq!(safe.data["sandboxType"], "subprocess", "{safe:?}");
    assert!(!safe.stdout.contains("shown"), "the session's own sandbox does not show it");

    let other = run(&tools, "make --version; cat ~/docker", "inherit");
    assert_eq!((&other.data["sandboxType"], other.ok), (&json!("docker"), true), "{other:?}");
    assert!(other.stdout.contains("shown"), "{other:?}");

    let wished = run(&tools, "cat ~/docker", "docker_simple");
    assert_eq!(wished.stdout, "shown\n", "a wish for more is heard: {wished:?}");
    let less = run(&tools, "make --version; cat ~/docker", "subprocess");
    assert_eq!(less.data["sandboxType"], "docker", "a wish for less is not: {less:?}");
    tools.dispose();
}

#[test]
fn without_a_container_what_needs_one_does_not_run() {
    let Some(world) = World::new(OpenTools::default()) else { return };
    let tools = tools(&world, Executors::default());
    let refused = run(&tools, "make --version; touch ran", "inherit");
    assert_eq!(refused.error_kind, Some(ErrorKind::SandboxNotAvailable), "{refused:?}");
    assert!(!world.project.join("ran").exists());
    tools.dispose();
    let wished = run(&world.tools, "touch ran", "docker");
    assert_eq!(wished.error_kind, Some(ErrorKind::SandboxNotAvailable), "no executors at all: {wished:?}");
    assert!(!world.project.join("ran").exists());
}

#[test]
fn a_sandbox_of_a_pool_is_given_back_whatever_comes_of_it() {
    let Some(world) = World::new(OpenTools::default()) else { return };
    let config = PoolConfig { min: 1, max: 2, ..PoolConfig::default() };
    let warn = |text: &str| panic!("{text}");
    let pool = Arc::new(Pool::new(Arc::new(LocalProvider::new()), options(&world, "pooled"), config, warn));
    let minute = Duration::from_secs(60);
    wait_for(Box::pin(pool.start()), minute).unwrap().unwrap();
    let aio = Pooled::new(Arc::clone(&pool), "session");
    let tools = tools(&world, Executors { aio: Some(Arc::new(aio)), ..Executors::default() });
    for code in ["cat ~/pooled", "cat ~/pooled; exit 3", "cat ~/pooled; kill -9 $$"] {
        let result = run(&tools, code, "aio");
        assert_eq!(
            (&result.data["sandboxType"], result.stdout.as_str()),
            (&json!("aio"), "shown\n"),
            "{result:?}"
        );
        assert_eq!(pool.statistics().busy, 0, "{code}");
    }
    tools.dispose();
    wait_for(Box::pin(pool.stop()), minute).unwrap().unwrap();
}
