//! Times in certificates. Pure.

use std::fmt;

use time::format_description::well_known::Rfc3339;
use time::{OffsetDateTime, PrimitiveDateTime};

/// A time in a certificate, in seconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time(pub i64);

/// A period of validity, including both ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    /// The start of the period.
    pub begins: Time,
    /// The end of the period.
    pub ends: Time,
}

impl Validity {
    /// Whether the period contains a time.
    pub fn contains(self, time: Time) -> bool {
        (self.begins..=self.ends).contains(&time)
    }
}

impl Time {
    /// Parses the digits of a UTCTime (`YYMMDDHHMMSSZ`) or GeneralizedTime (`YYYYMMDDHHMMSSZ`).
    pub(super) fn read(text: &[u8], is_utc_time: bool) -> Option<Self> {
        let digits = std::str::from_utf8(text).ok()?.strip_suffix('Z')?;
        let (year, rest) = digits.split_at_checked(if is_utc_time { 2 } else { 4 })?;
        // RFC 5280: two-digit years from 50 on are in the 20th century.
        let century = match is_utc_time {
            true if year >= "50" => "19",
            true => "20",
            false => "",
        };
        let part = |at: usize| rest.get(2 * at..2 * at + 2).filter(|_| rest.len() == 10);
        let (month, day, hour) = (part(0)?, part(1)?, part(2)?);
        let time = format!("{century}{year}-{month}-{day}T{hour}:{}:{}Z", part(3)?, part(4)?);
        Some(Self(OffsetDateTime::parse(&time, &Rfc3339).ok()?.unix_timestamp()))
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = OffsetDateTime::from_unix_timestamp(self.0).unwrap_or(PrimitiveDateTime::MAX.assume_utc());
        let (year, month, day) = (time.year(), u8::from(time.month()), time.day());
        let (hour, minute, second) = time.to_hms();
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
    }
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
