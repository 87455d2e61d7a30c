//! Why a command failed, as far as its words tell, and what to try.

use serde_json::{Value, json};

use super::result::ToolResult;

/// Names of tools that models type as commands.
const TOOLS: [&str; 5] = ["run_code", "apply_patch", "list", "search", "jobs"];

/// `command_not_found`, `invalid_usage` or `execution_error`, with a hint for the first two.
pub(crate) fn classify(result: &ToolResult) -> Option<Value> {
    let code = result.exit_code.filter(|code| *code != 0)?;
    let last = result.stderr.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let lower = result.stderr.to_lowercase();
    if code == 127 || last.ends_with("command not found") {
        let name = last.rsplit_once(": command not found").map_or("", |(before, _)| before);
        let name = name.rsplit(": ").next().unwrap_or_default().trim();
        let hint = if TOOLS.contains(&name) {
            format!("`{name}` is a tool of its own, not a command")
        } else {
            "look for another program with `command -v`, or install it in the project".to_owned()
        };
        return Some(json!({ "class": "command_not_found", "hint": hint }));
    }
    let usage = ["usage:", "invalid option", "unrecognized option", "unknown option", "missing operand"];
    if usage.iter().any(|word| lower.contains(word)) {
        return Some(json!({ "class": "invalid_usage", "hint": "run the program with --help" }));
    }
    Some(json!({ "class": "execution_error" }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_told_apart() {
        for (code, stderr, want) in [
            (127, "bash: line 1: foo: command not found\n", "command_not_found"),
            (2, "ls: unrecognized option '--x'\n", "invalid_usage"),
            (1, "Usage: thing FILE\n", "invalid_usage"),
            (1, "it broke\n", "execution_error"),
        ] {
            let mut result = ToolResult::text("");
            (result.exit_code, result.stderr) = (Some(code), stderr.to_owned());
            assert_eq!(classify(&result).unwrap()["class"], want, "{stderr}");
        }
        assert_eq!(classify(&ToolResult::text("")), None);
        let mut result = ToolResult::text("");
        (result.exit_code, result.stderr) = (Some(127), "bash: run_code: command not found".to_owned());
        assert!(classify(&result).unwrap()["hint"].as_str().unwrap().contains("is a tool"));
    }
}
