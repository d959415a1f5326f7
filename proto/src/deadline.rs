//! Parses timeouts in headers. A malformed timeout is ignored, so that the default applies rather than no timeout.

use std::time::Duration;

/// Parses gRPC's `grpc-timeout`: one to eight digits and one of the units `H M S m u n`.
///
/// <https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md>
pub fn parse_grpc_timeout(value: &str) -> Option<Duration> {
    let (digits, unit) = value.split_at_checked(value.len().checked_sub(1)?)?;
    if digits.is_empty() || digits.len() > 8 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    // gRPC's specification requires a positive integer.
    let number: u64 = digits.parse().ok().filter(|number| *number > 0)?;
    match unit {
        "H" => Some(Duration::from_secs(number * 3600)),
        "M" => Some(Duration::from_secs(number * 60)),
        "S" => Some(Duration::from_secs(number)),
        "m" => Some(Duration::from_millis(number)),
        "u" => Some(Duration::from_micros(number)),
        "n" => Some(Duration::from_nanos(number)),
        _ => None,
    }
}

/// Parses `X-Timeout-Ms`: a positive number of milliseconds, at most nine digits.
pub fn parse_timeout_ms(value: &str) -> Option<Duration> {
    if value.is_empty() || value.len() > 9 || !value.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    value.parse().ok().filter(|ms| *ms > 0).map(Duration::from_millis)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_grpc_unit_is_parsed() {
        for (text, expected) in [
            ("2H", Duration::from_secs(7200)),
            ("3M", Duration::from_secs(180)),
            ("4S", Duration::from_secs(4)),
            ("5m", Duration::from_millis(5)),
            ("6u", Duration::from_micros(6)),
            ("99999999n", Duration::from_nanos(99_999_999)),
        ] {
            assert_eq!(parse_grpc_timeout(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn a_malformed_timeout_counts_as_absent() {
        for text in ["", "S", "0S", "5", "-1S", "1.5S", "123456789S", "5s", " 5S", "5S ", "５S", "5µ"] {
            assert_eq!(parse_grpc_timeout(text), None, "{text:?}");
        }
        for text in ["", "0", "-5", "1e3", "9999999999", "5ms", "+5"] {
            assert_eq!(parse_timeout_ms(text), None, "{text:?}");
        }
    }
}
