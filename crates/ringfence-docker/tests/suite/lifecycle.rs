//! When containers are made, used again, made anew, left alone and removed.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use ringfence_docker::DockerProvider;
use ringfence_docker::lifecycle::{Making, Records};
use ringfence_docker::options::ContainerSpec;
use ringfence_docker::testing::LEAST;
use ringfence_fence::{CreateOptions, Provider as _, Sandbox};
use ringfence_model::{ErrorKind, Result};
use serde_json::{Value, json};

use super::support::{World, run, text, wait};

/// Remembers what the test says.
#[derive(Debug, Default)]
struct Notebook {
    used: Mutex<BTreeMap<String, u64>>,
    hashes: Mutex<Vec<(String, String)>>,
}

impl Records for Notebook {
    fn last_used_ms(&self, container: &str) -> Result<Option<u64>> {
        Ok(self.used.lock().unwrap().get(container).copied())
    }

    fn config_hash(&self, _: &str) -> Result<Option<String>> {
        Ok(None)
    }

    fn reserve(&self, _: &ContainerSpec, _: &str) -> Result<Making> {
        Ok(Making::Ours)
    }

    fn ready(&self, spec: &ContainerSpec, _: &str, hash: &str) -> Result<()> {
        self.hashes.lock().unwrap().push((spec.name.clone(), hash.to_owned()));
        Ok(())
    }

    fn removed(&self, container: &str) -> Result<()> {
        self.used.lock().unwrap().remove(container);
        Ok(())
    }
}

/// A scope that no other test has, whose container is removed at the end.
struct Scope<'a> {
    world: &'a World,
    key: String,
    notebook: Arc<Notebook>,
    provider: DockerProvider,
}

impl<'a> Scope<'a> {
    fn new(world: &'a World, name: &str) -> Self {
        let notebook = Arc::new(Notebook::default());
        let key = format!("agent:{name}-{}", std::process::id());
        Self { world, key, provider: DockerProvider::new(Arc::clone(&notebook) as _), notebook }
    }

    fn options(&self, docker: Value) -> CreateOptions {
        let mut options = self.world.options(docker);
        options.hooks.scope_key = Some(self.key.clone());
        options
    }

    fn create(&self, docker: Value) -> Result<Arc<dyn Sandbox>> {
        wait(self.provider.create(self.options(docker)))
    }

    fn containers(&self) -> Vec<String> {
        let filter = format!("label=ringfence.sessionKey={}", self.key);
        let ids = self.world.docker(&["ps", "-aq", "--no-trunc", "--filter", &filter]);
        ids.split_whitespace().map(str::to_owned).collect()
    }

    fn name(&self) -> String {
        let id = self.containers().remove(0);
        self.world.docker(&["inspect", "-f", "{{.Name}}", &id]).trim_start_matches('/').to_owned()
    }
}

impl Drop for Scope<'_> {
    fn drop(&mut self) {
        for id in self.containers() {
            self.world.docker(&["rm", "-f", &id]);
        }
    }
}

#[test]
fn a_container_is_used_again_while_its_configuration_is_the_same() {
    let Some(world) = World::new() else {
        return;
    };
    let scope = Scope::new(&world, "reuse");
    let setup = json!({ "setupCommand": "echo set up >> /workspace/setup.log" });
    let first = scope.create(setup.clone()).unwrap();
    assert_eq!(text(&run(&*first, "echo x > /tmp/kept; echo done").stdout), "done\n");
    let made = scope.containers();
    assert_eq!(made.len(), 1);
    wait(scope.provider.destroy(first.id())).unwrap();
    assert!(!first.is_alive());
    assert_eq!(scope.containers(), made, "it stays for the next");

    let second = scope.create(setup.clone()).unwrap();
    assert_eq!(scope.containers(), made);
    assert_eq!(text(&run(&*second, "cat /tmp/kept").stdout), "x\n", "the same container");
    wait(second.dispose()).unwrap();

    // Stopped by somebody: it is started again, and not set up a second time.
    world.docker(&["stop", "-t", "0", &made[0]]);
    let third = scope.create(setup).unwrap();
    assert_eq!(scope.containers(), made);
    assert_eq!(text(&run(&*third, "cat /workspace/setup.log").stdout), "set up\n");
    let hashes = scope.notebook.hashes.lock().unwrap();
    assert_eq!(hashes.len(), 3);
    assert!(hashes.iter().all(|entry| *entry == hashes[0]), "{hashes:?}");
}

#[test]
fn another_configuration_is_a_new_container_unless_the_old_one_is_in_use() {
    let Some(world) = World::new() else {
        return;
    };
    let scope = Scope::new(&world, "hot");
    scope.create(json!({})).unwrap();
    let first = scope.containers();
    // Nothing is remembered about it and it runs: it may be anybody's.
    let kept = scope.create(json!({ "pidsLimit": 99 })).unwrap();
    assert_eq!(scope.containers(), first);
    let hint = format!("ringfence recreate --agent {}", scope.key.trim_start_matches("agent:"));
    assert!(kept.assurance().degraded.iter().any(|lost| lost.text.contains(&hint)), "{:?}", kept.assurance());
    let (old, kept_as) = {
        let hashes = scope.notebook.hashes.lock().unwrap();
        (hashes[0].1.clone(), hashes[1].1.clone())
    };
    assert_eq!(old, kept_as, "the hash of a container that stays is the old one");

    // Long ago: it is made anew.
    scope.notebook.used.lock().unwrap().insert(scope.name(), 0);
    let fresh = scope.create(json!({ "pidsLimit": 99 })).unwrap();
    let second = scope.containers();
    assert!(second.len() == 1 && second != first, "{second:?}");
    assert_eq!(world.docker(&["inspect", "-f", "{{.HostConfig.PidsLimit}}", &second[0]]), "99");
    assert_eq!(run(&*fresh, "true").exit_code, 0);

    // One that does not run is nobody's, whatever is remembered.
    world.docker(&["stop", "-t", "0", &second[0]]);
    scope.notebook.used.lock().unwrap().insert(scope.name(), u64::MAX);
    scope.create(json!({ "pidsLimit": 98 })).unwrap();
    assert_ne!(scope.containers(), second);
}

#[test]
fn each_project_has_a_container_of_its_own() {
    let Some(world) = World::new() else { return };
    let scope = Scope::new(&world, "elsewhere");
    scope.create(json!({})).unwrap();
    let elsewhere = world.project.with_file_name("other");
    std::fs::create_dir(&elsewhere).unwrap();
    let mut options = scope.options(json!({}));
    options.cwd = elsewhere;
    let other = wait(scope.provider.create(options)).unwrap();
    run(&*other, "touch here");
    assert!(world.project.with_file_name("other").join("here").exists());
    assert_eq!(scope.containers().len(), 2, "one for each project");
}

#[test]
fn a_set_up_that_fails_is_told_with_its_output_and_leaves_no_container() {
    let Some(world) = World::new() else {
        return;
    };
    let scope = Scope::new(&world, "setup");
    let error = scope.create(json!({ "setupCommand": "echo no such package >&2; exit 7" })).unwrap_err();
    assert_eq!(error.kind, ErrorKind::InitializationFailed);
    assert!(error.message.contains("exit code 7: no such package"), "{error}");
    assert_eq!(scope.containers().len(), 0);
}

#[test]
fn an_image_that_is_not_here_is_an_error_that_says_what_to_do() {
    let Some(world) = World::new() else {
        return;
    };
    let error = world.create(world.options(json!({ "image": "example/none:1" }))).unwrap_err();
    assert_eq!(error.kind, ErrorKind::NotFound);
    assert!(error.message.contains("example/none:1 is not on this machine"), "{error}");
    assert!(error.hints[0].contains("docker pull example/none:1"), "{:?}", error.hints);

    // The default image is made from its base: fetched, where there is a registry, and else said so.
    let told = Arc::new(Mutex::new(Vec::new()));
    let hears = Arc::clone(&told);
    let mut options = world.options(json!({ "image": "ringfence-sandbox:bookworm-slim" }));
    options.hooks.progress = Some(Arc::new(move |line: &str| hears.lock().unwrap().push(line.to_owned())));
    let error = world.create(options).unwrap_err();
    assert!(error.message.contains("debian:bookworm-slim"), "{error}");
    assert!(error.hints.iter().any(|hint| hint.contains("docker import")), "{:?}", error.hints);
    assert!(told.lock().unwrap()[0].contains("pulling debian:bookworm-slim"), "{told:?}");

    // The base is here under its own name: nothing is fetched.
    world.docker(&["tag", LEAST, "debian:bookworm-slim"]);
    let made = world.create(world.options(json!({ "image": "ringfence-sandbox:bookworm-slim" })));
    let tagged = world.docker(&["image", "ls", "-q", "ringfence-sandbox:bookworm-slim"]);
    world.docker(&["rmi", "debian:bookworm-slim", "ringfence-sandbox:bookworm-slim"]);
    assert!(!tagged.is_empty(), "{made:?}");
}

#[test]
fn a_sandbox_without_a_scope_leaves_nothing() {
    let Some(world) = World::new() else { return };
    let sandbox = world.sandbox();
    let all =
        || world.docker(&["ps", "-aq", "--filter", &format!("label=ringfence.sessionKey={}", sandbox.id())]);
    assert_eq!(run(&*sandbox, "true").exit_code, 0);
    assert!(!all().is_empty());
    wait(sandbox.dispose()).unwrap();
    assert_eq!(all(), "");
    let error = wait(sandbox.execute(ringfence_model::ExecRequest::shell("true"), &|_| ())).unwrap_err();
    assert_eq!(error.kind, ErrorKind::SandboxNotAvailable);
    wait(sandbox.dispose()).unwrap();
}

#[test]
fn a_container_is_hardened_as_the_engine_sees_it() {
    let Some(world) = World::new() else { return };
    let scope = Scope::new(&world, "hard");
    scope.create(json!({})).unwrap();
    let seen = world.docker(&["inspect", &scope.containers()[0]]);
    let seen: Value = serde_json::from_str(&seen).unwrap();
    let (config, host) = (&seen[0]["Config"], &seen[0]["HostConfig"]);
    assert_eq!(config["Cmd"], json!(["sleep", "infinity"]));
    assert_eq!(host["ReadonlyRootfs"], true);
    assert_eq!(host["NetworkMode"], "none");
    assert_eq!(host["CapDrop"], json!(["ALL"]));
    assert_eq!(host["CapAdd"], Value::Null);
    assert_eq!(host["Privileged"], false);
    assert_eq!(
        (&host["PidMode"], &host["UsernsMode"], &host["IpcMode"]),
        (&json!(""), &json!(""), &json!("private"))
    );
    assert!(host["Devices"].as_array().is_none_or(Vec::is_empty), "{host}");
    assert!(host["PidsLimit"].as_i64().unwrap() > 0 && host["Memory"].as_i64().unwrap() > 0, "{host}");
    assert!(host["NanoCpus"].as_i64().unwrap() > 0, "{host}");
    let options: Vec<&str> =
        host["SecurityOpt"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert!(options.contains(&"no-new-privileges"), "{options:?}");
    assert!(options.iter().any(|option| option.starts_with("seccomp={")), "{options:?}");
    for path in ["/tmp", "/var/tmp", "/run"] {
        assert!(host["Tmpfs"][path].as_str().unwrap().contains("size="), "{}", host["Tmpfs"]);
    }
    // Programs are built and run there.
    assert!(host["Tmpfs"]["/tmp"].as_str().unwrap().contains("exec,"), "{}", host["Tmpfs"]);
    let mounts = seen[0]["Mounts"].as_array().unwrap();
    let guest = mounts.iter().find(|mount| mount["Destination"] == "/.ringfence-guest").unwrap();
    assert_eq!(guest["RW"], false);
    assert_eq!(mounts.len(), 2, "the workspace, the guest, and nothing else: {mounts:?}");
}

#[test]
fn every_option_reaches_the_engine() {
    let Some(world) = World::new() else { return };
    let scope = Scope::new(&world, "options");
    let profile = world.project.with_file_name("profile.json");
    let names = ["read", "write", "openat", "execve", "exit_group", "exit", "brk", "mmap"];
    let rules = json!([{ "names": names, "action": "SCMP_ACT_ALLOW" }]);
    let profile_text = json!({ "defaultAction": "SCMP_ACT_ERRNO", "syscalls": rules }).to_string();
    std::fs::write(&profile, profile_text).unwrap();
    // A container that is made of all of them; with that filter nothing could start in it.
    let section = serde_json::from_value(json!({
        "image": LEAST, "memory": "64M", "memorySwap": "96M", "cpus": 0.5, "pidsLimit": 77, "user": "1234:5678",
        "ulimits": { "nofile": "256:512", "core": 0 }, "dns": ["192.0.2.53"], "extraHosts": ["registry:192.0.2.1"],
        "env": { "COLOUR": "green" }, "seccompProfile": profile, "apparmorProfile": "ringfence-test",
        "tmpfs": ["/tmp:size=8m,exec"], "capDrop": ["NET_RAW"]
    }))
    .unwrap();
    let request = ringfence_docker::options::ContainerRequest::new(&section, &scope.key, &world.project);
    let spec = ringfence_docker::options::build(&request).unwrap();
    let endpoint = ringfence_docker::engine::Endpoint::parse(&world.engine.host()).unwrap();
    let engine = wait(Box::pin(world.provider.engine(&endpoint))).unwrap();
    wait(Box::pin(engine.create(&spec, &Default::default()))).unwrap();
    let seen: Value = serde_json::from_str(&world.docker(&["inspect", &scope.containers()[0]])).unwrap();
    let (config, host) = (&seen[0]["Config"], &seen[0]["HostConfig"]);
    assert_eq!((&host["Memory"], &host["MemorySwap"]), (&json!(64 << 20), &json!(96 << 20)));
    assert_eq!((&host["NanoCpus"], &host["PidsLimit"]), (&json!(500_000_000), &json!(77)));
    assert_eq!(config["User"], "1234:5678");
    let mut ulimits = host["Ulimits"].as_array().unwrap().clone();
    ulimits.sort_by_key(|limit| limit["Name"].as_str().unwrap().to_owned());
    assert_eq!(
        json!(ulimits),
        json!([{ "Name": "core", "Soft": 0, "Hard": 0 }, { "Name": "nofile", "Soft": 256, "Hard": 512 }])
    );
    assert_eq!((&host["Dns"], &host["ExtraHosts"]), (&json!(["192.0.2.53"]), &json!(["registry:192.0.2.1"])));
    assert!(config["Env"].as_array().unwrap().contains(&json!("COLOUR=green")), "{config}");
    assert!(host["CapDrop"].as_array().unwrap().contains(&json!("ALL")), "{host}");
    let options: Vec<&str> =
        host["SecurityOpt"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert!(
        options.contains(&"no-new-privileges") && options.contains(&"apparmor=ringfence-test"),
        "{options:?}"
    );
    let filter = options.iter().find_map(|option| option.strip_prefix("seccomp=")).unwrap();
    let filter: Value = serde_json::from_str(filter).unwrap();
    assert_eq!(filter["syscalls"][0]["names"], json!(names), "the profile's content, not its path");
    assert_eq!(host["Tmpfs"]["/tmp"], "size=8m,exec");
}
