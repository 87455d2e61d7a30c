//! An agent's day, scripted: ordinary work, then `~/.ssh`, which nobody gets without being asked about.
//!
//! Everything is real: the commands, the fence, the files. Only the person is a list of answers.
//!
//! ```text
//! cargo run --example agent
//! ```
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

mod person;
mod show;

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use ringfence::gate::{CodeReader, READ_CODE, Worker, serve_reader};
use ringfence::model::config::ConfigFile;
use ringfence::session::Listener;
use ringfence::session::recorder::{Keeping, open_ledger};
use ringfence::setup::Setup;
use ringfence::tools::{OpenTools, ToolResult, Tools};
use serde_json::{Value, json};

type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;

fn main() -> Outcome<ExitCode> {
    // Python and JavaScript are read for the gate by this program once more, locked in.
    if std::env::args().skip(1).eq([READ_CODE]) {
        return Ok(serve_reader());
    }
    play(Arc::new(Worker::new("/proc/self/exe")), Arc::new(show::event))?;
    Ok(ExitCode::SUCCESS)
}

/// The whole day; `listener` hears every event of both sessions.
pub(crate) fn play(reader: Arc<dyn CodeReader>, listener: Listener) -> Outcome {
    let place = tempfile::tempdir()?;
    let home = place.path().canonicalize()?.join("home");
    let project = home.join("project");
    std::fs::create_dir_all(&project)?;
    std::fs::create_dir_all(home.join(".ssh"))?;
    for (file, content) in
        [("config", "Host treasure\n"), ("known_hosts", "island\n"), ("id", "PRIVATE KEY\n")]
    {
        std::fs::write(home.join(".ssh").join(file), content)?;
    }

    println!("# First session");
    let open = |person: person::Person| open(&home, &project, &reader, person, &listener);
    let tools = open(person::first_session())?;
    ordinary_work(&tools)?;
    let ssh = |file: &str| json!({ "command": format!("cat ~/.ssh/{file}") });
    say("~/.ssh/config: allowed once, asked again, allowed for the session, asked no more");
    for _ in 0..3 {
        worked(tools.call("bash", &ssh("config")))?;
    }
    say("~/.ssh/known_hosts: allowed from now on");
    worked(tools.call("bash", &ssh("known_hosts")))?;
    say("~/.ssh/id: denied; the words go to the agent, which goes on with something else");
    refused(tools.call("bash", &ssh("id")))?;
    worked(tools.call("bash", &json!({ "command": "git --version" })))?;
    say("~/.ssh/id once more: a second refusal of the same thing ends the run");
    refused(tools.call("bash", &ssh("id")))?;
    refused(tools.call("list", &json!({})))?;
    tools.dispose();

    println!(
        "\n# Second session: what was allowed from now on needs no question, what was allowed for the session does"
    );
    let tools = open(person::second_session())?;
    worked(tools.call("bash", &ssh("known_hosts")))?;
    refused(tools.call("bash", &ssh("config")))?;
    tools.dispose();
    println!("\n# Kept in {}", home.join(".ringfence/sandbox.json").display());
    println!("{}", std::fs::read_to_string(home.join(".ringfence/sandbox.json"))?);
    Ok(())
}

fn open(
    home: &Path,
    project: &Path,
    reader: &Arc<dyn CodeReader>,
    answers: person::Person,
    listener: &Listener,
) -> Outcome<Tools> {
    let mut env: std::collections::BTreeMap<_, _> = std::env::vars_os().collect();
    env.retain(|name, _| !name.to_string_lossy().starts_with("RINGFENCE"));
    env.insert("HOME".into(), home.into());
    let setup = Arc::new(Setup::load(project, env, ConfigFile::default(), None)?);
    let ledger = open_ledger(&setup.ledger_path(), &setup.env, Keeping::Thread, |_| ());
    let tools = OpenTools {
        service: Some(answers.service()),
        ledger: Some(ledger),
        code_reader: Some(Arc::clone(reader)),
        ..OpenTools::default()
    };
    let tools = tools.open(&setup)?;
    tools.listen(Arc::clone(listener));
    Ok(tools)
}

fn ordinary_work(tools: &Tools) -> Outcome {
    say("ordinary work: nobody is asked");
    let write = json!({ "path": "src/sum.py", "content": "def total(xs):\n    return sum(xs)\n" });
    worked(tools.call("write", &write))?;
    worked(tools.call("edit", &json!({ "path": "src/sum.py", "old": "total", "new": "add_up" })))?;
    worked(tools.call("read", &json!({ "path": "src/sum.py" })))?;
    worked(tools.call("bash", &json!({ "command": "cd src && export WHO=agent && ls" })))?;
    worked(tools.call("bash", &json!({ "command": "echo \"$WHO in ${PWD##*/}\"" })))?;
    let code = "mkdir -p out && seq 3 > out/numbers.txt && wc -l < out/numbers.txt\n";
    worked(tools.call("run_code", &json!({ "language": "shell", "code": code })))?;
    let code = "from src.sum import add_up\nprint(add_up([1, 2, 3]))\n";
    worked(tools.call("run_code", &json!({ "language": "python", "code": code })))?;
    worked(tools.call("search", &json!({ "text": "add_up" })))
}

fn say(text: &str) {
    println!("\n## {text}");
}

fn worked(result: ToolResult) -> Outcome {
    if result.ok { Ok(()) } else { Err(format!("this should have worked: {}", shown(&result)).into()) }
}

fn refused(result: ToolResult) -> Outcome {
    if result.ok { Err(format!("this should have been refused: {}", shown(&result)).into()) } else { Ok(()) }
}

fn shown(result: &ToolResult) -> Value {
    json!(result)
}
