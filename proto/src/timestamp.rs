//! Points in time as text: RFC 3339 in UTC, with microseconds.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use time::format_description::well_known::Rfc3339;
use time::{OffsetDateTime, PrimitiveDateTime};

/// Microseconds since 1970-01-01T00:00:00Z.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// Returns the current time.
    pub fn now() -> Self {
        SystemTime::now().into()
    }

    /// Parses `2026-01-31T12:00:00.5Z`. The time zone must be `Z`. Digits beyond microseconds are ignored.
    pub fn parse(text: &str) -> Option<Self> {
        let is_utc = text.ends_with(['Z', 'z']) && matches!(text.as_bytes().get(10), Some(b'T' | b't' | b' '));
        let time = OffsetDateTime::parse(text, &Rfc3339).ok().filter(|_| is_utc)?;
        u64::try_from(time.unix_timestamp_nanos().div_euclid(1000)).ok().map(Self)
    }

    /// Parses a time, or an age before `now`, such as `15m`.
    pub fn parse_ago(text: &str, now: Self) -> Option<Self> {
        let ago = |age: Duration| Self(now.0.saturating_sub(u64::try_from(age.as_micros()).unwrap_or(u64::MAX)));
        Self::parse(text).or_else(|| parse_duration(text).map(ago))
    }

    /// Parses a time, or a duration from `now` on, such as `15m`.
    pub fn parse_ahead(text: &str, now: Self) -> Option<Self> {
        let ahead = |it: Duration| Self(now.0.saturating_add(u64::try_from(it.as_micros()).unwrap_or(u64::MAX)));
        Self::parse(text).or_else(|| parse_duration(text).map(ahead))
    }

    /// Formats the time as `2026-01-31T12:00:00.500000Z`, in ASCII. Years above 9999 are shown as 9999.
    pub fn text(self) -> [u8; 27] {
        let time = OffsetDateTime::from_unix_timestamp_nanos(i128::from(self.0) * 1000);
        let time = time.unwrap_or(PrimitiveDateTime::MAX.assume_utc());
        let (month, day) = (u8::from(time.month()).into(), time.day().into());
        let (hour, minute, second) = (time.hour().into(), time.minute().into(), time.second().into());
        let parts = [(0, 4, time.year().unsigned_abs()), (5, 2, month), (8, 2, day), (11, 2, hour), (14, 2, minute)];
        let mut text = *b"0000-00-00T00:00:00.000000Z";
        for (at, digits, mut number) in parts.into_iter().chain([(17, 2, second), (20, 6, time.microsecond())]) {
            for place in (at..at + digits).rev() {
                text[place] = b'0' + (number % 10) as u8;
                number /= 10;
            }
        }
        text
    }

    /// Formats the time without fractions of a second: `2026-01-31T12:00:00Z`.
    pub fn seconds_text(self) -> String {
        format!("{:.19}Z", self.to_string())
    }
}

impl From<SystemTime> for Timestamp {
    /// Clamps a time before 1970 to 1970.
    fn from(time: SystemTime) -> Self {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        Self(u64::try_from(since.as_micros()).unwrap_or(u64::MAX))
    }
}

impl From<prost_types::Timestamp> for Timestamp {
    /// Clamps a time before 1970 to 1970.
    fn from(time: prost_types::Timestamp) -> Self {
        let micros = i128::from(time.seconds) * 1_000_000 + i128::from(time.nanos / 1000);
        Self(u64::try_from(micros.max(0)).unwrap_or(u64::MAX))
    }
}

impl From<Timestamp> for prost_types::Timestamp {
    fn from(time: Timestamp) -> Self {
        let seconds = i64::try_from(time.0 / 1_000_000).unwrap_or(i64::MAX);
        Self { seconds, nanos: (time.0 % 1_000_000) as i32 * 1000 }
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

#[cfg(test)]
mod tests {
    use super::*;

    const MICROS: u64 = 1_000_000;

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
        assert_eq!(Timestamp(1_709_251_199_999_999).seconds_text(), "2024-02-29T23:59:59Z");
        assert_eq!(Timestamp(u64::MAX).to_string(), "9999-12-31T23:59:59.999999Z");
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
        assert_eq!(Timestamp::parse_ahead("2s", Timestamp(5_000_000)), Some(Timestamp(7_000_000)));
        assert_eq!(Timestamp::parse_ahead("1970-01-01T00:00:01Z", Timestamp(5)), Some(Timestamp(1_000_000)));
    }

    #[test]
    fn messages_carry_the_same_time() {
        let time = prost_types::Timestamp { seconds: 1, nanos: 500_000_999 };
        assert_eq!(Timestamp::from(time), Timestamp(1_500_000));
        assert_eq!(
            prost_types::Timestamp::from(Timestamp(1_500_000)),
            prost_types::Timestamp { seconds: 1, nanos: 500_000_000 }
        );
        assert_eq!(Timestamp::from(prost_types::Timestamp { seconds: -1, nanos: 0 }), Timestamp(0));
    }

    #[test]
    fn every_day_round_trips() {
        for day in 0..80_000 {
            let time = Timestamp(day * 86_400 * MICROS + 7);
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
            "2026-01-31_12:00:00Z",
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
