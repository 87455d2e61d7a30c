//! How tools and results look to the client.

use ringfence::model::ErrorKind;
use ringfence::permission::Permission;
use ringfence::tools::{Effect, ToolResult, ToolSpec};
use rmcp::model::{CallToolResult, ContentBlock, Tool, ToolAnnotations};
use serde_json::{Value, json};

use crate::schema::{self, Way};

/// A tool of the façade.
pub(crate) fn tool(spec: &ToolSpec) -> Tool {
    let notes = match spec.effect {
        Effect::Reads => ToolAnnotations::new().read_only(true).idempotent(true).open_world(false),
        Effect::Writes => {
            let same_again = spec.name == "write";
            ToolAnnotations::new().read_only(false).destructive(true).idempotent(same_again).open_world(false)
        }
        Effect::Executes | Effect::Controls => {
            ToolAnnotations::new().read_only(false).destructive(true).idempotent(false).open_world(true)
        }
    };
    described(spec.name, spec.description, spec.input_schema.as_value(), notes)
}

pub(crate) fn described(
    name: &'static str,
    description: &'static str,
    input: &Value,
    notes: ToolAnnotations,
) -> Tool {
    let output = schema::portable(schemars::schema_for!(ToolResult).as_value(), Way::Result);
    Tool::new(name, description, schema::portable(input, Way::Arguments))
        .with_raw_output_schema(output)
        .with_annotations(notes)
}

/// A result: all of it as structure, and what a model needs as text.
pub(crate) fn result(result: &ToolResult) -> CallToolResult {
    let mut reply = CallToolResult::success(vec![ContentBlock::text(text(result))]);
    reply.is_error = Some(result.is_error() && result.error_kind != Some(ErrorKind::HumanRequired));
    reply.structured_content = serde_json::to_value(result).ok();
    reply
}

fn text(result: &ToolResult) -> String {
    let mut text = result.stdout.clone();
    let mut add = |more: &str| {
        if more.is_empty() {
            return;
        }
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(more);
    };
    add(&result.stderr);
    if result.error_kind == Some(ErrorKind::ExitCode) {
        add(&format!("[exit code {}]", result.exit_code.unwrap_or_default()));
    } else if let Some(kind) = result.error_kind.filter(|kind| *kind != ErrorKind::HumanRequired) {
        add(&format!(
            "[{}]",
            serde_json::to_value(kind).ok().as_ref().and_then(Value::as_str).unwrap_or("error")
        ));
    }
    if let Some(message) = result.data.get("blocked").and_then(|blocked| blocked["message"].as_str()) {
        add(&format!("[the sandbox refused: {message}]"));
    }
    if text.is_empty() { "[no output]".to_owned() } else { text }
}

/// The call waits for a person whom this client cannot ask.
pub(crate) fn requires_permission(permission: &Permission) -> ToolResult {
    let id = &permission.id;
    let words = format!(
        "requires_permission: {}\nA person answers in a terminal: ringfence approve {id} (or: ringfence deny {id}).\n\
         Tell your user, then call request_permission with {{\"id\": \"{id}\"}} to go on.\n",
        permission.sentence()
    );
    let mut result = ToolResult::failed(ErrorKind::HumanRequired, words)
        .with("status", "requires_permission")
        .with("permission", serde_json::to_value(permission).unwrap_or_default())
        .with(
            "answer",
            json!({ "approve": format!("ringfence approve {id}"), "deny": format!("ringfence deny {id}") }),
        );
    result.retryable = true;
    result
}
