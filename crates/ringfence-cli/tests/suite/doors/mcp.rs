//! The tools by the Model Context Protocol: over standard input and output, and over HTTP.

use std::process::Stdio;
use std::sync::Arc;

use rmcp::model::{
    ClientCapabilities, ClientConfig, ElicitRequestParams, ElicitResult, ElicitationAction,
    ReadResourceRequestParams,
};
use rmcp::service::{RequestContext, RunningService};
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::transport::{StreamableHttpClientTransport, TokioChildProcess};
use rmcp::{ClientHandler, ErrorData, RoleClient, ServiceExt as _};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use super::super::approval::Person as AtTerminal;
use super::super::mcp::{says, wish};
use super::super::mcp_http::{Server, TOKEN};
use super::super::support::Room;
use super::door::{Can, Door, Person, Seen};
use super::rule::{Answer, Step};
use super::tools::one;

/// How a client gets to the server, and a question to a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Stdio,
    /// The client cannot ask: questions are answered by `ringfence approve`.
    StdioWithoutAsking,
    Http,
}

/// One tool, that way.
pub(crate) struct Mcp(pub(crate) Way, pub(crate) &'static str);

impl Door for Mcp {
    fn name(&self) -> String {
        let way = match self.0 {
            Way::Stdio => "mcp stdio",
            Way::StdioWithoutAsking => "mcp approve",
            Way::Http => "mcp http",
        };
        format!("{way} {}", self.1)
    }

    fn can(&self) -> Can {
        Can { ask: true, remember: true, tell_commands_apart: true }
    }

    fn tool(&self) -> Option<&'static str> {
        Some(self.1)
    }

    fn play(&self, room: &Room, steps: &[Step]) -> Vec<Seen> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.unwrap();
        let server = (self.0 == Way::Http).then(|| Server::start(room));
        let person = Arc::new(Person::default());
        let client = Client { person: Arc::clone(&person), asks: self.0 != Way::StdioWithoutAsking };
        let client = match runtime.block_on(client.connect(room, server.as_ref())) {
            Ok(client) => client,
            Err(why) => return vec![Seen::closed(why); steps.len()],
        };
        let mut call = |name: &'static str, arguments: Value| {
            answered(room, &runtime, &client, &person, name, arguments)
        };
        let seen = steps.iter().map(|step| one(self.1, step, &person, &mut call)).collect();
        runtime.block_on(async {
            // Asking for the ledger writes what is still to be written.
            let ledger = ReadResourceRequestParams::new("ringfence://session/ledger");
            let _ = client.read_resource(ledger).await;
            let _ = client.cancel().await;
        });
        seen
    }
}

/// A client, and the person who sits there.
#[derive(Clone)]
struct Client {
    person: Arc<Person>,
    asks: bool,
}

impl ClientHandler for Client {
    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        if self.asks {
            capabilities.elicitation = Some(Default::default());
        }
        ClientConfig::new(capabilities, rmcp::model::Implementation::new("tests", "1"))
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let question = match request {
            ElicitRequestParams::FormElicitationParams { message, .. } => message,
            _ => "a question that is no form".to_owned(),
        };
        Ok(match self.person.hears(question) {
            Answer::Once => says("once"),
            Answer::Session => says("session"),
            Answer::Always => says("always"),
            Answer::Deny => ElicitResult::new(ElicitationAction::Decline),
            Answer::Abort => ElicitResult::new(ElicitationAction::Cancel),
        })
    }
}

impl Client {
    async fn connect(
        self,
        room: &Room,
        server: Option<&Server>,
    ) -> Result<RunningService<RoleClient, Self>, String> {
        if let Some(server) = server {
            let uri = format!("http://{}/mcp", server.address);
            let config = StreamableHttpClientTransportConfig::with_uri(uri).auth_header(TOKEN);
            let transport = StreamableHttpClientTransport::from_config(config);
            return self.serve(transport).await.map_err(|error| error.to_string());
        }
        let program = room.command(&["mcp"]);
        let mut command = tokio::process::Command::new(program.get_program());
        command.args(program.get_args()).current_dir(&room.project).env_clear();
        command.envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let (transport, _) = TokioChildProcess::builder(command).stderr(Stdio::null()).spawn().unwrap();
        self.serve(transport).await.map_err(|error| error.to_string())
    }
}

/// The structured result of a call. One that waits for a person is answered at a terminal, and gone on with.
fn answered(
    room: &Room,
    runtime: &Runtime,
    client: &RunningService<RoleClient, Client>,
    person: &Person,
    name: &'static str,
    arguments: Value,
) -> Result<Value, String> {
    let call = |name, arguments| {
        let result = runtime.block_on(client.call_tool(wish(name, arguments)));
        let result = result.map_err(|error| error.to_string())?;
        let text = || format!("{:?}", result.content);
        result.structured_content.clone().ok_or_else(text)
    };
    let mut result = call(name, arguments)?;
    while result["data"]["status"] == "requires_permission" {
        let question = result["data"]["permission"].clone();
        let answer = person.hears(question.to_string());
        let id = question["id"].as_str().unwrap_or_default();
        let mut terminal = AtTerminal::at_terminal(room, &["approve", id]);
        if terminal.sees_one_of(&[("[q]uit? ", 1)]).is_some() {
            terminal.decides(answer.key());
        }
        terminal.leaves();
        result = call("request_permission", json!({ "id": id, "waitSeconds": 60 }))?;
    }
    Ok(result)
}
