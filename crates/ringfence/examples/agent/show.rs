//! The event log, one line each.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use ringfence::session::SessionEvent;

pub(crate) fn event(event: &SessionEvent) {
    let name = event.name();
    match event {
        SessionEvent::ToolCallRequested { tool, arguments, .. } => println!("{name:20} {tool} {arguments}"),
        SessionEvent::ApprovalRequested { summary, permission, .. } => {
            let options: Vec<_> = permission.options.iter().map(|option| serde_json::json!(option)).collect();
            println!("{name:20} {summary}\n{:20} options {}", "", serde_json::Value::from(options));
        }
        SessionEvent::ApprovalDecided { decision, reason, message, .. } => {
            let words = message.as_deref().map(|text| format!(": {text}")).unwrap_or_default();
            println!("{name:20} {} ({}){words}", serde_json::json!(decision), serde_json::json!(reason));
        }
        SessionEvent::ToolCallStarted { tool, .. } => println!("{name:20} {tool}"),
        SessionEvent::ToolCallFinished { tool, result, .. } => {
            let Some(result) = result else { return };
            let kind = result.error_kind.map(|kind| format!(" {}", kind.name())).unwrap_or_default();
            println!("{name:20} {tool} ok={}{kind}", result.ok);
            for line in result.stdout.lines().chain(result.stderr.lines()) {
                println!("{:20} | {line}", "");
            }
        }
        SessionEvent::RunFailed { message, .. }
        | SessionEvent::RunCancelled { message }
        | SessionEvent::Kept { message }
        | SessionEvent::Warning { message } => {
            println!("{name:20} {message}");
        }
        SessionEvent::JobEnded { job, exit_code, .. } => println!("{name:20} {job} exit={exit_code}"),
        SessionEvent::Output { .. } => {}
    }
}
