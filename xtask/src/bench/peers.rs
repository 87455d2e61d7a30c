//! The sandboxes that other agents bring along, where they are installed.
//!
//! Nothing is installed by this: the packages are large, and what they bring changes daily.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::Result;

use super::goals::{Figure, Goal};
use super::measure::{self, Rounds, Row};
use super::place::{BWRAP, FULL, Place};
use super::render::{self, Found, Group};
use super::{Amount, Programs};
use crate::{shell, workspace};

const CODEX: &str = "codex sandbox";
const SRT: &str = "srt";
const DOCKER: &str = "docker exec";

pub(crate) fn run(programs: &Programs, amount: Amount) -> Result<Found> {
    let place = Place::new(&programs.ringfence)?;
    let mut rows = place.rows(&[BWRAP, FULL], &["true"]);
    let mut skipped = String::new();
    let peers = workspace::target_directory()?.join("bench/peers");
    let install =
        format!("npm install --prefix {} @openai/codex @anthropic-ai/sandbox-runtime", peers.display());
    let mut goals = vec![];
    for (name, program, arguments, most, limit) in
        [(CODEX, "codex", &["sandbox", "--"][..], 0.10, 0.07), (SRT, "srt", &["--"][..], 0.02, 0.009)]
    {
        match find(&peers, program) {
            Some(path) => {
                let mut argv = vec![path.to_string_lossy().into_owned()];
                argv.extend(arguments.iter().map(|word| (*word).to_owned()));
                argv.push("true".to_owned());
                rows.push(Row { name: name.to_owned(), argv, proof: vec![], ..place.row(BWRAP, &[]) });
                goals.push(Goal {
                    name: "G3",
                    row: FULL,
                    baseline: name,
                    figure: Figure::Median,
                    most,
                    limit: Some(limit),
                });
            }
            None => skipped.push_str(&format!("- skipped: {name}: not installed; `{install}`\n")),
        }
    }
    if shell::succeeds(Command::new("docker").arg("info").stdout(Stdio::null())) {
        skipped.push_str(&format!("- skipped: {DOCKER}: needs a running container of your choice\n"));
    } else {
        skipped.push_str(&format!("- skipped: {DOCKER}: no docker daemon answers\n"));
    }
    let rounds = match amount {
        Amount::Quick => Rounds { warm_up: 1, measured: 5, budget: Duration::from_secs(3) },
        Amount::Full => Rounds { warm_up: 2, measured: 30, budget: Duration::from_secs(30) },
    };
    if goals.is_empty() {
        return Ok(Found { markdown: format!("\n{skipped}"), json: serde_json::json!([]) });
    }
    let taken = measure::measure(&rows, rounds);
    let group =
        Group { title: "`true` in other agents' sandboxes".to_owned(), baseline: BWRAP, taken, goals };
    let Found { markdown, json } = render::groups(&[group]);
    Ok(Found { markdown: format!("{markdown}\n{skipped}"), json })
}

fn find(peers: &Path, program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let own = peers.join("node_modules/.bin");
    std::iter::once(own)
        .chain(std::env::split_paths(&path))
        .map(|dir| dir.join(program))
        .find(|path| path.is_file())
}
