//! The conformance suite, put to the launchers of this crate.

use ringfence_fence::CreateOptions;
use ringfence_fence::conformance::{self, Contender, cases};
use ringfence_local::fence::{LocalFence, Streams};
use ringfence_model::{ExecRequest, ExecResult, Result};

fn native(options: CreateOptions, request: &ExecRequest) -> Result<ExecResult> {
    LocalFence::prepare(options)?.run(request, Streams::Capture, &|_| ())
}

#[test]
fn the_native_launcher_conforms() {
    let base = tempfile::Builder::new().prefix("ringfence-conformance-").tempdir().unwrap();
    let excused = super::launchers::of_the_machine();
    let contenders = [Contender { name: "native", run: &native, excused: &excused }];
    let only = std::env::var("CONFORMANCE").unwrap_or_default();
    let environment = std::env::vars_os().collect();
    let matrix = conformance::run(&contenders, &cases::all(), base.path(), &environment, &only);
    println!("{matrix}");
    matrix.must_be_green();
}
