//! What was aimed at: ratios of medians or tails within one table.

use super::measure::Measured;
use super::stats::{self, Summary};

/// Which figure of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Figure {
    Median,
    P99,
}

/// `row` takes at most `most` times as long as `baseline`.
#[derive(Debug, Clone)]
pub(crate) struct Goal {
    pub(crate) name: &'static str,
    pub(crate) row: &'static str,
    pub(crate) baseline: &'static str,
    pub(crate) figure: Figure,
    pub(crate) most: f64,
    /// The row of a program that does nothing but the necessary system calls.
    pub(crate) limit: Option<&'static str>,
}

impl Goal {
    pub(crate) fn ratio(&self, rows: &[Measured]) -> Option<f64> {
        self.ratio_of(self.row, rows)
    }

    /// The same of another row.
    fn ratio_of(&self, row: &str, rows: &[Measured]) -> Option<f64> {
        let of = |name: &str| {
            let row = rows.iter().find(|row| row.name == name)?;
            let Summary { median, p99, .. } = stats::summarise(row.outcome.as_ref().ok()?)?;
            Some(match self.figure {
                Figure::Median => median,
                Figure::P99 => p99,
            })
        };
        Some(of(row)?.as_secs_f64() / of(self.baseline)?.as_secs_f64())
    }

    pub(crate) fn verdict(&self, rows: &[Measured]) -> String {
        let Self { name, row, baseline, most, .. } = self;
        let figure = match self.figure {
            Figure::Median => "median",
            Figure::P99 => "p99",
        };
        let limit = self.limit.and_then(|limit| self.ratio_of(limit, rows));
        let limit = limit.map_or_else(String::new, |limit| format!(" (limit {limit:.2})"));
        let (got, word) = match self.ratio(rows) {
            Some(ratio) => (format!("{ratio:.2}"), verdict(ratio, *most)),
            None => ("not measured".to_owned(), "–"),
        };
        format!("{name}: {row} / {baseline}, {figure}: {got}, goal ≤ {most:.2}{limit}: {word}")
    }
}

/// In one word.
pub(crate) fn verdict(got: f64, most: f64) -> &'static str {
    if got <= most { "met" } else { "MISSED" }
}
