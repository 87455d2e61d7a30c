//! Sessions: the protocol, and the examples of its documentation.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use super::support::{Ran, Room};

pub(crate) struct Session {
    pub(crate) child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Session {
    pub(crate) fn start(room: &Room) -> Self {
        Self::spawn(room.command(&["session"]))
    }

    pub(crate) fn spawn(mut command: Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (input, output) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        Self { child, input, output }
    }

    pub(crate) fn send(&mut self, line: &Value) {
        self.send_text(&line.to_string());
    }

    fn send_text(&mut self, line: &str) {
        writeln!(self.input.as_mut().unwrap(), "{line}").unwrap();
    }

    /// The next line with this event.
    pub(crate) fn until(&mut self, event: &str) -> Value {
        self.until_one_of(&[event])
    }

    fn until_any(&mut self) -> Value {
        let mut line = String::new();
        assert!(self.output.read_line(&mut line).unwrap() > 0, "nothing came any more");
        serde_json::from_str(&line).unwrap()
    }

    fn until_one_of(&mut self, events: &[&str]) -> Value {
        loop {
            let line = self.until_any();
            if events.iter().any(|event| line["event"] == *event) {
                return line;
            }
        }
    }

    /// As [`run`](Self::run) when the sandbox was killed a moment ago: until that is noticed, commands are errors.
    pub(crate) fn run_anew(&mut self, command: &str) -> Value {
        for id in 1000..1100 {
            self.send(&json!({ "id": id, "command": command, "timeoutMs": 30_000 }));
            let line = self.until_one_of(&["result", "error"]);
            if line["event"] == "result" {
                return line["result"].clone();
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        panic!("no command runs any more");
    }

    pub(crate) fn run(&mut self, id: u64, command: &str) -> Value {
        self.send(&json!({ "id": id, "command": command, "timeoutMs": 30_000 }));
        let line = self.until("result");
        assert_eq!(line["id"], id);
        line["result"].clone()
    }

    pub(crate) fn end(mut self) -> i32 {
        drop(self.input.take());
        while self.output.read_line(&mut String::new()).unwrap() > 0 {}
        self.child.wait().unwrap().code().unwrap_or(-1)
    }
}

fn room() -> Option<Room> {
    let room = Room::new();
    room.has_fence().then_some(room)
}

#[test]
fn a_shell_remembers_and_others_do_not() {
    let Some(room) = room() else { return };
    let mut session = Session::start(&room);
    session.run(1, "X=1; cd /usr");
    assert_eq!(session.run(2, "echo $X $PWD")["stdout"], "1 /usr\n");
    session.send(&json!({ "id": 3, "command": "echo [$X]", "shell": "other" }));
    assert_eq!(session.until("result")["result"]["stdout"], "[]\n");
    session.send(&json!({ "id": 4, "command": "cat", "stdin": "given" }));
    assert_eq!(session.until("stdout")["data"], "given");
    session.until("result");
    let gone = session.run(5, "exit 3");
    assert_eq!((&gone["exitCode"], &gone["restarted"]), (&json!(3), &json!(true)));
    assert_eq!(session.end(), 0);
}

#[test]
fn bad_lines_lose_nothing() {
    let Some(room) = room() else { return };
    let mut session = Session::start(&room);
    for line in
        ["{", "[]", "{\"id\":1}", "{\"id\":9,\"cancel\":true}", "{\"permission\":5,\"decision\":\"deny\"}"]
    {
        session.send_text(line);
        session.until("error");
    }
    assert_eq!(session.run(2, "echo fine")["stdout"], "fine\n");
    assert_eq!(session.end(), 0);
}

#[test]
fn what_runs_and_what_waits_can_be_cancelled() {
    let Some(room) = room() else { return };
    let mut session = Session::start(&room);
    session.run(1, "X=kept");
    session.send(&json!({ "id": 2, "command": "echo started; sleep 100" }));
    session.send(&json!({ "id": 3, "command": "echo never" }));
    session.until("stdout");
    session.send(&json!({ "id": 3, "cancel": true }));
    assert_eq!(session.until("error")["id"], 3);
    session.send(&json!({ "id": 2, "cancel": true }));
    let line = session.until("result");
    assert_eq!((&line["id"], &line["result"]["restarted"]), (&json!(2), &json!(false)));
    assert_eq!(session.run(4, "echo $X")["stdout"], "kept\n");
    assert_eq!(session.end(), 0);
}

#[test]
fn permission_is_asked_for_and_kept_across_a_replaced_shell() {
    let Some(room) = room() else { return };
    room.write(room.home.join(".ssh/config"), "Host treasure\n");
    let mut session = Session::start(&room);
    let read = json!({ "id": 1, "command": "cat ../.ssh/config" });
    session.send(&read);
    let asked = session.until("permission_request");
    assert_eq!(asked["command"], "cat ../.ssh/config");
    session.send(&json!({ "permission": asked["permission"], "decision": "deny" }));
    let refused = session.until("result");
    assert_eq!(refused["result"]["exitCode"], 1, "{refused}");
    assert_eq!(refused["result"]["violations"].as_array().unwrap().len(), 1, "{refused}");
    session.run(2, "exit 0");
    session.send(&read);
    let asked = session.until("permission_request");
    session.send(&json!({ "permission": asked["permission"], "decision": "allow_session" }));
    assert_eq!(session.until("result")["result"]["stdout"], "Host treasure\n");
    session.run(3, "exit 0");
    assert_eq!(session.run(4, "cat ../.ssh/config")["stdout"], "Host treasure\n");
    assert_eq!(session.end(), 0);
}

#[test]
fn a_question_names_the_command_whose_process_asks() {
    let Some(room) = room() else { return };
    room.write(room.home.join(".ssh/config"), "Host treasure\n");
    let mut session = Session::start(&room);
    let wait = "while ! test -e go; do sleep 0.02; done; cat ../.ssh/config";
    let asked_by = |session: &mut Session, id: u32| {
        session.send(
            &json!({ "id": id, "command": "touch go; while ! test -e on; do sleep 0.02; done; rm go on" }),
        );
        let asked = session.until("permission_request");
        session.send(&json!({ "permission": asked["permission"], "decision": "deny" }));
        room.write("on", "");
        session.until("result");
        asked["command"].as_str().unwrap().to_owned()
    };
    let child = format!("({wait}) & echo now");
    session.run(1, &child);
    assert_eq!(asked_by(&mut session, 2), child);
    // Its parent is gone.
    let orphan = format!("( ({wait}) & )");
    session.run(3, &orphan);
    assert_eq!(asked_by(&mut session, 4), orphan);
    // One that leaves its command later may be anybody's.
    session
        .run(5, "(while ! test -e go; do sleep 0.02; done; (sleep 0.1; cat ../.ssh/config) & ) & echo now");
    let named = asked_by(&mut session, 6);
    assert_eq!(named, "cat ../.ssh/config (left running by a command)");
    assert_eq!(session.end(), 0);
}

/// The first process of a session's sandbox, as the host numbers it.
fn first_process(session: u32) -> Option<i32> {
    std::fs::read_dir("/proc").unwrap().flatten().find_map(|entry| {
        let status = std::fs::read_to_string(entry.path().join("status")).ok()?;
        let field = |key: &str| status.lines().find_map(|line| line.strip_prefix(key)).map(str::trim);
        let is_first = field("NSpid:")?.split_whitespace().skip(1).eq(["1"]);
        let is_its = field("PPid:") == Some(session.to_string().as_str());
        (is_first && is_its).then(|| entry.file_name().to_str()?.parse().ok()).flatten()
    })
}

#[test]
fn a_sandbox_that_is_killed_during_a_question_is_built_anew() {
    let Some(room) = room() else { return };
    room.write(room.home.join(".ssh/config"), "Host treasure\n");
    let mut session = Session::start(&room);
    let layers = session.run(100, "true")["sandbox"]["layers"].to_string();
    for round in 0..5 {
        session.send(&json!({ "id": 2 * round, "command": "cat ../.ssh/config" }));
        session.until("permission_request");
        let first = first_process(session.child.id()).and_then(rustix::process::Pid::from_raw);
        let Some(first) = first else {
            assert!(!layers.contains("pidNamespace"), "{layers}");
            break;
        };
        rustix::process::kill_process(first, rustix::process::Signal::KILL).unwrap();
        session.until("result");
        assert_eq!(session.run(2 * round + 1, "echo here")["stdout"], "here\n");
    }
    assert_eq!(session.end(), 0);
}

#[test]
fn late_output_has_the_id_of_its_command() {
    let Some(room) = room() else { return };
    let mut session = Session::start(&room);
    let job = "(while ! test -e go; do sleep 0.02; done; echo late) & echo now";
    assert_eq!(session.run(1, job)["stdout"], "now\n");
    let next = session.run(2, "touch go; wait; echo mine");
    assert_eq!(next["stdout"], "mine\n");
    session.send(&json!({ "id": 3, "command": "sleep 0.1" }));
    let mut late = Vec::new();
    while late.is_empty() || late.last().is_none_or(|line: &Value| line["event"] != "result") {
        let mut line = String::new();
        assert!(session.output.read_line(&mut line).unwrap() > 0);
        late.push(serde_json::from_str(&line).unwrap());
    }
    // It may have come while the second one ran.
    for line in late.iter().filter(|line| line["event"] == "stdout") {
        assert_eq!((&line["id"], &line["late"], &line["data"]), (&json!(1), &json!(true), &json!("late\n")));
    }
    assert_eq!(session.end(), 0);
}

#[test]
fn commands_and_decisions_are_in_the_ledger() {
    let Some(room) = room() else { return };
    room.write(room.home.join(".ssh/config"), "Host treasure\n");
    let mut session = Session::start(&room);
    session.run(1, "echo recorded; (exit 3)");
    session.send(&json!({ "id": 2, "command": "cat ../.ssh/config" }));
    let asked = session.until("permission_request");
    session.send(&json!({ "permission": asked["permission"], "decision": "deny" }));
    session.until("result");
    assert_eq!(session.end(), 0);
    let log = room.run(&["log", "--json"]);
    assert!(log.stdout.contains("echo recorded; (exit 3)"), "{log:?}");
    let violations = room.run(&["violations", "--json"]);
    assert!(violations.stdout.contains(".ssh/config"), "{violations:?}");
}

#[test]
fn shells_by_name_share_a_sandbox() {
    let Some(room) = room() else { return };
    let mut session = Session::start(&room);
    session.run(1, "echo shared > /tmp/note; sleep 1000 & echo $! > /tmp/pid");
    session.send(
        &json!({ "id": 2, "command": "cat /tmp/note; read -r pid < /tmp/pid; test -d /proc/$pid && echo visible", "shell": "b" }),
    );
    assert_eq!(session.until("result")["result"]["stdout"], "shared\nvisible\n");
    assert_eq!(session.end(), 0);
}

#[test]
fn jobs_are_started_polled_written_to_and_signalled() {
    let Some(room) = room() else { return };
    let mut session = Session::start(&room);
    session.run(1, "export NAME=fence; cd /usr");
    let command = "echo $NAME in $PWD; while read -r line; do echo got $line; done; sleep 1000";
    session.send(&json!({ "id": 2, "command": command, "background": true }));
    let started = session.until("job");
    assert_eq!((&started["id"], &started["job"]["state"]), (&json!(2), &json!("running")), "{started}");
    let job = started["job"]["id"].clone();
    assert_eq!(session.run(3, "echo free")["stdout"], "free\n");
    session.send(&json!({ "id": 4, "job": job, "input": "one\n" }));
    session.until("job");
    session.send(&json!({ "id": 5, "job": job, "closeInput": true }));
    session.until("job");
    let mut text = String::new();
    let mut offset = json!(0);
    while !text.contains("got one\n") {
        session.send(&json!({ "id": 6, "job": job, "offset": offset }));
        let piece = session.until("job");
        offset = piece["nextOffset"].clone();
        text += piece["data"].as_str().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    assert_eq!(text, "fence in /usr\ngot one\n");
    session.send(&json!({ "id": 7, "jobs": true }));
    assert_eq!(session.until("jobs")["jobs"].as_array().unwrap().len(), 1);
    session.send(&json!({ "id": 8, "job": job, "signal": 15 }));
    loop {
        let line = session.until("job");
        if line["job"]["state"] == "ended" {
            assert_eq!(line["job"]["exitCode"], 143, "{line}");
            break;
        }
    }
    session.send(&json!({ "id": 9, "job": "job-99", "offset": 0 }));
    assert_eq!(session.until("error")["id"], 9);
    assert_eq!(session.end(), 0);
    let log = room.run(&["log", "--json"]);
    assert!(log.stdout.contains("while read -r line"), "{log:?}");
}

#[test]
fn what_jobs_and_commands_on_a_terminal_may_not_do_is_told_and_recorded() {
    let Some(room) = room() else { return };
    let path = json!(room.write(".env", "treasure\n"));
    let mut session = Session::start(&room);
    session.send(&json!({ "id": 1, "command": "cat .env", "tty": true }));
    let result = session.until("result")["result"].clone();
    assert_eq!((&result["blocked"], &result["violations"][0]["resource"]), (&json!(true), &path), "{result}");
    session.send(&json!({ "id": 2, "command": "cat .env", "background": true }));
    let ended = loop {
        let job = session.until("job")["job"].clone();
        if job["state"] == "ended" {
            break job;
        }
    };
    assert_eq!((&ended["blocked"], &ended["violations"][0]["resource"]), (&json!(true), &path), "{ended}");
    assert_eq!(session.end(), 0);
    let recorded = room.run(&["violations", "--json"]).json();
    let resources: Vec<_> =
        recorded.as_array().unwrap().iter().map(|row| &row["violation"]["resource"]).collect();
    assert_eq!(resources, [&path, &path]);
}

#[test]
fn a_command_on_a_terminal_has_input_and_size() {
    let Some(room) = room() else { return };
    let mut session = Session::start(&room);
    let command = "stty size; read -r line; stty size; echo got $line; (exit 6)";
    session.send(&json!({ "id": 1, "command": command, "tty": true, "rows": 30, "columns": 90 }));
    let mut text = String::new();
    let mut hear = |session: &mut Session, wanted: &str| {
        while !text.contains(wanted) {
            text += session.until("stdout")["data"].as_str().unwrap();
        }
    };
    hear(&mut session, "30 90\r\n");
    session.send(&json!({ "id": 1, "rows": 50, "columns": 120 }));
    session.send(&json!({ "id": 1, "input": "typed\n" }));
    hear(&mut session, "50 120\r\ngot typed\r\n");
    let line = session.until("result");
    assert_eq!((&line["id"], &line["result"]["exitCode"]), (&json!(1), &json!(6)), "{line}");
    session.send(&json!({ "id": 2, "command": "echo up; sleep 1000", "tty": true }));
    session.until("stdout");
    session.send(&json!({ "id": 2, "cancel": true }));
    assert_eq!(session.until("result")["id"], 2);
    assert_eq!(session.run(3, "test -t 1 || echo none")["stdout"], "none\n");
    assert_eq!(session.end(), 0);
}

#[test]
fn a_session_ends_with_its_reader() {
    let Some(room) = room() else { return };
    let mut session = Session::start(&room);
    session.send(&json!({ "id": 1, "command": "echo started; sleep 1000" }));
    session.until("stdout");
    let Session { mut child, input, output } = session;
    drop(output);
    // The input stays open: it is the reader that matters.
    let status = child.wait().unwrap();
    drop(input);
    assert_eq!(status.code(), Some(125));
}

/// Runs the example in this language from the documentation.
fn example(room: &Room, language: &str, program: &str, file: &str) -> Option<Ran> {
    let text = include_str!("../../../../docs/session.md");
    let (_, rest) = text.split_once(&format!("```{language}\n")).unwrap();
    let (code, _) = rest.split_once("```").unwrap();
    let file = room.write(file, code);
    let ours = room.command(&[]);
    let directory = std::path::Path::new(ours.get_program()).parent().unwrap();
    let path = format!("{}:{}", directory.display(), std::env::var("PATH").unwrap_or_default());
    let mut command = std::process::Command::new(program);
    command.arg(file).envs(ours.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.env("PATH", path).current_dir(&room.project);
    match command.output() {
        Ok(output) => Some(Ran::of(output)),
        Err(error) => {
            ringfence_testing::lacks(program, &error.to_string());
            None
        }
    }
}

#[test]
fn the_examples_of_the_documentation_run() {
    let Some(room) = room() else { return };
    for (language, program, file) in
        [("python", "python3", "example.py"), ("javascript", "node", "example.js")]
    {
        if let Some(ran) = example(&room, language, program, file) {
            assert_eq!(ran.stdout, "fence in /tmp\n", "{language}: {ran:?}");
        }
    }
}

#[test]
fn a_program_can_hear_every_step_of_a_command() {
    let room = Room::new();
    if !room.has_fence() {
        return;
    }
    let steps = |lines: &[Value], id: u64| -> Vec<String> {
        let its = lines.iter().filter(|line| line["id"] == id);
        its.map(|line| line["event"].as_str().unwrap().to_owned()).collect()
    };
    let run = |arguments: &[&str], commands: &[&str]| {
        let mut session = Session::spawn(room.command(arguments));
        let mut heard = vec![];
        for (id, command) in commands.iter().enumerate() {
            session.send(&json!({ "id": id, "command": command }));
            loop {
                let line = session.until_any();
                if line["event"] == "permission_request" {
                    session.send(&json!({ "permission": line["permission"], "decision": "deny" }));
                }
                let is_over = line["event"] == "result";
                heard.push(line);
                if is_over {
                    break;
                }
            }
        }
        heard
    };
    let commands = ["echo out", "git push --force origin main"];
    let heard = run(&["session", "--events"], &commands);
    let first = ["tool_call_requested", "tool_call_started", "stdout", "tool_call_finished", "result"];
    assert_eq!(steps(&heard, 0), first);
    let refused =
        ["tool_call_requested", "approval_requested", "approval_decided", "tool_call_finished", "result"];
    assert_eq!(steps(&heard, 1), refused);
    let requested = heard.iter().find(|line| line["event"] == "tool_call_requested").unwrap();
    assert_eq!(requested["arguments"]["command"], "echo out");
    let finished = heard.iter().find(|line| line["event"] == "tool_call_finished").unwrap();
    assert_eq!((&finished["ok"], &finished["exitCode"]), (&json!(true), &json!(0)));
    assert_eq!(finished["callId"], requested["callId"]);
    let decided = heard.iter().find(|line| line["event"] == "approval_decided").unwrap();
    assert_eq!((&decided["decision"], &decided["reason"]), (&json!("deny"), &json!("provider")));
    let plain = run(&["session"], &commands[..1]);
    assert_eq!(steps(&plain, 0), ["stdout", "result"], "nobody asked for more");
}
