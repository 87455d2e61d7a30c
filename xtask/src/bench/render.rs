//! Results as a table for people and as JSON for programs.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value, json};

use super::cold_start::{BASELINE, OURS};
use super::{Group, Measured, Rounds, stats};

/// We are not slower than the baseline when the ratio of the medians is at most this.
const GOAL: f64 = 1.0;

pub(crate) fn markdown(title: &str, rounds: Rounds, groups: &[Group]) -> String {
    let mut text = format!("\n## {title}\n\n{}\n", machine());
    let _ = writeln!(text, "{} interleaved rounds after {} to warm up.", rounds.measured, rounds.warm_up);
    for group in groups {
        let baseline = median(group, BASELINE);
        let _ = writeln!(text, "\n### {}\n", group.title);
        let _ = writeln!(text, "| row | median ms | p99 ms | min ms | ratio to {BASELINE} |");
        let _ = writeln!(text, "|---|---:|---:|---:|---:|");
        for row in &group.rows {
            match summary(row) {
                Ok(summary) => {
                    let ratio = baseline.map_or("–".to_owned(), |base| {
                        format!("{:.2}", summary.median.as_secs_f64() / base.as_secs_f64())
                    });
                    let _ = writeln!(
                        text,
                        "| {} | {} | {} | {} | {ratio} |",
                        row.name,
                        ms(summary.median),
                        ms(summary.p99),
                        ms(summary.min)
                    );
                }
                Err(reason) => {
                    let _ = writeln!(text, "| {} | not measured: {reason} | | | |", row.name);
                }
            }
        }
        let _ = writeln!(text, "\n{}", verdict(group));
    }
    text
}

pub(crate) fn json(name: &str, rounds: Rounds, groups: &[Group]) -> Value {
    json!({
        "bench": name,
        "machine": machine(),
        "rounds": rounds.measured,
        "warmUp": rounds.warm_up,
        "baseline": BASELINE,
        "goal": GOAL,
        "groups": groups.iter().map(|group| json!({
            "title": group.title,
            "ratio": ratio(group),
            "rows": group.rows.iter().map(|row| {
                let mut value = measured_json(row);
                if let Ok(summary) = summary(row) {
                    value["medianNs"] = nanoseconds(summary.median);
                    value["p99Ns"] = nanoseconds(summary.p99);
                    value["minNs"] = nanoseconds(summary.min);
                }
                value
            }).collect::<Vec<_>>(),
        })).collect::<Vec<_>>(),
    })
}

pub(crate) fn measured_json(row: &Measured) -> Value {
    match &row.outcome {
        Ok(samples) => json!({
            "name": row.name,
            "samplesNs": samples.iter().map(|sample| nanoseconds(*sample)).collect::<Vec<_>>(),
        }),
        Err(reason) => json!({ "name": row.name, "failed": reason }),
    }
}

fn summary(row: &Measured) -> Result<stats::Summary, String> {
    stats::summarise(row.outcome.as_deref().map_err(Clone::clone)?).ok_or_else(|| "no samples".to_owned())
}

fn median(group: &Group, name: &str) -> Option<Duration> {
    let row = group.rows.iter().find(|row| row.name == name)?;
    summary(row).ok().map(|summary| summary.median)
}

fn ratio(group: &Group) -> Option<f64> {
    Some(median(group, OURS)?.as_secs_f64() / median(group, BASELINE)?.as_secs_f64())
}

fn verdict(group: &Group) -> String {
    match ratio(group) {
        Some(ratio) => {
            let word = if ratio <= GOAL { "met" } else { "MISSED" };
            format!("{OURS}/{BASELINE} = {ratio:.2}, goal ≤ {GOAL:.1}: {word}")
        }
        None => format!("{OURS}/{BASELINE}: not both measured"),
    }
}

fn ms(duration: Duration) -> String {
    format!("{:.2}", duration.as_secs_f64() * 1000.0)
}

fn nanoseconds(duration: Duration) -> Value {
    u64::try_from(duration.as_nanos()).map_or(Value::Null, Value::from)
}

/// Kernel, cores and load: what a reader needs to judge the numbers.
fn machine() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let load = read("/proc/loadavg");
    let load: Vec<&str> = load.split(' ').take(3).collect();
    format!("Linux {}, {cores} cores, load {}.", read("/proc/sys/kernel/osrelease"), load.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, millis: &[u64]) -> Measured {
        Measured {
            name: name.to_owned(),
            outcome: Ok(millis.iter().map(|value| Duration::from_millis(*value)).collect()),
        }
    }

    #[test]
    fn the_table_names_the_ratio_and_the_goal() {
        let failed = Measured { name: "unshare".to_owned(), outcome: Err("no such program".to_owned()) };
        let group = |ours: u64| Group {
            title: "x".to_owned(),
            rows: vec![row(BASELINE, &[4, 4]), row(OURS, &[ours]), failed.clone()],
        };
        let rounds = Rounds { warm_up: 1, measured: 2 };
        let text = markdown("t", rounds, &[group(3)]);
        assert!(text.contains("| ringfence | 3.00 | 3.00 | 3.00 | 0.75 |"), "{text}");
        assert!(text.contains("| unshare | not measured: no such program |"), "{text}");
        assert!(text.contains("ringfence/bwrap = 0.75, goal ≤ 1.0: met"), "{text}");
        assert!(markdown("t", rounds, &[group(5)]).contains("= 1.25, goal ≤ 1.0: MISSED"));
        assert_eq!(json("t", rounds, &[group(3)])["groups"][0]["ratio"], 0.75);
    }
}
