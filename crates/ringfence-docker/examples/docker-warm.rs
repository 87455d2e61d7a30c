//! Keeps a container of the engine for tests warm, for `cargo xtask bench peers`. Prints as JSON how to reach it, and removes it
//! when its standard input ends.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a program for developers")]

use std::io::Read as _;

use ringfence_docker::testing::{LEAST, TestEngine};
use serde_json::json;

fn main() {
    let Some(engine) = TestEngine::shared() else {
        println!("{}", json!({ "failed": "no engine" }));
        return;
    };
    let started =
        engine.docker(&["run", "--detach", "--network", "none", LEAST, "sleep", "1000"]).output().unwrap();
    assert!(started.status.success(), "{started:?}");
    let container = String::from_utf8(started.stdout).unwrap();
    let container = container.trim();
    println!("{}", json!({ "host": engine.host(), "container": container }));
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
    let removed = engine.docker(&["rm", "--force", container]).output().unwrap();
    assert!(removed.status.success(), "{removed:?}");
}
