//! A provider from outside: workspaces on another machine, by its HTTP API. It uses nothing of ringfence but what is public.

use std::collections::BTreeMap;
use std::io::{Error as IoError, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ringfence::fence::{BoxFuture, CreateOptions, EventSink, Provider, Sandbox, SandboxInfo, SandboxStatus};
use ringfence::local::offload::offload;
use ringfence::model::{
    Assurance, Command, Degradation, Error, ErrorKind, ExecEvent, ExecRequest, ExecResult, Layer, PolicyMode,
    Result, Stdin,
};
use serde_json::{Value, json};

/// What it is registered under.
pub(crate) const KIND: &str = "remote";

/// How long a request without a command may take.
const LIMIT: Duration = Duration::from_secs(60);

#[derive(Debug, Clone)]
pub(crate) struct Remote {
    pub(crate) server: SocketAddr,
    pub(crate) token: String,
}

impl Remote {
    /// One request and its answer. An answer that says no is an error in the service's own words.
    fn request(&self, method: &str, path: &str, body: &Value, limit: Option<Duration>) -> Result<Value> {
        let lost = |error: IoError| {
            Error::new(
                ErrorKind::SandboxNotAvailable,
                format!("the service at {} cannot be reached", self.server),
            )
            .caused_by(error)
        };
        let body = body.to_string();
        let mut stream = TcpStream::connect_timeout(&self.server, LIMIT).map_err(lost)?;
        stream.set_read_timeout(limit).map_err(lost)?;
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: remote\r\nAuthorization: Bearer {}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            self.token,
            body.len()
        );
        stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes())).map_err(lost)?;
        let mut answer = String::new();
        // From here on the command may have run.
        let broken = |error: IoError| {
            Error::new(ErrorKind::Unknown, "the service did not answer; the command may have run")
                .caused_by(error)
        };
        stream.read_to_string(&mut answer).map_err(broken)?;
        let (head, content) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        let value: Value = serde_json::from_str(content).unwrap_or(Value::Null);
        match head.split(' ').nth(1) {
            Some("200") => Ok(value),
            Some("404") => {
                Err(Error::new(ErrorKind::SandboxNotAvailable, "the workspace is gone; nothing ran"))
            }
            status => {
                let said = value["error"].as_str().unwrap_or("nothing");
                let message = format!("the service answered {}: {said}", status.unwrap_or("nonsense"));
                Err(Error::new(ErrorKind::InitializationFailed, message))
            }
        }
    }
}

impl Provider for Remote {
    fn kind(&self) -> &str {
        KIND
    }

    fn create(&self, options: CreateOptions) -> BoxFuture<'_, Result<Arc<dyn Sandbox>>> {
        let remote = self.clone();
        Box::pin(async move {
            // What a workspace on another machine cannot hold is refused, never left out in silence.
            let grants = &options.policy.filesystem.grants;
            if let Some(rule) = grants.iter().find(|grant| grant.path != options.cwd) {
                let message = format!("a grant for {} cannot be had on another machine", rule.path.display());
                return Err(Error::new(ErrorKind::SandboxDenied, message));
            }
            let limits = options.policy.limits;
            let body = json!({ "memory": limits.max_memory_bytes, "name": options.hooks.scope_key });
            let its = remote.clone();
            let made = offload(move || its.request("POST", "/workspaces", &body, Some(LIMIT))).await??;
            let id = made["id"].as_str().unwrap_or_default().to_owned();
            let sandbox =
                Workspace { id, remote, timeout_ms: limits.timeout_ms, disposed: AtomicBool::new(false) };
            Ok(Arc::new(sandbox) as Arc<dyn Sandbox>)
        })
    }

    fn destroy<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<()>> {
        let (remote, path) = (self.clone(), format!("/workspaces/{id}"));
        Box::pin(async move {
            let gone = offload(move || remote.request("DELETE", &path, &Value::Null, Some(LIMIT))).await?;
            match gone {
                Err(error) if error.kind != ErrorKind::SandboxNotAvailable => Err(error),
                _ => Ok(()),
            }
        })
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<SandboxInfo>>> {
        let remote = self.clone();
        Box::pin(async move {
            let all =
                offload(move || remote.request("GET", "/workspaces", &Value::Null, Some(LIMIT))).await??;
            let ids = all["ids"].as_array().into_iter().flatten().filter_map(Value::as_str);
            Ok(ids.map(|id| SandboxInfo { id: id.to_owned(), status: SandboxStatus::Running }).collect())
        })
    }
}

#[derive(Debug)]
struct Workspace {
    id: String,
    remote: Remote,
    timeout_ms: Option<u64>,
    disposed: AtomicBool,
}

impl Sandbox for Workspace {
    fn id(&self) -> &str {
        &self.id
    }

    /// Another machine holds the command, and that is all that is known here.
    fn assurance(&self) -> Assurance {
        Assurance {
            requested: PolicyMode::Restricted,
            effective: PolicyMode::Restricted,
            active: true,
            adapter: KIND.to_owned(),
            layers: vec![Layer::Container],
            degraded: vec![Degradation::note("what is refused on the other machine is not told")],
        }
    }

    fn execute<'a>(
        &'a self,
        request: ExecRequest,
        events: EventSink<'a>,
    ) -> BoxFuture<'a, Result<ExecResult>> {
        Box::pin(async move {
            let command = match &request.command {
                Command::Shell(text) => text.clone(),
                Command::Argv(_) => {
                    return Err(Error::new(ErrorKind::Unsupported, "this service runs shell text only"));
                }
            };
            let input = match &request.stdin {
                Stdin::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
                Stdin::Empty | Stdin::Inherit => String::new(),
            };
            let timeout_ms = request.timeout_ms.into_iter().chain(self.timeout_ms).min();
            let environment: BTreeMap<String, String> = request.env.clone();
            let body =
                json!({ "command": command, "input": input, "env": environment, "timeoutMs": timeout_ms });
            let (remote, path) = (self.remote.clone(), format!("/workspaces/{}/exec", self.id));
            // The service keeps the time; this is for one that is gone.
            let limit = timeout_ms.map(|limit| Duration::from_millis(limit) + LIMIT);
            let said = offload(move || remote.request("POST", &path, &body, limit)).await??;
            let text = |key: &str| said[key].as_str().unwrap_or_default().as_bytes().to_vec();
            let (stdout, stderr) = (text("stdout"), text("stderr"));
            events(ExecEvent::Stdout(stdout.clone()));
            events(ExecEvent::Stderr(stderr.clone()));
            let exit_code = said["exitCode"].as_i64().and_then(|code| i32::try_from(code).ok()).unwrap_or(-1);
            Ok(ExecResult {
                stdout,
                stderr,
                exit_code,
                timed_out: exit_code == 124,
                ..ExecResult::silent(self.assurance())
            })
        })
    }

    fn dispose(&self) -> BoxFuture<'_, Result<()>> {
        if self.disposed.swap(true, Ordering::AcqRel) {
            return Box::pin(std::future::ready(Ok(())));
        }
        self.remote.destroy(&self.id)
    }

    fn is_alive(&self) -> bool {
        !self.disposed.load(Ordering::Acquire)
    }
}
