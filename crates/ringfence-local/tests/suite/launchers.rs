//! Every launcher, put to the same suite, and what is particular to each.

use ringfence_fence::CreateOptions;
use ringfence_fence::conformance::{self, Contender, cases};
use ringfence_local::fence::{LocalFence, Streams};
use ringfence_model::{ExecRequest, ExecResult, Result};
use serde_json::json;

pub(super) const STAGE: &str = env!("CARGO_BIN_EXE_ringfence-stage");

fn by(launcher: &str, mut options: CreateOptions, request: &ExecRequest) -> Result<ExecResult> {
    options.provider_options = json!({ "launcher": launcher, "stage": STAGE }).into();
    LocalFence::prepare(options)?.run(request, Streams::Capture, &|_| ())
}

fn options(project: &std::path::Path, provider: serde_json::Value) -> CreateOptions {
    let mut policy = ringfence_model::Policy::default();
    policy.filesystem.allow_write.push(ringfence_model::PathRule::built_in(project));
    policy.filesystem.deny.push(ringfence_model::PathRule::built_in("**/.env"));
    CreateOptions {
        cwd: project.to_owned(),
        policy,
        environment: std::env::vars_os().collect(),
        provider_options: provider.into(),
        hooks: Default::default(),
    }
}

fn project() -> tempfile::TempDir {
    tempfile::Builder::new().prefix("ringfence-launchers-").tempdir().unwrap()
}

const ALL: [&str; 4] = ["native", "bwrap", "landlock", "network-only"];

#[test]
fn each_launcher_says_who_it_is_and_passes_bytes_and_codes() {
    let project = project();
    for launcher in ALL {
        let mut request = ExecRequest::shell("cat; printf 'e\\377' >&2; exit 42");
        request.stdin = ringfence_model::Stdin::Bytes(vec![0, 255, b'\n', 7]);
        let result = by(launcher, options(project.path(), json!(null)), &request).unwrap();
        assert_eq!(result.sandbox.adapter, format!("local/{launcher}"));
        assert_eq!(result.exit_code, 42, "{launcher}: {result:?}");
        assert_eq!(result.stdout, [0, 255, b'\n', 7], "{launcher}");
        assert_eq!(result.stderr, b"e\xff", "{launcher}");
    }
}

#[test]
fn each_launcher_ends_the_whole_tree_at_the_timeout() {
    let project = project();
    for launcher in ALL {
        let marker = format!("{}.{}", 700 + std::process::id() % 1000, launcher.len());
        let script = format!(
            "(setsid sleep {marker} &) ; trap '' TERM; sleep {marker} & sleep {marker}; sleep {marker}"
        );
        let request = ExecRequest { timeout_ms: Some(300), ..ExecRequest::shell(script) };
        let result = by(launcher, options(project.path(), json!(null)), &request).unwrap();
        assert!(result.timed_out && result.exit_code == 124, "{launcher}: {result:?}");
        let left: Vec<String> = std::fs::read_dir("/proc")
            .unwrap()
            .flatten()
            .filter_map(|entry| std::fs::read_to_string(entry.path().join("cmdline")).ok())
            .filter(|line| line.contains(&marker))
            .collect();
        assert!(left.is_empty(), "{launcher}: {left:?}");
    }
}

#[test]
fn nobody_gets_network_only_for_a_whole_fence() {
    let project = project();
    let native = LocalFence::prepare(options(project.path(), json!({ "launcher": "network-only" }))).unwrap();
    let assurance = native.assurance();
    assert_eq!(assurance.effective, ringfence_model::PolicyMode::None);
    assert_eq!(assurance.degraded[0].code, ringfence_model::DegradationCode::NetworkOnly);
    let script = "exec 3<>/dev/tcp/192.0.2.1/80 && echo reached; ip -o link 2>/dev/null | wc -l";
    let result = native.run(&ExecRequest::shell(script), Streams::Capture, &|_| ()).unwrap();
    assert!(!String::from_utf8_lossy(&result.stdout).contains("reached"), "{result:?}");
}

#[test]
fn the_strongest_launcher_is_taken_and_a_requirement_is_held_or_refused() {
    let project = project();
    let run = |provider| {
        LocalFence::prepare(options(project.path(), provider))?.run(
            &ExecRequest::argv(["true"]),
            Streams::Capture,
            &|_| (),
        )
    };
    let required = json!({ "require": ["native", "namespaces", "landlock", "supervisor", "seccomp"] });
    assert_eq!(run(required).unwrap().sandbox.adapter, "local/native");
    let refused = run(json!({ "launcher": "landlock", "require": ["mountNamespace"] })).unwrap_err();
    assert_eq!(refused.kind, ringfence_model::ErrorKind::SandboxDenied);
    assert!(refused.message.contains("mountNamespace"), "{refused}");
    let refused = run(json!({ "precision": "off", "require": ["supervisor"] })).unwrap_err();
    assert!(refused.message.contains("supervisor"), "{refused}");
}

#[test]
fn a_launcher_that_is_asked_for_and_missing_is_an_error_with_a_remedy() {
    let project = project();
    let run = |provider| {
        LocalFence::prepare(options(project.path(), provider))?.run(
            &ExecRequest::argv(["true"]),
            Streams::Capture,
            &|_| (),
        )
    };
    let error =
        run(json!({ "launcher": "bwrap", "bwrapPath": "no-such-bwrap", "stage": STAGE })).unwrap_err();
    assert_eq!(error.kind, ringfence_model::ErrorKind::SandboxDenied);
    assert!(error.message.contains("no-such-bwrap is not installed"), "{error}");
    assert!(error.hints.iter().any(|hint| hint.contains("bubblewrap")), "{:?}", error.hints);
    let error = run(json!({ "launcher": "bwrap" })).unwrap_err();
    assert!(error.message.contains("providerOptions.stage"), "{error}");
    // One that fails says so in its own words.
    let error =
        run(json!({ "launcher": "bwrap", "bwrapPath": "/usr/bin/false", "stage": STAGE })).unwrap_err();
    assert!(error.message.contains("/usr/bin/false did not start the sandbox"), "{error}");
}

#[test]
fn the_landlock_launcher_leaves_nothing_on_the_host() {
    let project = project();
    let room = tempfile::tempdir().unwrap();
    let mut options = options(project.path(), json!(null));
    options.environment.insert("TMPDIR".into(), room.path().into());
    let script =
        "mkdir -p ~/a/b; chmod 000 ~/a/b; touch $TMPDIR/x; ln -s / ~/l; echo $HOME; ls -A $HOME | wc -l";
    let result = by("landlock", options, &ExecRequest::shell(script)).unwrap();
    let stdout = String::from_utf8_lossy(&result.stdout);
    assert!(stdout.starts_with(room.path().to_str().unwrap()), "{result:?}");
    assert_eq!(std::fs::read_dir(room.path()).unwrap().count(), 0, "{stdout}");
    assert_eq!(std::fs::read_dir(project.path()).unwrap().count(), 0);
}

/// Where the supervisor opens files for the command, what is no plain file opens as ever.
#[test]
fn pipes_descriptors_and_proc_open_as_ever() {
    let project = project();
    let script = "mkfifo p; (sleep 0.2; echo through > p) & cat p; wait
        cat <(echo substituted); echo input | cat /dev/stdin; cat <<< here
        cat /proc/self/comm; read -r name < /proc/$$/comm; echo $name; readlink /proc/self/fd/0
        echo deleted > f; exec 3<f; rm f; cat /dev/fd/3
        timeout 0.1 cat p; rm p; mkfifo p; timeout 0.3 cat p; echo $?; cat none; cat p/x; cat '' ; head -c 1 /dev/zero | wc -c
        mkdir d; cat d; (cat < /dev/tty)
        python3 -c 'import os
for path, flags in [(\"p\", os.O_NONBLOCK), (\"d\", 0), (\"/proc/self/status\", 0)]: os.close(os.open(path, flags))
for fd in [77, 0]:
    try: os.open(\"x\", 0, dir_fd=fd)
    except OSError as e: print(e.errno)'";
    let mut said = Vec::new();
    for launcher in ALL {
        let mut request = ExecRequest::shell(script);
        request.timeout_ms = Some(60_000);
        let result = by(launcher, options(project.path(), json!(null)), &request).unwrap();
        let text =
            format!("{}{}", String::from_utf8_lossy(&result.stdout), String::from_utf8_lossy(&result.stderr));
        assert!(text.starts_with("through\nsubstituted\ninput\nhere\ncat\nbash\n"), "{launcher}: {text}");
        assert!(text.contains("deleted\n124\n1\n9\n20\n"), "{launcher}: {text}");
        for name in ["p", "d"] {
            let path = project.path().join(name);
            let _ = std::fs::remove_file(&path).or_else(|_| std::fs::remove_dir(path));
        }
        said.push(text);
    }
    for (launcher, text) in ALL.iter().zip(&said) {
        assert_eq!(text, &said[0], "{launcher}");
    }
}

#[test]
fn sockets_of_the_host_are_out_of_reach_without_namespaces_too() {
    let (project, outside) = (project(), tempfile::tempdir().unwrap());
    let inside = std::os::unix::net::UnixListener::bind(project.path().join("s")).unwrap();
    let beyond = std::os::unix::net::UnixListener::bind(outside.path().join("s")).unwrap();
    for listener in [&inside, &beyond] {
        listener.set_nonblocking(true).unwrap();
    }
    let script = format!(
        "import socket,os\n\
         for a in ['s', '{0}/s', '{0}/none']:\n\
         \x20 s=socket.socket(socket.AF_UNIX)\n\
         \x20 try: s.connect(a); s.send(b'x'); print('reached', a)\n\
         \x20 except OSError as e: print('no')\n\
         for f,t in [(socket.AF_INET, socket.SOCK_DGRAM), (socket.AF_UNIX, socket.SOCK_DGRAM)]:\n\
         \x20 try: socket.socket(f,t); print('made')\n\
         \x20 except OSError: print('no')\n\
         l=socket.socket(socket.AF_UNIX); l.bind(os.environ['TMPDIR']+'/own'); l.listen()\n\
         c=socket.socket(socket.AF_UNIX); c.connect(os.environ['TMPDIR']+'/own'); print('own')\n",
        outside.path().display()
    );
    let request = ExecRequest::argv(["python3", "-c", script.as_str()]);
    let result = by("landlock", options(project.path(), json!(null)), &request).unwrap();
    assert_eq!(String::from_utf8_lossy(&result.stdout), "no\nno\nno\nno\nno\nown\n", "{result:?}");
    for listener in [inside, beyond] {
        if let Ok((mut reached, _)) = listener.accept() {
            let mut bytes = Vec::new();
            reached.set_nonblocking(false).unwrap();
            let _ = std::io::Read::read_to_end(&mut reached, &mut bytes);
            assert!(bytes.is_empty(), "a byte came out of the sandbox");
        }
    }
}

/// What a launcher does not promise, and why.
type Excuses = Vec<(&'static str, &'static str)>;

/// What this machine does not let any launcher promise.
pub(super) fn of_the_machine() -> Excuses {
    use ringfence_linux::cgroup::{Cgroup, Support};
    let mut excuses = Excuses::new();
    let probe = Cgroup::probe();
    if !matches!(probe.memory, Support::Yes { .. }) {
        let why = "this user has no control group: memory is limited for each process, which nobody reports";
        excuses
            .extend([("limit/memory-is-of-all-together", why), ("limit/memory-covers-private-files", why)]);
    }
    excuses
}

pub(super) fn of_landlock() -> Excuses {
    let mut excuses = vec![
        (
            "write/tmp-is-private",
            "without mounts /tmp is the host's, and refused; TMPDIR leads to a private one",
        ),
        ("environment/basics", "without mounts HOME leads to a private directory elsewhere"),
        (
            "protect/home-file-that-does-not-exist",
            "the private home is removed at the end, so no name in it is worth protecting",
        ),
        ("network/own-loopback-works", "without a network namespace there is no loopback of its own"),
        ("network/only-loopback", "without a network namespace the host's interfaces can be listed"),
    ];
    if !rustix::process::geteuid().is_root() {
        let why = "an ordinary user cannot empty the bounding set; no_new_privs makes it mean nothing";
        excuses.push(("rights/no-capabilities", why));
    }
    excuses
}

pub(super) fn conforms(name: &str, run: conformance::RunOnce<'_>, own: Excuses) {
    let base = tempfile::Builder::new().prefix("ringfence-conformance-").tempdir().unwrap();
    let only = std::env::var("CONFORMANCE").unwrap_or_default();
    let environment = std::env::vars_os().collect();
    let excused = [of_the_machine(), own].concat();
    let contenders = [Contender { name, run, excused: &excused }];
    let matrix = conformance::run(&contenders, &cases::all(), base.path(), &environment, &only);
    println!("{matrix}");
    matrix.must_be_green();
}

#[test]
fn the_bwrap_launcher_conforms() {
    conforms("bwrap", &|options, request| by("bwrap", options, request), vec![]);
}

#[test]
fn the_landlock_launcher_conforms() {
    conforms("landlock", &|options, request| by("landlock", options, request), of_landlock());
}
