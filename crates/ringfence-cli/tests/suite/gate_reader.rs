//! Code is read by a process that can do nothing else.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::sync::Arc;

use ringfence::gate::{CodeReader, Worker};
use ringfence::model::ErrorKind;
use ringfence::model::config::ConfigFile;
use ringfence::setup::Setup;
use ringfence::tools::OpenTools;
use serde_json::{Value, json};

use super::support::Room;

/// `ringfence check --jsonl`, while it runs.
struct Asked {
    child: Child,
    stdin: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Asked {
    fn new(room: &Room) -> Self {
        let arguments = ["check", "--jsonl", "--home", "/home/dev", "--cwd", "/home/dev/project"];
        let mut child =
            room.command(&arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap());
        Self { stdin: child.stdin.take(), child, answers }
    }

    fn ask(&mut self, language: &str, code: &str) -> Value {
        let line = json!({ "id": 1, "language": language, "code": code });
        writeln!(self.stdin.as_ref().unwrap(), "{line}").unwrap();
        let mut answer = String::new();
        self.answers.read_line(&mut answer).unwrap();
        serde_json::from_str(&answer).unwrap()
    }

    /// The processes that it started.
    fn started(&self) -> Vec<u32> {
        let parent = self.child.id().to_string();
        let all = std::fs::read_dir("/proc").unwrap().filter_map(|entry| {
            let pid: u32 = entry.ok()?.file_name().to_str()?.parse().ok()?;
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            // Behind the name: the state, then the parent.
            let of = stat.rsplit(") ").next()?.split(' ').nth(1)? == parent;
            of.then_some(pid)
        });
        all.collect()
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let _ = self.child.wait();
    }
}

#[test]
fn one_locked_in_process_reads_the_code_of_many_questions() {
    let room = Room::new();
    let mut asked = Asked::new(&room);
    assert_eq!(asked.ask("shell", "cargo test")["verdict"], "allow");
    assert_eq!(asked.started(), [0_u32; 0], "nobody is needed for the shell");

    assert_eq!(asked.ask("python", "import os\nos.system('rm -rf /usr')")["verdict"], "deny");
    let [reader] = asked.started()[..] else { panic!("{:?}", asked.started()) };
    let status = std::fs::read_to_string(format!("/proc/{reader}/status")).unwrap();
    for line in ["Seccomp:\t2", "NoNewPrivs:\t1", "CapEff:\t0000000000000000", "CapPrm:\t0000000000000000"] {
        assert!(status.contains(line), "{line} is not in {status}");
    }
    assert_eq!(asked.ask("javascript", "console.log(6 * 7)")["verdict"], "allow");
    assert_eq!(asked.ask("shell", "python3 -c 'import os; os.system(\"sudo id\")'")["verdict"], "deny");
    assert_eq!(asked.started(), [reader], "it is kept");

    let pid = rustix::process::Pid::from_raw(reader.cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    assert_eq!(asked.ask("python", "print(1)")["verdict"], "allow", "another one takes over");
    assert_ne!(asked.started(), [reader]);
}

#[test]
fn ordinary_and_nasty_code_is_judged_by_it_as_anywhere() {
    let room = Room::new();
    let mut asked = Asked::new(&room);
    let data = concat!(env!("CARGO_MANIFEST_DIR"), "/../ringfence-gate/tests/data/code.jsonl");
    let mut judged = 0;
    for line in std::fs::read_to_string(data).unwrap().lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let (language, code) = (case["language"].as_str().unwrap(), case["code"].as_str().unwrap());
        let verdict = asked.ask(language, code)["verdict"].clone();
        assert!(case["want"].as_array().unwrap().contains(&verdict), "{verdict}: {case}");
        judged += 1;
    }
    assert!(judged > 100);
}

#[test]
fn tools_with_a_locked_in_reader_ask_nobody_about_harmless_code() {
    let room = Room::new();
    if !room.has_fence() {
        return;
    }
    let env = [("HOME", room.home.clone().into_os_string()), ("PATH", std::env::var_os("PATH").unwrap())];
    let env = env.into_iter().map(|(name, value)| (name.into(), value)).collect();
    let setup = Arc::new(Setup::load(&room.project, env, ConfigFile::default(), None).unwrap());
    let call = |reader: Option<Arc<dyn CodeReader>>, language: &str, code: &str| {
        // Nobody is there to be asked: a question ends the run.
        let tools = OpenTools { code_reader: reader, ..OpenTools::default() }.open(&setup).unwrap();
        let result = tools.call("run_code", &json!({ "language": language, "code": code }));
        tools.dispose();
        result
    };
    let worker = || Some(Arc::new(Worker::new(env!("CARGO_BIN_EXE_ringfence"))) as Arc<dyn CodeReader>);
    let python = "import json, pathlib\npathlib.Path('a.json').write_text(json.dumps([1]))\nprint(6 * 7)";
    let javascript = "require('fs').writeFileSync('b.json', JSON.stringify([1])); console.log(6 * 7)";
    for (language, code) in [("python", python), ("javascript", javascript)] {
        let result = call(worker(), language, code);
        assert_eq!(result.stdout, "42\n", "{language}: {result:?}");
        let result = call(None, language, code);
        assert_eq!(result.error_kind, Some(ErrorKind::ApprovalDenied), "{language}: {result:?}");
    }
    let result = call(worker(), "python", "import os\nos.system('git push --force')");
    assert!(!result.ok && result.stdout.is_empty(), "{result:?}");
}
