//! The parts of the fence one by one: a notification, an approval, the memory of the helpers, and every step of
//! a launch. Most of it is measured by the example `bench` of the façade.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde_json::{Value, json};

use super::goals::verdict;
use super::limits::Limits;
use super::measure::Row;
use super::place::{self, BARE, BWRAP, FULL, LIMIT, OFF, Place, WRITES, Who};
use super::quiet::{self, Meter};
use super::render::Found;
use super::{Amount, Programs};

const WAYS: &[&str] = &[BARE, BWRAP, OFF, WRITES, FULL];

/// The least supervisor lets every open go on, or opens every file itself with both sides on one processor.
const CONTINUED: &str = "limit: let go on";
const GIVEN: &str = "limit: handed over";

/// Opens of a file, approvals, memory.
pub(crate) fn micro(programs: &Programs, amount: Amount) -> Result<Found> {
    let place = Place::new(programs)?;
    let example = place::text(place::copy_into(Path::new(&place.project), &programs.parts)?)?;
    let (repeats, approvals) = match amount {
        Amount::Quick => (3, 20),
        Amount::Full => (9, 30),
    };
    let limits = programs.limits.as_ref();
    let (mut text, mut values) = (String::new(), Vec::new());
    opens(&place, limits, &example, repeats, &mut text, &mut values)?;
    approval(&place, programs, approvals, &mut text, &mut values)?;
    memory(&place, &mut text, &mut values)?;
    Ok(Found { markdown: text, json: Value::Array(values) })
}

/// Twenty thousand opens of a file of the project, in every way.
fn opens(
    place: &Place,
    limits: Option<&Limits>,
    example: &str,
    repeats: usize,
    text: &mut String,
    values: &mut Vec<Value>,
) -> Result<()> {
    let file = format!("{}/file.txt", place.project);
    std::fs::write(&file, "content\n").context("writing a file to open")?;
    let mut rows = place.rows(WAYS, &[example, "opens", &file, "20000"]);
    if let Some(limits) = limits {
        for (name, how) in [(CONTINUED, "continue"), (GIVEN, "give")] {
            let row = place.row(BARE, &[&limits.opens.to_string_lossy(), how, &file, "20000"]);
            rows.push(Row { name: name.to_owned(), ..row });
        }
    }
    let meter = Meter::start();
    let mut found: Vec<[Vec<u64>; 3]> = vec![Default::default(); rows.len()];
    for _ in 0..repeats {
        for (row, found) in rows.iter().zip(&mut found) {
            let environment = row.env.iter().map(|(name, value)| (name, value));
            let output = output_of(
                Command::new(&row.argv[0]).args(&row.argv[1..]).envs(environment).current_dir(&row.cwd),
            )?;
            for (name, times) in ["p50", "mean", "p99"].iter().zip(found) {
                times.push(
                    output[*name].as_u64().with_context(|| format!("{}: no times in {output}", row.name))?,
                );
            }
        }
    }
    let _ = writeln!(text, "\n### One open of a file of the project\n\n{}\n", noise(&meter));
    let _ = writeln!(text, "Medians of {repeats} runs of 20,000 opens, in µs.\n");
    let _ = writeln!(text, "| row | p50 | mean | p99 |\n|---|---:|---:|---:|");
    let mut p50s = BTreeMap::new();
    for (Row { name: way, .. }, found) in rows.iter().zip(&mut found) {
        let [p50, mean, p99] = found.each_mut().map(|times| middle(times));
        let _ = writeln!(text, "| {way} | {:.2} | {:.2} | {:.2} |", us(p50), us(mean), us(p99));
        values.push(json!({ "title": "open", "row": way, "p50Ns": p50, "meanNs": mean, "p99Ns": p99 }));
        p50s.insert(way.as_str(), us(p50));
    }
    let [full, continued, given] = [FULL, CONTINUED, GIVEN].map(|row| p50s.get(row).copied());
    let goal = match (full, continued, given) {
        (Some(full), Some(continued), Some(given)) => {
            let got = full / continued;
            let word = verdict(got, 1.3);
            let given = full / given;
            format!(
                "{got:.2} of the limit, {continued:.1} µs, goal ≤ 1.30: {word}; {given:.2} of a hand-over"
            )
        }
        _ => NO_LIMIT.to_owned(),
    };
    let _ = writeln!(text, "\n- G9: full, p50: {goal}");
    Ok(())
}

const NO_LIMIT: &str = "not compared: there was no C compiler for the limit";

/// From the answer to the return of the call.
fn approval(
    place: &Place,
    programs: &Programs,
    count: usize,
    text: &mut String,
    values: &mut Vec<Value>,
) -> Result<()> {
    const TURNS: usize = 3;
    let row = place.row(BARE, &[]);
    let count = count.to_string();
    let outside = place::text(place.directory().join("outside"))?;
    let meter = Meter::start();
    let (mut ours, mut limit) = (Approvals::default(), Approvals::default());
    for _ in 0..TURNS {
        let environment = row.env.iter().map(|(name, value)| (name, value));
        let mut command = Command::new(&programs.parts);
        ours.add(output_of(command.args(["approval", &place.project, &count]).envs(environment))?)?;
        if let Some(limits) = &programs.limits {
            limit.add(output_of(Command::new(&limits.approval).args([&outside, &count]))?)?;
        }
    }
    let _ = writeln!(
        text,
        "\n### From a person's answer to the return of the call that waited\n\n{}\n",
        noise(&meter)
    );
    let _ = writeln!(text, "| what is granted | median µs | p99 µs | limit: median µs | p99 µs |");
    let _ = writeln!(text, "|---|---:|---:|---:|---:|");
    let mut goals = String::new();
    for (name, mut times, mut limit) in [
        ("a file, by its descriptor", ours.file, limit.file),
        ("a directory, by a mount", ours.directory, limit.directory),
    ] {
        let (median, least) = (us(middle(&mut times)), us(middle(&mut limit)));
        let (p99, least_p99) = (us(tail(&times)), us(tail(&limit)));
        let _ = writeln!(text, "| {name} | {median:.0} | {p99:.0} | {least:.1} | {least_p99:.0} |");
        // The share of a limit of 43 µs that the goal of 100 µs was.
        let scaled = least * 100.0 / 43.0;
        let most = scaled.max(100.0);
        let ratio = if limit.is_empty() {
            NO_LIMIT.to_owned()
        } else {
            format!("{:.1} of the limit, {least:.1} µs, of which 2.33 are {scaled:.0} µs", median / least)
        };
        let word = verdict(median, most);
        let _ = writeln!(goals, "- G10: {name}: {median:.0} µs, goal ≤ {most:.0}: {word}; {ratio}");
        values.push(json!({ "title": "approval", "row": name, "samplesNs": times, "limitNs": limit }));
    }
    let _ = writeln!(text, "\n{goals}");
    Ok(())
}

/// Nanoseconds from each answer to the return of its call.
#[derive(Default, Deserialize)]
struct Approvals {
    file: Vec<u64>,
    directory: Vec<u64>,
}

impl Approvals {
    fn add(&mut self, found: Value) -> Result<()> {
        let found: Self = serde_json::from_value(found).context("reading approvals")?;
        self.file.extend(found.file);
        self.directory.extend(found.directory);
        Ok(())
    }
}

/// The 99th percentile of sorted times.
fn tail(sorted: &[u64]) -> u64 {
    sorted.get((sorted.len() * 99).div_ceil(100).saturating_sub(1)).copied().unwrap_or(0)
}

/// Resident memory of ringfence and init while a command sleeps.
fn memory(place: &Place, text: &mut String, values: &mut Vec<Value>) -> Result<()> {
    let _ = writeln!(text, "\n### Memory of ringfence and its init while `sleep` runs\n");
    let _ = writeln!(text, "| mode | ringfence KiB | init KiB | together MiB |\n|---|---:|---:|---:|");
    let (mut most, mut limit) = (0.0_f64, None);
    for way in [LIMIT, OFF, WRITES, FULL].into_iter().filter(|way| place.has(way)) {
        let row = place.row(way, &["sleep", "0.8"]);
        let mut child = Command::new(&row.argv[0])
            .args(&row.argv[1..])
            .envs(row.env)
            .current_dir(&row.cwd)
            .stdin(Stdio::null())
            .spawn()
            .context("starting ringfence")?;
        std::thread::sleep(Duration::from_millis(500));
        let own = resident(child.id());
        let name = if way == LIMIT { "start" } else { "ringfence-init" };
        let init = child_named(child.id(), name).map_or(0, resident);
        child.wait().context("waiting for ringfence")?;
        #[expect(clippy::cast_precision_loss, reason = "some thousand")]
        let together = (own + init) as f64 / 1024.0;
        if way == LIMIT {
            limit = Some(together);
        } else {
            most = most.max(together);
        }
        let _ = writeln!(text, "| {way} | {own} | {init} | {together:.1} |");
        values.push(json!({ "title": "memory", "row": way, "ringfenceKiB": own, "initKiB": init }));
    }
    let limit = limit.map_or_else(|| NO_LIMIT.to_owned(), |limit| format!("the limit takes {limit:.1}"));
    let _ = writeln!(text, "\n- G11: {most:.1} MiB, goal ≤ 8: {}; {limit}", verdict(most, 8.0));
    Ok(())
}

fn resident(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

fn child_named(pid: u32, name: &str) -> Option<u32> {
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
    children.split_whitespace().filter_map(|child| child.parse().ok()).find(|child: &u32| {
        std::fs::read_to_string(format!("/proc/{child}/comm")).is_ok_and(|comm| comm.trim() == name)
    })
}

/// Every step from the configuration to the end of `true`.
pub(crate) fn steps(programs: &Programs, amount: Amount) -> Result<Found> {
    let rounds = match amount {
        Amount::Quick => "60",
        Amount::Full => "400",
    };
    let (mut text, mut values) = (String::new(), Vec::new());
    for who in Who::all()? {
        let place = Place::new(programs)?;
        let example = place::text(place::copy_into(place.directory(), &programs.parts)?)?;
        let row = place.row(BARE, &[]);
        let mut command = who.command(&place, &example)?;
        println!("measuring the steps {}", who.name()?);
        let meter = Meter::start();
        let found = output_of(
            command.args(["steps", &place.project, rounds]).envs(row.env).current_dir(&place.project),
        )?;
        let _ = writeln!(text, "\n### {} rounds {}\n\n{}\n", rounds, who.name()?, noise(&meter));
        let _ =
            writeln!(text, "| step | how many | median µs | p99 µs | min µs |\n|---|---:|---:|---:|---:|");
        for step in found["steps"].as_array().context("no steps were measured")? {
            let name = step["name"].as_str().unwrap_or_default();
            let mut times: Vec<u64> = serde_json::from_value(step["ns"].clone()).context("reading steps")?;
            let median = middle(&mut times);
            if median == 0 {
                continue;
            }
            let p99 = tail(&times);
            let count = found["counts"][name].as_u64().map_or_else(String::new, |count| count.to_string());
            let _ = writeln!(
                text,
                "| {name} | {count} | {:.0} | {:.0} | {:.0} |",
                us(median),
                us(p99),
                us(times[0])
            );
        }
        values.push(json!({ "title": who.name()?, "found": found }));
    }
    Ok(Found { markdown: text, json: Value::Array(values) })
}

pub(super) fn output_of(command: &mut Command) -> Result<Value> {
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("starting {command:?}"))?;
    let value: Value = serde_json::from_slice(&output.stdout).with_context(|| {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        format!("{command:?} said {said}")
    })?;
    if let Some(reason) = value["failed"].as_str() {
        bail!("{command:?}: {reason}");
    }
    Ok(value)
}

/// The median; sorts.
pub(super) fn middle(times: &mut [u64]) -> u64 {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or(0)
}

pub(super) fn us(nanoseconds: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "times of one call")]
    let nanoseconds = nanoseconds as f64;
    nanoseconds / 1000.0
}

pub(super) fn noise(meter: &Meter) -> String {
    match meter.others() {
        None => "What else ran is not known.".to_owned(),
        Some(others) if others > quiet::LIMIT => {
            format!("**Noisy**: others used {:.0} % of a processor.", others * 100.0)
        }
        Some(others) => format!("Others used {:.0} % of a processor.", others * 100.0),
    }
}
