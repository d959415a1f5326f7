//! Times in certificates. Pure.

use std::fmt;

/// A time in a certificate, in seconds since 1970 began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time(pub i64);

/// From when to when something is valid, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    /// When it begins.
    pub begins: Time,
    /// When it ends.
    pub ends: Time,
}

impl Validity {
    /// Whether it is valid at a time.
    pub fn contains(self, time: Time) -> bool {
        (self.begins..=self.ends).contains(&time)
    }
}

const DAY: i64 = 86_400;

impl Time {
    /// Reads the digits of a UTCTime (`YYMMDDHHMMSSZ`) or GeneralizedTime (`YYYYMMDDHHMMSSZ`).
    pub(super) fn read(text: &[u8], is_utc_time: bool) -> Option<Self> {
        let text = std::str::from_utf8(text).ok()?.strip_suffix('Z')?;
        if !text.bytes().all(|it| it.is_ascii_digit()) {
            return None;
        }
        let (year, rest) = text.split_at_checked(if is_utc_time { 2 } else { 4 })?;
        let year: i64 = year.parse().ok()?;
        // RFC 5280: two digits from 50 on are of the century before.
        let year = match is_utc_time {
            true if year >= 50 => year + 1900,
            true => year + 2000,
            false => year,
        };
        if rest.len() != 10 {
            return None;
        }
        let part = |at: usize| rest.get(2 * at..2 * at + 2)?.parse::<i64>().ok();
        let (month, day, hour, minute, second) = (part(0)?, part(1)?, part(2)?, part(3)?, part(4)?);
        let is_valid = (1..=12).contains(&month) && (1..=31).contains(&day) && hour < 24 && minute < 60 && second < 61;
        is_valid.then(|| Self(days(year, month, day) * DAY + hour * 3600 + minute * 60 + second))
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = date(self.0.div_euclid(DAY));
        let seconds = self.0.rem_euclid(DAY);
        let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
    }
}

/// Days since 1970-01-01 of a date of the Gregorian calendar. The year begins in March here, so that leap days come last.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, month) = (year.div_euclid(400), (month + 9) % 12);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * month + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// The inverse of [`days`].
fn date(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_are_read_and_shown() {
        for (text, is_utc_time, shown) in [
            ("260101000000Z", true, "2026-01-01T00:00:00Z"),
            ("491231235959Z", true, "2049-12-31T23:59:59Z"),
            ("500101000000Z", true, "1950-01-01T00:00:00Z"),
            ("20240229120001Z", false, "2024-02-29T12:00:01Z"),
            ("21000301000000Z", false, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(Time::read(text.as_bytes(), is_utc_time).unwrap().to_string(), shown);
        }
        assert_eq!(Time::read(b"700101000000Z", true), Some(Time(0)));
        assert_eq!(Time::read(b"20010909014640Z", false), Some(Time(1_000_000_000)));
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in ["", "Z", "2601010000Z", "260101000000", "261301000000Z", "26010100000\u{e9}Z", "+60101000000Z"] {
            assert_eq!(Time::read(text.as_bytes(), true), None, "{text}");
        }
    }
}
