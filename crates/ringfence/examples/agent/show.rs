//! The event log, one line each.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use ringfence::tools::ToolEvent;

pub(crate) fn event(event: &ToolEvent) {
    let name = event.name();
    match event {
        ToolEvent::ToolCallRequested { tool, arguments, .. } => println!("{name:20} {tool} {arguments}"),
        ToolEvent::ApprovalRequested { summary, permission, .. } => {
            let options: Vec<_> = permission.options.iter().map(|option| serde_json::json!(option)).collect();
            println!("{name:20} {summary}\n{:20} options {}", "", serde_json::Value::from(options));
        }
        ToolEvent::ApprovalDecided { decision, reason, message, .. } => {
            let words = message.as_deref().map(|text| format!(": {text}")).unwrap_or_default();
            println!("{name:20} {} ({}){words}", serde_json::json!(decision), serde_json::json!(reason));
        }
        ToolEvent::ToolCallStarted { tool, .. } => println!("{name:20} {tool}"),
        ToolEvent::ToolCallFinished { tool, result, .. } => {
            let kind = result.error_kind.map(|kind| format!(" {}", kind.name())).unwrap_or_default();
            println!("{name:20} {tool} ok={}{kind}", result.ok);
            for line in result.stdout.lines().chain(result.stderr.lines()) {
                println!("{:20} | {line}", "");
            }
        }
        ToolEvent::RunFailed { message, .. }
        | ToolEvent::RunCancelled { message }
        | ToolEvent::Warning { message } => {
            println!("{name:20} {message}");
        }
        ToolEvent::JobEnded { job, exit_code, .. } => println!("{name:20} {job} exit={exit_code}"),
        ToolEvent::Output { .. } => {}
    }
}
