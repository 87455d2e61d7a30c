//! Shells that share a sandbox, background commands, and commands on a terminal.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ringfence_fence::CreateOptions;
use ringfence_fence::jobs::{JobState, TerminalSize};
use ringfence_local::fence::LocalFence;
use ringfence_local::shell::{JobOptions, Jobs, SharedSandbox, Shell, ShellOptions};
use ringfence_model::{DegradationCode, ExecRequest, ExecResult, PathRule, Policy, Stdin};

use super::shell_protocol::stdout;

struct House {
    _temp: tempfile::TempDir,
    sandbox: SharedSandbox,
}

impl House {
    /// None where no fence can start.
    fn new(options: serde_json::Value) -> Option<Self> {
        let temp = tempfile::tempdir().unwrap();
        let mut policy = Policy::default();
        policy.filesystem.allow_write.push(PathRule::built_in(temp.path()));
        let native = LocalFence::prepare(CreateOptions {
            environment: std::env::vars_os().collect(),
            provider_options: options.into(),
            ..CreateOptions::new(temp.path().to_path_buf(), policy)
        });
        let env = BTreeMap::from([("HOUSE".to_owned(), "shared".to_owned())]);
        let started = native.map(|native| SharedSandbox::new(Arc::new(native), &env));
        let started =
            started.and_then(|sandbox| Shell::start_in(&sandbox, ShellOptions::default()).map(|_| sandbox));
        match started {
            Ok(sandbox) => Some(Self { _temp: temp, sandbox }),
            Err(error) => {
                ringfence_testing::lacks(ringfence_testing::FENCE, &error.chain());
                None
            }
        }
    }

    fn shell(&self) -> Shell {
        Shell::start_in(&self.sandbox, ShellOptions::default()).unwrap()
    }

    fn jobs(&self) -> Jobs {
        Jobs::new(self.sandbox.clone())
    }
}

fn run(shell: &Shell, text: &str) -> ExecResult {
    let mut request = ExecRequest::shell(text);
    request.timeout_ms = Some(60_000);
    let result = shell.execute(&request, &|_| ()).unwrap();
    assert!(!result.timed_out, "{text}: {result:?}");
    result
}

/// Reads until the output contains `wanted`.
#[track_caller]
fn until(jobs: &Jobs, id: &str, wanted: &str) -> String {
    let deadline = Instant::now() + Duration::from_secs(60);
    let mut text = String::new();
    let mut offset = 0;
    while !text.contains(wanted) {
        let piece = jobs.read(id, offset, 1 << 20).unwrap();
        assert_eq!(piece.offset, offset);
        offset = piece.next_offset();
        text += &String::from_utf8_lossy(&piece.bytes);
        assert!(Instant::now() < deadline, "{wanted:?} did not come: {text:?}, {:?}", piece.job);
        std::thread::sleep(Duration::from_millis(5));
    }
    text
}

fn shares_and_survives(options: serde_json::Value) {
    let Some(house) = House::new(options) else { return };
    let (one, two) = (house.shell(), house.shell());
    run(&one, "X=1; cd /usr; echo from one > $HOME/note; sleep 1000 & echo $! > $HOME/pid");
    let seen = run(
        &two,
        "echo \"[$X]\" $HOUSE; cat ~/note; kill -0 $(cat ~/pid) && echo visible; kill $(cat ~/pid); basename $PWD",
    );
    assert!(stdout(&seen).starts_with("[] shared\nfrom one\nvisible\n"), "{seen:?}");
    assert_eq!(stdout(&run(&one, "echo $X $PWD")), "1 /usr\n");
    // The end of one is not the end of the other, but of what it started.
    let gone = run(&one, "setsid sleep 1000 & exit 4");
    assert_eq!((gone.exit_code, gone.restarted), (4, true), "{gone:?}");
    assert_eq!(
        stdout(&run(&two, "cat ~/note; kill -0 $(cat ~/pid) 2>/dev/null || echo gone")),
        "from one\ngone\n"
    );
    assert_eq!(stdout(&run(&one, "echo \"[$X]\"; cat ~/note")), "[]\nfrom one\n");
    // When all of it is gone, it is built anew.
    house.sandbox.close();
    let anew = run(&two, "cat ~/note 2>/dev/null || echo fresh");
    assert!(anew.restarted && stdout(&anew) == "fresh\n", "{anew:?}");
}

#[test]
fn shells_share_a_sandbox() {
    shares_and_survives(serde_json::json!({}));
}

#[test]
fn shells_share_a_sandbox_without_namespaces() {
    shares_and_survives(serde_json::json!({ "launcher": "landlock" }));
}

#[test]
fn what_is_refused_is_refused_in_every_shell() {
    let Some(house) = House::new(serde_json::json!({})) else { return };
    for shell in [house.shell(), house.shell()] {
        let result = run(&shell, "echo x > /usr/ringfence-was-here");
        assert!(result.exit_code != 0, "{result:?}");
        // An ordinary user could not have written there anyway, and then nothing was refused by the fence.
        let refused_by_the_fence = !result.violations.is_empty();
        assert_eq!(refused_by_the_fence, rustix::process::geteuid().is_root(), "{result:?}");
        assert!(!std::path::Path::new("/usr/ringfence-was-here").exists());
    }
}

#[test]
fn a_job_is_polled_written_to_and_signalled() {
    let Some(house) = House::new(serde_json::json!({})) else { return };
    let (shell, jobs) = (house.shell(), house.jobs());
    run(&shell, "mkdir -p d; cd d; export A=exported; greet() { echo \"hello $1\"; }; alias g=greet");
    let job = jobs
        .start(
            &ExecRequest::shell(
                "g $A; basename $PWD; while read line; do greet \"$line\"; done; echo end >&2; exit 5",
            ),
            &JobOptions { like: Some(&shell) },
        )
        .unwrap();
    assert_eq!(job.state, JobState::Running);
    until(&jobs, &job.id, "hello exported\nd\n");
    // The shell is free meanwhile.
    assert_eq!(stdout(&run(&shell, "echo free")), "free\n");
    jobs.write(&job.id, b"one\ntwo\n").unwrap();
    until(&jobs, &job.id, "hello one\nhello two\n");
    assert_eq!(jobs.list().len(), 1);
    jobs.close_input(&job.id).unwrap();
    let ended = jobs.wait(&job.id).unwrap();
    assert_eq!(ended.state, JobState::Ended { exit_code: 5, signal: None });
    let all = jobs.read(&job.id, 0, 1 << 20).unwrap();
    assert_eq!(String::from_utf8_lossy(&all.bytes), "hello exported\nd\nhello one\nhello two\nend\n");
    assert_eq!(jobs.read(&job.id, 6, 8).unwrap().bytes, b"exported");
    assert_eq!(all.next_offset(), ended.output_bytes);
    assert!(jobs.write(&job.id, b"x").is_err() && jobs.read("job-77", 0, 1).is_err());

    let sleeper = jobs.start(&ExecRequest::shell("echo up; sleep 1000"), &JobOptions::default()).unwrap();
    until(&jobs, &sleeper.id, "up");
    jobs.signal(&sleeper.id, libc::SIGTERM).unwrap();
    let JobState::Ended { exit_code, .. } = jobs.wait(&sleeper.id).unwrap().state else { unreachable!() };
    assert_eq!(exit_code, 143);

    let mut fed = ExecRequest::shell("wc -c; sleep 1000");
    fed.stdin = Stdin::Bytes(vec![b'x'; 1000]);
    fed.timeout_ms = Some(500);
    let fed = jobs.start(&fed, &JobOptions::default()).unwrap();
    assert_eq!(jobs.wait(&fed.id).unwrap().state, JobState::Ended { exit_code: 124, signal: None });
    assert_eq!(jobs.read(&fed.id, 0, 100).unwrap().bytes, b"1000\n");
}

#[test]
fn a_terminal_has_input_size_and_signals() {
    let Some(house) = House::new(serde_json::json!({})) else { return };
    let jobs = house.jobs();
    let heard = Mutex::new(Vec::new());
    let mut request = ExecRequest::shell(
        "test -t 0 && test -t 1 && test -t 2 && echo terminal; stty size; trap 'stty size' WINCH; \
         read -r line; echo \"got $line\"; read -r line < /dev/tty; echo \"tty $line\"; sleep 1000; echo never",
    );
    request.tty = true;
    request.size = Some(TerminalSize { rows: 33, columns: 101 });
    let job = jobs.start(&request, &JobOptions::default()).unwrap();
    until(&jobs, &job.id, "terminal\r\n33 101\r\n");
    jobs.resize(&job.id, TerminalSize { rows: 40, columns: 120 }).unwrap();
    jobs.write(&job.id, b"typed\n").unwrap();
    until(&jobs, &job.id, "got typed\r\n");
    jobs.write(&job.id, b"again\n").unwrap();
    let all = until(&jobs, &job.id, "tty again\r\n");
    assert!(all.contains("40 120\r\n"), "{all}");
    // Ctrl-C is the terminal's.
    jobs.write(&job.id, b"\x03").unwrap();
    let ended = jobs.follow(&job.id, &|bytes| heard.lock().unwrap().extend(bytes)).unwrap();
    let JobState::Ended { exit_code, .. } = ended.state else { unreachable!() };
    assert_eq!(exit_code, 130);
    assert_eq!(heard.lock().unwrap().as_slice(), jobs.read(&job.id, 0, 1 << 20).unwrap().bytes);
    assert!(!String::from_utf8_lossy(&heard.lock().unwrap()).contains("never"));
}

#[test]
fn nothing_of_a_shared_sandbox_is_left_behind() {
    let Some(house) = House::new(serde_json::json!({})) else { return };
    let mark = format!("sleep 97{}", std::process::id());
    let (shell, jobs) = (house.shell(), house.jobs());
    run(&shell, &format!("{mark} & setsid {mark} & sleep 0.1"));
    let job =
        jobs.start(&ExecRequest::shell(format!("echo up; {mark}; true")), &JobOptions::default()).unwrap();
    until(&jobs, &job.id, "up");
    let running = || {
        let listed = std::process::Command::new("ps").args(["-eo", "args"]).output().unwrap();
        String::from_utf8_lossy(&listed.stdout).lines().filter(|line| *line == mark).count()
    };
    let deadline = Instant::now() + Duration::from_secs(30);
    while running() != 3 {
        assert!(Instant::now() < deadline, "{} run", running());
        std::thread::sleep(Duration::from_millis(10));
    }
    shell.dispose();
    assert_eq!(running(), 1);
    house.sandbox.close();
    assert_eq!(running(), 0);
}

#[test]
fn without_namespaces_a_shared_sandbox_takes_its_directories_with_it() {
    let Some(house) = House::new(serde_json::json!({ "launcher": "landlock" })) else { return };
    let shell = house.shell();
    let result = shell.execute(&ExecRequest::shell("touch ~/kept && echo $HOME"), &|_| ()).unwrap();
    let home = stdout(&result).trim_end().to_owned();
    assert!(std::path::Path::new(&home).join("kept").exists(), "{result:?}");
    shell.dispose();
    house.sandbox.close();
    // The one that keeps it is confined by then; the directory goes before it does.
    assert!(!std::path::Path::new(&home).exists(), "{home} is still there");
}

#[test]
fn what_is_so_in_every_result_is_said_in_the_first() {
    let Some(house) = House::new(serde_json::json!({ "precision": "writes" })) else { return };
    let (one, other) = (house.shell(), house.shell());
    let told = [run(&one, "true"), run(&one, "true"), run(&other, "true")].map(|result| {
        let codes = result.sandbox.degraded.iter().map(|lost| lost.code);
        codes.filter(|code| *code == DegradationCode::NoTripwire).count()
    });
    let wanted =
        usize::from(one.assurance().degraded.iter().any(|lost| lost.code == DegradationCode::NoTripwire));
    assert_eq!(told, [wanted, 0, 0]);
}
