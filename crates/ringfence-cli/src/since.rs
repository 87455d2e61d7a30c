//! Moments as people write them, and ages as people read them.

use std::str::FromStr;

use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan as _, Zoned};

/// A moment in the past, in milliseconds since the Unix epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Since(pub(crate) u64);

impl FromStr for Since {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        parse(text.trim(), &Zoned::now()).map(|time| Self(u64::try_from(time.as_millisecond()).unwrap_or(0))).ok_or_else(
            || "write an age (90s, 30m, 2h, 3d, 1w), a day (2026-11-01, today) or a moment (2026-11-01T09:30)".to_owned(),
        )
    }
}

/// A day or a time of day is meant where the reader is, unless it says otherwise.
fn parse(text: &str, now: &Zoned) -> Option<Timestamp> {
    let local = |time: DateTime, zone: &TimeZone| Some(zone.to_zoned(time).ok()?.timestamp());
    let zone = now.time_zone();
    match text {
        "now" => return Some(now.timestamp()),
        "today" => return Some(now.start_of_day().ok()?.timestamp()),
        "yesterday" => return Some(now.date().yesterday().ok()?.to_zoned(zone.clone()).ok()?.timestamp()),
        _ => {}
    }
    if let Some(seconds) = age(text) {
        return now.timestamp().checked_sub(seconds.seconds()).ok();
    }
    if let Ok(moment) = text.parse::<Timestamp>() {
        return Some(moment);
    }
    // `2026-11-01 09:30` and `2026-11-01T09:30`; a plain date is its first moment.
    if text.len() > 10 {
        return local(text.parse::<DateTime>().ok()?, zone);
    }
    local(text.parse::<Date>().ok()?.at(0, 0, 0, 0), zone)
}

/// `90s`, `30m`, `2h`, `3d`, `1w`, in seconds.
fn age(text: &str) -> Option<i64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match text.get(digits.len()..)? {
        "s" | "sec" => 1,
        "m" | "min" => 60,
        "h" => 3600,
        "d" => 86_400,
        "w" => 604_800,
        _ => return None,
    };
    // More than any ledger is old, and less than any calendar can count.
    const MOST: i64 = 100 * 366 * 86_400;
    digits.parse::<u32>().ok().and_then(|count| i64::from(count).checked_mul(unit)).filter(|age| *age <= MOST)
}

/// How long ago that was: `now`, `12s`, `3m`, `2h`, `5d`, and a date for what is older than four weeks.
pub(crate) fn ago(time_ms: u64, now_ms: u64) -> String {
    let seconds = now_ms.saturating_sub(time_ms) / 1000;
    match seconds {
        0 => "now".to_owned(),
        1..60 => format!("{seconds}s ago"),
        60..3600 => format!("{}m ago", seconds / 60),
        3600..86_400 => format!("{}h ago", seconds / 3600),
        86_400..2_419_200 => format!("{}d ago", seconds / 86_400),
        _ => date(time_ms),
    }
}

fn date(time_ms: u64) -> String {
    let time = i64::try_from(time_ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
    time.map_or_else(|| "?".to_owned(), |time| time.to_zoned(TimeZone::system()).date().to_string())
}

/// `3 ms`, `1.2 s`, `4m 05s`.
pub(crate) fn duration(ms: f64) -> String {
    match ms {
        ..1000.0 => format!("{ms:.0} ms"),
        ..60_000.0 => format!("{:.1} s", ms / 1000.0),
        _ => format!("{:.0}m {:02.0}s", (ms / 60_000.0).floor(), (ms % 60_000.0 / 1000.0).floor()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Option<String> {
        let now: Zoned = "2026-11-15T12:00:00+01:00[+01:00]".parse().unwrap();
        parse(text, &now).map(|time| time.to_string())
    }

    #[test]
    fn moments_are_read_as_people_write_them() {
        for (text, want) in [
            ("90s", "2026-11-15T10:58:30Z"),
            ("2h", "2026-11-15T09:00:00Z"),
            ("1w", "2026-11-08T11:00:00Z"),
            ("today", "2026-11-14T23:00:00Z"),
            ("yesterday", "2026-11-13T23:00:00Z"),
            ("2026-11-01", "2026-10-31T23:00:00Z"),
            ("2026-11-01T09:30", "2026-11-01T08:30:00Z"),
            ("2026-11-01 09:30", "2026-11-01T08:30:00Z"),
            ("2026-11-01T09:30:00Z", "2026-11-01T09:30:00Z"),
        ] {
            assert_eq!(at(text).as_deref(), Some(want), "{text}");
        }
        for text in
            ["", "h", "2", "-2h", "2x", "2026-13-01", "soon", "4000000000w", "99999999w", "11/01/2026", "é"]
        {
            assert_eq!(at(text), None, "{text}");
        }
    }

    #[test]
    fn ages_and_durations_are_short() {
        let now = 1_800_000_000_000;
        for (before, want) in [
            (0, "now"),
            (59_000, "59s ago"),
            (60_000, "1m ago"),
            (7_200_000, "2h ago"),
            (3 * 86_400_000, "3d ago"),
        ] {
            assert_eq!(ago(now - before, now), want);
        }
        assert_eq!(ago(now + 5, now), "now", "clocks of two machines differ");
        assert_eq!(ago(0, now).len(), "1970-01-01".len());
        for (ms, want) in [(3.2, "3 ms"), (1234.0, "1.2 s"), (245_000.0, "4m 05s")] {
            assert_eq!(duration(ms), want);
        }
    }
}
