//! `ringfence run`: one command in a fresh sandbox.

use std::io::{IsTerminal as _, Read as _, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use ringfence::fence::{CreateOptions, Ticket};
use ringfence::local::prompt::{Pause, TerminalApprover};
use ringfence::local::terminal_notices::Listener;
use ringfence::local::{CallersTerminal, Keyboard, Streams};
use ringfence::manager::{Manager, ManagerOptions, built_in};
use ringfence::model::config::{Ask as Asking, GateMode};
use ringfence::model::{
    Access, Command, Error, ErrorKind, ExecEvent, ExecRequest, ExecResult, PathOutcome, Result, Stdin,
};
use ringfence::permission::{ApprovalService, Terminal};
use ringfence::session::recorder::{Keeping, open_ledger};
use ringfence::session::{
    Attached, Call, Core, CoreOptions, Managed, OneCommand, Proposal, Ran, Refusal, Runner, SessionEvent,
};
use ringfence::setup::Setup;
use ringfence::unsandboxed;

use crate::advice::{self, Adviser};
use crate::args::{Run, Sandbox, Shell};
use crate::gate;
use crate::sandboxes;
use crate::{report, settings};

/// The provider whose fence is this machine's own.
pub(crate) const LOCAL: &str = "local";

pub(crate) fn run(args: Box<Run>) -> Result<ExitCode> {
    begin(&args, Advice::None)
}

/// Whether a person who types commands is told what the gate would say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Advice {
    None,
    OnWhatIsTyped,
}

/// The person at the terminal, and the terminal.
struct Surroundings {
    /// Somebody types, and looks at what is shown.
    interactive: bool,
    /// Which of the three standard descriptors are a terminal.
    terminals: [bool; 3],
    resized: Option<std::os::fd::OwnedFd>,
    /// Keeps the command from taking a person's answers.
    pause: Option<Arc<Pause>>,
}

fn begin(args: &Run, advice: Advice) -> Result<ExitCode> {
    let terminals =
        [std::io::stdin().is_terminal(), std::io::stdout().is_terminal(), std::io::stderr().is_terminal()];
    let gives_terminal = !args.json && !args.no_tty && terminals.contains(&true);
    let interactive = gives_terminal && terminals[0] && terminals[1];
    // Before any thread exists, so that the signal is blocked in all of them.
    let resized = if gives_terminal { ringfence::local::terminal::resize_events() } else { None };
    let setup = Arc::new(settings::load(&args.sandbox, settings::run_settings(args)?)?.in_the_project());
    settings::say_warnings(&setup, &args.sandbox);
    let pause = pause(args, &setup)?;
    let around = Surroundings { interactive, terminals, resized, pause };
    let core = core(args, &setup, &around)?;
    if args.no_gate && core.gatekeeper().mode() == GateMode::Required {
        return Err(Error::new(ErrorKind::InvalidConfig, "the configuration requires the gate")
            .hint("leave --no-gate out, or change \"safety\": { \"gate\": \"required\" }"));
    }
    let outcome = place(args, advice, &core, &around);
    core.recorder().flush();
    outcome
}

/// Somebody to ask: a person sits there when errors are shown to one, and can be asked at the terminal.
fn pause(args: &Run, setup: &Setup) -> Result<Option<Arc<Pause>>> {
    let nobody = setup.loaded.config.ask == Asking::Never
        || args.json
        || !std::io::stderr().is_terminal()
        || !TerminalApprover::available();
    if nobody {
        return Ok(None);
    }
    let pause = Pause::new().map_err(|errno| {
        Error::new(ErrorKind::Internal, "cannot prepare to ask").caused_by(std::io::Error::from(errno))
    })?;
    Ok(Some(Arc::new(pause)))
}

fn core(args: &Run, setup: &Arc<Setup>, around: &Surroundings) -> Result<Core> {
    let timeout = Duration::from_millis(setup.loaded.config.safety.approval_timeout_ms);
    let terminal = around.pause.as_ref().and_then(|pause| {
        Terminal::new(TerminalApprover::new(Arc::clone(pause), timeout))
            .map(|terminal| Arc::new(terminal) as Arc<dyn ApprovalService>)
    });
    let core = Core::new(
        setup,
        CoreOptions {
            service: terminal,
            ledger: Some(open_ledger(&setup.ledger_path(), &setup.env, Keeping::Beside, |problem| {
                report::say(&format!("warning: {}", problem.chain()));
            })),
            session_key: args.session.clone(),
            code_reader: Some(gate::reader()),
            ..CoreOptions::default()
        },
    )?;
    core.recorder().listen(Arc::new(|event| match event {
        SessionEvent::Kept { message } => report::say_on_raw_terminal(message),
        SessionEvent::Warning { message } => report::say_on_raw_terminal(&format!("warning: {message}")),
        _ => {}
    }));
    Ok(core)
}

/// Chooses where the command runs, and runs it there.
fn place(args: &Run, advice: Advice, core: &Core, around: &Surroundings) -> Result<ExitCode> {
    let setup = core.setup();
    let config = &setup.loaded.config;
    let is_unfenced = setup.is_switched_off() || config.provider == "none";
    let is_local = config.provider == LOCAL && !is_unfenced && args.session.is_none();
    #[cfg(target_os = "linux")]
    if !is_local {
        ringfence::local::forget_sandbox();
    }
    let mut request = ExecRequest { stdin: Stdin::Inherit, ..ExecRequest::new(command(args)) };
    if is_local {
        return locally(args, advice, core, around, request);
    }
    if is_unfenced {
        report::say(&format!("warning: {}", unsandboxed::WARNING));
        let output = if args.json { unsandboxed::Output::Capture } else { unsandboxed::Output::Inherit };
        return through(args, core, &OneCommand::unfenced(setup, output), request, Output::Kept, around);
    }
    if !around.interactive {
        request.stdin = input()?;
    }
    setup.make_home()?;
    let elsewhere = elsewhere(args, core)?;
    if around.interactive {
        let (stdin, stdout) = (std::io::stdin(), std::io::stdout());
        let resized = around.resized.as_ref().map(|fd| fd.as_fd());
        let terminal = Attached::new(&elsewhere, stdin.as_fd(), stdout.as_fd(), resized);
        let terminal = terminal.pausing(around.pause.as_deref());
        let code = through(args, core, &terminal, request, Output::Kept, around);
        ringfence::session::Workplace::dispose(&elsewhere);
        return code;
    }
    let output = if args.json { Output::Kept } else { Output::Passed };
    let code = through(args, core, &elsewhere, request, output, around);
    ringfence::session::Workplace::dispose(&elsewhere);
    code
}

/// In a fresh local fence, with the caller's own streams.
fn locally(
    args: &Run,
    advice: Advice,
    core: &Core,
    around: &Surroundings,
    mut request: ExecRequest,
) -> Result<ExitCode> {
    let setup = core.setup();
    setup.make_home()?;
    let adviser = match advice {
        Advice::OnWhatIsTyped if around.interactive => Adviser::new(core.gatekeeper(), asks(core, around)),
        Advice::OnWhatIsTyped | Advice::None => None,
    };
    if adviser.is_some() {
        request.env.insert(advice::VARIABLE.to_owned(), advice::prompt_string());
    }
    let options = sandbox(setup, &args.sandbox)?;
    if args.is_shell {
        begin_quietly(&mut request, setup, &options);
    }
    let hear = |aside: &[u8], shell: BorrowedFd<'_>| {
        adviser.iter().for_each(|adviser| adviser.hear(aside, shell));
    };
    let (stdin, stdout, stderr) = (std::io::stdin(), std::io::stdout(), std::io::stderr());
    let fds = [stdin.as_fd(), stdout.as_fd(), stderr.as_fd()];
    let is_terminal = around.terminals;
    // No command gets a terminal of the person's: one of its own where it shall have one, else pipes.
    let screen = [1, 2, 0].into_iter().find(|number| is_terminal[*number]).map(|number| fds[number]);
    let (streams, output) = match screen {
        _ if args.json => (Streams::Capture, Output::Kept),
        None => (Streams::Inherit(fds), Output::Kept),
        Some(_) if args.no_tty => (Streams::Capture, Output::Passed),
        Some(screen) => {
            let terminal = CallersTerminal {
                input: if is_terminal[0] { fds[0] } else { screen },
                output: screen,
                keyboard: match is_terminal {
                    [true, true, _] => Keyboard::Keys,
                    [true, false, _] => Keyboard::Lines,
                    [false, ..] => Keyboard::Unread,
                },
                given: [0, 1, 2].map(|number| (!is_terminal[number]).then_some(fds[number])),
                resized: around.resized.as_ref().map(|fd| fd.as_fd()),
                pause: around.pause.as_deref(),
                asides: adviser.is_some().then_some(Listener(&hear)),
            };
            (Streams::Terminal(terminal), Output::Kept)
        }
    };
    let warn = |lost: &str| {
        if !args.quiet {
            report::say(&format!("WARNING: {lost}"));
        }
    };
    let fence = OneCommand::fenced(options, streams, core.questions(), &warn);
    through(args, core, &fence, request, output, around)
}

/// The approver at the terminal, where somebody may be asked.
fn asks(core: &Core, around: &Surroundings) -> Option<TerminalApprover> {
    let timeout = Duration::from_millis(core.setup().loaded.config.safety.approval_timeout_ms);
    around.pause.as_ref().map(|pause| TerminalApprover::new(Arc::clone(pause), timeout))
}

/// Keeps bash from asking for files of the person's that nobody typed anything about.
fn begin_quietly(request: &mut ExecRequest, setup: &Setup, options: &CreateOptions) {
    let start = options.policy.filesystem.decide(&setup.home.join(".bashrc"), Access::Read);
    if start.outcome != PathOutcome::Allowed {
        request.command = Command::Argv(["bash", "--rcfile", "/etc/bash.bashrc"].map(Into::into).to_vec());
    }
    if !setup.loaded.config.env_override.contains_key("HISTFILE") {
        request.env.insert("HISTFILE".to_owned(), String::new());
    }
}

/// The way of the output while the command runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Output {
    /// It is in the result, or the command had the caller's own streams.
    Kept,
    /// Passed on as it comes, and not shown again.
    Passed,
}

/// The one way, and what is said of its end.
fn through(
    args: &Run,
    core: &Core,
    runner: &dyn Runner,
    request: ExecRequest,
    output: Output,
    around: &Surroundings,
) -> Result<ExitCode> {
    let project = core.gatekeeper().start().to_owned();
    let proposal = Proposal {
        cwd: Some(&project),
        is_unjudged: args.no_gate || args.is_shell,
        ..Proposal::new(request.command.clone())
    };
    // A closed output is the caller's own affair.
    let write = |mut to: Box<dyn std::io::Write>, bytes: Vec<u8>| {
        let mut write = || drop(to.write_all(&bytes).and_then(|()| to.flush()));
        match &around.pause {
            Some(pause) => pause.show(write),
            None => write(),
        }
    };
    let pass_on = |event| match (output, event) {
        (Output::Passed, ExecEvent::Stdout(bytes)) => write(Box::new(std::io::stdout()), bytes),
        (Output::Passed, ExecEvent::Stderr(bytes)) => write(Box::new(std::io::stderr()), bytes),
        _ => (),
    };
    match core.run(&mut Call::new("run"), proposal, runner, &Ticket::new(), request, &pass_on) {
        Ok(outcome) => show(args, core, outcome?),
        Err(refusal) => refuse(args, core, &refusal),
    }
}

/// Lines that a result adds to what the command itself printed.
fn show(args: &Run, core: &Core, ran: Ran) -> Result<ExitCode> {
    let Ran { result, dropped, annotation } = ran;
    if args.json {
        print_json(&result)?;
        return Ok(report::exit_code(&result));
    }
    if !args.quiet {
        report::refusals(&result, &dropped);
        if result.sandbox.adapter == "docker/sh" {
            report::say(
                "note: no guest in this container: denied files read as empty, and refusals are only guessed",
            );
        }
        if result.exit_code != 0 {
            repository_around(core.setup()).iter().for_each(|note| report::say(note));
        }
    }
    // The command's own output was shown when it came.
    std::io::stderr().write_all(annotation.as_bytes()).map_err(|error| {
        Error::new(ErrorKind::Internal, "cannot write to standard error").caused_by(error)
    })?;
    Ok(report::exit_code(&result))
}

/// Why git and tools that look for the root of a repository find none, where they would outside.
fn repository_around(setup: &Setup) -> Option<String> {
    let is_root = |directory: &&Path| directory.join(".git").exists();
    let root = setup.project.ancestors().find(is_root).filter(|root| *root != setup.project)?;
    let root = root.display();
    Some(format!(
        "note: the project is part of the repository {root}, which is not shown inside: --project {root} shows it"
    ))
}

/// Nothing ran, and why is said and returned.
fn refuse(args: &Run, core: &Core, refusal: &Refusal) -> Result<ExitCode> {
    let result = core.refused(refusal);
    if args.json {
        print_json(&result)?;
    } else {
        gate::explain(refusal);
    }
    Ok(report::exit_code(&result))
}

/// `ringfence shell`: bash on the caller's terminal.
pub(crate) fn shell(args: Shell) -> Result<ExitCode> {
    let run = Run {
        sandbox: args.sandbox,
        session: None,
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
        // The gate advises on what is typed in a person's own shell; it does not judge the shell itself.
        is_shell: true,
    };
    begin(&run, Advice::OnWhatIsTyped)
}

/// The sandbox of another provider, or of a named session.
fn elsewhere(args: &Run, core: &Core) -> Result<Managed> {
    let options = ManagerOptions {
        approval: core.questions().live(),
        progress: Some(Arc::new(|line: &str| report::say(line))),
        is_ephemeral: args.session.is_none(),
        housekeeper: sandboxes::housekeeper(core.setup(), args.session.as_deref()),
        ..manager_options(core.setup(), &args.sandbox)?
    };
    let session = args.session.clone().unwrap_or_else(|| format!("run-{}", Call::new("run").id));
    let manager = Manager::of(Arc::clone(core.setup()), built_in()?, options);
    Ok(Managed::new(Arc::new(manager), session))
}

/// The options of every manager of the command line.
pub(crate) fn manager_options(setup: &Setup, args: &Sandbox) -> Result<ManagerOptions> {
    let provider = &setup.loaded.config.provider;
    if !args.require.is_empty() && provider != LOCAL {
        let message = format!("--require names layers of the provider local, not of {provider}");
        return Err(Error::new(ErrorKind::Validation, message));
    }
    // A provider that nobody knows is said to be so, and is no command that is not there.
    built_in()?.get(provider).map_err(|error| Error { kind: ErrorKind::InitializationFailed, ..error })?;
    Ok(ManagerOptions {
        require: args.require.clone(),
        stage: stage(),
        ..ManagerOptions::new(setup, |warning| report::say(&format!("warning: {warning}")))
    })
}

/// The program that is executed inside, where somebody else makes the fence.
pub(crate) fn stage() -> Option<PathBuf> {
    std::env::current_exe().ok()
}

/// More input than that is not given to a sandbox elsewhere, which gets all of it with the command.
const MOST_INPUT: u64 = 256 * 1024 * 1024;

/// All of standard input, unless a person would have to type it.
fn input() -> Result<Stdin> {
    let stdin = std::io::stdin();
    if stdin.is_terminal() {
        return Ok(Stdin::Empty);
    }
    let mut bytes = Vec::new();
    let read = stdin.take(MOST_INPUT + 1).read_to_end(&mut bytes);
    let read =
        read.map_err(|error| Error::new(ErrorKind::Internal, "cannot read standard input").caused_by(error))?;
    if read as u64 > MOST_INPUT {
        let message =
            "this provider is given all input with the command, and there is more than 256 MiB of it";
        return Err(Error::new(ErrorKind::Validation, message).hint(
            "put it into a file of the project, or use the provider `local`, which hands the input over",
        ));
    }
    Ok(Stdin::Bytes(bytes))
}

/// The sandbox that follows from a configuration.
pub(crate) fn sandbox(setup: &Setup, args: &Sandbox) -> Result<CreateOptions> {
    let config = &setup.loaded.config;
    if config.provider != LOCAL {
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
        cwd: setup.start(),
        policy: setup.policy(),
        environment: setup.env.clone(),
        provider_options: setup.local_options(&args.require, stage().as_deref())?,
        hooks: Default::default(),
    })
}

fn command(args: &Run) -> Command {
    match &args.shell {
        Some(text) => Command::Shell(text.clone()),
        None => Command::Argv(args.argv.clone()),
    }
}

fn print_json(result: &ExecResult) -> Result<()> {
    let text = serde_json::to_string_pretty(result).map_err(|error| {
        Error::new(ErrorKind::Internal, "cannot write the result as JSON").caused_by(error)
    })?;
    writeln!(std::io::stdout(), "{text}")
        .map_err(|error| Error::new(ErrorKind::Internal, "cannot write to standard output").caused_by(error))
}
