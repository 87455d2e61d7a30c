//! The sandboxes that other agents bring along, where they are installed, and a warm container.
//!
//! Nothing is installed by this: the packages are large, and what they bring changes daily.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::goals::{Figure, Goal};
use super::measure::{self, Rounds, Row};
use super::place::{BWRAP, FULL, LIMIT, Place};
use super::render::{self, Found, Group};
use super::{Amount, Programs};
use crate::{shell, workspace};

const CODEX: &str = "codex sandbox";
const SRT: &str = "srt";
const DOCKER: &str = "docker exec";

pub(crate) fn run(programs: &Programs, amount: Amount) -> Result<Found> {
    let place = Place::new(programs)?;
    let mut rows = place.rows(&[BWRAP, LIMIT, FULL], &["true"]);
    let mut skipped = String::new();
    let peers = workspace::target_directory()?.join("bench/peers");
    let install =
        format!("npm install --prefix {} @openai/codex @anthropic-ai/sandbox-runtime", peers.display());
    let goal = |baseline, most| Goal {
        name: "G3",
        row: FULL,
        baseline,
        figure: Figure::Median,
        most,
        limit: Some(LIMIT),
    };
    let mut goals = vec![];
    for (name, program, arguments, most) in
        [(CODEX, "codex", &["sandbox", "--"][..], 0.10), (SRT, "srt", &["--"][..], 0.02)]
    {
        match find(&peers, program) {
            Some(path) => {
                let mut argv = vec![path.to_string_lossy().into_owned()];
                argv.extend(arguments.iter().map(|word| (*word).to_owned()));
                argv.push("true".to_owned());
                rows.push(Row { name: name.to_owned(), argv, proof: vec![], ..place.row(BWRAP, &[]) });
                goals.push(goal(name, most));
            }
            None => skipped.push_str(&format!("- not measured: {name}: not installed; `{install}`\n")),
        }
    }
    // Kept until all is measured.
    let _container = match Warm::start() {
        Ok(container) => {
            rows.push(container.row(&place));
            goals.push(goal(DOCKER, 0.06));
            Some(container)
        }
        Err(error) => {
            skipped.push_str(&format!("- not measured: {DOCKER}: {error:#}\n"));
            None
        }
    };
    let rounds = match amount {
        Amount::Quick => Rounds { warm_up: 1, measured: 10, budget: Duration::from_secs(6) },
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

pub(super) fn find(peers: &Path, program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let own = peers.join("node_modules/.bin");
    std::iter::once(own)
        .chain(std::env::split_paths(&path))
        .map(|dir| dir.join(program))
        .find(|path| path.is_file())
}

/// A container in which nothing but a `sleep` runs, of an engine of its own. Removed when dropped.
struct Warm {
    host: String,
    container: String,
    keeper: Child,
    /// Closing it ends the container.
    stdin: Option<ChildStdin>,
}

impl Warm {
    fn start() -> Result<Self> {
        let build = ["-p", "ringfence-docker", "--features", "testing", "--example", "docker-warm"];
        let program = workspace::build(&build, "docker-warm")?;
        let mut keeper = shell::program(program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("starting docker-warm")?;
        let stdin = keeper.stdin.take();
        let stdout = keeper.stdout.take().context("docker-warm has no output")?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line).context("reading what docker-warm says")?;
        let mut warm = Self { host: String::new(), container: String::new(), keeper, stdin };
        let said: Value = serde_json::from_str(&line).context("docker-warm said nothing")?;
        let (Some(host), Some(container)) = (said["host"].as_str(), said["container"].as_str()) else {
            bail!("{}", said["failed"].as_str().unwrap_or("it did not start"));
        };
        (warm.host, warm.container) = (host.to_owned(), container.to_owned());
        Ok(warm)
    }

    fn row(&self, place: &Place) -> Row {
        let argv = |command: &[&str]| {
            let prefix = ["docker", "--host", &self.host, "exec", &self.container];
            prefix.iter().chain(command).map(|word| (*word).to_owned()).collect()
        };
        let (argv, proof) = (argv(&["true"]), argv(measure::PROOF));
        Row { name: DOCKER.to_owned(), argv, proof, ..place.row(BWRAP, &[]) }
    }
}

impl Drop for Warm {
    fn drop(&mut self) {
        drop(self.stdin.take());
        if let Err(error) = self.keeper.wait() {
            eprintln!("xtask: docker-warm: {error}");
        }
    }
}
