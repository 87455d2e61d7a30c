//! Containers whose making is given up in the middle.

use std::time::{Duration, Instant};

use ringfence_fence::{Provider as _, wait_for};
use ringfence_ledger::{Ledger, SandboxState};
use serde_json::json;

use super::support::{World, run, wait};

#[test]
fn a_container_that_was_never_set_up_is_made_anew() {
    let Some(world) = World::new() else { return };
    let ledger = world.project.with_file_name("ledger.db");
    // The first time it never ends; the second time it does.
    let set_up =
        "echo begun >> /workspace/log; [ -e /workspace/go ] || sleep 3600; echo done >> /workspace/log";
    let options = || {
        let mut options = world.options(json!({ "setupCommand": set_up, "memory": "256M" }));
        options.provider_options.set("ledger", json!(ledger));
        options.hooks.scope_key = Some(format!("agent:halfway-{}", std::process::id()));
        options
    };
    let log = world.project.join("log");
    let mut making = world.provider.create(options());
    let begun = Instant::now();
    while !log.exists() {
        assert!(begun.elapsed() < Duration::from_secs(240), "the set-up command did not begin");
        let made = wait_for(Box::pin(making.as_mut()), Duration::from_millis(50));
        assert!(made.is_none(), "{made:?}");
    }
    drop(making);
    let row = || Ledger::open(&ledger).unwrap().sandboxes(&Default::default()).unwrap().pop().unwrap();
    assert_eq!((row().state, row().owner_alive), (SandboxState::Reserved, false));

    std::fs::write(world.project.join("go"), "").unwrap();
    let sandbox = world.create(options()).unwrap();
    assert_eq!(std::fs::read_to_string(&log).unwrap(), "begun\nbegun\ndone\n", "set up from the beginning");
    assert_eq!(run(&*sandbox, "true").exit_code, 0);
    assert_eq!((row().state, row().in_use), (SandboxState::Ready, true));
    wait(sandbox.dispose()).unwrap();
    assert!(!row().in_use);
    world.docker(&["rm", "-f", &row().name]);
}
