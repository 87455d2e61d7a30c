//! How many connections are begun in a minute.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use ringfence_model::LockExt as _;

const MINUTE: Duration = Duration::from_secs(60);

/// When those of the last minute were begun. Any minute counts, so that nobody gets twice as many around a full one.
#[derive(Debug, Default)]
pub(crate) struct Rate(Mutex<VecDeque<Instant>>);

impl Rate {
    /// Whether one more may be begun now. One that may not does not count.
    pub(crate) fn take(&self, most: usize, now: Instant) -> bool {
        let mut begun = self.0.locked();
        while begun.front().is_some_and(|first| now.saturating_duration_since(*first) >= MINUTE) {
            begun.pop_front();
        }
        let has_room = begun.len() < most;
        if has_room {
            begun.push_back(now);
        }
        has_room
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_minute_has_so_many() {
        let (rate, start) = (Rate::default(), Instant::now());
        let take = |seconds| rate.take(2, start + Duration::from_secs(seconds));
        assert!(take(0) && take(50));
        assert!(!take(51) && !take(59));
        // The first one is a minute ago, the second is not; tries that failed do not count.
        assert!(take(60));
        assert!(!take(61) && !take(109));
        assert!(take(110) && !take(110));
    }
}
