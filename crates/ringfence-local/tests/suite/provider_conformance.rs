//! The conformance suite, put to the provider: the same promises through a shell that remembers.

use ringfence_fence::CreateOptions;
use ringfence_fence::conformance;
use ringfence_local::provider::LocalProvider;
use ringfence_model::{ExecRequest, ExecResult, Result};
use serde_json::json;

use super::launchers::{STAGE, conforms, of_landlock};

fn by(launcher: &str, mut options: CreateOptions, request: &ExecRequest) -> Result<ExecResult> {
    options.provider_options = json!({ "launcher": launcher, "stage": STAGE }).into();
    conformance::run_once(&LocalProvider::new(), options, request)
}

/// What a shell that goes on cannot promise.
fn of_a_shell() -> Vec<(&'static str, &'static str)> {
    vec![
        (
            "rights/no-inherited-descriptors",
            "the case looks at bash itself, which holds its private channels",
        ),
        ("exit/program-not-found", "a shell says that with exit code 127"),
        ("limit/open-files", "a shell needs more than the case leaves it, and refuses to start with less"),
    ]
}

#[test]
fn the_provider_conforms_with_the_native_launcher() {
    conforms("native", &|options, request| by("native", options, request), of_a_shell());
}

#[test]
fn the_provider_conforms_with_the_bwrap_launcher() {
    conforms("bwrap", &|options, request| by("bwrap", options, request), of_a_shell());
}

#[test]
fn the_provider_conforms_with_the_landlock_launcher() {
    conforms(
        "landlock",
        &|options, request| by("landlock", options, request),
        [of_landlock(), of_a_shell()].concat(),
    );
}
