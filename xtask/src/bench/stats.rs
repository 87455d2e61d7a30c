//! Medians and tails.

use std::time::Duration;

/// What is reported of many samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Summary {
    pub(crate) min: Duration,
    pub(crate) median: Duration,
    pub(crate) p99: Duration,
}

/// The summary; none of no samples.
pub(crate) fn summarise(samples: &[Duration]) -> Option<Summary> {
    let mut sorted = samples.to_vec();
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
    Some(Summary { min, median, p99: sorted[rank - 1] })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(values: impl IntoIterator<Item = u64>) -> Vec<Duration> {
        values.into_iter().map(Duration::from_millis).collect()
    }

    #[test]
    fn medians_and_tails_are_the_usual_ones() {
        assert_eq!(summarise(&[]), None);
        let one = summarise(&ms([7])).unwrap();
        assert_eq!((one.median, one.p99), (Duration::from_millis(7), Duration::from_millis(7)));
        let even = summarise(&ms([4, 1, 3, 2])).unwrap();
        assert_eq!((even.min, even.median), (Duration::from_millis(1), Duration::from_micros(2500)));
        let hundred = summarise(&ms((1..=200).rev())).unwrap();
        assert_eq!(hundred.p99, Duration::from_millis(198));
    }
}
