//! Measures containers against the `docker` command, for `cargo xtask bench docker`: `docker-bench GUEST ROUNDS`, where GUEST is a
//! program that can be a guest. Prints JSON: for each row the milliseconds of every round, ours and theirs in turn.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a program for developers")]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ringfence_docker::DockerProvider;
use ringfence_docker::bridge::{Bridge, BridgeOptions, ContainerExec, Parents};
use ringfence_docker::engine::Endpoint;
use ringfence_docker::options::{self, ContainerRequest};
use ringfence_docker::testing::{FULL, TestEngine};
use ringfence_fence::{BoxFuture, CreateOptions, Provider as _, Sandbox, wait_for};
use ringfence_model::{ExecRequest, PathRule, Policy};
use serde_json::json;

fn wait<T>(future: BoxFuture<'_, T>) -> T {
    wait_for(future, Duration::from_secs(600)).unwrap()
}

fn milliseconds(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64() * 1000.0
}

fn main() {
    let words: Vec<String> = std::env::args().collect();
    let (guest, rounds): (&str, usize) = (&words[1], words[2].parse().unwrap());
    let Some(engine) = TestEngine::shared() else { return };
    let room = tempfile::Builder::new().prefix("ringfence-bench-").tempdir_in("/var/tmp").unwrap();
    let project = room.path().canonicalize().unwrap().join("project");
    std::fs::create_dir(&project).unwrap();
    let provider = DockerProvider::default();
    let options = |scope: Option<&str>| {
        let mut policy = Policy::default();
        policy.filesystem.allow_write.push(PathRule::built_in(project.as_path()));
        let mut options = CreateOptions::new(project.clone(), policy);
        options.provider_options =
            json!({ "docker": { "image": FULL }, "guestProgram": guest, "engine": engine.host() }).into();
        options.hooks.scope_key = scope.map(str::to_owned);
        options
    };
    let docker = |arguments: &[&str]| {
        let output = engine.docker(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
    };
    let run = |sandbox: &dyn Sandbox, command: &str| {
        let result = wait(sandbox.execute(ExecRequest::shell(command), &|_| ())).unwrap();
        assert_eq!(result.exit_code, 0, "{result:?}");
    };
    let mut rows = Vec::new();
    let mut row = |name: &str, theirs_name: &str, rounds: usize, ours: &dyn Fn(), theirs: &dyn Fn()| {
        ours();
        theirs();
        let (mut mine, mut others) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            mine.push(milliseconds(ours));
            others.push(milliseconds(theirs));
        }
        rows.push(json!({ "name": name, "against": theirs_name, "ours": mine, "theirs": others }));
    };

    let image = ["run", "--rm", "--network", "none", FULL, "true"];
    row(
        "a new container, one command, removed",
        "docker run --rm",
        rounds.div_ceil(4),
        &|| {
            let sandbox = wait(provider.create(options(None))).unwrap();
            run(&*sandbox, "true");
            wait(sandbox.dispose()).unwrap();
        },
        &|| docker(&image),
    );

    let sandbox = wait(provider.create(options(Some("agent:bench")))).unwrap();
    let spec_section = serde_json::from_value(json!({ "image": FULL })).unwrap();
    let spec = options::build(&ContainerRequest::new(&spec_section, "agent:bench", &project)).unwrap();
    let name = spec.name.as_str();
    row("a warm command", "docker exec", rounds * 4, &|| run(&*sandbox, "true"), &|| {
        docker(&["exec", name, "true"])
    });

    let endpoint = Endpoint::parse(&engine.host()).unwrap();
    let connection = wait(Box::pin(provider.engine(&endpoint))).unwrap();
    let exec = Arc::new(ContainerExec::new(connection, name));
    let bridge = Bridge::new(exec, spec.path_map(), BridgeOptions::default());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for (size, words, rounds) in [(1 << 10, "1 KiB", rounds), (100 << 20, "100 MiB", rounds.div_ceil(10))] {
        let bytes = vec![7_u8; size];
        let here = room.path().join("here");
        std::fs::write(&here, &bytes).unwrap();
        let (here, there) = (here.to_str().unwrap().to_owned(), format!("{name}:/workspace/theirs"));
        let back = room.path().join("back").to_str().unwrap().to_owned();
        let path = Path::new("ours");
        row(
            &format!("writing {words}"),
            "docker cp",
            rounds,
            &|| runtime.block_on(bridge.write(path, &bytes, Parents::Make)).unwrap(),
            &|| docker(&["cp", &here, &there]),
        );
        row(
            &format!("reading {words}"),
            "docker cp",
            rounds,
            &|| assert_eq!(runtime.block_on(bridge.read(path)).unwrap().len(), size),
            &|| docker(&["cp", &there, &back]),
        );
    }
    wait(sandbox.dispose()).unwrap();
    docker(&["rm", "-f", name]);
    println!("{}", json!({ "rows": rows }));
}
