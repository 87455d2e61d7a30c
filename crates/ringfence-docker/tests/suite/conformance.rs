//! What every fence must do, asked of containers.

use ringfence_docker::DockerProvider;
use ringfence_docker::testing::TestEngine;
use ringfence_fence::CreateOptions;
use ringfence_fence::conformance::{self, Contender, cases};
use ringfence_model::{ExecRequest, ExecResult, Result};
use serde_json::json;

use super::support::{provider_options, room};

/// What a container with a guest does not promise, and why.
const EXCUSED: &[(&str, &str)] = &[
    ("read/outside-is-refused", UNSEEN),
    ("read/a-probe-that-succeeds-is-no-block", UNSEEN),
    ("write/remove-outside-is-refused", UNSEEN),
    ("read/home-is-empty", HOME),
    ("deny/blocks-even-when-the-command-succeeds", HOME),
    ("deny/a-grant-opens-exactly-its-resource", HOME),
    ("protect/home-file-that-does-not-exist", HOME),
    ("environment/basics", HOME),
    (
        "write/readable-is-not-writable",
        "what is shown read-only is so by its mount, and says \"Read-only file system\"",
    ),
    (
        "network/host-loopback",
        "the container's loopback is its own, and nobody listens there: nothing is refused",
    ),
    ("network/own-loopback-works", "the guest lets nothing connect, not even to itself"),
    ("rights/no-inherited-descriptors", "the case looks at bash itself, which holds its private channels"),
    ("exit/program-not-found", "a shell says that with exit code 127"),
    ("limit/open-files", "a shell needs more than the case leaves it, and refuses to start with less"),
];

const UNSEEN: &str = "what is not shown to the container does not exist inside, so nothing is refused";
const HOME: &str = "the home inside is the container's own, elsewhere, and gone at the end";

/// The table in parts, so that no test takes minutes.
const PARTS: usize = 4;

fn conforms(part: usize) {
    let Some(engine) = TestEngine::shared() else { return };
    let provider = DockerProvider::default();
    let by = |mut options: CreateOptions, request: &ExecRequest| -> Result<ExecResult> {
        // The same names inside as outside, which the cases speak of.
        let docker = json!({ "workdir": options.cwd });
        options.provider_options = provider_options(&engine.host(), docker);
        conformance::run_once(&provider, options, request)
    };
    let base = room();
    let only = std::env::var("CONFORMANCE").unwrap_or_default();
    let environment = std::env::vars_os().collect();
    let contenders = [Contender { name: "docker", run: &by, excused: EXCUSED }];
    let mine: Vec<_> = cases::all().into_iter().skip(part).step_by(PARTS).collect();
    let matrix = conformance::run(&contenders, &mine, base.path(), &environment, &only);
    println!("{matrix}");
    let failures = matrix.failures();
    assert!(
        failures.is_empty(),
        "{} of {} cases failed:\n{}",
        failures.len(),
        matrix.rows(),
        failures.join("\n")
    );
}

#[test]
fn containers_conform_first_part() {
    conforms(0);
}

#[test]
fn containers_conform_second_part() {
    conforms(1);
}

#[test]
fn containers_conform_third_part() {
    conforms(2);
}

#[test]
fn containers_conform_fourth_part() {
    conforms(3);
}
