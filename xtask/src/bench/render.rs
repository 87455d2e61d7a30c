//! Results as tables for people and as JSON for programs.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value, json};

use super::goals::Goal;
use super::measure::{Measured, Taken};
use super::quiet;
use super::stats::{Summary, summarise};

/// Rows that are compared with each other.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) title: String,
    /// The row that the others are compared with.
    pub(crate) baseline: &'static str,
    pub(crate) taken: Taken,
    pub(crate) goals: Vec<Goal>,
}

/// What one bench found.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) markdown: String,
    pub(crate) json: Value,
}

pub(crate) fn groups(groups: &[Group]) -> Found {
    let markdown = groups.iter().map(markdown).collect();
    Found { markdown, json: groups.iter().map(json).collect() }
}

fn markdown(group: &Group) -> String {
    let Group { title, baseline, taken, goals } = group;
    let mut text = format!("\n### {title}\n\n{}\n\n", quietness(taken));
    let base = median(taken, baseline);
    let _ = writeln!(text, "| row | median ms | p99 ms | min ms | processor ms | ratio to {baseline} |");
    let _ = writeln!(text, "|---|---:|---:|---:|---:|---:|");
    for row in &taken.rows {
        let _ = match summary(row) {
            Ok(Summary { median, p99, min, cpu }) => {
                let ratio = base.map_or("–".to_owned(), |base| {
                    format!("{:.2}", median.as_secs_f64() / base.as_secs_f64())
                });
                let [median, p99, min, cpu] = [median, p99, min, cpu].map(ms);
                writeln!(text, "| {} | {median} | {p99} | {min} | {cpu} | {ratio} |", row.name)
            }
            Err(reason) => writeln!(text, "| {} | not measured: {reason} | | | | |", row.name),
        };
    }
    text.push('\n');
    for goal in goals {
        let _ = writeln!(text, "- {}", goal.verdict(&taken.rows));
    }
    text
}

fn json(group: &Group) -> Value {
    let rows: Vec<Value> = group.taken.rows.iter().map(row_json).collect();
    let goals: Vec<Value> = group
        .goals
        .iter()
        .map(|goal| {
            json!({
                "name": goal.name,
                "row": goal.row,
                "baseline": goal.baseline,
                "most": goal.most,
                "ratio": goal.ratio(&group.taken.rows),
            })
        })
        .collect();
    json!({
        "title": group.title,
        "baseline": group.baseline,
        "othersShare": group.taken.others,
        "roundsKept": group.taken.kept,
        "roundsRun": group.taken.run,
        "rows": rows,
        "goals": goals,
    })
}

pub(crate) fn row_json(row: &Measured) -> Value {
    match (&row.outcome, summary(row)) {
        (Ok(samples), Ok(summary)) => json!({
            "name": row.name,
            "samplesNs": samples.iter().map(|sample| nanoseconds(sample.wall)).collect::<Vec<_>>(),
            "medianNs": nanoseconds(summary.median),
            "p99Ns": nanoseconds(summary.p99),
            "minNs": nanoseconds(summary.min),
            "cpuMeanNs": nanoseconds(summary.cpu),
        }),
        (_, outcome) => json!({ "name": row.name, "failed": outcome.err() }),
    }
}

/// How many rounds there are, and whether to believe them.
pub(crate) fn quietness(taken: &Taken) -> String {
    let Taken { kept, run, .. } = taken;
    let rounds = format!("{kept} interleaved rounds, the quietest of {run}");
    match taken.others {
        None => format!("{rounds}; what else ran is not known."),
        Some(others) if others > quiet::LIMIT => {
            format!("**Noisy**: {rounds}; others used up to {:.0} % of a processor.", others * 100.0)
        }
        Some(others) => format!("{rounds}; others used at most {:.0} % of a processor.", others * 100.0),
    }
}

pub(crate) fn summary(row: &Measured) -> Result<Summary, String> {
    let samples = row.outcome.as_ref().map_err(Clone::clone)?;
    summarise(samples).ok_or_else(|| "no samples".to_owned())
}

pub(crate) fn median(taken: &Taken, name: &str) -> Option<Duration> {
    let row = taken.rows.iter().find(|row| row.name == name)?;
    summary(row).ok().map(|summary| summary.median)
}

pub(crate) fn ms(duration: Duration) -> String {
    format!("{:.2}", duration.as_secs_f64() * 1000.0)
}

fn nanoseconds(duration: Duration) -> Value {
    u64::try_from(duration.as_nanos()).map_or(Value::Null, Value::from)
}

/// Kernel, cores, priority and load: what a reader needs to judge the numbers.
pub(crate) fn machine() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let load = read("/proc/loadavg");
    let load: Vec<&str> = load.split(' ').take(3).collect();
    format!("Linux {}, {cores} cores, load {}.", read("/proc/sys/kernel/osrelease"), load.join(" "))
}

#[cfg(test)]
mod tests {
    use super::super::goals::Figure;
    use super::super::measure::Sample;
    use super::*;

    fn row(name: &str, millis: &[u64]) -> Measured {
        let sample = |value: &u64| Sample { wall: Duration::from_millis(*value), cpu: Duration::ZERO };
        Measured { name: name.to_owned(), outcome: Ok(millis.iter().map(sample).collect()) }
    }

    #[test]
    fn the_table_names_the_ratio_and_the_goal() {
        let group = |ours: u64, others: f64| Group {
            title: "x".to_owned(),
            baseline: "bwrap",
            taken: Taken {
                rows: vec![
                    row("bwrap", &[4, 4]),
                    row("ours", &[ours]),
                    row("limit", &[2]),
                    Measured { name: "unshare".to_owned(), outcome: Err("no such program".to_owned()) },
                ],
                others: Some(others),
                kept: 2,
                run: 3,
            },
            goals: vec![Goal {
                name: "G1",
                row: "ours",
                baseline: "bwrap",
                figure: Figure::Median,
                most: 1.0,
                limit: Some("limit"),
            }],
        };
        let Found { markdown, json } = groups(&[group(3, 0.1)]);
        assert!(markdown.contains("| ours | 3.00 | 3.00 | 3.00 | 0.00 | 0.75 |"), "{markdown}");
        assert!(markdown.contains("| unshare | not measured: no such program |"), "{markdown}");
        assert!(markdown.contains("median: 0.75, goal ≤ 1.00 (limit 0.50): met"), "{markdown}");
        assert!(!markdown.contains("Noisy"), "{markdown}");
        assert_eq!(json[0]["goals"][0]["ratio"], 0.75);
        let missed = groups(&[group(5, 0.9)]).markdown;
        assert!(missed.contains("1.25, goal ≤ 1.00 (limit 0.50): MISSED"), "{missed}");
        assert!(missed.contains("**Noisy**: 2 interleaved rounds, the quietest of 3"), "{missed}");
    }
}
