//! Many sessions at once.

use std::collections::BTreeSet;
use std::sync::Arc;

use ringfence_docker::engine::Endpoint;
use ringfence_docker::register::Containers;
use ringfence_fence::{Lasting as _, Provider as _};
use ringfence_ledger::{Ledger, SandboxFilter, SandboxState};
use serde_json::json;

use super::support::{World, run, text, wait};

const SESSIONS: usize = 50;

#[test]
fn fifty_sessions_at_once_have_a_container_each_and_all_are_removed() {
    let Some(world) = World::new() else {
        return;
    };
    let ledger = world.project.with_file_name("ledger.db");
    let options = |session: usize| {
        let mut options = world.options(json!({ "memory": "256M" }));
        options.provider_options.set("ledger", json!(ledger));
        options.hooks.scope_key = Some(format!("agent:main:many-{session}-{}", std::process::id()));
        options
    };
    let names: BTreeSet<String> = std::thread::scope(|scope| {
        let sessions: Vec<_> = (0..SESSIONS)
            .map(|session| {
                let (provider, options) = (Arc::clone(&world.provider), options(session));
                scope.spawn(move || {
                    let sandbox = wait(provider.create(options)).unwrap();
                    let said =
                        run(&*sandbox, &format!("echo {session} > /tmp/mine; cat /tmp/mine; hostname"));
                    let said = text(&said.stdout);
                    let (mine, host) = said.split_once('\n').unwrap();
                    assert_eq!(mine, session.to_string());
                    wait(sandbox.dispose()).unwrap();
                    host.trim().to_owned()
                })
            })
            .collect();
        sessions.into_iter().map(|session| session.join().unwrap()).collect()
    });
    assert_eq!(names.len(), SESSIONS, "each in a container of its own");
    let rows = Ledger::open(&ledger).unwrap().sandboxes(&SandboxFilter::default()).unwrap();
    assert_eq!(rows.len(), SESSIONS);
    assert!(rows.iter().all(|row| row.state == SandboxState::Ready && !row.in_use), "{rows:?}");

    let containers = Containers::of(Endpoint::parse(&world.engine.host()).unwrap(), &ledger);
    let found = wait(containers.find()).unwrap();
    assert_eq!(found.len(), SESSIONS);
    std::thread::scope(|scope| {
        for sandbox in &found {
            let containers = &containers;
            scope.spawn(move || wait(containers.remove(&sandbox.name)).unwrap());
        }
    });
    assert!(wait(containers.find()).unwrap().is_empty());
}

#[test]
fn whoever_asks_at_once_for_one_scope_gets_one_container() {
    let Some(world) = World::new() else { return };
    let ledger = world.project.with_file_name("ledger.db");
    let hosts: BTreeSet<String> = std::thread::scope(|scope| {
        let callers: Vec<_> = (0..6)
            .map(|caller| {
                let mut options = world.options(json!({ "memory": "256M" }));
                options.provider_options.set("ledger", json!(ledger));
                options.hooks.scope_key = Some(format!("agent:one-{}", std::process::id()));
                // Half of them as if they were other processes.
                let provider = match caller % 2 {
                    0 => Arc::clone(&world.provider),
                    _ => Arc::new(ringfence_docker::DockerProvider::default()),
                };
                scope.spawn(move || {
                    let sandbox = wait(provider.create(options)).unwrap();
                    let host = text(&run(&*sandbox, "hostname").stdout);
                    wait(sandbox.dispose()).unwrap();
                    host
                })
            })
            .collect();
        callers.into_iter().map(|caller| caller.join().unwrap()).collect()
    });
    assert_eq!(hosts.len(), 1, "{hosts:?}");
    let containers = Containers::of(Endpoint::parse(&world.engine.host()).unwrap(), &ledger);
    for sandbox in wait(containers.find()).unwrap() {
        wait(containers.remove(&sandbox.name)).unwrap();
    }
}
