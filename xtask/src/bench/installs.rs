//! Installs of packages, bare and inside by the set of their manager, from the registries that this machine's own tools
//! are configured for.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};

use super::goals::{Figure, Goal};
use super::measure::{self, Rounds, Row};
use super::place::{BARE, FULL, Place};
use super::render::{self, Found, Group};
use super::{Amount, Programs};
use crate::shell;

/// A tool's work: of which set, what is made once, what is undone before each sample, and what is done.
struct Install {
    title: &'static str,
    set: &'static str,
    file: (&'static str, &'static str),
    once: &'static str,
    before: &'static str,
    command: &'static str,
}

const INSTALLS: [Install; 3] = [
    Install {
        title: "`npm ci`",
        set: "npm",
        file: (
            "package.json",
            r#"{ "name": "x", "version": "1.0.0", "dependencies": { "express": "4.21.2" } }"#,
        ),
        once: "npm install --package-lock-only --no-audit --no-fund",
        before: "rm -rf node_modules cache",
        command: "npm ci --cache ./cache --no-audit --no-fund --no-update-notifier",
    },
    Install {
        title: "`pip install`",
        set: "pypi",
        file: ("requirements.txt", "requests==2.32.3\nrich==13.9.4\n"),
        once: "true",
        before: "rm -rf got",
        command: "PATH=/usr/bin:/bin python3 -m pip install --disable-pip-version-check --no-cache-dir --quiet --target got -r requirements.txt",
    },
    Install {
        title: "`cargo fetch`",
        set: "crates",
        file: (
            "Cargo.toml",
            "[package]\nname = \"x\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[lib]\npath = \"lib.rs\"\n[dependencies]\nclap = \"4\"\n",
        ),
        once: "touch lib.rs && mkdir -p home && (cp ~/.cargo/config.toml home/ 2>/dev/null; CARGO_HOME=$PWD/home cargo generate-lockfile)",
        before: "rm -rf home/registry",
        command: "CARGO_HOME=$PWD/home cargo fetch --locked",
    },
];

/// Of the bare one, the start included.
const MOST: f64 = 1.10;

pub(crate) fn run(programs: &Programs, amount: Amount) -> Result<Found> {
    let rounds = match amount {
        Amount::Quick => Rounds { warm_up: 1, measured: 3, budget: Duration::from_secs(60) },
        Amount::Full => Rounds { warm_up: 1, measured: 11, budget: Duration::from_secs(300) },
    };
    let place = Place::new(programs)?;
    let (mut groups, mut skipped) = (Vec::new(), String::new());
    for install in &INSTALLS {
        let project = Path::new(&place.project).join(install.set);
        std::fs::create_dir_all(&project).context("making a project")?;
        std::fs::write(project.join(install.file.0), install.file.1).context("writing a project")?;
        if !shell::succeeds(shell::program("sh").args(["-c", install.once]).current_dir(&project)) {
            skipped.push_str(&format!("\n- not measured: {}: `{}` fails\n", install.title, install.once));
            continue;
        }
        let rows = [BARE, FULL].map(|way| row(&place, way, &project, install));
        let goals = vec![Goal {
            name: install.title,
            row: FULL,
            baseline: BARE,
            figure: Figure::Median,
            most: MOST,
            limit: None,
        }];
        let taken = measure::measure(&rows, rounds);
        groups.push(Group { title: install.title.to_owned(), baseline: BARE, taken, goals });
    }
    let Found { markdown, json } = render::groups(&groups);
    Ok(Found { markdown: markdown + &skipped, json })
}

/// With the caller's own home and variables, which say where the registries are.
fn row(place: &Place, way: &str, project: &Path, install: &Install) -> Row {
    let within = |script: &str| format!("cd {} && {script}", project.display());
    let mut row = place.row(way, &["sh", "-c", &within(install.command)]);
    row.env.retain(|(name, _)| name == "RINGFENCE_HOME");
    row.before = ["sh", "-c", &within(install.before)].map(str::to_owned).to_vec();
    if let Some(at) = row.argv.iter().position(|word| word == "--").filter(|_| way != BARE) {
        row.argv.splice(at..at, ["--allow-host", install.set].map(str::to_owned));
    }
    row
}
