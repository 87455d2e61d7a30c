//! The fence of macOS from end to end, with a stand-in for the program that applies the profile: what is
//! tried is everything but the profile's effect.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use ringfence_fence::{CreateOptions, ProviderOptions};
use ringfence_local::seatbelt::Seatbelt;
use ringfence_local::{CallersTerminal, Keyboard, Streams};
use ringfence_model::{
    Command, ErrorKind, ExecEvent, ExecRequest, ExecResult, Layer, Limits, PathRule, Policy, PolicyMode,
    Result, Stdin,
};
use serde_json::json;

/// Remembers what it was given, and runs the command without any fence.
const STAND_IN: &str = r#"[ "$1" = -f ] || exit 64
stat -c '%a %A' "$2" "${2%/*}" > "$HERE/modes"
cp "$2" "$HERE/profile.sb"
shift 2
printf '%s\n' "$@" > "$HERE/argv"
exec "$@""#;

pub(crate) struct Place {
    _temp: tempfile::TempDir,
    pub(crate) root: PathBuf,
}

impl Place {
    pub(crate) fn new() -> Self {
        let temp = tempfile::Builder::new().prefix("seatbelt-").tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap();
        for directory in ["project", "home/.ssh", "tmp"] {
            std::fs::create_dir_all(root.join(directory)).unwrap();
        }
        std::fs::write(root.join("home/.ssh/id"), "secret").unwrap();
        let place = Self { _temp: temp, root };
        place.script("sandbox-exec", STAND_IN);
        place
    }

    pub(crate) fn script(&self, name: &str, text: &str) -> PathBuf {
        let path = self.root.join(name);
        let text = format!("#!/bin/sh\nHERE='{}'\n{text}\n", self.root.display());
        // Written elsewhere and moved: a program that is open for writing cannot be executed, and another
        // test may be starting a process right now.
        let draft = self.root.join(format!("{name}.new"));
        let mut file = std::fs::File::create(&draft).unwrap();
        file.write_all(text.as_bytes()).unwrap();
        drop(file);
        std::fs::set_permissions(&draft, std::fs::Permissions::from_mode(0o700)).unwrap();
        std::fs::rename(&draft, &path).unwrap();
        path
    }

    pub(crate) fn options(&self) -> CreateOptions {
        let mut policy = Policy::default();
        policy.filesystem.allow_write.push(PathRule::built_in(self.root.join("project")));
        policy.filesystem.deny.push(PathRule::built_in(self.root.join("home/.ssh")));
        policy.environment.pass.push("PASSED".into());
        let variables = [
            ("HOME", self.root.join("home").into_os_string()),
            ("TMPDIR", self.root.join("tmp").into_os_string()),
            ("PATH", "/usr/bin:/bin".into()),
            ("PASSED", "yes".into()),
            ("KEPT", "no".into()),
        ];
        CreateOptions {
            cwd: self.root.join("project"),
            policy,
            environment: variables.into_iter().map(|(name, value)| (name.into(), value)).collect(),
            hooks: Default::default(),
            provider_options: json!({
                "seatbelt": { "program": self.root.join("sandbox-exec"), "log": self.root.join("log") }
            })
            .into(),
        }
    }

    pub(crate) fn fence(&self) -> Seatbelt {
        Seatbelt::prepare(self.options()).unwrap()
    }

    fn run(&self, request: &ExecRequest) -> Result<ExecResult> {
        self.fence().run(request, Streams::Capture, &|_| ())
    }

    pub(crate) fn shell(&self, text: &str) -> ExecResult {
        self.run(&ExecRequest::shell(text)).unwrap()
    }

    fn written(&self, name: &str) -> String {
        std::fs::read_to_string(self.root.join(name)).unwrap()
    }

    /// The path as the kernel of a Mac sees it, where /tmp and /var are links.
    pub(crate) fn seen(&self, path: &str) -> String {
        let path = self.root.join(path).display().to_string();
        if path.starts_with("/tmp/") || path.starts_with("/var/") { format!("/private{path}") } else { path }
    }

    /// What is left of a sandbox on the host.
    fn left(&self) -> usize {
        self.root.join("tmp").read_dir().unwrap().count()
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn the_profile_is_private_and_holds_the_policy() {
    let place = Place::new();
    let result = place.shell("true");
    assert_eq!(result.exit_code, 0, "{}", text(&result.stderr));
    assert_eq!(place.written("modes"), "600 -rw-------\n700 drwx------\n");
    let profile = place.written("profile.sb");
    assert!(profile.starts_with("(version 1)\n(deny default"), "{profile}");
    for path in ["project", "home/.ssh"] {
        assert!(profile.contains(&format!("(subpath \"{}\")", place.seen(path))), "{path}");
    }
    assert!(profile.contains("/tmp/ringfence-"), "the sandbox's own directory");
    assert_eq!(place.left(), 0);
}

#[test]
fn the_command_arrives_word_by_word() {
    let place = Place::new();
    let words = ["printf", "%s|", "a b", "\"; touch evil; \"", "$(id)", "*", ""];
    let result = place.run(&ExecRequest::argv(words)).unwrap();
    assert_eq!(text(&result.stdout), "a b|\"; touch evil; \"|$(id)|*||");
    assert!(place.written("argv").starts_with("/bin/bash\n-p\n-c\n"));
}

#[test]
fn bytes_and_exit_codes_come_through() {
    let place = Place::new();
    let bytes: Vec<u8> = (0..=255).cycle().take(300_000).collect();
    let mut request = ExecRequest::shell("cat; printf '\\377e' >&2; exit 7");
    request.stdin = Stdin::Bytes(bytes.clone());
    let result = place.run(&request).unwrap();
    assert_eq!(result.exit_code, 7);
    assert!(result.stdout == bytes);
    assert_eq!(result.stderr, b"\xffe");
    let killed = place.shell("kill -9 $$");
    assert_eq!((killed.exit_code, killed.signal), (137, Some(9)));
    assert_eq!(place.shell("true < /dev/stdin; cat").stdout, b"", "no input unless some is given");
}

#[test]
fn output_is_capped_and_streamed() {
    let place = Place::new();
    let mut options = place.options();
    options.policy.limits.max_output_bytes = Some(1000);
    let streamed = Mutex::new(0);
    let count = |event: ExecEvent| {
        if let ExecEvent::Stdout(bytes) = event {
            *streamed.lock().unwrap() += bytes.len();
        }
    };
    let fence = Seatbelt::prepare(options).unwrap();
    let result =
        fence.run(&ExecRequest::shell("head -c 100000 /dev/zero"), Streams::Capture, &count).unwrap();
    assert!(result.truncated && result.stdout.len() < 1100);
    assert_eq!(*streamed.lock().unwrap(), 100_000);
    assert_eq!(result.violations[0].resource, "output");
}

#[test]
fn the_environment_is_clean_and_home_is_the_sandboxs_own() {
    let place = Place::new();
    let mut request = ExecRequest::shell("env; stat -c %a \"$HOME\" \"$TMPDIR\"; ls -A \"$HOME\"");
    request.env = BTreeMap::from([
        ("CALL".to_owned(), "1".to_owned()),
        ("DYLD_INSERT_LIBRARIES".to_owned(), "/evil.dylib".to_owned()),
        ("MallocLogFile".to_owned(), "/evil".to_owned()),
    ]);
    let output = text(&place.run(&request).unwrap().stdout);
    for line in ["PASSED=yes", "CALL=1", "RINGFENCE=1"] {
        assert!(output.lines().any(|found| found == line), "{line} in {output}");
    }
    for name in ["KEPT", "DYLD_", "Malloc", "id_rsa", ".ssh"] {
        assert!(!output.contains(name), "{name} in {output}");
    }
    let own = format!("HOME={}/tmp/ringfence-", place.root.display());
    assert!(output.lines().any(|line| line.starts_with(&own) && line.ends_with("/home")), "{output}");
    assert!(output.contains("\n700\n700\n"), "{output}");
    assert_eq!(place.left(), 0);
}

#[test]
fn functions_of_the_environment_do_not_replace_the_limits() {
    let place = Place::new();
    let mut options = place.options();
    options.policy.limits.max_open_files = Some(33);
    let fence = Seatbelt::prepare(options).unwrap();
    let mut request = ExecRequest::argv(["sh", "-c", "ulimit -n"]);
    request.env = BTreeMap::from([
        ("BASH_FUNC_ulimit%%".to_owned(), "() { :; }".to_owned()),
        ("BASH_ENV".to_owned(), "/nowhere".to_owned()),
        ("SHELLOPTS".to_owned(), "noexec".to_owned()),
    ]);
    let result = fence.run(&request, Streams::Capture, &|_| ()).unwrap();
    assert_eq!(text(&result.stdout), "33\n", "{}", text(&result.stderr));
}

#[test]
fn a_timeout_ends_the_whole_group() {
    let place = Place::new();
    let mut request = ExecRequest::shell("trap '' TERM; (sleep 60; touch late) & echo $! > child; sleep 60");
    request.timeout_ms = Some(300);
    let started = Instant::now();
    let result = place.run(&request).unwrap();
    assert!(result.timed_out);
    assert_eq!(result.exit_code, 124);
    assert!(started.elapsed() < Duration::from_secs(10));
    assert!(result.violations.iter().any(|violation| violation.resource == "time"));
    let child = place.written("project/child");
    assert!(!Path::new("/proc").join(child.trim()).join("exe").exists(), "{child} still runs");
    assert_eq!(place.left(), 0);
}

#[test]
fn a_polite_command_ends_by_itself_at_its_timeout() {
    let place = Place::new();
    let mut request = ExecRequest::shell("trap 'echo bye; exit 3' TERM; while :; do sleep 0.01; done");
    request.timeout_ms = Some(300);
    let result = place.run(&request).unwrap();
    assert_eq!(text(&result.stdout), "bye\n");
    assert_eq!(result.exit_code, 124);
}

#[test]
fn background_processes_end_with_the_command() {
    let place = Place::new();
    let result = place.shell("sleep 60 & echo $!");
    let child = text(&result.stdout);
    assert!(result.duration_ms < 10_000.0);
    assert!(!Path::new("/proc").join(child.trim()).join("exe").exists(), "{child} still runs");
}

#[test]
fn a_process_that_gets_away_does_not_hold_the_result() {
    let place = Place::new();
    let result = place.shell("setsid sleep 5 & echo done");
    assert_eq!(text(&result.stdout), "done\n");
    assert!(result.duration_ms < 4000.0, "{}", result.duration_ms);
}

#[test]
fn nobody_sits_at_the_terminal_of_a_command_without_one() {
    let place = Place::new();
    let asked =
        "exec 3<>/dev/tty; printf 'Password: ' >&3; read -r word <&3; echo \"rc $? $word\"; ps -o sid= -p $$";
    let mut request = ExecRequest::shell(asked);
    request.timeout_ms = Some(20_000);
    let result = place.run(&request).unwrap();
    assert!(text(&result.stdout).starts_with("rc 1 \n"), "{}", text(&result.stdout));
    // Asked of a program, as inside: the number is 0 where our session began outside a container.
    let mut ps = std::process::Command::new("ps");
    let ours = ps.args(["-o", "sid=", "-p"]).arg(std::process::id().to_string()).output().unwrap();
    let session = String::from_utf8(ours.stdout).unwrap();
    assert_ne!(text(&result.stdout).lines().last().unwrap().trim(), session.trim());
}

#[test]
fn descriptors_of_the_host_stay_outside() {
    let place = Place::new();
    let opened = std::fs::File::open(place.root.join("home/.ssh/id")).unwrap();
    let leaked = rustix::io::fcntl_dupfd_cloexec(&opened, 40).unwrap();
    rustix::io::fcntl_setfd(&leaked, rustix::io::FdFlags::empty()).unwrap();
    let result = place.shell("cat <&40");
    assert_ne!(result.exit_code, 0);
    assert_eq!(text(&result.stdout), "");
}

#[test]
fn inherited_streams_are_handed_on_as_they_are() {
    let place = Place::new();
    let (input, mut feed) = std::io::pipe().unwrap();
    let (mut collect, output) = std::io::pipe().unwrap();
    feed.write_all(b"given").unwrap();
    drop(feed);
    let streams = Streams::Inherit([input.as_fd(), output.as_fd(), output.as_fd()]);
    let result = place.fence().run(&ExecRequest::shell("cat; echo e >&2"), streams, &|_| ()).unwrap();
    drop(output);
    let mut said = String::new();
    collect.read_to_string(&mut said).unwrap();
    assert_eq!((said.as_str(), result.exit_code, result.stdout.len()), ("givene\n", 0, 0));
}

#[test]
fn a_terminal_is_connected_in_both_directions() {
    let place = Place::new();
    let (ours, theirs) = pty_process::blocking::open().unwrap();
    let size = rustix::termios::Winsize { ws_row: 11, ws_col: 77, ws_xpixel: 0, ws_ypixel: 0 };
    rustix::termios::tcsetwinsize(&ours, size).unwrap();
    (&ours).write_all(b"hello\r").unwrap();
    let terminal = CallersTerminal {
        input: theirs.as_fd(),
        output: theirs.as_fd(),
        keyboard: Keyboard::Keys,
        given: [None; 3],
        resized: None,
        pause: None,
        asides: None,
    };
    let command = "stty size; read -r line; echo \"got $line\"; test -t 0 && test -t 1 && exit 5";
    let result =
        place.fence().run(&ExecRequest::shell(command), Streams::Terminal(terminal), &|_| ()).unwrap();
    assert_eq!(result.exit_code, 5);
    let mut said = vec![0; 4096];
    let length = (&ours).read(&mut said).unwrap();
    let said = text(&said[..length]);
    assert!(said.contains("11 77") && said.contains("got hello"), "{said:?}");
}

#[test]
fn what_cannot_be_executed_is_said_as_a_shell_says_it() {
    let place = Place::new();
    let missing = place.run(&ExecRequest::argv(["no-such-program"])).unwrap_err();
    assert_eq!(missing.kind, ErrorKind::NotFound);
    std::fs::write(place.root.join("project/plain"), "").unwrap();
    let plain = place.run(&ExecRequest::argv(["./plain"])).unwrap_err();
    assert_eq!(plain.kind, ErrorKind::SpawnFailed);
    assert_eq!(place.run(&ExecRequest::new(Command::Argv(vec![]))).unwrap_err().kind, ErrorKind::Validation);
    assert_eq!(place.left(), 0);
}

#[test]
fn a_directory_that_may_not_be_seen_is_no_place_to_start_in() {
    let place = Place::new();
    let mut request = ExecRequest::shell("true");
    request.cwd = Some(place.root.join("home/.ssh"));
    assert_eq!(place.run(&request).unwrap_err().kind, ErrorKind::Permission);
    assert_eq!(place.left(), 0);
}

#[test]
fn a_tool_that_fails_denies_the_run_and_leaves_nothing() {
    let place = Place::new();
    place.script("sandbox-exec", "echo 'sandbox-exec: sandbox_apply: Operation not permitted' >&2; exit 71");
    let error = place.run(&ExecRequest::shell("true")).unwrap_err();
    assert_eq!(error.kind, ErrorKind::SandboxDenied);
    assert!(error.message.contains("sandbox_apply: Operation not permitted"), "{error}");
    // Nor is a run without a fence taken for one when the tool says nothing at all.
    place.script("sandbox-exec", "exit 0");
    assert_eq!(place.run(&ExecRequest::shell("true")).unwrap_err().kind, ErrorKind::SandboxDenied);
    assert_eq!(place.left(), 0);
}

#[test]
fn a_command_that_talks_like_the_tool_is_not_the_tool() {
    let place = Place::new();
    let result = place.shell("echo 'sandbox-exec: sandbox_apply: no' >&2; exit 71");
    assert_eq!(result.exit_code, 71);
    assert!(!result.blocked);
}

#[test]
fn a_tool_that_cannot_be_started_leaves_nothing() {
    let place = Place::new();
    let fence = place.fence();
    std::fs::set_permissions(place.root.join("sandbox-exec"), std::fs::Permissions::from_mode(0o600))
        .unwrap();
    let error = fence.run(&ExecRequest::shell("true"), Streams::Capture, &|_| ()).unwrap_err();
    assert_eq!(error.kind, ErrorKind::SandboxDenied);
    assert_eq!(place.left(), 0);
}

#[test]
fn without_the_tool_nothing_runs() {
    let place = Place::new();
    let mut options = place.options();
    options.provider_options = ProviderOptions::None;
    let error = Seatbelt::prepare(options).unwrap_err();
    assert_eq!(error.kind, ErrorKind::SandboxDenied);
    assert!(error.message.contains("/usr/bin/sandbox-exec is missing"), "{error}");
}

fn with_profile(options: ProviderOptions, profile: &str) -> ProviderOptions {
    let mut local = options.local().unwrap();
    local.seatbelt.profile = Some(profile.to_owned());
    local.into()
}

#[test]
fn a_given_profile_is_handed_on_as_it_is() {
    let place = Place::new();
    let profile = "(version 1)\n(allow default)\n";
    let mut options = place.options();
    options.provider_options = with_profile(options.provider_options, profile);
    let fence = Seatbelt::prepare(options).unwrap();
    let result = fence.run(&ExecRequest::shell("exit 4"), Streams::Capture, &|_| ()).unwrap();
    assert_eq!(result.exit_code, 4);
    assert_eq!(place.written("profile.sb"), profile);
    assert!(result.sandbox.degraded.iter().any(|lost| lost.text.contains("written by hand")));
    let mut options = place.options();
    options.provider_options = with_profile(options.provider_options, " ");
    assert_eq!(Seatbelt::prepare(options).unwrap_err().kind, ErrorKind::InvalidConfig);
}

#[test]
fn what_is_not_promised_is_said() {
    let place = Place::new();
    let mut options = place.options();
    options.policy.limits = Limits { max_memory_bytes: Some(1 << 30), ..Limits::development() };
    let fence = Seatbelt::prepare(options).unwrap();
    let request = ExecRequest::shell("true");
    let sandbox = fence.run_asking(&request, Streams::Capture, &|_| (), None).unwrap().sandbox;
    assert_eq!(sandbox.adapter, "local/seatbelt");
    assert_eq!(sandbox.layers, [Layer::Seatbelt, Layer::Rlimits]);
    assert_eq!((sandbox.active, sandbox.effective), (true, PolicyMode::Restricted));
    for lost in [
        "no private mounts",
        "no process namespace",
        "nobody is asked",
        "memory is not limited",
        "number of processes is not limited",
        "log cannot be read",
        "sandbox-exec, which may do anything",
    ] {
        assert!(
            sandbox.degraded.iter().any(|degraded| degraded.text.contains(lost)),
            "{lost}: {:?}",
            sandbox.degraded
        );
    }
}

#[test]
fn what_no_profile_can_hold_is_refused_before_anything_runs() {
    let place = Place::new();
    let mut options = place.options();
    options.policy.network.allow_network = true;
    assert_eq!(Seatbelt::prepare(options).unwrap_err().kind, ErrorKind::SandboxDenied);
    let mut options = place.options();
    options.policy.filesystem.deny.push(PathRule::built_in("/x\ny"));
    assert_eq!(Seatbelt::prepare(options).unwrap_err().kind, ErrorKind::Unsupported);
}
