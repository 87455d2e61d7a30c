//! A provider that is no part of ringfence: workspaces on another machine, used through the manager like any other.
//! `cargo run -p ringfence --example remote`
#![cfg_attr(not(target_os = "linux"), expect(unused, reason = "the service for trying it needs Linux"))]
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

#[cfg(target_os = "linux")]
mod provider;
#[cfg(target_os = "linux")]
mod service;

#[cfg(target_os = "linux")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    use std::sync::Arc;
    use std::time::Duration;

    use ringfence::fence::{Provider, wait_for};
    use ringfence::manager::{Manager, ManagerOptions, built_in};
    use ringfence::model::ExecRequest;
    use ringfence::setup::Setup;

    let room = tempfile::tempdir()?;
    let token = "secret of the service".to_owned();
    let remote =
        provider::Remote { server: service::start(room.path().join("far away"), token.clone())?, token };

    // Registered under a name, and from then on `provider: remote` is as good as `provider: local`.
    let mut registry = built_in()?;
    registry.register(provider::KIND, move || Ok(Arc::new(remote.clone()) as Arc<dyn Provider>))?;
    let call = serde_json::from_value(serde_json::json!({ "provider": provider::KIND }))?;
    let project = room.path().join("project");
    std::fs::create_dir(&project)?;
    let env = [("HOME".into(), room.path().into()), ("PATH".into(), "/usr/bin:/bin".into())].into();
    let setup = Setup::load(&project, env, call, None)?;
    let options = ManagerOptions::new(&setup, |warning| println!("warning: {warning}"));
    let manager = Manager::new(setup, registry, options);

    let work = async {
        let session = "agent:main:example";
        manager.execute(session, ExecRequest::shell("cd /tmp && export A=kept"), &|_| ()).await?;
        let result = manager.execute(session, ExecRequest::shell("echo $A in $PWD"), &|_| ()).await?;
        print!("{}", String::from_utf8_lossy(&result.stdout));
        println!("by {}", result.sandbox.adapter);
        manager.shutdown().await
    };
    wait_for(Box::pin(work), Duration::from_secs(300)).ok_or("it did not end")??;
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn main() {}
