//! `cargo xtask bench`: what the fence costs, measured side by side in one run.
//!
//! | module | what it holds |
//! |---|---|
//! | [`cold_start`] | from the start of a command to its end |
//! | [`peers`] | the same in sandboxes of other agents, where they are installed |
//! | [`workloads`] | everyday work inside |
//! | [`parts`] | one notification, one approval, memory, and every step of a launch |
//! | [`session`] | commands in a warm shell, and their output |
//! | [`gate`] | verdicts on commands and code |
//! | [`network`], [`installs`] | connections by name: beside bare ones, proxies, and installs of packages |
//! | [`docker`] | containers against the `docker` command |
//! | [`many`] | taking a sandbox from the pool, and a thousand live ones |
//! | [`measure`] | interleaved samples, as this user or as an ordinary one |
//! | [`quiet`] | how much of the machine others used meanwhile |
//! | [`place`] | a project, a home, and the ways to start a command there |
//! | [`limits`] | programs in C that do only what is necessary, to compare with |
//! | [`stats`], [`goals`], [`render`] | medians and tails, what was aimed at, tables |

mod cold_start;
mod docker;
mod gate;
mod goals;
mod installs;
mod limits;
mod many;
mod measure;
mod network;
mod parts;
mod peers;
mod place;
mod quiet;
mod render;
mod session;
mod stats;
mod workloads;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde_json::json;

use crate::{release, shell, workspace};
use limits::Limits;
use render::Found;

pub(crate) use measure::{MEASURE_COMMAND, measure_for_parent};

/// How thoroughly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Amount {
    Quick,
    Full,
}

/// What is measured.
#[derive(Debug)]
pub(crate) struct Programs {
    pub(crate) ringfence: PathBuf,
    /// The example `bench` of the façade.
    pub(crate) parts: PathBuf,
    /// None without a C compiler.
    pub(crate) limits: Option<Limits>,
}

/// How a bench runs.
enum Bench {
    OfRingfence(fn(&Programs, Amount) -> Result<Found>),
    /// It builds what it needs by itself, which is less.
    OfItsOwn(fn(Amount) -> Result<Found>),
}
use Bench::{OfItsOwn, OfRingfence};

/// Name, title and body of every bench.
const BENCHES: &[(&str, &str, Bench)] = &[
    ("cold-start", "Cold start", OfRingfence(cold_start::run)),
    ("steps", "Steps of a start", OfRingfence(parts::steps)),
    ("micro", "Single calls, approvals, memory", OfRingfence(parts::micro)),
    ("session", "A warm shell", OfRingfence(session::run)),
    ("gate", "A verdict of the gate", OfRingfence(gate::run)),
    ("many", "Many sandboxes", OfRingfence(many::run)),
    ("docker", "Containers", OfItsOwn(docker::run)),
    ("network", "Hosts by name", OfRingfence(network::run)),
    ("workloads", "Everyday work inside", OfRingfence(workloads::run)),
    ("peers", "Other agents' sandboxes", OfRingfence(peers::run)),
];

/// Runs the named benches, or all.
pub(crate) fn run(options: &[&str]) -> Result<ExitCode> {
    let mut amount = Amount::Full;
    let mut wanted = Vec::new();
    for option in options {
        match *option {
            "--quick" => amount = Amount::Quick,
            name if BENCHES.iter().any(|(known, _, _)| *known == name) => wanted.push(name),
            other => {
                let known: Vec<&str> = BENCHES.iter().map(|(name, _, _)| *name).collect();
                bail!("unknown bench or option: {other}; the benches are {}", known.join(", "));
            }
        }
    }
    let mut programs: Option<Programs> = None;
    ask_for_priority();
    quiet::adopt_orphans();
    let directory = workspace::target_directory()?.join("bench");
    std::fs::create_dir_all(&directory).context("making the directory for bench results")?;
    println!("\n{}", render::machine());
    for (name, title, bench) in BENCHES {
        if !wanted.is_empty() && !wanted.contains(name) {
            continue;
        }
        if matches!(bench, OfRingfence(_)) && programs.is_none() {
            programs = Some(Programs {
                ringfence: packaged()?,
                parts: workspace::build(&["-p", "ringfence", "--example", "bench"], "bench")?,
                limits: Limits::build()?,
            });
        }
        let start = Instant::now();
        let Found { markdown, json } = match (bench, &programs) {
            (OfItsOwn(run), _) => run(amount)?,
            (OfRingfence(run), Some(programs)) => run(programs, amount)?,
            (OfRingfence(_), None) => bail!("nothing was built for {name}"),
        };
        println!("\n## {title}\n{markdown}");
        println!("{name} took {:.0} s", start.elapsed().as_secs_f64());
        let result = json!({ "bench": name, "machine": render::machine(), "tables": json });
        let file = directory.join(format!("{name}.json"));
        std::fs::write(&file, serde_json::to_string_pretty(&result)?)
            .with_context(|| format!("writing {}", file.display()))?;
    }
    println!("\nall samples are in {}", directory.display());
    Ok(ExitCode::SUCCESS)
}

/// The program that packages ship is the one that is measured, where it can be made.
fn packaged() -> Result<PathBuf> {
    let Some(why) = release::why_not()? else { return release::run() };
    println!("measuring a plain release build: {why}");
    workspace::build(&["-p", "ringfence-cli", "--bin", "ringfence"], "ringfence")
}

/// What is measured goes before other work on the machine, where we may say so.
fn ask_for_priority() {
    let pid = std::process::id().to_string();
    let answered = shell::succeeds(shell::program("renice").args(["-n", "-15", "-p", &pid]));
    println!("{}", if answered { "running at nice -15" } else { "running at ordinary priority" });
}
