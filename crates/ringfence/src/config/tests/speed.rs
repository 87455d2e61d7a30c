//! Loading is on the way of every start.

use std::time::{Duration, Instant};

use super::*;

/// The middle one of many runs.
fn median(mut run: impl FnMut()) -> Duration {
    let mut times: Vec<Duration> = (0..101)
        .map(|_| {
            let start = Instant::now();
            run();
            start.elapsed()
        })
        .collect();
    times.sort();
    times[times.len() / 2]
}

#[test]
fn loading_without_files_is_cheap() {
    let world = World::new();
    let loaded = world.load();
    println!("load alone: {:?}", median(|| drop(std::hint::black_box(world.load()))));
    println!("policy alone: {:?}", median(|| drop(std::hint::black_box(world.policy_of(&loaded)))));
    let time = median(|| {
        std::hint::black_box(world.policy());
    });
    println!("load and policy without files: {time:?}");
    // Well under 100 µs when optimised; the bound here is for slow machines and plain builds.
    let bound = if cfg!(debug_assertions) { 5000 } else { 1000 };
    assert!(time < Duration::from_micros(bound), "{time:?}");
}

#[test]
fn loading_with_files_is_cheap() {
    let world = World::new()
        .user(r#"{ "deny": ["~/x"], "limits": { "maxMemoryBytes": "2G" }, "agents": { "a": { "ask": "never" } } }"#)
        .project_says(r#"{ "deny": ["y"] }"#);
    let time = median(|| {
        std::hint::black_box(world.policy());
    });
    println!("load and policy with two files: {time:?}");
    assert!(time < Duration::from_millis(10), "{time:?}");
}
