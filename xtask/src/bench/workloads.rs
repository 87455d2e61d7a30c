//! What everyday work costs inside: the same commands in every way, on the same files.
//!
//! Every figure includes the start of the sandbox. Beside it stands the ratio without: the time of `true` in
//! the same way, in the same rounds and among the same files, less that of a bare `true`, is taken off.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::goals::verdict;
use super::measure::{self, Rounds, Row, Taken};
use super::place::{BARE, BWRAP, FULL, LIMIT, LIMIT_OFF, OFF, Place, WRITES};
use super::render::{self, Found, median, ms};
use super::{Amount, Programs};
use crate::shell;

const WAYS: &[&str] = &[BARE, BWRAP, OFF, WRITES, FULL, LIMIT_OFF, LIMIT];

const PYTHON: &str = "import argparse, asyncio, email, http.client, json, logging, sqlite3, subprocess, tempfile, unittest, urllib.request";
const NODE: &str = "['fs', 'http', 'crypto', 'child_process', 'zlib', 'readline'].forEach(require)";

/// A command, and what comes before each sample of it.
struct Work {
    name: &'static str,
    argv: Vec<String>,
    before: Vec<String>,
    /// Longest acceptable ratio to no sandbox in mode `writes`, start taken off.
    goal: f64,
    /// The same of mode `full` to mode `off`, where one was set. Beside it stands what the least supervisor reaches.
    trace_goal: Option<f64>,
}

/// The work that is nothing but the start.
const START: &str = "true";

/// No work may take longer than in bubblewrap, by this factor.
const TO_BWRAP: f64 = 1.10;

impl Work {
    fn new(name: &'static str, goal: f64, argv: &[&str]) -> Self {
        let argv = argv.iter().map(|word| (*word).to_owned()).collect();
        Self { name, argv, before: vec![], goal, trace_goal: None }
    }

    fn traced(self, most: f64) -> Self {
        Self { trace_goal: Some(most), ..self }
    }

    /// Whether it is measured in this way: the limits are for what is traced.
    fn is_done(&self, way: &str) -> bool {
        ![LIMIT, LIMIT_OFF].contains(&way) || self.trace_goal.is_some() || self.name == START
    }

    fn after(self, script: &str) -> Self {
        Self { before: ["sh", "-c", script].map(str::to_owned).to_vec(), ..self }
    }
}

pub(crate) fn run(programs: &Programs, amount: Amount) -> Result<Found> {
    let mut place = Place::new(programs)?;
    let cargo = furnish(&mut place)?;
    let mut works = vec![
        Work::new(START, f64::INFINITY, &["true"]),
        Work::new("git status", 1.15, &["git", "status", "--short"]).traced(1.6),
        Work::new("rg, 2 threads", 1.15, &["rg", "-j2", "-c", "needle", "src"]).traced(2.8),
        Work::new("grep -r", 1.15, &["grep", "-rc", "needle", "src"]).traced(2.0),
        Work::new("find", 1.15, &["find", "src", "-type", "f"]),
        Work::new("python3, 11 imports", 1.05, &["/usr/bin/python3", "-c", PYTHON]),
        Work::new("node, 6 requires", 1.05, &["/usr/bin/node", "-e", NODE]),
        Work::new("bash, 200 × /bin/true", 1.10, &["bash", "-c", "for i in {1..200}; do /bin/true; done"]),
        Work::new("tar x, ext4", 1.25, &["tar", "xf", "all.tar", "-C", "out"])
            .after("rm -rf out && mkdir out"),
        Work::new("rm -rf, ext4", 1.25, &["rm", "-rf", "out"])
            .after("rm -rf out && mkdir out && tar xf all.tar -C out"),
        Work::new("tar x and rm -rf, tmpfs", 1.25, &["sh", "-c", "tar xf all.tar -C RAM && rm -rf RAM/src"]),
    ];
    if cargo {
        let build = ["cargo", "build", "--quiet", "--offline", "--manifest-path", "crates/Cargo.toml"];
        works.push(Work::new("cargo build, 6 crates", 1.03, &build).after("rm -rf crates/target"));
    } else {
        println!("skipped: cargo build (no tool chain found)");
    }
    let rounds = match amount {
        Amount::Quick => Rounds { warm_up: 1, measured: 5, budget: Duration::from_secs(8) },
        Amount::Full => Rounds { warm_up: 1, measured: 15, budget: Duration::from_secs(20) },
    };
    let mut done: Vec<Done> = Vec::new();
    for work in works {
        println!("measuring {}", work.name);
        let mut rows = Vec::new();
        for way in WAYS.iter().filter(|way| place.has(way) && work.is_done(way)) {
            let row = row(&place, way, &work);
            if work.name != START {
                let name = start_of(way);
                rows.push(Row { name, before: row.before.clone(), ..place.row(way, &[START]) });
            }
            rows.push(row);
        }
        done.push(Done { taken: measure::measure(&rows, rounds), work });
    }
    std::fs::remove_dir_all(ram_of(BARE)).ok();
    Ok(Found { markdown: markdown(&done), json: json(&done) })
}

fn row(place: &Place, way: &str, work: &Work) -> Row {
    let ram = ram_of(way);
    if way == BARE {
        // Best effort: the command itself will say so.
        std::fs::create_dir_all(&ram).ok();
    }
    // Not by a variable: nobody could tell what is removed, and the gate would ask.
    let argv: Vec<String> = work.argv.iter().map(|word| word.replace("RAM", &ram)).collect();
    let argv: Vec<&str> = argv.iter().map(String::as_str).collect();
    let mut row = place.row(way, &argv);
    row.before.clone_from(&work.before);
    row
}

/// A directory in memory: the sandbox's own one, or one of the host.
fn ram_of(way: &str) -> String {
    if way == BARE { format!("/dev/shm/ringfence-bench.{}", std::process::id()) } else { "/tmp".to_owned() }
}

/// Makes the files that are worked on; false when there is no cargo to build with.
fn furnish(place: &mut Place) -> Result<bool> {
    const DIRECTORIES: usize = 130;
    const FILES: usize = 50;
    let project = Path::new(&place.project);
    for directory in 0..DIRECTORIES {
        let path = project.join(format!("src/part{directory}/inner"));
        std::fs::create_dir_all(&path).context("making the checkout")?;
        for file in 0..FILES {
            let mut text = format!("file {file} of part {directory}\n");
            for line in 0..40 {
                let _ = writeln!(text, "let value_{line} = compute({file}, {line}, \"some words of text\");");
            }
            if file == 7 {
                text.push_str("a needle\n");
            }
            std::fs::write(path.join(format!("file{file}.txt")), text).context("making the checkout")?;
        }
    }
    let git = |arguments: &[&str]| {
        let identity = ["-c", "user.name=bench", "-c", "user.email=bench@example.org"];
        shell::output(shell::program("git").current_dir(project).args(identity).args(arguments))
    };
    git(&["init", "--quiet"])?;
    git(&["add", "src"])?;
    git(&["commit", "--quiet", "-m", "all"])?;
    shell::output(shell::program("tar").current_dir(project).args(["cf", "all.tar", "src"]))?;
    std::fs::write(project.join(".gitignore"), "all.tar\nout\ncrates\n").context("writing .gitignore")?;
    let Ok(sysroot) = shell::output(shell::program("rustc").args(["--print", "sysroot"])) else {
        return Ok(false);
    };
    let sysroot = sysroot.trim().to_owned();
    place.path = vec![format!("{sysroot}/bin")];
    place.shown = vec![sysroot];
    crates(&project.join("crates"))?;
    Ok(true)
}

/// A small workspace of crates that depend on each other.
fn crates(directory: &Path) -> Result<()> {
    let write = |path: &str, text: &str| -> Result<()> {
        let path = directory.join(path);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).context("making a crate")?;
        }
        std::fs::write(&path, text).with_context(|| format!("writing {}", path.display()))
    };
    write("Cargo.toml", "[workspace]\nresolver = \"3\"\nmembers = [\"c*\"]\n")?;
    for number in 0..6 {
        let mut manifest = format!(
            "[package]\nname = \"c{number}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[dependencies]\n"
        );
        let mut code = String::new();
        if number > 0 {
            let _ = writeln!(manifest, "c{0} = {{ path = \"../c{0}\" }}", number - 1);
            let _ = writeln!(code, "pub use c{};", number - 1);
        }
        for item in 0..60 {
            let _ = writeln!(
                code,
                "#[derive(Debug, Clone, PartialEq)]\npub struct T{item} {{ pub a: Vec<String>, pub b: Option<u64> }}"
            );
        }
        write(&format!("c{number}/Cargo.toml"), &manifest)?;
        write(&format!("c{number}/src/lib.rs"), &code)?;
    }
    // The lock file is made here, because making it is no part of the work.
    shell::output(shell::cargo().current_dir(directory).args(["generate-lockfile", "--offline"])).map(drop)
}

/// The name of the row that starts in this way and does nothing.
fn start_of(way: &str) -> String {
    format!("{way}, start")
}

/// A work, and its times with those of a mere start.
struct Done {
    work: Work,
    taken: Taken,
}

impl Done {
    /// The median with the start taken off, as far as it takes longer than a bare one.
    fn inside(&self, way: &str) -> Option<f64> {
        let start = |way| median(&self.taken, &start_of(way));
        let start = start(way)?.saturating_sub(start(BARE)?);
        Some(median(&self.taken, way)?.saturating_sub(start).as_secs_f64())
    }

    fn ratio(&self, way: &str, to: &str) -> Option<f64> {
        Some(self.inside(way)? / self.inside(to)?)
    }
}

fn markdown(all: &[Done]) -> String {
    let mut text = String::from("\nMedian / p99 in ms, the start included.\n\n");
    let header = |text: &mut String, last: &str| {
        let _ = writeln!(text, "| work | {} | {last} |", WAYS.join(" | "));
        let _ = writeln!(text, "|---|{}---|", "---:|".repeat(WAYS.len()));
    };
    header(&mut text, "rounds");
    for Done { taken, work } in all {
        let cell = |way: &&str| {
            let row = taken.rows.iter().find(|row| row.name == **way);
            match row.map(render::summary) {
                Some(Ok(summary)) => format!("{} / {}", ms(summary.median), ms(summary.p99)),
                Some(Err(reason)) => format!("failed: {reason}"),
                None => "–".to_owned(),
            }
        };
        let cells: Vec<String> = WAYS.iter().map(cell).collect();
        let noisy = if taken.others.is_some_and(|others| others > super::quiet::LIMIT) {
            format!(", **noisy** ({:.0} %)", taken.others.unwrap_or(0.0) * 100.0)
        } else {
            String::new()
        };
        let _ = writeln!(text, "| {} | {} | {}{noisy} |", work.name, cells.join(" | "), taken.kept);
    }
    text.push_str(
        "\nRatio to no sandbox, the start taken off; the last column compares all opens seen with none.\n\n",
    );
    header(&mut text, "full / off");
    for done in &all[1..] {
        let work = &done.work;
        let show = |ratio: Option<f64>| ratio.map_or("–".to_owned(), |ratio| format!("{ratio:.2}"));
        let cells: Vec<String> = WAYS.iter().map(|way| show(done.ratio(way, BARE))).collect();
        let _ = writeln!(text, "| {} | {} | {} |", work.name, cells.join(" | "), show(done.ratio(FULL, OFF)));
    }
    text.push('\n');
    for done in &all[1..] {
        let work = &done.work;
        if let Some(got) = done.ratio(WRITES, BARE) {
            let word = verdict(got, work.goal);
            let _ =
                writeln!(text, "- G7 {}: writes / none {got:.2}, goal ≤ {:.2}: {word}", work.name, work.goal);
        }
        if let Some(got) = done.ratio(WRITES, BWRAP) {
            let word = verdict(got, TO_BWRAP);
            let _ =
                writeln!(text, "- G7 {}: writes / bwrap {got:.2}, goal ≤ {TO_BWRAP:.2}: {word}", work.name);
        }
        if let (Some(got), Some(most)) = (done.ratio(FULL, OFF), work.trace_goal) {
            let word = verdict(got, most);
            let limit = done.ratio(LIMIT, LIMIT_OFF);
            let limit = limit.map_or_else(String::new, |limit| format!(" (limit {limit:.2})"));
            let _ =
                writeln!(text, "- G8 {}: full / off {got:.2}, goal ≤ {most:.2}{limit}: {word}", work.name);
        }
    }
    text
}

fn json(all: &[Done]) -> Value {
    let table = |done: &Done| {
        let Done { work, taken } = done;
        json!({
            "title": work.name,
            "othersShare": taken.others,
            "roundsKept": taken.kept,
            "roundsRun": taken.run,
            "rows": taken.rows.iter().map(render::row_json).collect::<Vec<_>>(),
            "ratiosToNone": WAYS.iter().map(|way| json!({ "way": way, "ratio": done.ratio(way, BARE) })).collect::<Vec<_>>(),
        })
    };
    all.iter().map(table).collect()
}
