//! `ringfence explain --session`: where a session works, and which keys decide it.

use std::fmt::Write as _;
use std::process::ExitCode;

use ringfence::ledger::{Sandbox as Row, now_ms};
use ringfence::manager::context::{ListedTool, SandboxContext};
use ringfence::manager::{Manager, ManagerOptions, SessionRules, built_in};
use ringfence::model::Result;
use ringfence::model::config::{SessionMode, WorkspaceAccess};
use ringfence::setup::Setup;
use serde::Serialize;

use crate::args::Sandbox;
use crate::output::{self, Palette, Tone, one_line};
use crate::places::Places;
use crate::report;
use crate::since::ago;

/// Lists of tools are cut to this for people; `--json` has all.
const TOOLS_SHOWN: usize = 12;
/// The tools that ringfence itself has, by their names here and elsewhere.
const OWN_TOOLS: [&str; 11] =
    ["bash", "exec", "process", "jobs", "run_code", "read", "write", "edit", "apply_patch", "list", "search"];

pub(super) fn explain(key: &str, sandbox: &Sandbox, json: bool) -> Result<ExitCode> {
    // The agent is named by the key, unless the person names another.
    let agent = SessionRules::default().status(key).agent_id;
    let sandbox = Sandbox { agent: sandbox.agent.clone().or(Some(agent)), ..sandbox.clone() };
    let setup = super::load(&sandbox)?;
    let user_file = setup.ringfence_home.join("sandbox.json");
    let explained = Explained::new(key, setup, user_file.display().to_string())?;
    if json {
        output::print_json(&explained)?;
    } else {
        output::print(&explained.text(Palette::of_stdout()))?;
    }
    Ok(ExitCode::from(u8::from(!explained.context.enabled)))
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Explained {
    #[serde(flatten)]
    context: SandboxContext,
    /// The register's rows of its sandboxes.
    registered: Vec<Row>,
    /// Settings that would change it.
    change: Vec<String>,
}

impl Explained {
    fn new(key: &str, setup: Setup, user_file: String) -> Result<Self> {
        let options = ManagerOptions::new(&setup, report::say);
        let manager = Manager::new(setup, built_in()?, options);
        let context = manager.explain(key)?;
        let registered = registered(&context)?;
        let change = change(&context, &user_file);
        Ok(Self { context, registered, change })
    }

    fn text(&self, palette: Palette) -> String {
        let context = &self.context;
        let mut text = String::new();
        let mut line = |name: &str, value: &str| {
            let _ = writeln!(text, "  {name:<10} {}", one_line(value));
        };
        match context.enabled {
            true => line("session", &format!("{} is sandboxed", context.session_key)),
            false => line("session", &format!("{} is not sandboxed", context.session_key)),
        }
        line("agent", &format!("{} (its main session is {})", context.agent_id, context.main_session_key));
        if context.enabled {
            line("sandbox", &format!("{} by the provider {}", context.scope_key, context.provider));
        }
        let access = match context.workspace_access {
            WorkspaceAccess::Rw => "the project itself, writable",
            WorkspaceAccess::Ro => "the project itself, to read only",
            WorkspaceAccess::None => "a directory of its own",
        };
        line("works in", &format!("{} ({access})", context.workspace_dir.display()));
        if let (Some(name), Some(workdir)) = (&context.container_name, &context.container_workdir) {
            line("container", &format!("{name}, where it is seen at {workdir}"));
        }
        for row in &self.registered {
            let used = if row.in_use {
                "in use".to_owned()
            } else {
                format!("used {}", ago(row.last_used_at_ms, now_ms()))
            };
            line("there is", &format!("{}, made {}, {used}", row.name, ago(row.created_at_ms, now_ms())));
        }
        if context.enabled {
            line("tools", &tools(&context.tools.allow, "all"));
            line("not", &tools(&context.tools.deny, "none"));
        }
        for reason in &context.reasons {
            line("because", &format!("{} is {} ({})", reason.key, reason.value, reason.source));
        }
        for change in &self.change {
            line("change", change);
        }
        let (tone, verdict) =
            if context.enabled { (Tone::Good, "sandboxed") } else { (Tone::Warning, "not sandboxed") };
        format!("{}\n{text}", palette.paint(tone, verdict))
    }
}

fn tools(listed: &[ListedTool], nothing: &str) -> String {
    if listed.is_empty() {
        return nothing.to_owned();
    }
    // Names that only other programs give to tools say nothing to who uses ringfence alone.
    let ours = |tool: &&ListedTool| OWN_TOOLS.contains(&tool.name.as_str());
    let (own, source) = (listed.iter().filter(ours).count(), listed[0].source.to_string());
    if own == 0 && source.starts_with("built-in") {
        return format!(
            "{} names of tools that other programs have ({source}); --json lists them",
            listed.len()
        );
    }
    let names: Vec<&str> = listed.iter().take(TOOLS_SHOWN).map(|tool| tool.name.as_str()).collect();
    let more = listed.len().saturating_sub(TOOLS_SHOWN);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more} ({})", names.join(", "), listed[0].source)
}

/// The register's rows for the session's scope, without asking any provider.
fn registered(context: &SandboxContext) -> Result<Vec<Row>> {
    let Some(ledger) = Places::find(None)?.ledger()? else { return Ok(vec![]) };
    let mut rows = ledger.sandboxes(&Default::default())?;
    rows.retain(|row| context.enabled && row.session_key == context.scope_key);
    Ok(rows)
}

fn change(context: &SandboxContext, user_file: &str) -> Vec<String> {
    let mut change = vec![];
    if !context.enabled {
        match context.mode {
            SessionMode::Off => change.push(format!("{user_file}: \"sessions\": \"all\" sandboxes every session")),
            SessionMode::NonMain => change.push(format!(
                "{user_file}: \"sessions\": \"all\" sandboxes the main session too; other sessions are already"
            )),
            SessionMode::All => change.push(format!("{user_file}: \"enabled\": true, and a session key that is not empty")),
        }
        return change;
    }
    change
        .push(format!("{user_file}: \"scope\": \"session\", \"agent\" or \"shared\" decides who shares it"));
    change.push(format!(
        "{user_file}: \"workspaceAccess\": \"rw\", \"ro\" or \"none\" decides what it sees of the project"
    ));
    if context.mode == SessionMode::All && context.session_key == context.main_session_key {
        change.push(format!(
            "{user_file}: \"sessions\": \"non-main\" leaves this one out, since it is the main session"
        ));
    }
    change.push(format!(
        "{user_file}: \"tools\": {{ \"allow\": […], \"deny\": […] }} decides which tools it is offered"
    ));
    change
}
