//! Many sandboxes: taking a warm one from the pool, and how many can live at once.

use std::fmt::Write as _;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::goals::verdict;
use super::parts::{middle, noise, output_of, us};
use super::place::{BARE, Place};
use super::quiet::Meter;
use super::render::Found;
use super::{Amount, Programs};

/// Sandboxes per second that a program of nothing but the necessary calls made where the goal was set.
const ONE_WORKER: f64 = 690.0;
const FOUR_WORKERS: f64 = 1040.0;

pub(crate) fn run(programs: &Programs, amount: Amount) -> Result<Found> {
    let place = Place::new(&programs.ringfence)?;
    let (rounds, count) = match amount {
        Amount::Quick => ("50", "100"),
        Amount::Full => ("200", "1000"),
    };
    let measured = |words: [&str; 2]| -> Result<Value> {
        let row = place.row(BARE, &[]);
        let found = output_of(
            Command::new(&programs.parts).args([words[0], &place.project, words[1]]).envs(row.env),
        )?;
        if let Some(why) = found["failed"].as_str() {
            bail!("{}: {why}", words[0]);
        }
        Ok(found)
    };
    let meter = Meter::start();
    let taken = measured(["take", rounds])?;
    let median = |name: &str| -> Result<f64> {
        let mut times: Vec<u64> = serde_json::from_value(taken[name].clone()).context("reading times")?;
        Ok(us(middle(&mut times)))
    };
    let (bare, take, ran) = (median("bare")?, median("taken")?, median("takenAndRan")?);
    let mut text = format!("\n{}\n\n| what | median µs |\n|---|---:|\n", noise(&meter));
    for (name, time) in [
        ("a program, bare", bare),
        ("taking a warm sandbox", take),
        ("taking one, and the program in it", ran),
    ] {
        let _ = writeln!(text, "| {name} | {time:.1} |");
    }
    let meter = Meter::start();
    let live = measured(["many", count])?;
    let number = |name: &str| live[name].as_f64().with_context(|| format!("no {name} in {live}"));
    let (rate, kib, processes) = (number("perSecond")?, number("kibEach")?, number("processes")?);
    let _ = writeln!(
        text,
        "\n{count} live sandboxes, made by two workers ({}): {rate:.0} per second, {:.2} MB each (proportional), {:.1} \
         processes each.\n",
        noise(&meter),
        kib / 1000.0 * 1.024,
        (processes - 1.0) / number("sandboxes")?,
    );
    let meter = Meter::start();
    let sustained = measured(["sustained", count])?;
    let per_second =
        |name: &str| sustained[name].as_f64().with_context(|| format!("no {name} in {sustained}"));
    let (one, four) = (per_second("one")?, per_second("four")?);
    let _ = writeln!(
        text,
        "{count} sandboxes that run `true` and end ({}): {one:.0} per second by one worker, {four:.0} by four.\n",
        noise(&meter),
    );
    for (name, got, most) in [
        ("G4: taking a sandbox and a program in it, over the program bare", ran / bare, 2.5),
        ("MB of a live sandbox", kib / 1000.0 * 1.024, 4.0),
        ("milliseconds of making one of many that stay", 1000.0 / rate, 1000.0 / 150.0),
        ("G13: the limit over what one worker sustains", ONE_WORKER / one, 1.0 / 0.8),
        ("G13: the limit over what four sustain", FOUR_WORKERS / four, 1.0 / 0.8),
    ] {
        let _ = writeln!(text, "- {name}: {got:.2}, goal ≤ {most:.2}: {}", verdict(got, most));
    }
    Ok(Found { markdown: text, json: Value::Array(vec![taken, live, sustained]) })
}
