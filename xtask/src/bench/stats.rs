//! Medians and tails.

use std::time::Duration;

use super::measure::Sample;

/// What is reported of many samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Summary {
    pub(crate) min: Duration,
    pub(crate) median: Duration,
    pub(crate) p99: Duration,
    /// The mean of the processor time, which other work on the machine hardly changes.
    pub(crate) cpu: Duration,
}

/// The summary; none of no samples.
pub(crate) fn summarise(samples: &[Sample]) -> Option<Summary> {
    let walls: Vec<Duration> = samples.iter().map(|sample| sample.wall).collect();
    let cpu: Duration = samples.iter().map(|sample| sample.cpu).sum();
    let (min, median, p99) = of(walls)?;
    Some(Summary { min, median, p99, cpu: cpu / u32::try_from(samples.len()).ok()? })
}

/// Minimum, median and 99th percentile.
pub(crate) fn of(mut sorted: Vec<Duration>) -> Option<(Duration, Duration, Duration)> {
    sorted.sort_unstable();
    let min = *sorted.first()?;
    let middle = sorted.len() / 2;
    let median = if sorted.len().is_multiple_of(2) {
        (sorted[middle - 1] + sorted[middle]) / 2
    } else {
        sorted[middle]
    };
    // The nearest rank: the smallest sample that at least 99 of 100 do not exceed.
    let rank = (sorted.len() * 99).div_ceil(100);
    Some((min, median, sorted[rank - 1]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(values: impl IntoIterator<Item = u64>) -> Vec<Duration> {
        values.into_iter().map(Duration::from_millis).collect()
    }

    #[test]
    fn medians_and_tails_are_the_usual_ones() {
        assert_eq!(of(vec![]), None);
        let (_, median, p99) = of(ms([7])).unwrap();
        assert_eq!((median, p99), (Duration::from_millis(7), Duration::from_millis(7)));
        let (min, median, _) = of(ms([4, 1, 3, 2])).unwrap();
        assert_eq!((min, median), (Duration::from_millis(1), Duration::from_micros(2500)));
        let (_, _, p99) = of(ms((1..=200).rev())).unwrap();
        assert_eq!(p99, Duration::from_millis(198));
    }
}
