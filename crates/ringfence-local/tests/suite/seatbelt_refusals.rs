//! How refusals become known on macOS, with stand-ins for the programs of the system.

use std::sync::Mutex;

use ringfence_local::Streams;
use ringfence_local::seatbelt::Seatbelt;
use ringfence_model::{DenyReason, ExecEvent, ExecRequest};
use serde_json::json;

use super::seatbelt::Place;

#[test]
fn the_kernels_log_makes_certain_violations() {
    let place = Place::new();
    let secret = place.seen("home/.ssh/id");
    // Says what is listened for, then a refusal once the command has run, with the tag of the profile.
    place.script(
        "log",
        &r#"tag=$(printf '%s' "$*" | grep -o 'rf-[A-Za-z0-9]*')
echo 'Filtering the log data'
until [ -e "$HERE/project/done" ]; do sleep 0.02; done
for i in 1 2; do echo "x kernel: (Sandbox) Sandbox: cat(77) deny(1) file-read-data SECRET $tag"; done
echo "x kernel: (Sandbox) Sandbox: cat(78) deny(1) file-read-data /another/sandbox rf-another"
echo "x kernel: (Sandbox) Sandbox: cat(77) deny(1) mach-lookup com.apple.thing $tag"
sleep 600"#
            .replace("SECRET", &secret),
    );
    let events = Mutex::new(Vec::new());
    let note = |event: ExecEvent| {
        if let ExecEvent::Violation(violation) = event {
            events.lock().unwrap().push(violation.resource.clone());
        }
    };
    let result = place.fence().run(&ExecRequest::shell("touch done; true"), Streams::Capture, &note).unwrap();
    let resources: Vec<&str> =
        result.violations.iter().map(|violation| violation.resource.as_str()).collect();
    assert_eq!(resources, [secret.as_str(), "com.apple.thing"]);
    assert_eq!(*events.lock().unwrap(), [secret.clone(), "com.apple.thing".to_owned()]);
    let first = &result.violations[0];
    assert!(first.certain);
    assert_eq!((first.pid, first.reason), (Some(77), Some(DenyReason::Denied)));
    // On the deny list: told although the command succeeded.
    assert_eq!((result.exit_code, result.blocked), (0, true));
    assert_eq!(result.blocked_resource, Some(secret));
    assert!(!result.sandbox.degraded.iter().any(|lost| lost.text.contains("log cannot be read")));
}

#[test]
fn a_refused_service_does_not_make_a_failure_a_blocked_one() {
    let place = Place::new();
    place.script(
        "log",
        r#"tag=$(printf '%s' "$*" | grep -o 'rf-[A-Za-z0-9]*')
echo 'Filtering the log data'
echo "x kernel: (Sandbox) Sandbox: cat(77) deny(1) mach-lookup com.apple.thing $tag"
sleep 600"#,
    );
    let result = place.shell("echo 'cat: /etc/master.passwd: Operation not permitted' >&2; false");
    assert_eq!(result.violations.len(), 1, "the log is there, so nothing is guessed");
    assert!(!result.blocked);
}

#[test]
fn without_the_log_the_commands_words_are_uncertain() {
    let place = Place::new();
    place.script("log", "echo 'log: Must be admin to run stream command' >&2; exit 64");
    let secret = place.root.join("home/.ssh/id").display().to_string();
    let words = format!("echo 'cat: {secret}: Operation not permitted' >&2; exit 1");
    let result = place.shell(&words);
    assert_eq!(result.blocked_resource, Some(place.seen("home/.ssh/id")));
    assert_eq!(result.violations.len(), 1);
    assert!(!result.violations[0].certain);
    assert!(result.sandbox.degraded.iter().any(|lost| lost.text.contains("Must be admin")));
    assert!(!place.shell(&words.replace("exit 1", "exit 0")).blocked, "it succeeded");
    let own = format!("cat: {}: Operation not permitted", place.root.join("project/x").display());
    assert!(!place.shell(&format!("echo '{own}' >&2; exit 1")).blocked, "the policy allows that");
}

#[test]
fn no_precision_listens_to_nothing() {
    let place = Place::new();
    place.script("log", "touch \"$HERE/listened\"");
    let mut options = place.options();
    options.provider_options.set("precision", json!("off"));
    let fence = Seatbelt::prepare(options).unwrap();
    let secret = place.root.join("home/.ssh/id").display().to_string();
    let words = format!("echo 'cat: {secret}: Operation not permitted' >&2; exit 1");
    let result = fence.run(&ExecRequest::shell(words), Streams::Capture, &|_| ()).unwrap();
    assert!(result.violations.is_empty() && !result.blocked);
    assert!(!place.root.join("listened").exists());
}
