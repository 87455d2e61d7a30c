//! The lines between a guest and whoever uses it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::PathBuf;

use ringfence_fence::Approval;
use ringfence_fence::approval::AskAbout;
use ringfence_fence::approve::Answered;
use ringfence_model::config::LocalOptions;
use ringfence_model::{
    Assurance, Command, Decision, Error, ErrorKind, ExecRequest, ExecResult, Grant, Policy, Stdin,
    TerminalSize, Violation,
};
use serde::{Deserialize, Serialize};

use super::job_wire::{JobAnswer, JobCall};
use super::out_wire::{OutOrder, OutWord};

/// Said first by both sides; those who differ do not understand each other.
pub const VERSION: u32 = 4;

/// What a guest is told.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "say")]
pub enum Order {
    Start(Box<Start>),
    Run {
        id: u64,
        /// None: the main one.
        #[serde(default)]
        shell: Option<String>,
        request: Box<Request>,
    },
    Cancel {
        id: u64,
    },
    /// Ends a shell that has a name.
    Close {
        shell: String,
    },
    Answer {
        question: u64,
        decision: Decision,
    },
    /// About a background command.
    Job {
        id: u64,
        call: JobCall,
    },
    /// About a connection.
    Out {
        order: OutOrder,
    },
}

/// What the sandbox is made from. Paths are those inside.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Start {
    pub version: u32,
    pub cwd: PathBuf,
    pub policy: Policy,
    /// Added to the guest's own environment, of which the policy lets some names through.
    pub environment: BTreeMap<String, String>,
    /// For the local fence.
    pub options: LocalOptions,
    /// Whether anybody is asked about refusals, about which, and how long.
    #[serde(default)]
    pub ask: Option<Ask>,
    /// Whether connections are made for the guest.
    #[serde(default)]
    pub connects: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ask {
    pub deny_list_only: bool,
    pub timeout_ms: u64,
}

impl Ask {
    #[must_use]
    pub fn of(approval: &Approval) -> Self {
        Self {
            deny_list_only: approval.about == AskAbout::DenyList,
            timeout_ms: u64::try_from(approval.timeout.as_millis()).unwrap_or(u64::MAX),
        }
    }

    #[must_use]
    pub fn about(&self) -> AskAbout {
        if self.deny_list_only { AskAbout::DenyList } else { AskAbout::All }
    }
}

/// A request as it travels.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    shell: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    argv: Vec<Bytes>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cwd: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    env: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stdin: Option<Bytes>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    timeout_ms: Option<u64>,
    #[serde(default)]
    tty: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    size: Option<(u16, u16)>,
}

impl From<ExecRequest> for Request {
    fn from(request: ExecRequest) -> Self {
        let (shell, argv) = match request.command {
            Command::Shell(text) => (Some(text), vec![]),
            Command::Argv(argv) => {
                (None, argv.iter().map(|word| Bytes(word.as_os_str().as_bytes().to_vec())).collect())
            }
        };
        let stdin = match request.stdin {
            Stdin::Bytes(bytes) => Some(Bytes(bytes)),
            Stdin::Empty | Stdin::Inherit => None,
        };
        let (cwd, env, timeout_ms, tty) = (request.cwd, request.env, request.timeout_ms, request.tty);
        let size = request.size.map(|size| (size.rows, size.columns));
        Self { shell, argv, cwd, env, stdin, timeout_ms, tty, size }
    }
}

impl From<Request> for ExecRequest {
    fn from(request: Request) -> Self {
        let command = match request.shell {
            Some(text) => Command::Shell(text),
            None => Command::Argv(request.argv.into_iter().map(|word| OsString::from_vec(word.0)).collect()),
        };
        Self {
            cwd: request.cwd,
            env: request.env,
            stdin: request.stdin.map_or(Stdin::Empty, |bytes| Stdin::Bytes(bytes.0)),
            timeout_ms: request.timeout_ms,
            tty: request.tty,
            size: request.size.map(|(rows, columns)| TerminalSize { rows, columns }),
            call: None,
            command,
        }
    }
}

/// What a guest says.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "say")]
pub enum Word {
    Ready {
        version: u32,
        assurance: Assurance,
    },
    Stdout {
        id: u64,
        data: Bytes,
    },
    Stderr {
        id: u64,
        data: Bytes,
    },
    Violation {
        id: u64,
        violation: Box<Violation>,
    },
    Result {
        id: u64,
        result: Box<ExecResult>,
    },
    Failed {
        id: Option<u64>,
        error: Failure,
    },
    Question {
        question: u64,
        violation: Box<Violation>,
        command: String,
        grant: Grant,
    },
    Settled {
        question: u64,
        problem: Option<String>,
    },
    /// What came of a [`Order::Job`].
    Job {
        id: u64,
        answer: JobAnswer,
    },
    /// About a connection.
    Out {
        word: OutWord,
    },
    /// Output of jobs while no command runs.
    Late {
        stderr: bool,
        data: Bytes,
    },
}

/// An error as it travels.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Failure {
    kind: ErrorKind,
    message: String,
    hints: Vec<String>,
}

impl From<&Error> for Failure {
    fn from(error: &Error) -> Self {
        Self { kind: error.kind, message: error.chain(), hints: error.hints.clone() }
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        Self { hints: failure.hints, ..Self::new(failure.kind, failure.message) }
    }
}

#[must_use]
pub fn answered(by_clock: bool) -> Answered {
    if by_clock { Answered::ByClock } else { Answered::ByApprover }
}

/// Bytes as text where they are text, so that a person can read along; else encoded.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Bytes(pub Vec<u8>);

const ENCODED: &str = "base64:";

impl Serialize for Bytes {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use base64::Engine as _;
        match std::str::from_utf8(&self.0) {
            Ok(text) if !text.starts_with(ENCODED) => serializer.serialize_str(text),
            _ => {
                let encoded = base64::engine::general_purpose::STANDARD.encode(&self.0);
                serializer.serialize_str(&format!("{ENCODED}{encoded}"))
            }
        }
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use base64::Engine as _;
        let text = String::deserialize(deserializer)?;
        match text.strip_prefix(ENCODED) {
            Some(encoded) => base64::engine::general_purpose::STANDARD
                .decode(encoded)
                .map(Self)
                .map_err(serde::de::Error::custom),
            None => Ok(Self(text.into_bytes())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_comes_back_as_it_was() {
        let mut request = ExecRequest::shell("echo \u{1f600}; printf '\\0'");
        request.stdin = Stdin::Bytes(vec![0, 255, b'\n']);
        request.cwd = Some("/workspace/a b".into());
        request.env.insert("A".to_owned(), "1\n".to_owned());
        request.timeout_ms = Some(5);
        request.tty = true;
        let argv = ExecRequest::argv([OsString::from_vec(vec![b'a', 0xff]), "base64:x".into(), "".into()]);
        for request in [request, argv] {
            let line = serde_json::to_string(&Order::Run {
                id: 7,
                shell: None,
                request: Box::new(request.clone().into()),
            })
            .unwrap();
            assert!(!line.contains('\n'));
            let Order::Run { id: 7, shell: None, request: back } = serde_json::from_str(&line).unwrap()
            else {
                panic!("{line}")
            };
            assert_eq!(ExecRequest::from(*back), request);
        }
    }

    #[test]
    fn an_error_keeps_kind_words_and_hints() {
        let error = Error::new(ErrorKind::Validation, "no such directory")
            .caused_by(std::io::Error::other("gone"))
            .hint("make it");
        let line = serde_json::to_string(&Failure::from(&error)).unwrap();
        let back = Error::from(serde_json::from_str::<Failure>(&line).unwrap());
        assert_eq!((back.kind, back.message.as_str()), (ErrorKind::Validation, "no such directory: gone"));
        assert_eq!(back.hints, ["make it"]);
    }
}
