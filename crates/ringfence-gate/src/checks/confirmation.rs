//! What a person confirms when the checks are strict: ordinary work that takes something away.

use ringfence_model::ViolationKind;
use ringfence_model::config::Strictness;

use super::{Check, Report};
use crate::finding::Rule;
use crate::shell::Cmd;

const RULE: Rule =
    Rule::ask("strict-confirmation", "let a person confirm it, or make the checks less strict");

/// Removals, hard resets, dropped tables, containers that go.
#[derive(Debug)]
pub(super) struct Confirmation;

impl Check for Confirmation {
    fn name(&self) -> &'static str {
        "confirmation"
    }

    fn kind(&self) -> ViolationKind {
        ViolationKind::CommandBlocked
    }

    fn command(&self, cmd: &Cmd<'_>, report: &mut Report<'_>) {
        if report.strictness == Strictness::Strict && takes_away(cmd) {
            report.add(RULE, cmd.span, format!("`{}` removes or resets something", cmd.name));
        }
    }
}

fn takes_away(cmd: &Cmd<'_>) -> bool {
    match cmd.name {
        "rm" | "rmdir" | "truncate" => cmd.args.len() > 1,
        "git" => {
            cmd.has("reset") && cmd.has("--hard") || cmd.has("push") && (cmd.has("--force") || cmd.has("-f"))
        }
        "docker" | "podman" | "nerdctl" => ["prune", "rm", "rmi"].iter().any(|word| cmd.has(word)),
        "psql" | "mysql" | "mariadb" | "sqlite3" => {
            cmd.rest().iter().filter_map(|arg| arg.known()).any(drops)
        }
        _ => false,
    }
}

/// Whether a statement drops or empties tables.
fn drops(statement: &str) -> bool {
    let words: Vec<String> = statement.split_whitespace().map(str::to_ascii_lowercase).collect();
    words.windows(2).any(|pair| {
        pair[0] == "drop" && ["database", "table", "schema"].contains(&pair[1].as_str())
            || pair[0] == "truncate"
    })
}
