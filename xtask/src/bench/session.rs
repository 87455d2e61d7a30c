//! A warm shell: a builtin, a program, a GiB of output. Measured by the example `bench` of the façade.

use std::fmt::Write as _;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use super::goals::verdict;
use super::parts::{middle, noise, output_of, us};
use super::place::{BARE, Place};
use super::quiet::Meter;
use super::render::Found;
use super::{Amount, Programs};

const ROWS: [&str; 6] = [
    "builtin over bare pipes",
    "builtin in a shell",
    "builtin in a session, with gate and ledger",
    "program over bare pipes",
    "program in a shell",
    "bash -c :",
];

pub(crate) fn run(programs: &Programs, amount: Amount) -> Result<Found> {
    let place = Place::new(programs)?;
    let rounds = match amount {
        Amount::Quick => "1000",
        Amount::Full => "4000",
    };
    let meter = Meter::start();
    let ringfence = programs.ringfence.to_str().context("the path of ringfence is not text")?;
    let row = place.row(BARE, &[]);
    let found = output_of(
        Command::new(&programs.parts).args(["session", &place.project, rounds, ringfence]).envs(row.env),
    )?;
    let mut text = format!("\n{}\n\n| what | median µs | p99 µs |\n|---|---:|---:|\n", noise(&meter));
    let mut medians = [0.0; ROWS.len()];
    for (name, middle_of) in ROWS.iter().zip(&mut medians) {
        let mut times: Vec<u64> = serde_json::from_value(found[*name].clone()).context("reading times")?;
        let median = middle(&mut times);
        let p99 = times[(times.len() * 99).div_ceil(100) - 1];
        *middle_of = us(median);
        let _ = writeln!(text, "| {name} | {:.1} | {:.1} |", us(median), us(p99));
    }
    let [bare, shell, session, program, program_in_shell, spawned] = medians;
    let rate = |name: &str| -> Result<f64> {
        let mut rates: Vec<f64> =
            serde_json::from_value(found["streams"][name].clone()).context("reading rates")?;
        rates.sort_by(f64::total_cmp);
        Ok(rates[rates.len() / 2])
    };
    let (read, streamed) = (rate("bare read loop")?, rate("in a shell")?);
    let _ = writeln!(
        text,
        "\nA GiB of output: {read:.0} MiB/s by a bare loop, {streamed:.0} MiB/s in a shell.\n"
    );
    for (name, got, most) in [
        ("G5: a builtin in a shell over bare pipes", shell / bare, 1.5),
        ("G5: a builtin in a shell, of `bash -c :`", shell / spawned, 1.0 / 40.0),
        ("a builtin through the whole stack, in ms", session / 1000.0, 0.3),
        ("G6: a program in a shell over bare pipes", program_in_shell / program, 1.1),
        ("G12: a bare loop over a shell, in time", read / streamed, 1.0 / 0.8),
    ] {
        let _ = writeln!(text, "- {name}: {got:.3}, goal ≤ {most:.3}: {}", verdict(got, most));
    }
    Ok(Found { markdown: text, json: Value::Array(vec![found]) })
}
