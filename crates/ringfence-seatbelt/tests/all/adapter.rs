//! The file of a profile, and the command line.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use ringfence_model::ErrorKind;
use ringfence_seatbelt::adapter::SANDBOX_EXEC;
use ringfence_seatbelt::{Adapter, Mode};

use crate::profile::{env, usual};

fn adapter(directory: &Path) -> Adapter {
    let tool = directory.join("sandbox-exec");
    std::fs::write(&tool, "").unwrap();
    Adapter::new(env(), directory.join("profiles")).with_tool(tool)
}

fn place() -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    std::fs::create_dir(place.path().join("profiles")).unwrap();
    place
}

fn left_over(place: &tempfile::TempDir) -> usize {
    std::fs::read_dir(place.path().join("profiles")).unwrap().count()
}

#[test]
fn a_command_is_wrapped_as_arguments() {
    let place = place();
    let command = ["/bin/echo", "a b", "$(x)"].map(OsString::from);
    let wrapped = adapter(place.path()).wrap_command(&usual(), &command).unwrap();
    let file = wrapped.file().unwrap().path().as_os_str().to_owned();
    let mut want = vec![place.path().join("sandbox-exec").into_os_string(), OsString::from("-f"), file];
    want.extend(command);
    assert_eq!(wrapped.argv(), want);
}

#[test]
fn the_shell_is_the_default_command() {
    let place = place();
    let wrapped = adapter(place.path()).wrap_command(&usual(), &[]).unwrap();
    assert_eq!(wrapped.argv().last().unwrap(), "/bin/bash");
    assert_eq!(wrapped.argv().len(), 4);
    assert_eq!(SANDBOX_EXEC, "/usr/bin/sandbox-exec");
}

#[test]
fn the_file_is_private_unique_and_holds_the_profile() {
    let place = place();
    let adapter = adapter(place.path());
    let (one, two) =
        (adapter.wrap_command(&usual(), &[]).unwrap(), adapter.wrap_command(&usual(), &[]).unwrap());
    let (first, second) = (one.file().unwrap().path(), two.file().unwrap().path());
    assert_ne!(first, second);
    assert_ne!(first.parent(), second.parent());
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(first), 0o600);
    assert_eq!(mode(first.parent().unwrap()), 0o700);
    assert_eq!(first.extension().unwrap(), "sb");
    assert_eq!(std::fs::read_to_string(first).unwrap(), one.profile().unwrap().text());
}

#[test]
fn the_file_is_removed_on_dispose_and_on_drop() {
    let place = place();
    let adapter = adapter(place.path());
    adapter.wrap_command(&usual(), &[]).unwrap().dispose();
    assert_eq!(left_over(&place), 0);
    drop(adapter.wrap_command(&usual(), &[]).unwrap());
    assert_eq!(left_over(&place), 0);
    let started = adapter.wrap_command(&usual(), &[]).unwrap().start_with(|_| Ok(7)).unwrap();
    assert!(started.file().unwrap().path().exists());
    assert_eq!(started.dispose(), 7);
    assert_eq!(left_over(&place), 0);
}

#[test]
fn the_file_is_removed_when_the_start_fails() {
    let place = place();
    let wrapped = adapter(place.path()).wrap_command(&usual(), &[]).unwrap();
    let error = wrapped.start_with::<()>(|_| Err(std::io::Error::other("no such program"))).unwrap_err();
    assert_eq!(error.kind, ErrorKind::SandboxDenied);
    assert!(error.chain().ends_with("no such program"), "{}", error.chain());
    assert_eq!(left_over(&place), 0);
}

#[test]
fn removing_what_is_gone_is_no_error() {
    let place = place();
    let wrapped = adapter(place.path()).wrap_command(&usual(), &[]).unwrap();
    std::fs::remove_dir_all(wrapped.file().unwrap().path().parent().unwrap()).unwrap();
    wrapped.dispose();
}

#[test]
fn a_missing_tool_is_an_error_that_says_what_to_do() {
    let place = place();
    let adapter = Adapter::new(env(), place.path()).with_tool(place.path().join("none"));
    let error = adapter.wrap_command(&usual(), &[]).unwrap_err();
    assert_eq!(error.kind, ErrorKind::SandboxDenied);
    assert!(error.message.ends_with("is missing"), "{}", error.message);
    assert!(error.hints[0].contains("a Linux container has none"), "{:?}", error.hints);
}

#[test]
fn a_refused_profile_leaves_no_file() {
    let place = place();
    let mut policy = usual();
    policy.network.allow_network = true;
    assert!(adapter(place.path()).wrap_command(&policy, &[]).is_err());
    assert_eq!(left_over(&place), 0);
}

#[test]
fn a_disabled_fence_wraps_nothing() {
    let place = place();
    let adapter = Adapter::new(env().with_mode(Mode::Disabled), place.path()).with_tool("/none");
    let wrapped = adapter.wrap_command(&usual(), &[OsString::from("/bin/ls")]).unwrap();
    assert_eq!(wrapped.argv(), ["/bin/ls"]);
    assert!(wrapped.profile().is_none() && wrapped.file().is_none());
}

#[test]
fn a_given_profile_is_what_the_command_runs_under() {
    let place = place();
    let text = "(version 1)(allow default)";
    let tool = place.path().join("sandbox-exec");
    std::fs::write(&tool, "").unwrap();
    let adapter = Adapter::new(env().with_mode(Mode::Custom(text.to_owned())), place.path()).with_tool(tool);
    let wrapped = adapter.wrap_command(&usual(), &[]).unwrap();
    assert_eq!(std::fs::read_to_string(wrapped.file().unwrap().path()).unwrap(), text);
    assert!(!wrapped.profile().unwrap().enforces_policy);
}
