//! The two tools that are the server's own.

use std::path::PathBuf;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ringfence::fence::wait_for;
use ringfence::model::{Access, ErrorKind, NetworkPolicy};
use ringfence::permission::{ApprovalService as _, Permission};
use ringfence::tools::ToolResult;
use rmcp::RoleServer;
use rmcp::model::{Tool, ToolAnnotations};
use rmcp::service::RequestContext;
use schemars::{JsonSchema, schema_for};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::offer;
use crate::session::{Opened, Session};

/// Says where commands run and what holds them.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Status {}

/// Asks a person for a path, or goes on with a call that waits for its answer.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Request {
    /// The id of a question that waits: waits for its answer, and gives the result of the call that asked.
    #[serde(default)]
    id: Option<String>,
    /// A path to ask for ahead of time, for this session.
    #[serde(default)]
    path: Option<String>,
    /// `read`, `write` or `execute`.
    #[serde(default = "read")]
    access: Access,
    /// Why; the person is shown it as your words.
    #[serde(default)]
    reason: String,
    /// How long to wait for an answer.
    #[serde(default = "some_time")]
    #[schemars(range(min = 1, max = 600))]
    wait_seconds: u64,
}

fn read() -> Access {
    Access::Read
}

fn some_time() -> u64 {
    30
}

pub(crate) const STATUS: &str = "sandbox_status";
pub(crate) const REQUEST: &str = "request_permission";

pub(crate) fn tools() -> [Tool; 2] {
    let quiet = || ToolAnnotations::new().read_only(true).idempotent(true).open_world(false);
    [
        offer::described(
            STATUS,
            "Say where commands run, what is writable, what network there is, and what holds them.",
            schema_for!(Status).as_value(),
            quiet(),
        ),
        offer::described(
            REQUEST,
            "Ask a person for a path ahead of time, or go on with a call that waits for a person's answer.",
            schema_for!(Request).as_value(),
            quiet().read_only(false).destructive(false).idempotent(false),
        ),
    ]
}

impl Session {
    pub(crate) fn status(&self, opened: &Opened, arguments: &Value) -> ToolResult {
        if let Err(error) = serde_json::from_value::<Status>(arguments.clone()) {
            return ToolResult::failed(ErrorKind::Validation, format!("wrong arguments: {error}"));
        }
        let assurance = opened.tools.assurance();
        let held: Vec<String> =
            self.held.lock().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect();
        let layers = assurance.layers.iter().map(|layer| json!(layer));
        let layers: Vec<String> =
            layers.map(|layer| layer.as_str().map_or_else(|| layer.to_string(), str::to_owned)).collect();
        let workspace = opened.tools.workspace().display().to_string();
        let mut writable = vec![workspace];
        let others = opened.directories.iter().map(|directory| directory.display().to_string());
        for other in others {
            if !writable.contains(&other) {
                writable.push(other);
            }
        }
        let is_local = assurance.adapter.starts_with("local");
        let network = match opened.tools.network().filter(|_| is_local) {
            _ if !assurance.active => "the host's: there is no fence".to_owned(),
            Some(hosts) if hosts.is_by_name() => by_name(&hosts),
            _ if is_local => "none: downloads and look-ups of names fail".to_owned(),
            _ => "as the container is configured; by default none".to_owned(),
        };
        let text = format!(
            "project {}\nfence {} ({})\nwritable {}; secrets in it are denied, files that run later are protected\n\
             home and /tmp private, empty at first and gone at the end\nnetwork {network}\n{}",
            opened.tools.workspace().display(),
            if assurance.active { "active" } else { "not active" },
            layers.join(", "),
            writable.join(", "),
            if held.is_empty() {
                String::new()
            } else {
                format!("waiting for a person: {}\n", held.join(", "))
            },
        );
        let granted: Vec<Value> =
            opened.tools.questions().granted().iter().map(|grant| json!(grant)).collect();
        ToolResult::text(text)
            .with("project", opened.tools.workspace().display().to_string())
            .with("directories", json!(opened.directories))
            .with("writable", json!(writable))
            .with("home", "private")
            .with("network", network)
            .with("session", self.key.clone())
            .with("sandbox", json!(assurance))
            .with("tools", json!(opened.tools.specs().iter().map(|spec| spec.name).collect::<Vec<_>>()))
            .with("usage", json!(opened.tools.usage()))
            .with("granted", granted)
            .with("waiting", held)
            .with("runEnded", json!(opened.tools.questions().ended()))
    }

    pub(crate) async fn request(
        &self,
        opened: &Opened,
        arguments: Value,
        context: &RequestContext<RoleServer>,
    ) -> ToolResult {
        let request: Request = match serde_json::from_value(arguments) {
            Ok(request) => request,
            Err(error) => {
                return ToolResult::failed(ErrorKind::Validation, format!("wrong arguments: {error}"));
            }
        };
        match (request.id, request.path) {
            (Some(id), None) => {
                self.resume(&id, Duration::from_secs(request.wait_seconds.clamp(1, 600)), context).await
            }
            (None, Some(path)) => {
                let (access, reason) = (request.access, request.reason);
                let running = self.start(opened, None, move |call, tools| {
                    tools.request_access(call, &PathBuf::from(path), access, &reason)
                });
                self.follow(running, context, None).await
            }
            _ => ToolResult::failed(ErrorKind::Validation, "give either `id` or `path`"),
        }
    }

    /// Goes on with a call that waits.
    async fn resume(&self, id: &str, most: Duration, context: &RequestContext<RoleServer>) -> ToolResult {
        let running = self.held.lock().unwrap_or_else(PoisonError::into_inner).remove(id);
        let Some(running) = running else {
            let text = format!("no call of this session waits for `{id}`");
            return ToolResult::failed(ErrorKind::NotFound, text);
        };
        let letter = self.options.file_questions.waiting().ok().into_iter().flatten();
        let question = letter.map(|letter| letter.permission).find(|permission| permission.id == id);
        self.follow(running, context, question.map(|question| (most, question))).await
    }

    /// A run that was ended by refusals goes on only if a person says so. Gives what to tell the client otherwise.
    pub(crate) async fn goes_on(
        &self,
        opened: &Opened,
        context: &RequestContext<RoleServer>,
    ) -> Option<ToolResult> {
        let ended = opened.tools.questions().ended()?;
        let over = || {
            let text = format!("this session is over: {}; reconnect to begin another", ended.message);
            ToolResult::failed(ended.error_kind, text).with("reason", "run_ended")
        };
        if self.over.load(Ordering::Acquire) {
            return Some(over());
        }
        let why = format!("the agent was stopped ({}), and wants to go on", ended.message);
        let calls = std::sync::Arc::clone(&self.calls);
        let running = self.start(opened, None, move |call, tools| {
            let redact = tools.questions().redact();
            let permission = Permission::tool("ringfence", &why, &json!({ "ended": why }), redact);
            calls.route(&permission.id, call);
            let answer = wait_for(calls.ask(&permission), permission.timeout());
            match answer {
                Some(answer) if answer.decision.allows() => {
                    tools.begin_run();
                    ToolResult::text("")
                }
                _ => ToolResult::failed(ErrorKind::ApprovalDenied, ""),
            }
        });
        let result = self.follow(running, context, None).await;
        match result.error_kind {
            None => None,
            Some(ErrorKind::HumanRequired) => Some(result),
            Some(_) => {
                self.over.store(true, Ordering::Release);
                Some(over())
            }
        }
    }
}

/// The hosts that may be reached, in words.
fn by_name(hosts: &NetworkPolicy) -> String {
    let named = hosts.allowed_hosts.iter().map(|rule| match &rule.inspect {
        None => rule.to_string(),
        Some(passes) => format!("{rule} ({passes})"),
    });
    let named: Vec<String> = named.collect();
    let ports: Vec<String> = hosts.host_ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
    let reached = [named, ports].concat().join(", ");
    match (reached.is_empty(), hosts.ask) {
        (true, _) => "a person is asked about each host".to_owned(),
        (false, true) => format!("by TCP to {reached}; a person is asked about others"),
        (false, false) => format!("by TCP to {reached}; all else fails"),
    }
}
