//! Containers against the `docker` command: making one, a warm command, files.

use std::fmt::Write as _;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use super::Amount;
use super::goals::verdict;
use super::parts::{noise, output_of};
use super::quiet::Meter;
use super::render::Found;
use crate::workspace;

/// How often a trivial command shall be faster than `docker exec`.
const WARM: f64 = 20.0;

pub(crate) fn run(amount: Amount) -> Result<Found> {
    let build = ["-p", "ringfence-docker", "--features", "testing"];
    let guest = workspace::build(&[&build[..], &["--bin", "ringfence-guest"]].concat(), "ringfence-guest")?;
    let bench = workspace::build(&[&build[..], &["--example", "docker-bench"]].concat(), "docker-bench")?;
    let rounds = match amount {
        Amount::Quick => "5",
        Amount::Full => "30",
    };
    let meter = Meter::start();
    let found = output_of(Command::new(&bench).arg(&guest).arg(rounds))?;
    let mut text = format!("\n{}\n\n", noise(&meter));
    let _ =
        writeln!(text, "| what | median ms | against | its median ms | ratio |\n|---|---:|---|---:|---:|");
    let mut warm = None;
    for row in found["rows"].as_array().context("no rows")? {
        let (name, against) = (row["name"].as_str().unwrap_or(""), row["against"].as_str().unwrap_or(""));
        let (ours, theirs) = (median(&row["ours"])?, median(&row["theirs"])?);
        let _ = writeln!(text, "| {name} | {ours:.2} | `{against}` | {theirs:.2} | {:.2} |", theirs / ours);
        if name == "a warm command" {
            warm = Some(theirs / ours);
        }
    }
    let warm = warm.context("no warm command was measured")?;
    let _ = writeln!(
        text,
        "\n- A warm command, times faster than `docker exec`: {warm:.1}, goal ≥ {WARM:.0}: {}",
        verdict(WARM, warm)
    );
    Ok(Found { markdown: text, json: found })
}

fn median(samples: &Value) -> Result<f64> {
    let mut samples: Vec<f64> = serde_json::from_value(samples.clone()).context("reading samples")?;
    samples.sort_by(f64::total_cmp);
    samples.get(samples.len() / 2).copied().context("no samples")
}
