//! A provider from outside, as the guide in `docs/providers.md` describes it.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

#[path = "../examples/remote/provider.rs"]
mod provider;
#[path = "../examples/remote/service.rs"]
mod service;

use std::sync::Arc;
use std::time::Duration;

use ringfence::fence::{BoxFuture, Provider, wait_for};
use ringfence::manager::{Manager, ManagerOptions, built_in};
use ringfence::model::{ErrorKind, ExecRequest};
use ringfence::setup::Setup;

fn wait<T>(future: BoxFuture<'_, T>) -> T {
    wait_for(future, Duration::from_secs(120)).unwrap()
}

#[test]
fn a_provider_from_outside_is_used_like_any_other() {
    let room = tempfile::tempdir().unwrap();
    let token = "t".to_owned();
    let server = service::start(room.path().join("far"), token.clone()).unwrap();
    let remote = provider::Remote { server, token };
    let stranger = provider::Remote { token: "wrong".to_owned(), ..remote.clone() };
    assert!(wait(stranger.list()).unwrap_err().message.contains("who are you?"));

    let mut registry = built_in().unwrap();
    let its = remote.clone();
    registry.register(provider::KIND, move || Ok(Arc::new(its.clone()) as Arc<dyn Provider>)).unwrap();
    let project = room.path().join("project");
    std::fs::create_dir(&project).unwrap();
    let call = serde_json::from_value(serde_json::json!({ "provider": provider::KIND })).unwrap();
    let env = [("HOME".into(), room.path().into()), ("PATH".into(), "/usr/bin:/bin".into())].into();
    let setup = Setup::load(&project, env, call, None).unwrap();
    let options = ManagerOptions::new(&setup, |_| ());
    let manager = Manager::new(setup, registry, options);
    let run =
        |command: &str| wait(Box::pin(manager.execute("agent:main:x", ExecRequest::shell(command), &|_| ())));

    let first = match run("cd /tmp && export A=kept") {
        Err(error) if error.message.contains("no launcher") => {
            return ringfence_testing::lacks(ringfence_testing::FENCE, &error.chain());
        }
        first => first.unwrap(),
    };
    assert_eq!((first.exit_code, first.sandbox.adapter.as_str()), (0, provider::KIND));
    let second = run("echo $A in $PWD; exit 3").unwrap();
    assert_eq!((second.stdout.as_slice(), second.exit_code), (b"kept in /tmp\n".as_slice(), 3));

    // What is refused over there is not told apart from any failure.
    let refused = run("echo out; cat /etc/shadow").unwrap();
    assert_eq!((refused.stdout.as_slice(), refused.exit_code), (b"out\n".as_slice(), 1));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("Permission denied"), "{refused:?}");
    assert!(!refused.blocked && refused.blocked_resource.is_none() && refused.violations.is_empty());

    // Gone behind the manager's back: made again, and said.
    let ids = wait(remote.list()).unwrap();
    assert_eq!(ids.len(), 1);
    wait(remote.destroy(&ids[0].id)).unwrap();
    let again = run("echo ${A-forgotten}").unwrap();
    assert!(again.restarted && again.stdout == b"forgotten\n", "{again:?}");
    wait(Box::pin(manager.shutdown())).unwrap();
    assert!(wait(remote.list()).unwrap().is_empty());
    assert_eq!(wait(remote.destroy("none")).err().map(|error| error.kind), None::<ErrorKind>);
}
