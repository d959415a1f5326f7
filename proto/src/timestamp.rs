//! Points in time as text: RFC 3339 in UTC, with microseconds.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const MICROS: u64 = 1_000_000;
const DAY_S: u64 = 86_400;

/// Microseconds since 1970-01-01T00:00:00Z.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// The current time.
    pub fn now() -> Self {
        SystemTime::now().into()
    }

    /// Parses `2026-01-31T12:00:00.5Z`. The time zone must be `Z`; digits beyond microseconds are ignored.
    pub fn parse(text: &str) -> Option<Self> {
        let (date, time) = text.strip_suffix(['Z', 'z'])?.split_once(['T', 't', ' '])?;
        let (time, fraction) = time.split_once('.').unwrap_or((time, "0"));
        let [year, month, day] = numbers(date, '-', [4, 2, 2])?;
        let [hour, minute, second] = numbers(time, ':', [2, 2, 2])?;
        let is_valid = year >= 1970 && (1..=12).contains(&month) && (1..=month_length(year, month)).contains(&day);
        let is_digits = !fraction.is_empty() && fraction.bytes().all(|it| it.is_ascii_digit());
        if !is_valid || hour > 23 || minute > 59 || second > 60 || !is_digits {
            return None;
        }
        let micros: u64 = format!("{fraction:0<6}")[..6].parse().ok()?;
        let seconds = days(year, month, day) * DAY_S + hour * 3600 + minute * 60 + second;
        Some(Self(seconds * MICROS + micros))
    }

    /// Parses a time, or an age before `now`, such as `15m`.
    pub fn parse_ago(text: &str, now: Self) -> Option<Self> {
        let ago = |age: Duration| Self(now.0.saturating_sub(u64::try_from(age.as_micros()).unwrap_or(u64::MAX)));
        Self::parse(text).or_else(|| parse_duration(text).map(ago))
    }

    /// `2026-01-31T12:00:00.500000Z`, as ASCII. Years above 9999 are shown as 9999.
    pub fn text(self) -> [u8; 27] {
        let (seconds, micros) = (self.0 / MICROS, self.0 % MICROS);
        let (year, month, day) = date(seconds / DAY_S);
        let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
        let mut text = *b"0000-00-00T00:00:00.000000Z";
        let parts = [(0, 4, year.min(9999)), (5, 2, month), (8, 2, day), (11, 2, hour), (14, 2, minute)];
        for (at, digits, mut number) in parts.into_iter().chain([(17, 2, second), (20, 6, micros)]) {
            for place in (at..at + digits).rev() {
                text[place] = b'0' + (number % 10) as u8;
                number /= 10;
            }
        }
        text
    }
}

impl From<SystemTime> for Timestamp {
    /// A time before 1970 becomes 1970.
    fn from(time: SystemTime) -> Self {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        Self(u64::try_from(since.as_micros()).unwrap_or(u64::MAX))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(std::str::from_utf8(&self.text()).unwrap_or_default())
    }
}

/// Parses a duration: a number and one of `us`, `ms`, `s`, `m`, `h`, `d`.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let (number, unit) = text.split_at(text.find(|it: char| it.is_ascii_alphabetic())?);
    let seconds = match unit {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        _ => return None,
    };
    let is_plain = number.bytes().all(|it| it.is_ascii_digit() || it == b'.');
    let number: f64 = number.parse().ok().filter(|_| is_plain)?;
    Duration::try_from_secs_f64(number * seconds).ok()
}

/// Numbers with exactly so many digits.
fn numbers<const N: usize>(text: &str, between: char, digits: [usize; N]) -> Option<[u64; N]> {
    let mut parts = text.split(between);
    let mut numbers = [0; N];
    for (number, digits) in numbers.iter_mut().zip(digits) {
        let part = parts.next().filter(|it| it.len() == digits && it.bytes().all(|it| it.is_ascii_digit()))?;
        *number = part.parse().ok()?;
    }
    parts.next().is_none().then_some(numbers)
}

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400)
}

fn month_length(year: u64, month: u64) -> u64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days since 1970-01-01. Counts in years that begin in March, so that the leap day is the last.
fn days(year: u64, month: u64, day: u64) -> u64 {
    let year = if month <= 2 { year - 1 } else { year };
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    year * 365 + year / 4 - year / 100 + year / 400 + of_year - 719_468
}

/// Year, month and day of a day since 1970-01-01.
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let of_years = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * of_years + of_years / 4 - of_years / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + of_years + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_times_are_written_and_read() {
        for (text, seconds) in [
            ("1970-01-01T00:00:00.000000Z", 0),
            ("2000-02-29T23:59:59.000000Z", 951_868_799),
            ("2026-01-31T12:00:00.000000Z", 1_769_860_800),
            ("2100-03-01T00:00:00.000000Z", 4_107_542_400),
        ] {
            assert_eq!(Timestamp(seconds * MICROS).to_string(), text);
            assert_eq!(Timestamp::parse(text), Some(Timestamp(seconds * MICROS)));
        }
        assert_eq!(Timestamp::parse("1970-01-01 00:00:01.5z"), Some(Timestamp(1_500_000)));
        assert_eq!(Timestamp::parse("1970-01-01T00:00:00.1234567Z"), Some(Timestamp(123_456)));
    }

    #[test]
    fn durations_and_ages_have_a_unit() {
        for (text, millis) in [("250ms", 250), ("1.5s", 1500), ("2m", 120_000), ("1h", 3_600_000), ("1d", 86_400_000)] {
            assert_eq!(parse_duration(text), Some(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "5", "s", "5 s", "-5s", "5w", "1e3s", "+5s", "1.2.3s", "99999999999999999999d"] {
            assert_eq!(parse_duration(text), None, "{text}");
        }
        assert_eq!(Timestamp::parse_ago("2s", Timestamp(5_000_000)), Some(Timestamp(3_000_000)));
        assert_eq!(Timestamp::parse_ago("1h", Timestamp(5)), Some(Timestamp(0)));
    }

    #[test]
    fn every_day_round_trips() {
        for day in 0..80_000 {
            let time = Timestamp(day * DAY_S * MICROS + 7);
            assert_eq!(Timestamp::parse(&time.to_string()), Some(time));
        }
    }

    #[test]
    fn what_is_no_time_in_utc_is_rejected() {
        for text in [
            "",
            "Z",
            "2026-01-31",
            "2026-01-31T12:00:00",
            "2026-01-31T12:00:00+01:00",
            "2026-02-29T12:00:00Z",
            "2026-13-01T12:00:00Z",
            "2026-00-01T12:00:00Z",
            "1969-12-31T12:00:00Z",
            "2026-1-31T12:00:00Z",
            "2026-01-31T24:00:00Z",
            "2026-01-31T12:00:00.Z",
            "2026-01-31T12:00:00.xZ",
            "2026-01-31T12:00:00.é0Z",
            "+026-01-31T12:00:00Z",
        ] {
            assert_eq!(Timestamp::parse(text), None, "{text}");
        }
    }
}
