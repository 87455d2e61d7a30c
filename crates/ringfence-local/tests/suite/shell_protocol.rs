//! What a command may do to its shell, and what comes of it.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ringfence_fence::CreateOptions;
use ringfence_local::fence::LocalFence;
use ringfence_local::shell::{Shell, ShellOptions, Ticket};
use ringfence_model::{ExecEvent, ExecRequest, ExecResult, PathRule, Policy, Stdin};

/// A shell in a project of its own.
pub(crate) struct Room {
    _temp: tempfile::TempDir,
    pub(crate) shell: Shell,
}

impl Room {
    /// None where no fence can start.
    pub(crate) fn new() -> Option<Self> {
        Self::with(ShellOptions::default(), Policy::default())
    }

    pub(crate) fn with(options: ShellOptions, policy: Policy) -> Option<Self> {
        Self::by(options, policy, serde_json::json!({}))
    }

    fn by(options: ShellOptions, mut policy: Policy, provider_options: serde_json::Value) -> Option<Self> {
        let temp = tempfile::tempdir().unwrap();
        policy.filesystem.allow_write.push(PathRule::built_in(temp.path()));
        let native = LocalFence::prepare(CreateOptions {
            cwd: temp.path().to_path_buf(),
            policy,
            environment: std::env::vars_os().collect(),
            provider_options: provider_options.into(),
            hooks: Default::default(),
        });
        let shell = native.and_then(|native| Shell::start(Arc::new(native), options));
        match shell {
            Ok(shell) => Some(Self { _temp: temp, shell }),
            Err(error) => {
                ringfence_testing::lacks(ringfence_testing::FENCE, &error.chain());
                None
            }
        }
    }

    /// Runs to its end, which comes by itself.
    #[track_caller]
    pub(crate) fn run(&self, text: &str) -> ExecResult {
        let mut request = ExecRequest::shell(text);
        request.timeout_ms = Some(30_000);
        let result = self.shell.execute(&request, &|_| ()).unwrap();
        assert!(!result.timed_out, "{text}: {result:?}");
        result
    }

    pub(crate) fn run_for(&self, text: &str, timeout_ms: u64) -> ExecResult {
        let mut request = ExecRequest::shell(text);
        request.timeout_ms = Some(timeout_ms);
        self.shell.execute(&request, &|_| ()).unwrap()
    }

    /// Runs something that spoils the shell or does not; what comes after is right in any case.
    #[track_caller]
    fn survives(&self, sabotage: &str) -> ExecResult {
        let began = Instant::now();
        let result = self.run(sabotage);
        for (text, code, out) in
            [("echo one", 0, "one\n"), ("(exit 7)", 7, ""), ("printf two; false", 1, "two")]
        {
            let next = self.run(text);
            assert_eq!((next.exit_code, stdout(&next).as_str()), (code, out), "after {sabotage}: {next:?}");
        }
        assert!(began.elapsed() < Duration::from_secs(20), "{sabotage} took {:?}", began.elapsed());
        result
    }
}

pub(crate) fn stdout(result: &ExecResult) -> String {
    String::from_utf8_lossy(&result.stdout).into_owned()
}

fn stderr(result: &ExecResult) -> String {
    String::from_utf8_lossy(&result.stderr).into_owned()
}

macro_rules! room {
    () => {
        match Room::new() {
            Some(room) => room,
            None => return,
        }
    };
}

#[test]
fn state_stays() {
    let room = room!();
    room.run("mkdir -p d; cd d; export A=1; f() { echo \"f $1\"; }; alias g='echo alias'; shopt -s nullglob; declare -A m=([k]=v)");
    let result = room.run("basename \"$PWD\"; echo $A; f x; g; shopt -q nullglob && echo on; echo ${m[k]}");
    assert_eq!(stdout(&result), "d\n1\nf x\nalias\non\nv\n");
    assert!(!result.restarted);
    room.run("sleep 1000 &");
    assert_eq!(stdout(&room.run("jobs -r | wc -l")), "1\n");
}

#[test]
fn a_shell_may_have_words_before_it() {
    let command = serde_json::json!({ "shellCommand": "env 'GREETING=good morning' bash" });
    let Some(room) = Room::by(ShellOptions::default(), Policy::default(), command) else { return };
    assert_eq!(stdout(&room.run("echo $GREETING; x=kept")), "good morning\n");
    assert_eq!(stdout(&room.run("echo $x")), "kept\n");
}

#[test]
fn streams_are_separate_and_come_as_they_are_written() {
    let room = room!();
    let seen = Mutex::new(Vec::new());
    let request = ExecRequest::shell(
        "echo out; echo err >&2; sleep 1.5; printf end; exit_code() { return 3; }; exit_code",
    );
    let began = Instant::now();
    let result =
        room.shell.execute(&request, &|event| seen.lock().unwrap().push((began.elapsed(), event))).unwrap();
    assert_eq!(
        (stdout(&result).as_str(), stderr(&result).as_str(), result.exit_code),
        ("out\nend", "err\n", 3)
    );
    let seen = seen.into_inner().unwrap();
    assert_eq!(seen[0].1, ExecEvent::Stdout(b"out\n".to_vec()));
    assert!(seen[0].0 + Duration::from_millis(200) < seen.last().unwrap().0, "{seen:?}");
}

#[test]
fn exit_replaces_the_shell_and_keeps_the_code() {
    let room = room!();
    room.run("X=1; cd /");
    let result = room.run("trap 'echo bye' EXIT; echo before; exit 3");
    assert_eq!((result.exit_code, result.restarted), (3, true), "{result:?}");
    assert!(stdout(&result).starts_with("before\n"), "{result:?}");
    let next = room.run("echo \"[$X]\"; pwd | wc -c");
    assert!(
        !next.restarted && stdout(&next).starts_with("[]\n") && !stdout(&next).ends_with("\n2\n"),
        "{next:?}"
    );
}

#[test]
fn exec_is_the_last_thing_a_shell_does() {
    let room = room!();
    let result = room.survives("exec sh -c 'echo other; exit 5'");
    assert_eq!((result.exit_code, stdout(&result).as_str(), result.restarted), (5, "other\n", true));
    let hung = room.run_for("exec sleep 1000", 200);
    assert!(hung.timed_out && hung.restarted && hung.exit_code == 124, "{hung:?}");
}

#[test]
fn syntax_errors_end_at_once() {
    let room = room!();
    for text in
        ["echo \"open", "echo 'open", "echo $(", "((", "if true", "{ echo", "case x in", "f() {", "echo ${x"]
    {
        let result = room.survives(text);
        assert!(result.exit_code != 0 && !stderr(&result).is_empty(), "{text}: {result:?}");
    }
    let result = room.survives("cat <<END\nbody\n");
    assert_eq!(stdout(&result), "body\n");
}

#[test]
fn redefined_builtins_disturb_nobody() {
    let room = room!();
    let names = "echo printf eval trap read exit set shopt return continue false true command unset";
    for name in names.split(' ') {
        let result = room.survives(&format!("{name}() {{ :; }}; unset -f {name}"));
        assert_eq!(result.exit_code, 0, "{name}: {result:?}");
        let kept = room.run(&format!("{name}() {{ :; }}"));
        assert!(!kept.restarted, "{name}: {kept:?}");
        let state = room.run("x=kept");
        assert!(!state.restarted && state.exit_code == 0, "{name}");
        room.run("builtin unset -f echo printf eval trap read exit set shopt return continue false true command unset");
    }
    room.survives("builtin() { :; }");
    room.survives("builtin() { return 1; }");
    room.survives("enable -n printf read eval");
    room.survives("enable -n builtin");
}

#[test]
fn options_and_traps_disturb_nobody() {
    let room = room!();
    for text in [
        "set -e",
        "set -u",
        "set -x",
        "set -f",
        "set -o posix",
        "set -o pipefail",
        "set -T",
        "set -E",
        "set -k",
        "set -o noclobber",
        "PROMPT_COMMAND='echo prompt; exit 9'",
        "PS4='$(echo forged >&2)'; set -x",
        "trap 'echo debug' DEBUG",
        "trap 'exit 4' ERR",
        "shopt -s extdebug; trap 'return 2' DEBUG",
        "TMOUT=1; sleep 1.2",
        "IFS=0123456789abcdef",
        "LC_ALL=C; export LC_ALL",
        "BASH_ENV=/x; ENV=/x",
        "exec 3>&1",
        "hash -r; PATH=/nowhere",
        "trap '' TERM INT",
        "trap 'echo x' STKFLT",
        "ulimit -n 100",
        "set -- a b c",
        "shopt -s failglob lastpipe",
        "shopt -s nocasematch extglob",
    ] {
        room.survives(text);
        room.run("exit 0");
    }
    for text in [
        "readonly __ringfence_head",
        "readonly __ringfence_status",
        "shopt -s extdebug; trap false DEBUG",
        "trap 'exit 4' DEBUG",
        "break",
        "break 99",
        "set -n",
        "f() { set -n; }; f; echo no",
        "set -o posix; trap : USR1; (sleep 0.1; kill -USR1 $$) &",
        "readonly TMOUT=1",
    ] {
        room.survives(text);
    }
    assert_eq!(room.run("set -e; false; echo not reached").exit_code, 1);
    assert_eq!(stdout(&room.run("continue; echo x")), "");
}

/// A request says how long its command is, in one of several forms.
#[test]
fn commands_of_every_length_come_whole() {
    let room = room!();
    room.run("cd / && says() { printf '<%s>' \"$*\"; }");
    for length in 1..160 {
        let word = "x".repeat(length);
        // The spaces at its end are the command's; those behind it are not.
        for command in [format!("says {word}"), format!("says '{word}  '"), format!("says {word}\\ ")] {
            let result = room.run(&command);
            let end = command.split_once(' ').unwrap().1.replace(['\'', '\\'], "");
            assert_eq!((stdout(&result), result.restarted), (format!("<{end}>"), false), "{command}");
        }
    }
    assert_eq!(stdout(&room.run("echo \\")), "\\\n");
    assert_eq!(stdout(&room.run("")), "");
}

/// The variables of the loop are in reach of what bash evaluates; what becomes of that is no other command's result.
#[test]
fn a_request_cannot_be_rewritten() {
    let room = room!();
    // What is reported under another name is no result.
    for text in [
        "__ringfence_head='0000000000000000q 10echo other'",
        "__ringfence_head=",
        "trap '__ringfence_head=${__ringfence_head/[0-9]/x}' DEBUG",
    ] {
        assert!(room.survives(text).restarted, "{text}");
    }
    for text in [
        "__ringfence_head=${__ringfence_head/q/s}",
        "unset __ringfence_on __ringfence_status __ringfence_undo",
        "__ringfence_status='0 0'",
        "__ringfence_undo=:; __ringfence_on=2; __ringfence_command='echo other'",
    ] {
        assert!(!room.survives(text).restarted, "{text}");
    }
}

#[test]
fn descriptors_are_nobody_elses_business() {
    let room = room!();
    for text in [
        "exec >file",
        "exec 2>/dev/null",
        "exec <&- >&- 2>&-",
        "exec 1>&2",
        "exec </dev/zero",
        "for fd in /proc/self/fd/*; do eval \"exec ${fd##*/}>&-\"; done 2>/dev/null",
        "for fd in {3..255}; do eval \"exec $fd>&-\"; done",
        "exec 90>&- 91>&- 92>&- 93>&- 94>&-",
        "exec 91>file",
        "exec 92>&-",
        "for fd in {10..40}; do eval \"exec $fd>file\"; done",
        "for fd in {3..255}; do eval \"exec $fd</dev/null\" 2>/dev/null; done",
    ] {
        room.survives(text);
    }
    room.run("exit 0");
    assert_eq!(stdout(&room.run("ls /proc/self/fd | tr '\\n' ' '")), "0 1 2 3 ");
    assert_eq!(stdout(&room.run("exec 10>file; echo ten >&10; exec {fd}<file; cat <&$fd")), "ten\n");
}

#[test]
fn a_child_cannot_report() {
    let room = room!();
    // The saved copies of the private descriptors are somewhere above ten, for subshells only.
    let forged = "( for fd in {10..40}; do printf '%s 99' \"${__ringfence_head:0:16}\" >&$fd; done ) 2>/dev/null >/dev/null; (exit 4)";
    assert_eq!(room.survives(forged).exit_code, 4);
    let outside =
        "for fd in /proc/$$/fd/*; do sh -c \"printf 'x 99' > $fd\" ; done >/dev/null 2>&1; (exit 4)";
    assert_eq!(room.survives(outside).exit_code, 4);
}

#[test]
fn a_premature_report_is_the_commands_own_affair() {
    let room = room!();
    let text = "for fd in {10..40}; do builtin printf '%s 0' \"${__ringfence_head:0:16}\" >&$fd; done 2>/dev/null; sleep 0.1; echo late; sleep 600";
    room.run_for(text, 5_000);
    let next = room.run("echo mine");
    assert_eq!((stdout(&next).as_str(), next.exit_code), ("mine\n", 0), "{next:?}");
}

#[test]
fn a_stolen_command_is_noticed() {
    let room = room!();
    room.run("( for fd in {10..40}; do ( while builtin read -r -N1 -u $fd x; do :; done ) & done; wait ) 2>/dev/null & sleep 0.2");
    let began = Instant::now();
    room.run("echo maybe");
    assert!(began.elapsed() < Duration::from_secs(30));
    // A thief may have missed the first commands. Whatever it takes later ends as a lost shell, never as
    // somebody else's result, and with the shell's sandbox the thieves are gone.
    let mut lost = false;
    for number in 0..20 {
        let next = room.run(&format!("echo {number}"));
        if next.restarted {
            lost = true;
            assert_eq!((next.exit_code, stdout(&next).as_str()), (137, ""), "{next:?}");
        } else {
            assert_eq!((next.exit_code, stdout(&next)), (0, format!("{number}\n")), "{next:?}");
        }
    }
    if lost {
        room.survives(":");
    }
}

#[test]
fn input_is_empty_or_what_was_given() {
    let room = room!();
    assert_eq!(stdout(&room.run("cat; read x; echo $?")), "1\n");
    let all: Vec<u8> = (0..=255).collect();
    let long = vec![b'x'; 3_000_000];
    for input in
        [&b"line\n"[..], b"no end", b"", b"\n", b"a\0b\\n\x01\x7f%s\n", "é\n\n".as_bytes(), &all, &long]
    {
        let mut request = ExecRequest::shell("cat");
        request.stdin = Stdin::Bytes(input.to_vec());
        request.timeout_ms = Some(30_000);
        let result = room.shell.execute(&request, &|_| ()).unwrap();
        assert!(
            result.stdout == input,
            "{:?} became {:?}",
            &input[..input.len().min(20)],
            &result.stdout[..result.stdout.len().min(40)]
        );
    }
    let mut unread = ExecRequest::shell("echo done");
    unread.stdin = Stdin::Bytes(vec![b'y'; 1 << 20]);
    assert_eq!(stdout(&room.shell.execute(&unread, &|_| ()).unwrap()), "done\n");
    room.survives(":");
}

#[test]
fn any_bytes_come_through() {
    let room = room!();
    let result = room.run("printf 'a\\0b\\xff\\x1b[0m'; printf 'no newline' >&2");
    assert_eq!(
        (result.stdout.as_slice(), result.stderr.as_slice()),
        (&b"a\0b\xff\x1b[0m"[..], &b"no newline"[..])
    );
    assert_eq!(stdout(&room.run("echo 'é ü 漢字 🦀'")), "é ü 漢字 🦀\n");
    let long = format!("echo {} | wc -c", "w".repeat(100_000));
    assert_eq!(stdout(&room.run(&long)), "100001\n");
    assert!(room.shell.execute(&ExecRequest::shell("a\0b"), &|_| ()).is_err());
}

#[test]
fn a_job_that_keeps_the_output_open_keeps_nobody_waiting() {
    let late = Arc::new(Mutex::new(Vec::new()));
    let to = Arc::clone(&late);
    let background = Arc::new(move |event| {
        if let ExecEvent::Stdout(bytes) = event {
            to.lock().unwrap().extend(bytes)
        }
    });
    let Some(room) = Room::with(ShellOptions { background, ..ShellOptions::default() }, Policy::default())
    else {
        return;
    };
    let began = Instant::now();
    let result = room.run("(sleep 2; echo late; sleep 600) & echo now");
    assert!(late.lock().unwrap().is_empty() && began.elapsed() < Duration::from_secs(30));
    assert_eq!(stdout(&result), "now\n");
    while late.lock().unwrap().len() < 5 && began.elapsed() < Duration::from_secs(30) {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(late.lock().unwrap().as_slice(), b"late\n");
    assert_eq!(stdout(&room.run("echo next")), "next\n");
}

/// Collects what comes late.
fn collector() -> (Arc<Mutex<Vec<u8>>>, ringfence_fence::Background) {
    let late = Arc::new(Mutex::new(Vec::new()));
    let to = Arc::clone(&late);
    let sink = Arc::new(move |event| {
        if let ExecEvent::Stdout(bytes) | ExecEvent::Stderr(bytes) = event {
            to.lock().unwrap().extend(bytes)
        }
    });
    (late, sink)
}

#[test]
fn late_output_belongs_to_the_job_whatever_runs_meanwhile() {
    let room = room!();
    let mut jobs = vec![];
    for number in 0..3 {
        let (late, sink) = collector();
        let job = format!(
            "(while ! test -e go{number}; do sleep 0.02; done; echo job {number}; echo err {number} >&2) & echo started {number}"
        );
        let result =
            room.shell.execute_as(&Ticket::with_late(sink), &ExecRequest::shell(&job), &|_| ()).unwrap();
        assert_eq!(stdout(&result), format!("started {number}\n"));
        jobs.push(late);
    }
    let result = room.run("touch go0 go1 go2; echo mine; wait; echo mine too");
    assert_eq!((stdout(&result).as_str(), stderr(&result).as_str()), ("mine\nmine too\n", ""), "{result:?}");
    assert!(!result.restarted);
    assert_eq!(stdout(&room.run("echo next")), "next\n");
    let deadline = Instant::now() + Duration::from_secs(20);
    for (number, late) in jobs.iter().enumerate() {
        let whole = [format!("job {number}\nerr {number}\n"), format!("err {number}\njob {number}\n")];
        while !whole.iter().any(|whole| whole.as_bytes() == late.lock().unwrap().as_slice()) {
            assert!(Instant::now() < deadline, "{:?}", String::from_utf8_lossy(&late.lock().unwrap()));
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

#[test]
fn more_jobs_than_outputs_lose_nothing() {
    let (late, background) = collector();
    let Some(room) = Room::with(ShellOptions { background, ..ShellOptions::default() }, Policy::default())
    else {
        return;
    };
    let mut seen = String::new();
    for number in 0..10 {
        let job = format!("(while ! test -e go; do sleep 0.02; done; echo job {number}) &");
        seen += &stdout(&room.run(&job));
    }
    seen += &stdout(&room.run("touch go; wait"));
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        seen += &String::from_utf8(std::mem::take(&mut *late.lock().unwrap())).unwrap();
        if seen.matches("job").count() == 10 {
            break;
        }
        assert!(Instant::now() < deadline, "{seen}");
        seen += &stdout(&room.run(":"));
    }
}

#[test]
fn a_command_can_be_cancelled_before_it_runs() {
    let room = room!();
    let ticket = Ticket::new();
    ticket.cancel();
    let error = room.shell.execute_as(&ticket, &ExecRequest::shell("echo no > ran"), &|_| ()).unwrap_err();
    assert_eq!(error.kind, ringfence_model::ErrorKind::Cancelled);
    // One that waits for another is not begun either.
    std::thread::scope(|scope| {
        let (first, second) = (Ticket::new(), Ticket::new());
        let running = scope.spawn({
            let (room, first) = (&room, first.clone());
            move || room.shell.execute_as(&first, &ExecRequest::shell("touch begun; sleep 100"), &|_| ())
        });
        let begun = room._temp.path().join("begun");
        while !begun.exists() {
            std::thread::sleep(Duration::from_millis(5));
        }
        let waiting = scope.spawn({
            let (room, second) = (&room, second.clone());
            move || room.shell.execute_as(&second, &ExecRequest::shell("echo no > ran"), &|_| ())
        });
        second.cancel();
        first.cancel();
        assert!(running.join().unwrap().unwrap().signal.is_some());
        assert_eq!(waiting.join().unwrap().unwrap_err().kind, ringfence_model::ErrorKind::Cancelled);
    });
    assert_eq!(stdout(&room.run("test -e ran || echo not")), "not\n");
}

#[test]
fn much_output_is_capped_and_streamed() {
    let mut policy = Policy::default();
    policy.limits.max_output_bytes = Some(64 << 10);
    let Some(room) = Room::with(ShellOptions::default(), policy) else { return };
    let total = Mutex::new(0_u64);
    let request = ExecRequest::shell("head -c 1G /dev/zero; echo END");
    let result = room
        .shell
        .execute(&request, &|event| {
            if let ExecEvent::Stdout(bytes) = event {
                *total.lock().unwrap() += bytes.len() as u64
            }
        })
        .unwrap();
    assert_eq!(*total.lock().unwrap(), (1 << 30) + 4);
    assert!(result.truncated && result.stdout.len() < 65 << 10 && result.stdout.ends_with(b"END\n"));
    room.survives(":");
}

#[test]
fn who_is_told_to_leave_again_on_the_way_out_leaves_nothing_behind() {
    let room = room!();
    for _ in 0..20 {
        room.run(
            "rm -f told; n=0; f() { if ((n++ < 500)); then f; else while :; do :; done; fi; :; }
            (for i in {1..2000}; do kill -STKFLT $$; done; touch told) & f",
        );
        // Until then it is told to leave this, too.
        while stdout(&room.run("[[ -e told ]] && echo told")) != "told\n" {}
        assert_eq!(stdout(&room.run("shopt -q extdebug || echo ${-//[^TE]/}.")), ".\n");
    }
}

#[test]
fn a_timeout_ends_the_command_and_not_the_shell() {
    let room = room!();
    room.run("x=kept; sleep 1000 & echo $! > job");
    for text in [
        "sleep 100; echo next; sleep 100",
        "while :; do :; done",
        "for i in 1 2; do for j in 1 2; do sleep 100; done; echo next; done; echo next",
        "sleep 100 | cat",
        "y=$(sleep 100)",
        "setsid sleep 100",
        "read y < <(sleep 100)",
        "sleep 100 & wait",
        "sh -c 'trap \"\" TERM; sleep 100; sleep 100'",
        "(sleep 100; sleep 100)",
        "f() { sleep 100; }; f; f; echo next",
        "f() { sleep 100; }; f",
        "f() { sleep 100; echo next; }; f || echo next; if f; then echo next; fi",
        "f() { g; echo next; }; g() { while :; do :; done; echo next; }; while :; do f; echo next; done; echo next",
        "f() { for i in 1 2; do case $(sleep 100) in *) echo next ;; esac; done; }; while f; do echo next; done",
    ] {
        let began = Instant::now();
        let result = room.run_for(text, 150);
        assert!(result.timed_out && result.exit_code == 124 && !result.restarted, "{text}: {result:?}");
        assert!(began.elapsed() < Duration::from_secs(30), "{text}: {:?}", began.elapsed());
        assert!(!stdout(&result).contains("next"), "{text}: {result:?}");
        let left = room.run("echo $x; kill -0 $(cat job) && echo job; ps -eo args | grep -c '[s]leep 100$' ");
        assert_eq!(stdout(&left), "kept\njob\n0\n", "{text}");
    }
    // What the way out of functions needs does not stay.
    assert_eq!(
        stdout(&room.run("f() { echo \"f $1\"; }; f x; shopt -q extdebug || echo ${-//[^TE]/}.; trap"))
            .lines()
            .next(),
        Some("f x")
    );
    assert!(stdout(&room.run("shopt -q extdebug || echo ${-//[^TE]/}.")).starts_with(".\n"));
    // Here bash itself has to go.
    let result = room.run_for("trap '' STKFLT; while :; do :; done", 150);
    assert!(result.timed_out && result.restarted && stdout(&result).is_empty(), "{result:?}");
    room.survives(":");
}

#[test]
fn cancelling_works_from_another_thread() {
    let room = room!();
    room.run("x=kept");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(300));
            room.shell.cancel();
        });
        let result = room.run("sleep 100; echo no");
        assert!(!result.restarted && result.signal.is_some() && stdout(&result).is_empty(), "{result:?}");
    });
    assert_eq!(stdout(&room.run("echo $x")), "kept\n");
}

#[test]
fn a_crash_is_reported_and_nothing_runs_twice() {
    let room = room!();
    let result = room.run("echo once >> count; kill -9 $$");
    assert!(result.restarted && result.signal == Some(9), "{result:?}");
    assert_eq!(stdout(&room.run("cat count")), "once\n");
    room.run("(sleep 0.2; kill -9 $$) &");
    std::thread::sleep(Duration::from_millis(600));
    let result = room.run("echo twice >> count; cat count");
    assert!(result.restarted && stdout(&result) == "once\ntwice\n", "{result:?}");
}

#[test]
fn commands_of_several_threads_take_turns() {
    let room = room!();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let room = &room;
            scope.spawn(move || {
                for turn in 0..25 {
                    assert_eq!(
                        stdout(&room.run(&format!("echo {thread} {turn}"))),
                        format!("{thread} {turn}\n")
                    );
                }
            });
        }
    });
}

#[test]
fn nothing_is_left_behind() {
    let room = room!();
    let mark = format!("sleep 98{}", std::process::id());
    room.run(&format!("{mark} & setsid {mark} & (exec {mark}) & sleep 0.1"));
    let running = || {
        let listed = std::process::Command::new("ps").args(["-eo", "args"]).output().unwrap();
        String::from_utf8_lossy(&listed.stdout).lines().filter(|line| *line == mark).count()
    };
    assert_eq!(running(), 3);
    room.shell.dispose();
    room.shell.dispose();
    assert_eq!(running(), 0);
    assert!(room.shell.execute(&ExecRequest::shell("true"), &|_| ()).is_err());
}
