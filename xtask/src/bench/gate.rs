//! How long a verdict takes: `ringfence check --jsonl`, one question at a time, and what it keeps of them.

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::goals::verdict;
use super::parts::{middle, noise, us};
use super::place::{BARE, Place};
use super::quiet::Meter;
use super::render::Found;
use super::{Amount, Programs};

const TYPICAL: &[&str] = &[
    "ls -la src",
    "cargo test -p core -- --nocapture 2>&1 | tail -40",
    "git add -A && git commit -m \"fix: handle empty input\"",
    "for f in *.rs; do wc -l \"$f\"; done",
    "grep -rn 'NOTE' src | sort | uniq -c | head -20",
    "cd build && cmake .. && make -j8",
    "find . -name '*.pyc' -delete",
    "cat > hello.txt <<'EOF'\nhello\nEOF",
];
const PYTHON: &str = "import json\nwith open('data.json') as f:\n    print(len(json.load(f)))";
const JAVASCRIPT: &str = "const fs = require('fs');\nconsole.log(fs.readFileSync('a', 'utf8'));";

pub(crate) fn run(programs: &Programs, amount: Amount) -> Result<Found> {
    let rounds = match amount {
        Amount::Quick => 2_000,
        Amount::Full => 10_000,
    };
    let place = Place::new(programs)?;
    let meter = Meter::start();
    let mut child = Command::new(&programs.ringfence)
        .args(["check", "--jsonl"])
        .current_dir(&place.project)
        .envs(place.row(BARE, &[]).env)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("starting `ringfence check --jsonl`")?;
    let mut asked = Asked {
        questions: child.stdin.take().context("no way in")?,
        answers: BufReader::new(child.stdout.take().context("no way out")?),
    };
    let mut rows = vec![];
    asked.times("shell", TYPICAL, 200)?;
    let early = resident_kib(child.id())?;
    rows.push(("a typical command", asked.times("shell", TYPICAL, rounds)?));
    let late = resident_kib(child.id())?;
    asked.times("python", &[PYTHON], 20)?;
    rows.push(("a short Python program", asked.times("python", &[PYTHON], rounds / 10)?));
    asked.times("javascript", &[JAVASCRIPT], 20)?;
    rows.push(("a short JavaScript program", asked.times("javascript", &[JAVASCRIPT], rounds / 10)?));
    drop(asked);
    ensure!(child.wait()?.success(), "`ringfence check` failed");

    let mut text = format!("\n{}\n\n| what | median µs | p99 µs |\n|---|---:|---:|\n", noise(&meter));
    let mut medians = vec![];
    for (name, times) in &mut rows {
        let median = us(middle(times));
        let p99 = us(times[(times.len() * 99).div_ceil(100) - 1]);
        medians.push(median);
        let _ = writeln!(text, "| {name} | {median:.1} | {p99:.1} |");
    }
    let grown = late.saturating_sub(early);
    let _ = writeln!(
        text,
        "\nOver pipes, both ways included. {rounds} commands later it held {grown} KiB more.\n"
    );
    for (name, got, most) in
        [("a typical command, in µs", medians[0], 150.0), ("KiB kept of all commands", grown as f64, 512.0)]
    {
        let _ = writeln!(text, "- {name}: {got:.1}, goal ≤ {most:.0}: {}", verdict(got, most));
    }
    let kept: Vec<Value> = rows.iter().map(|(name, times)| json!({ "name": name, "ns": times })).collect();
    Ok(Found { markdown: text, json: Value::Array(kept) })
}

struct Asked {
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Asked {
    /// Nanoseconds from each question to its answer.
    fn times(&mut self, language: &str, codes: &[&str], count: usize) -> Result<Vec<u64>> {
        let lines: Vec<String> = codes
            .iter()
            .map(|code| format!("{}\n", json!({ "id": 1, "language": language, "code": code })))
            .collect();
        let mut answer = String::new();
        let mut times = Vec::with_capacity(count);
        for line in lines.iter().cycle().take(count) {
            answer.clear();
            let start = Instant::now();
            self.questions.write_all(line.as_bytes())?;
            self.answers.read_line(&mut answer)?;
            times.push(u64::try_from(start.elapsed().as_nanos())?);
            ensure!(answer.contains("\"verdict\":\"allow\""), "ordinary work is not allowed: {line}{answer}");
        }
        Ok(times)
    }
}

/// What a process holds of memory.
fn resident_kib(pid: u32) -> Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    line.trim().trim_end_matches(" kB").parse().context("reading VmRSS")
}
