//! One case: what is there, what runs, what must be true afterwards.
//!
//! Texts may name what only exists once the case is set up: `{project}`, `{home}`, `{outside}` (a directory no
//! rule mentions), `{port}` (of a listener of the host), `{victim}` (pid of a process of the host), `{marker}`
//! (a word found nowhere else).

use std::collections::BTreeMap;
use std::ffi::OsString;

use ringfence_model::environment::DEFAULT_PASS;
use ringfence_model::{Command, Environment, ExecRequest, Operation, PathRule, Policy, Stdin};

use super::place::Place;
use crate::CreateOptions;

/// Put before a command that must wait for the host to have done something; see [`Case::meanwhile`].
pub(super) const WAIT: &str = "touch ready; for i in $(seq 1000); do [ -e go ] && break; sleep 0.01; done; ";

/// One case of the suite: a world, a command in it, and what must be seen.
#[derive(Debug, Clone)]
pub struct Case {
    /// `group/what`.
    pub name: &'static str,
    pub(super) command: Command,
    pub(super) files: Vec<(&'static str, Entry)>,
    pub(super) tweak: fn(&mut Policy, &Place),
    pub(super) environment: Vec<(&'static str, &'static str)>,
    pub(super) stdin: Stdin,
    pub(super) cwd: Option<&'static str>,
    pub(super) meanwhile: Option<fn(&Place) -> std::io::Result<()>>,
    pub(super) expectations: Vec<Expect>,
    pub(super) exit: Exit,
}

/// What is put somewhere before the command runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Entry {
    File(&'static str),
    Directory,
    Link(&'static str),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Exit {
    Is(i32),
    NotZero,
    Any,
    /// The sandbox must not start, with an error that has this in it.
    Refused(&'static str),
}

#[derive(Debug, Clone)]
pub(super) enum Expect {
    Stdout(Vec<u8>),
    StdoutHas(&'static str),
    StdoutLacks(&'static str),
    Stderr(Vec<u8>),
    StderrHas(&'static str),
    /// With this as the resource.
    Blocked(&'static str),
    NotBlocked,
    Violation(Operation, &'static str),
    NoViolation,
    TimedOut,
    Truncated,
    /// A limit was reached and is reported under this name.
    Limit(&'static str),
    HostHas(&'static str, &'static str),
    HostLacks(&'static str),
    /// No name came or went in any of the case's directories.
    NoNewNames,
    /// The process of the host lives.
    VictimLives,
    /// Nobody has reached the listener of the host.
    ListenerUntouched,
    /// No process with the marker in its command line is left on the host.
    MarkerGone,
}

/// Starts a case that runs shell text and expects it to succeed.
#[must_use]
pub(super) fn shell(name: &'static str, text: impl Into<String>) -> Case {
    Case {
        name,
        command: Command::Shell(text.into()),
        files: vec![],
        tweak: |_, _| (),
        environment: vec![],
        stdin: Stdin::Empty,
        cwd: None,
        meanwhile: None,
        expectations: vec![],
        exit: Exit::Is(0),
    }
}

/// As [`shell`], for a command that first waits until `act` was done on the host.
#[must_use]
pub(super) fn shell_after(
    name: &'static str,
    act: fn(&Place) -> std::io::Result<()>,
    text: &'static str,
) -> Case {
    Case { meanwhile: Some(act), ..shell(name, format!("{WAIT}{text}")) }
}

impl Case {
    pub(super) fn argv(mut self, argv: &[&str]) -> Self {
        self.command = Command::Argv(argv.iter().map(OsString::from).collect());
        self
    }

    /// A file with this content; its directories are made.
    pub(super) fn file(self, path: &'static str, content: &'static str) -> Self {
        self.entry(path, Entry::File(content))
    }

    pub(super) fn directory(self, path: &'static str) -> Self {
        self.entry(path, Entry::Directory)
    }

    pub(super) fn link(self, path: &'static str, target: &'static str) -> Self {
        self.entry(path, Entry::Link(target))
    }

    fn entry(mut self, path: &'static str, entry: Entry) -> Self {
        self.files.push((path, entry));
        self
    }

    pub(super) fn policy(mut self, tweak: fn(&mut Policy, &Place)) -> Self {
        self.tweak = tweak;
        self
    }

    /// A variable of the caller.
    pub(super) fn variable(mut self, name: &'static str, value: &'static str) -> Self {
        self.environment.push((name, value));
        self
    }

    pub(super) fn stdin(mut self, bytes: &[u8]) -> Self {
        self.stdin = Stdin::Bytes(bytes.to_vec());
        self
    }

    pub(super) fn cwd(mut self, path: &'static str) -> Self {
        self.cwd = Some(path);
        self
    }

    pub(super) fn exits(mut self, code: i32) -> Self {
        self.exit = Exit::Is(code);
        self
    }

    pub(super) fn fails(mut self) -> Self {
        self.exit = Exit::NotZero;
        self
    }

    pub(super) fn exits_somehow(mut self) -> Self {
        self.exit = Exit::Any;
        self
    }

    pub(super) fn refused(mut self, with: &'static str) -> Self {
        self.exit = Exit::Refused(with);
        self
    }

    pub(super) fn prints(self, text: &str) -> Self {
        self.expect(Expect::Stdout(text.as_bytes().to_vec()))
    }

    pub(super) fn expect(mut self, expectation: Expect) -> Self {
        self.expectations.push(expectation);
        self
    }

    /// The sandbox and the request this case asks for.
    pub(super) fn prepare(
        &self,
        place: &Place,
        caller: &BTreeMap<OsString, OsString>,
    ) -> (CreateOptions, ExecRequest) {
        let mut environment = caller.clone();
        environment.insert("HOME".into(), place.home.clone().into());
        for (name, value) in &self.environment {
            environment.insert((*name).into(), place.fill(value).into());
        }
        let mut policy = base_policy(place);
        (self.tweak)(&mut policy, place);
        let options = CreateOptions {
            cwd: place.project.clone(),
            policy,
            environment,
            provider_options: crate::ProviderOptions::None,
            hooks: crate::Hooks::default(),
        };
        let command = match &self.command {
            Command::Shell(text) => Command::Shell(place.fill(text)),
            Command::Argv(argv) => Command::Argv(argv.clone()),
        };
        let request = ExecRequest {
            stdin: self.stdin.clone(),
            cwd: self.cwd.map(|cwd| place.path(cwd)),
            ..ExecRequest::new(command)
        };
        (options, request)
    }
}

/// A project to write, secrets to deny, names to protect: the shape of every real policy.
fn base_policy(place: &Place) -> Policy {
    let mut policy = Policy::default();
    let fs = &mut policy.filesystem;
    fs.allow_write.push(PathRule::built_in(place.project.as_path()));
    fs.deny.push(PathRule::built_in("**/.env"));
    fs.deny.push(PathRule::built_in("**/*.pem"));
    fs.deny.push(PathRule::built_in(place.home.join(".ssh")));
    for name in ["**/.git/hooks", "**/.git/config", "**/.vscode", "**/.ringfence"] {
        fs.protect.push(PathRule::built_in(name));
    }
    fs.protect.push(PathRule::built_in(place.home.join(".bashrc")));
    fs.private.push(PathRule::built_in(place.home.as_path()));
    fs.private.push(PathRule::built_in("/tmp"));
    policy.environment = Environment {
        pass: DEFAULT_PASS.iter().map(|name| (*name).to_owned()).collect(),
        set: BTreeMap::new(),
    };
    policy
}
