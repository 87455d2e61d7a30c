//! Interleaved comparisons of start-up cost.
//!
//! Every round starts each row once, so that a change of the machine's mood during the run hits all rows
//! alike. A sample is the wall time from the start of the spawn until the child is reaped. Processes are
//! started by `posix_spawn`, which does not copy this process, and nothing is pinned.

mod cold_start;
mod render;
mod stats;

use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::{shell, unprivileged, workspace};

/// The hidden command that measures rows for another process of this program.
pub(crate) const MEASURE_COMMAND: &str = "measure-rows";

/// One thing to measure.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) argv: Vec<String>,
    pub(crate) env: Vec<(String, String)>,
    /// The same start with [`PROOF`] as its command: a row that runs nothing would be the fastest.
    pub(crate) proof: Vec<String>,
    /// Whether the command must find itself in namespaces other than ours.
    pub(crate) isolated: bool,
}

/// Prints the namespaces that it runs in, one on each line.
pub(crate) const PROOF: &[&str] =
    &["readlink", "/proc/self/ns/mnt", "/proc/self/ns/net", "/proc/self/ns/pid", "/proc/self/ns/ipc"];

/// How often.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rounds {
    pub(crate) warm_up: usize,
    pub(crate) measured: usize,
}

/// What became of a row.
#[derive(Debug, Clone)]
pub(crate) struct Measured {
    pub(crate) name: String,
    /// The samples, or why there are none.
    pub(crate) outcome: Result<Vec<Duration>, String>,
}

/// Rows that are compared with each other.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) title: String,
    pub(crate) rows: Vec<Measured>,
}

/// Runs the named bench, or all.
pub(crate) fn run(options: &[&str]) -> Result<ExitCode> {
    let mut rounds = Rounds { warm_up: 10, measured: 300 };
    for option in options {
        match *option {
            "--quick" => rounds = Rounds { warm_up: 3, measured: 40 },
            "cold-start" => {}
            other => bail!("unknown bench or option: {other}"),
        }
    }
    let groups = cold_start::run(rounds)?;
    print!("{}", render::markdown("cold start", rounds, &groups));
    let directory = workspace::target_directory()?.join("bench");
    std::fs::create_dir_all(&directory).context("making the directory for bench results")?;
    let file = directory.join("cold-start.json");
    let text = serde_json::to_string_pretty(&render::json("cold-start", rounds, &groups))?;
    std::fs::write(&file, text).with_context(|| format!("writing {}", file.display()))?;
    println!("\nwritten to {}", file.display());
    Ok(ExitCode::SUCCESS)
}

/// Measures the rows in this process.
pub(crate) fn measure(rows: &[Row], rounds: Rounds) -> Vec<Measured> {
    let mut measured: Vec<Measured> = rows
        .iter()
        .map(|row| Measured {
            name: row.name.clone(),
            outcome: prove(row)
                .and_then(|()| (0..rounds.warm_up).try_for_each(|_| sample(row).map(drop)))
                .map(|()| Vec::new()),
        })
        .collect();
    for round in 0..rounds.measured {
        // Start each round with another row: who comes after whom is no property of a row then.
        for offset in 0..rows.len() {
            let index = (round + offset) % rows.len();
            let Ok(samples) = &mut measured[index].outcome else { continue };
            match sample(&rows[index]) {
                Ok(took) => samples.push(took),
                Err(reason) => measured[index].outcome = Err(reason),
            }
        }
    }
    measured
}

fn command(row: &Row, argv: &[String]) -> Result<Command, String> {
    let (program, arguments) = argv.split_first().ok_or("an empty command")?;
    let mut command = Command::new(program);
    command.args(arguments).envs(row.env.iter().map(|(name, value)| (name, value))).stdin(Stdio::null());
    Ok(command)
}

fn sample(row: &Row) -> Result<Duration, String> {
    let mut command = command(row, &row.argv)?;
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let start = Instant::now();
    let status = command.spawn().and_then(|mut child| child.wait());
    let took = start.elapsed();
    match status {
        Ok(status) if status.success() => Ok(took),
        Ok(status) => Err(status.to_string()),
        Err(error) => Err(error.to_string()),
    }
}

/// Whether the row really starts its command, and where it should.
fn prove(row: &Row) -> Result<(), String> {
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

/// Measures the rows in a process of an ordinary user, whose copy of this program lies in `directory`.
pub(crate) fn measure_unprivileged(
    rows: &[Row],
    rounds: Rounds,
    directory: &std::path::Path,
) -> Result<Vec<Measured>> {
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
    let request = json!({
        "warmUp": rounds.warm_up,
        "measured": rounds.measured,
        "rows": rows.iter().map(row_json).collect::<Vec<_>>(),
    });
    let mut stdin = child.stdin.take().context("the child has no stdin")?;
    stdin.write_all(request.to_string().as_bytes()).context("sending the rows")?;
    drop(stdin);
    let output = child.wait_with_output().context("waiting for the measuring process")?;
    if !output.status.success() {
        bail!("the measuring process failed: {}", output.status);
    }
    let answer: Value = serde_json::from_slice(&output.stdout).context("reading the measurements")?;
    answer.as_array().context("the measurements are no list")?.iter().map(measured_from_json).collect()
}

/// The other side of [`measure_unprivileged`].
pub(crate) fn measure_for_parent() -> Result<ExitCode> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).context("reading the rows")?;
    let request: Value = serde_json::from_str(&text).context("reading the rows")?;
    let count = |name: &str| -> Result<usize> {
        let value = request[name].as_u64().with_context(|| format!("{name} is missing"))?;
        usize::try_from(value).context("too many rounds")
    };
    let rounds = Rounds { warm_up: count("warmUp")?, measured: count("measured")? };
    let rows: Vec<Row> = request["rows"]
        .as_array()
        .context("rows are missing")?
        .iter()
        .map(row_from_json)
        .collect::<Result<_>>()?;
    let answer: Vec<Value> = measure(&rows, rounds).iter().map(render::measured_json).collect();
    println!("{}", Value::from(answer));
    Ok(ExitCode::SUCCESS)
}

fn row_json(row: &Row) -> Value {
    json!({
        "name": row.name,
        "argv": row.argv,
        "env": row.env,
        "proof": row.proof,
        "isolated": row.isolated,
    })
}

fn row_from_json(value: &Value) -> Result<Row> {
    Ok(Row {
        name: serde_json::from_value(value["name"].clone()).context("name of a row")?,
        argv: serde_json::from_value(value["argv"].clone()).context("argv of a row")?,
        env: serde_json::from_value(value["env"].clone()).context("env of a row")?,
        proof: serde_json::from_value(value["proof"].clone()).context("proof of a row")?,
        isolated: value["isolated"].as_bool().context("isolation of a row")?,
    })
}

fn measured_from_json(value: &Value) -> Result<Measured> {
    let name = serde_json::from_value(value["name"].clone()).context("name of a measurement")?;
    let outcome = match value["failed"].as_str() {
        Some(reason) => Err(reason.to_owned()),
        None => {
            let samples: Vec<u64> =
                serde_json::from_value(value["samplesNs"].clone()).context("samples of a measurement")?;
            Ok(samples.into_iter().map(Duration::from_nanos).collect())
        }
    };
    Ok(Measured { name, outcome })
}

/// A copy of `file` in `directory`, where another user can reach it.
pub(crate) fn copy_into(directory: &std::path::Path, file: &std::path::Path) -> Result<PathBuf> {
    let name = file.file_name().context("a program has no name")?;
    let copy = directory.join(name);
    std::fs::copy(file, &copy).with_context(|| format!("copying {}", file.display()))?;
    Ok(copy)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(prefix: &[&str], isolated: bool) -> Row {
        let argv = |command: &[&str]| prefix.iter().chain(command).map(|word| (*word).to_owned()).collect();
        Row { name: "row".to_owned(), argv: argv(&["true"]), env: vec![], proof: argv(PROOF), isolated }
    }

    #[test]
    fn rows_are_measured_as_often_as_asked() {
        let rounds = Rounds { warm_up: 1, measured: 3 };
        let measured = measure(&[row(&[], false), row(&["env"], false)], rounds);
        assert!(measured.iter().all(|row| row.outcome.as_ref().is_ok_and(|samples| samples.len() == 3)));
    }

    #[test]
    fn a_row_that_does_not_do_its_work_is_not_measured() {
        let rounds = Rounds { warm_up: 1, measured: 3 };
        for (row, reason) in [
            (row(&["echo"], false), "does not run its command"),
            (row(&["false"], false), "exit status: 1"),
            (row(&["/none"], false), "/none"),
            (row(&[], true), "not isolated"),
        ] {
            let [measured] = measure(&[row], rounds).try_into().unwrap();
            let got = measured.outcome.unwrap_err();
            assert!(got.contains(reason), "{got}");
        }
    }
}
