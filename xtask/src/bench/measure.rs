//! Takes samples: every round starts each row once, so that a change of the machine's mood hits all alike.
//!
//! A sample is the wall time from the start of the spawn until the child is reaped. Processes are started by
//! `posix_spawn`, which does not copy this process, and nothing is pinned. Rounds come in blocks; those during
//! which others used much of the machine are dropped, as long as there are enough of the others.

use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use super::quiet::{self, Meter};
use crate::{shell, unprivileged};

/// The hidden command that measures rows for another process of this program.
pub(crate) const MEASURE_COMMAND: &str = "measure-rows";

/// One thing to measure.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) argv: Vec<String>,
    pub(crate) env: Vec<(String, String)>,
    /// Where it starts; this program's directory when empty.
    pub(crate) cwd: String,
    /// Run before every sample, not timed.
    pub(crate) before: Vec<String>,
    /// The same start with [`PROOF`] as its command: a row that runs nothing would be the fastest.
    pub(crate) proof: Vec<String>,
    /// Whether the command must find itself in namespaces other than ours.
    pub(crate) isolated: bool,
}

/// Prints the namespaces that it runs in, one on each line.
pub(crate) const PROOF: &[&str] =
    &["readlink", "/proc/self/ns/mnt", "/proc/self/ns/net", "/proc/self/ns/pid", "/proc/self/ns/ipc"];

/// How often, and how long at most.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Rounds {
    pub(crate) warm_up: usize,
    pub(crate) measured: usize,
    /// No block is started after this.
    pub(crate) budget: Duration,
}

/// What became of a row.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Measured {
    pub(crate) name: String,
    /// The samples, or why there are none.
    pub(crate) outcome: Result<Vec<Sample>, String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Sample {
    pub(crate) wall: Duration,
    /// Processor time of all its processes, to a tick.
    pub(crate) cpu: Duration,
}

/// All rows, and how quiet it was.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Taken {
    pub(crate) rows: Vec<Measured>,
    /// The largest share of one processor that others used in a block that was kept; none if unknown.
    pub(crate) others: Option<f64>,
    /// Rounds kept, and rounds run.
    pub(crate) kept: usize,
    pub(crate) run: usize,
}

/// The rounds of one block: for each, a sample of every row that has one.
struct Block {
    others: Option<f64>,
    rounds: Vec<Vec<Option<Sample>>>,
}

/// Measures the rows in this process.
pub(crate) fn measure(rows: &[Row], rounds: Rounds) -> Taken {
    let deadline = Instant::now() + rounds.budget;
    let mut failed: Vec<Option<String>> = rows.iter().map(|row| warm_up(row, rounds.warm_up).err()).collect();
    let mut blocks: Vec<Block> = Vec::new();
    let quiet = |blocks: &[Block]| -> usize {
        let quiet = |block: &&Block| block.others.is_none_or(|others| others <= quiet::LIMIT);
        blocks.iter().filter(quiet).map(|block| block.rounds.len()).sum()
    };
    while quiet(&blocks) < rounds.measured && (blocks.is_empty() || Instant::now() < deadline) {
        blocks.push(block(rows, &mut failed, rounds.measured - quiet(&blocks)));
    }
    let run = blocks.iter().map(|block| block.rounds.len()).sum();
    // The quietest first; the order within a block stays.
    blocks.sort_by(|a, b| a.others.unwrap_or(0.0).total_cmp(&b.others.unwrap_or(0.0)));
    let (mut kept, mut others) = (Vec::new(), None);
    for block in blocks {
        if kept.len() >= rounds.measured {
            break;
        }
        others = block.others.or(others);
        kept.extend(block.rounds);
    }
    let measured = rows.iter().zip(failed).enumerate().map(|(index, (row, failed))| Measured {
        name: row.name.clone(),
        outcome: match failed {
            Some(reason) => Err(reason),
            None => Ok(kept.iter().filter_map(|round| round[index]).collect()),
        },
    });
    Taken { rows: measured.collect(), others, kept: kept.len(), run }
}

fn warm_up(row: &Row, times: usize) -> Result<(), String> {
    prove(row)?;
    (0..times).try_for_each(|_| sample(row).map(drop))
}

/// At most `most` rounds, and no more than a block needs.
fn block(rows: &[Row], failed: &mut [Option<String>], most: usize) -> Block {
    let meter = Meter::start();
    let start = Instant::now();
    let mut rounds = Vec::new();
    while rounds.is_empty() || (rounds.len() < most && start.elapsed() < quiet::BLOCK) {
        let mut round = vec![None; rows.len()];
        // Start each round with another row: who comes after whom is no property of a row then.
        for offset in 0..rows.len() {
            let index = (rounds.len() + offset) % rows.len();
            if failed[index].is_none() {
                match sample(&rows[index]) {
                    Ok(sample) => round[index] = Some(sample),
                    Err(reason) => failed[index] = Some(reason),
                }
            }
        }
        rounds.push(round);
    }
    Block { others: meter.others(), rounds }
}

fn command(row: &Row, argv: &[String]) -> Result<Command, String> {
    let (program, arguments) = argv.split_first().ok_or("an empty command")?;
    let mut command = Command::new(program);
    command.args(arguments).envs(row.env.iter().map(|(name, value)| (name, value))).stdin(Stdio::null());
    if !row.cwd.is_empty() {
        command.current_dir(&row.cwd);
    }
    Ok(command)
}

fn sample(row: &Row) -> Result<Sample, String> {
    if !row.before.is_empty() {
        let output = command(row, &row.before)?.output().map_err(|error| error.to_string())?;
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr);
            return Err(format!("before it: {}", text.lines().next().unwrap_or("failed")));
        }
    }
    let mut command = command(row, &row.argv)?;
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let used = quiet::children_used();
    let start = Instant::now();
    let status = command.spawn().and_then(|mut child| child.wait());
    let wall = start.elapsed();
    let cpu = quiet::children_used().saturating_sub(used);
    match status {
        Ok(status) if status.success() => Ok(Sample { wall, cpu }),
        Ok(status) => Err(status.to_string()),
        Err(error) => Err(error.to_string()),
    }
}

/// Whether the row really starts its command, and where it should.
fn prove(row: &Row) -> Result<(), String> {
    if row.proof.is_empty() {
        return Ok(());
    }
    let output = command(row, &row.proof)?.output().map_err(|error| format!("{}: {error}", row.proof[0]))?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{}: {}", output.status, text.lines().next().unwrap_or("no message")));
    }
    let inside = String::from_utf8_lossy(&output.stdout);
    let inside: Vec<&str> = inside.lines().collect();
    let names = &PROOF[1..];
    if inside.len() != names.len() {
        return Err(format!("does not run its command: it printed {inside:?}"));
    }
    for (name, inside) in names.iter().zip(inside) {
        let ours = std::fs::read_link(name).map_err(|error| format!("{name}: {error}"))?;
        let same = ours.to_str() == Some(inside);
        if same == row.isolated {
            let word = if row.isolated { "not isolated" } else { "isolated" };
            return Err(format!("{word}: {name} is {inside}"));
        }
    }
    Ok(())
}

#[derive(Serialize, Deserialize)]
struct Request {
    rounds: Rounds,
    rows: Vec<Row>,
}

/// Measures the rows in a process of an ordinary user, whose copy of this program lies in `directory`.
pub(crate) fn measure_unprivileged(rows: &[Row], rounds: Rounds, directory: &Path) -> Result<Taken> {
    let program = directory.join("xtask");
    std::fs::copy(std::env::current_exe().context("finding this program")?, &program)
        .context("copying this program")?;
    let user = unprivileged::USER;
    let mut child = shell::program("setpriv")
        .args([&format!("--reuid={user}"), &format!("--regid={user}"), "--clear-groups", "--"])
        .arg(&program)
        .arg(MEASURE_COMMAND)
        .env_remove("LD_LIBRARY_PATH")
        .current_dir(directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("starting setpriv")?;
    let request = serde_json::to_vec(&Request { rounds, rows: rows.to_vec() })?;
    let mut stdin = child.stdin.take().context("the child has no stdin")?;
    stdin.write_all(&request).context("sending the rows")?;
    drop(stdin);
    let output = child.wait_with_output().context("waiting for the measuring process")?;
    if !output.status.success() {
        bail!("the measuring process failed: {}", output.status);
    }
    serde_json::from_slice(&output.stdout).context("reading the measurements")
}

/// The other side of [`measure_unprivileged`].
pub(crate) fn measure_for_parent() -> Result<ExitCode> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).context("reading the rows")?;
    let request: Request = serde_json::from_str(&text).context("understanding the rows")?;
    quiet::adopt_orphans();
    println!("{}", serde_json::to_string(&measure(&request.rows, request.rounds))?);
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUNDS: Rounds = Rounds { warm_up: 1, measured: 3, budget: Duration::from_millis(1) };

    fn row(prefix: &[&str], isolated: bool) -> Row {
        let argv = |command: &[&str]| prefix.iter().chain(command).map(|word| (*word).to_owned()).collect();
        Row { name: "row".to_owned(), argv: argv(&["true"]), proof: argv(PROOF), isolated, ..Row::default() }
    }

    #[test]
    fn rows_are_measured_as_often_as_asked() {
        let taken = measure(&[row(&[], false), row(&["env"], false)], ROUNDS);
        assert_eq!(taken.kept, 3);
        assert!(taken.rows.iter().all(|row| row.outcome.as_ref().is_ok_and(|samples| samples.len() == 3)));
    }

    #[test]
    fn a_row_that_does_not_do_its_work_is_not_measured() {
        for (row, reason) in [
            (row(&["echo"], false), "does not run its command"),
            (row(&["false"], false), "exit status: 1"),
            (row(&["/none"], false), "/none"),
            (row(&[], true), "not isolated"),
            (Row { before: vec!["false".to_owned()], ..row(&[], false) }, "before it"),
        ] {
            let got = measure(&[row], ROUNDS).rows[0].outcome.clone().unwrap_err();
            assert!(got.contains(reason), "{got}");
        }
    }
}
