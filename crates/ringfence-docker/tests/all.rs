//! Containers, made by a real engine.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, reason = "helpers of tests")]

mod suite {
    mod attacks;
    mod conformance;
    mod files;
    mod halfway;
    mod images;
    mod jobs;
    mod lifecycle;
    mod many;
    mod plain;
    mod plain_ends;
    mod podman;
    mod sandboxes;
    mod support;
    mod trouble;
}
