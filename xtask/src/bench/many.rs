//! Many sandboxes: taking a warm one from the pool, and how many can live at once.

use std::fmt::Write as _;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::goals::verdict;
use super::parts::{middle, noise, output_of, us};
use super::place::{self, BARE, Place, Who};
use super::quiet::Meter;
use super::render::Found;
use super::{Amount, Programs};

/// So many live at once.
const LIVE: &str = "1000";
const FEWER: &str = "100";

/// Sandboxes per second that a program of nothing but the necessary calls made where the goal was set.
const ONE_WORKER: f64 = 690.0;
const FOUR_WORKERS: f64 = 1040.0;

pub(crate) fn run(programs: &Programs, amount: Amount) -> Result<Found> {
    let place = Place::new(programs)?;
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
    let mut goals = Vec::new();
    let mut values = vec![taken];
    let _ = writeln!(text, "\n{LIVE} live sandboxes, made by two workers.\n");
    let _ = writeln!(
        text,
        "| who | nursery | per second | MB each (proportional) | processes each | threads each | descriptors each | |\n\
         |---|---|---:|---:|---:|---:|---:|---|"
    );
    for who in Who::all()? {
        for (way, nursery) in [("many", "yes"), ("many-alone", "no")] {
            // Without one it takes longer with each, so it is shown with fewer.
            let count = if way == "many" { LIVE } else { FEWER };
            let meter = Meter::start();
            let live = lived(programs, *who, way, count)?;
            let number = |name: &str| live[name].as_f64().with_context(|| format!("no {name} in {live}"));
            let (rate, megabytes) = (number("perSecond")?, number("kibEach")? * 1024.0 / 1_000_000.0);
            let _ = writeln!(
                text,
                "| {} | {nursery}{} | {rate:.0} | {megabytes:.2} | {:.1} | {:.1} | {:.1} | {} |",
                who.name()?,
                if way == "many" { String::new() } else { format!(", {count} of them") },
                number("processesEach")?,
                number("threadsEach")?,
                number("descriptorsEach")?,
                noise(&meter),
            );
            if way == "many" {
                goals.push((format!("MB of a live sandbox, {}", who.name()?), megabytes, 4.0));
                let name = format!("milliseconds of making one of many that stay, {}", who.name()?);
                goals.push((name, 1000.0 / rate, 1000.0 / 150.0));
            }
            values.push(live);
        }
    }
    let meter = Meter::start();
    let sustained = measured(["sustained", count])?;
    let per_second =
        |name: &str| sustained[name].as_f64().with_context(|| format!("no {name} in {sustained}"));
    let (one, four) = (per_second("one")?, per_second("four")?);
    let _ = writeln!(
        text,
        "\n{count} sandboxes that run `true` and end ({}): {one:.0} per second by one worker, {four:.0} by four.\n",
        noise(&meter),
    );
    goals.push((
        "G4: taking a sandbox and a program in it, over the program bare".to_owned(),
        ran / bare,
        2.5,
    ));
    for (name, limit, got) in [("one worker sustains", ONE_WORKER, one), ("four sustain", FOUR_WORKERS, four)]
    {
        goals.push((format!("G13: the limit over what {name}"), limit / got, 1.0 / 0.8));
    }
    for (name, got, most) in goals {
        let _ = writeln!(text, "- {name}: {got:.2}, goal ≤ {most:.2}: {}", verdict(got, most));
    }
    values.push(sustained);
    Ok(Found { markdown: text, json: Value::Array(values) })
}

/// What was found out by making so many sandboxes and keeping them.
fn lived(programs: &Programs, who: Who, way: &str, count: &str) -> Result<Value> {
    let place = Place::new(programs)?;
    let example = place::text(place::copy_into(place.directory(), &programs.parts)?)?;
    let row = place.row(BARE, &[]);
    let mut command = who.command(&place, &example)?;
    output_of(command.args([way, &place.project, count]).envs(row.env).current_dir(&place.project))
}
