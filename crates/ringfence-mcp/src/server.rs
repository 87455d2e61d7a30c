//! The protocol's requests, each passed on.
#![expect(deprecated, reason = "logging is part of every version of the protocol that has sessions")]

use std::borrow::Cow;
use std::sync::{Arc, PoisonError};

use ringfence::model::{Error, ErrorKind};
use ringfence::tools::{Effect, ToolResult};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, Implementation, ListResourceTemplatesResult,
    ListResourcesResult, ListToolsResult, PaginatedRequestParams, ProtocolVersion, ReadResourceRequestParams,
    ReadResourceResponse, ServerCapabilities, ServerConfig, SetLevelRequestParams,
};
use rmcp::service::{NotificationContext, RequestContext};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::Value;

use crate::session::{Opened, Session};
use crate::{extra, offer, resources};

/// The last version with sessions, and so with a shell that keeps its state, and with questions to the client.
const NEWEST: ProtocolVersion = ProtocolVersion::V_2025_11_25;

const INSTRUCTIONS: &str = "\
Commands, code and files run inside a sandbox of the user's project. Inside, the project is writable (but for secrets, \
which are denied, and for files that run later, which are protected) and the system and its tool chains are readable. \
The home directory and /tmp are private: empty at first, gone at the end, so keep results in the project. There is no \
network unless `sandbox_status` says otherwise: downloads and look-ups of names fail, so do not try them again. \
`bash` keeps its directory and variables between calls. What the sandbox refuses is said in the result; a person may be asked, and only a person can allow it. A result \
with data.status `requires_permission` means: tell the user what is asked, then call `request_permission` with the id.";

/// One session as the protocol sees it.
#[derive(Debug, Clone)]
pub(crate) struct Server(pub(crate) Arc<Session>);

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let capabilities =
            ServerCapabilities::builder().enable_tools().enable_resources().enable_logging().build();
        let mut info = ServerConfig::new(capabilities).with_instructions(INSTRUCTIONS);
        info.protocol_version = NEWEST;
        info.server_info = Implementation::new("ringfence", self.0.options.version.clone());
        info
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Borrowed(ProtocolVersion::known_up_to(&NEWEST))
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let opened = self.0.open(&context.peer).await.map_err(|error| failed(&error))?;
        let specs = opened.tools.specs();
        // Ending the run is the client's to decide.
        let offered = specs.iter().filter(|spec| spec.effect != Effect::Controls).map(offer::tool);
        Ok(ListToolsResult::with_all_items(offered.chain(extra::tools()).collect()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        self.0.introduced(&context.extensions);
        let arguments = Value::Object(request.arguments.unwrap_or_default());
        let result = match self.0.open(&context.peer).await {
            Ok(opened) => self.call(&opened, &request.name, arguments, &context).await?,
            // The model can tell its user what is wrong.
            Err(error) => ToolResult::of_error(&error),
        };
        Ok(offer::result(&result).into())
    }

    async fn set_level(
        &self,
        request: SetLevelRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.0.calls.level.set(request.level);
        Ok(())
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let opened = self.0.open(&context.peer).await.map_err(|error| failed(&error))?;
        Ok(ListResourcesResult::with_all_items(resources::list(&opened)))
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let opened = self.0.open(&context.peer).await.map_err(|error| failed(&error))?;
        Ok(ListResourceTemplatesResult::with_all_items(resources::templates(&opened)))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let opened = self.0.open(&context.peer).await.map_err(|error| failed(&error))?;
        resources::read(&self.0, &opened, &request.uri).map(Into::into)
    }

    async fn on_roots_list_changed(&self, context: NotificationContext<RoleServer>) {
        self.0.moved(&context.peer).await;
    }
}

impl Server {
    async fn call(
        &self,
        opened: &Opened,
        name: &str,
        arguments: Value,
        context: &RequestContext<RoleServer>,
    ) -> Result<ToolResult, ErrorData> {
        let session = &self.0;
        if name == extra::STATUS {
            return Ok(session.status(opened, &arguments));
        }
        let resumes = name == extra::REQUEST && arguments.get("id").is_some();
        if !resumes && let Some(stopped) = session.goes_on(opened, context).await {
            return Ok(stopped);
        }
        if name == extra::REQUEST {
            return Ok(session.request(opened, arguments, context).await);
        }
        let known = ringfence::tools::catalogue::find(name).filter(|spec| spec.effect != Effect::Controls);
        let Some(known) = known else {
            return Err(ErrorData::invalid_params(format!("there is no tool `{name}`"), None));
        };
        // Jobs have shells of their own; a new one begins as a copy of ours.
        let starts = known.name != "jobs" || arguments.get("action").is_some_and(|action| action == "start");
        let in_the_shell = known.effect == Effect::Executes && starts;
        let turn = if in_the_shell {
            if let Some(busy) = session.busy() {
                return Ok(busy);
            }
            tokio::select! {
                turn = Arc::clone(&session.turn).lock_owned() => Some(turn),
                () = context.ct.cancelled() => {
                    return Ok(ToolResult::failed(ErrorKind::Cancelled, "cancelled before it ran"));
                }
            }
        } else {
            None
        };
        let name = known.name;
        let running = session.start(opened, turn, move |call, tools| tools.call_as(call, name, &arguments));
        Ok(session.follow(running, context, None).await)
    }
}

impl Session {
    /// The shell waits for a person's answer to an earlier call. One that got its answer meanwhile, and whose result
    /// nobody fetched, does not stand in the way.
    fn busy(&self) -> Option<ToolResult> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.retain(|_, running| !(running.has_turn() && running.is_finished()));
        let (id, _) = held.iter().find(|(_, running)| running.has_turn())?;
        let text = format!(
            "an earlier command waits for a person's answer to {id}: ringfence approve {id}, or ringfence deny {id}; \
             call request_permission with {{\"id\": \"{id}\"}} to go on with it\n"
        );
        Some(ToolResult::failed(ErrorKind::ConcurrentAccess, text).with("waiting", id.clone()))
    }
}

fn failed(error: &Error) -> ErrorData {
    let mut text = error.chain();
    for hint in &error.hints {
        text.push_str(&format!("; {hint}"));
    }
    ErrorData::internal_error(text, None)
}
