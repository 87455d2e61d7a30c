//! `ringfence run`: one command in a fresh sandbox.

use std::io::IsTerminal as _;
use std::os::fd::AsFd as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use ringfence::fence::CreateOptions;
use ringfence::gate::Refusal;
use ringfence::ledger::{ExecutionEnd, ExecutionStart, Writer, WriterOptions};
use ringfence::local::approval::Settled;
use ringfence::local::terminal_notices::Listener;
use ringfence::local::{CallersTerminal, Fence, Streams};
use ringfence::manager::built_in;
use ringfence::model::config::ConfigFile;
use ringfence::model::{Command, Error, ErrorKind, ExecRequest, ExecResult, PolicyMode, Result, Stdin};
use ringfence::setup::Setup;
use ringfence::unsandboxed;
use serde_json::{Map, Value, json};

use crate::advice::{self, Adviser};
use crate::approve::{self, Desk};
use crate::args::{Ask, Launcher, Precision, Profile, Run, Sandbox, Shell};
use crate::gate::{self, Judged};
use crate::{elsewhere, report};

pub(crate) fn run(args: Box<Run>) -> Result<ExitCode> {
    begin(args, Advice::None)
}

/// Whether a person who types commands is told what the gate would say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Advice {
    None,
    OnWhatIsTyped,
}

fn begin(args: Box<Run>, advice: Advice) -> Result<ExitCode> {
    let stdin = std::io::stdin();
    let stdout = std::io::stdout();
    let stderr = std::io::stderr();
    let interactive = !args.json && !args.no_tty && stdin.is_terminal() && stdout.is_terminal();
    // Before any thread exists, so that the signal is blocked in all of them.
    let resized = if interactive { ringfence::local::terminal::resize_events() } else { None };

    let setup = Arc::new(load(&args.sandbox, run_settings(&args)?)?);
    for warning in &setup.loaded.warnings {
        report::say(&format!("warning: {warning}"));
    }
    let mut request = ExecRequest { stdin: Stdin::Inherit, ..ExecRequest::new(command(&args)) };
    let desk = Desk::new(&args, &setup)?;
    let judged = gate::judge(&setup, &request.command, args.no_gate, desk.as_ref())?;
    if let Judged::Refused(refusal) = &judged {
        return refuse(&args, &setup, &request, &judged, refusal);
    }
    if setup.is_switched_off() || setup.loaded.config.provider != "local" {
        #[cfg(target_os = "linux")]
        ringfence::local::forget_sandbox();
    }
    if setup.is_switched_off() {
        return run_unsandboxed(&args, &setup, &request, &judged);
    }
    setup.make_home();
    if setup.loaded.config.provider != "local" {
        return run_elsewhere(&args, &setup, &request, &judged, desk);
    }
    let adviser = match advice {
        Advice::OnWhatIsTyped if interactive => Adviser::new(&setup)?,
        Advice::OnWhatIsTyped | Advice::None => None,
    };
    if adviser.is_some() {
        request.env.insert(advice::VARIABLE.to_owned(), advice::prompt_string());
    }
    let fence = Fence::prepare(sandbox(&setup, &args.sandbox)?)?;
    warn_of_network_only(&fence);
    let ledger = Ledger::new(&setup, &request, &judged);
    let hear = |aside: &[u8]| adviser.iter().for_each(|adviser| adviser.hear(aside));
    let streams = if args.json {
        Streams::Capture
    } else if interactive {
        Streams::Terminal(CallersTerminal {
            input: stdin.as_fd(),
            output: stdout.as_fd(),
            resized: resized.as_ref().map(|fd| fd.as_fd()),
            pause: desk.as_ref().map(Desk::pause),
            asides: adviser.is_some().then_some(Listener(&hear)),
        })
    } else {
        Streams::Inherit([stdin.as_fd(), stdout.as_fd(), stderr.as_fd()])
    };
    let approval = desk.as_ref().map(Desk::approval);
    let mut outcome = fence.run_asking(&request, streams, &|_| {}, approval);
    if let Ok(result) = &mut outcome {
        if !args.json && !args.quiet {
            report::refusals(result);
        }
        setup.finish(result);
    }
    ledger.close(&outcome, desk.map(Desk::settled).unwrap_or_default());
    let result = outcome?;
    show(&args, &result)?;
    Ok(report::exit_code(&result))
}

/// `ringfence shell`: bash on the caller's terminal.
pub(crate) fn shell(args: Shell) -> Result<ExitCode> {
    let run = Box::new(Run {
        sandbox: args.sandbox,
        env: vec![],
        timeout: None,
        memory: None,
        processes: None,
        cpu: None,
        file_size: None,
        output: None,
        json: false,
        ask: None,
        no_gate: false,
        no_tty: false,
        quiet: false,
        shell: None,
        argv: vec!["bash".into()],
    });
    begin(run, Advice::OnWhatIsTyped)
}

/// Nothing runs, and why is said, recorded and returned.
fn refuse(
    args: &Run,
    setup: &Setup,
    request: &ExecRequest,
    judged: &Judged,
    refusal: &Refusal,
) -> Result<ExitCode> {
    let mut result = refusal.result();
    let ledger = Ledger::new(setup, request, judged);
    ledger.writer.violation(Some(ledger.id), refusal.violation());
    ledger.writer.end(ExecutionEnd { blocked: true, ..ExecutionEnd::failed(ledger.id, refusal.message()) });
    ledger.writer.close();
    setup.finish(&mut result);
    if args.json {
        print_json(&result)?;
    } else {
        gate::explain(refusal);
    }
    Ok(report::exit_code(&result))
}

fn run_unsandboxed(args: &Run, setup: &Setup, request: &ExecRequest, judged: &Judged) -> Result<ExitCode> {
    report::say(&format!("warning: {}", unsandboxed::WARNING));
    let ledger = Ledger::new(setup, request, judged);
    let output = if args.json { unsandboxed::Output::Capture } else { unsandboxed::Output::Inherit };
    let timeout = setup.loaded.config.limits.timeout_ms.map(Duration::from_millis);
    let outcome = unsandboxed::run(request, &setup.env, &setup.project, output, timeout);
    ledger.close(&outcome, vec![]);
    let result = outcome?;
    show(args, &result)?;
    Ok(report::exit_code(&result))
}

/// In a sandbox of another provider.
fn run_elsewhere(
    args: &Run,
    setup: &Setup,
    request: &ExecRequest,
    judged: &Judged,
    desk: Option<Desk>,
) -> Result<ExitCode> {
    let ledger = Ledger::new(setup, request, judged);
    let output = if args.json { elsewhere::Output::Kept } else { elsewhere::Output::Passed };
    let approval = desk.as_ref().map(Desk::approval);
    let mut outcome = elsewhere::run(setup, &args.sandbox.require, request, approval, output);
    if let Ok(result) = &mut outcome {
        if !args.json && !args.quiet {
            report::refusals(result);
        }
        setup.finish(result);
    }
    ledger.close(&outcome, desk.map(Desk::settled).unwrap_or_default());
    let result = outcome?;
    show(args, &result)?;
    Ok(report::exit_code(&result))
}

/// What a result adds to what the command itself printed.
fn show(args: &Run, result: &ExecResult) -> Result<()> {
    use std::io::Write as _;
    if args.json {
        return print_json(result);
    }
    // Empty unless the violations are to be added to it.
    std::io::stderr()
        .write_all(&result.stderr)
        .map_err(|error| Error::new(ErrorKind::Internal, "cannot write to standard error").caused_by(error))
}

/// The sandbox that follows from a configuration.
pub(crate) fn sandbox(setup: &Setup, args: &Sandbox) -> Result<CreateOptions> {
    let config = &setup.loaded.config;
    if config.provider != "local" {
        // One that nobody knows is said to be so.
        built_in()?.get(&config.provider)?;
        let message = format!(
            "this command works with the provider local, and the configuration says {}",
            config.provider
        );
        return Err(Error::new(ErrorKind::InvalidConfig, message)
            .hint("`ringfence run`, `ringfence session` and `ringfence mcp` work with every provider; --provider local overrides the configuration"));
    }
    Ok(CreateOptions {
        cwd: setup.project.clone(),
        policy: setup.policy(),
        environment: setup.env.clone(),
        provider_options: setup.local_options(&args.require, std::env::current_exe().ok().as_deref())?,
        hooks: Default::default(),
    })
}

/// Nobody shall take a fence around the network for one around files.
fn warn_of_network_only(fence: &Fence) {
    let assurance = fence.assurance();
    if assurance.effective == PolicyMode::None {
        for lost in assurance.degraded {
            report::say(&format!("WARNING: {lost}"));
        }
    }
}

fn command(args: &Run) -> Command {
    match &args.shell {
        Some(text) => Command::Shell(text.clone()),
        None => Command::Argv(args.argv.clone()),
    }
}

fn print_json(result: &ExecResult) -> Result<()> {
    use std::io::Write as _;
    let text = serde_json::to_string_pretty(result).map_err(|error| {
        Error::new(ErrorKind::Internal, "cannot write the result as JSON").caused_by(error)
    })?;
    writeln!(std::io::stdout(), "{text}")
        .map_err(|error| Error::new(ErrorKind::Internal, "cannot write to standard output").caused_by(error))
}

/// Loads the configuration with the command line as its closest layer.
pub(crate) fn load(args: &Sandbox, mut settings: Map<String, Value>) -> Result<Setup> {
    let mut set = |key: &str, value: Value| {
        settings.insert(key.to_owned(), value);
    };
    if let Some(provider) = &args.provider {
        set("provider", json!(provider));
    }
    if let Some(profile) = args.profile {
        let name = match profile {
            Profile::Dev => "dev",
            Profile::Balanced => "balanced",
            Profile::Prod => "prod",
        };
        set("profile", json!(name));
    }
    if let Some(precision) = args.precision {
        let name = match precision {
            Precision::Full => "full",
            Precision::Writes => "writes",
            Precision::Off => "off",
        };
        set("precision", json!(name));
    }
    if let Some(launcher) = args.launcher {
        let name = match launcher {
            Launcher::Auto => "auto",
            Launcher::Native => "native",
            Launcher::Bwrap => "bwrap",
            Launcher::Landlock => "landlock",
            Launcher::NetworkOnly => "network-only",
        };
        set("launcher", json!(name));
    }
    let current = std::env::current_dir().map_err(|error| {
        Error::new(ErrorKind::Validation, "the current directory is gone").caused_by(error)
    })?;
    // Paths on the command line are meant from where the person stands, not from the project.
    let absolute = |paths: &[String]| -> Vec<Value> {
        paths
            .iter()
            .map(|path| {
                let is_relative = !path.starts_with(['/', '~', '$']) && !path.starts_with("**");
                json!(if is_relative {
                    current.join(path).to_string_lossy().into_owned()
                } else {
                    path.clone()
                })
            })
            .collect()
    };
    for (key, paths) in
        [("allowRead", &args.allow_read), ("allowWrite", &args.allow_write), ("deny", &args.deny)]
    {
        if !paths.is_empty() {
            set(key, Value::Array(absolute(paths)));
        }
    }
    let call: ConfigFile = if settings.is_empty() {
        ConfigFile::default()
    } else {
        serde_json::from_value(Value::Object(settings))
            .map_err(|error| Error::new(ErrorKind::Validation, format!("bad option: {error}")))?
    };
    let project = args.project.clone().unwrap_or(current);
    Setup::load(&project, std::env::vars_os().collect(), call, args.agent.as_deref())
}

/// The settings that only make sense for a run.
fn run_settings(args: &Run) -> Result<Map<String, Value>> {
    let mut settings = Map::new();
    let (mut pass, mut set) = (Vec::new(), Map::new());
    for variable in &args.env {
        match variable.split_once('=') {
            Some((name, value)) => {
                set.insert(name.to_owned(), json!(value));
            }
            None => pass.push(json!(variable)),
        }
    }
    if !pass.is_empty() {
        settings.insert("envPassthrough".to_owned(), Value::Array(pass));
    }
    if !set.is_empty() {
        settings.insert("envOverride".to_owned(), Value::Object(set));
    }
    if let Some(ask) = args.ask {
        let word = match ask {
            Ask::On => "on",
            Ask::DenyOnly => "deny-only",
            Ask::Never => "never",
        };
        settings.insert("ask".to_owned(), json!(word));
    }
    if let Some(seconds) = args.timeout {
        settings.insert("timeout".to_owned(), json!(seconds));
    }
    let mut limits = Map::new();
    for (key, size) in [
        ("maxMemoryBytes", &args.memory),
        ("maxFileSizeBytes", &args.file_size),
        ("maxOutputBytes", &args.output),
    ] {
        if let Some(size) = size {
            limits.insert(key.to_owned(), json!(bytes(size)?));
        }
    }
    for (key, count) in [("maxProcesses", args.processes), ("maxCpuSeconds", args.cpu)] {
        if let Some(count) = count {
            limits.insert(key.to_owned(), json!(count));
        }
    }
    if !limits.is_empty() {
        settings.insert("limits".to_owned(), Value::Object(limits));
    }
    Ok(settings)
}

/// `512M`, `2G`, `1048576`.
fn bytes(text: &str) -> Result<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match text[digits.len()..].to_ascii_uppercase().trim_end_matches('B').trim_end_matches('I') {
        "" => Some(1_u64),
        "K" => Some(1 << 10),
        "M" => Some(1 << 20),
        "G" => Some(1 << 30),
        "T" => Some(1 << 40),
        _ => None,
    };
    let size = digits.parse::<u64>().ok().zip(unit).and_then(|(count, unit)| count.checked_mul(unit));
    size.filter(|size| *size > 0).ok_or_else(|| {
        Error::new(ErrorKind::Validation, format!("not a size: {text}"))
            .hint("write it like 512M, 2G or 1048576")
    })
}

/// The record of this run. A ledger that can't be written is said once and stops nothing.
struct Ledger {
    writer: Writer,
    id: ringfence::ledger::ExecutionId,
}

impl Ledger {
    fn new(setup: &Setup, request: &ExecRequest, judged: &Judged) -> Self {
        let options = WriterOptions {
            on_problem: Box::new(|problem| report::say(&format!("warning: {}", problem.chain()))),
            ..WriterOptions::default()
        };
        let writer = Writer::beside(&setup.ledger_path(), options);
        let mut start = ExecutionStart::new(request.command.clone());
        start.cwd = Some(setup.project.clone());
        start.project = Some(setup.project.clone());
        let id = writer.start(start);
        judged.record(&writer, id, "terminal");
        Self { writer, id }
    }

    fn close(self, outcome: &Result<ExecResult>, settled: Vec<Settled>) {
        for settled in settled {
            let (decided, granted) = approve::records(self.id, settled);
            self.writer.decision(decided);
            if let Some(granted) = granted {
                self.writer.grant(granted);
            }
        }
        match outcome {
            Ok(result) => self.writer.finish(self.id, result),
            Err(error) => self.writer.end(ExecutionEnd::failed(self.id, error.chain())),
        }
        self.writer.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_their_unit() {
        for (text, want) in
            [("1048576", 1 << 20), ("512M", 512 << 20), ("2g", 2 << 30), ("4KiB", 4096), ("1MB", 1 << 20)]
        {
            assert_eq!(bytes(text).unwrap(), want, "{text}");
        }
        for text in ["", "M", "-1", "1.5G", "0", "12Q", "99999999999T"] {
            assert!(bytes(text).is_err(), "{text}");
        }
    }
}
