//! The `Prefer` header (RFC 7240).

use std::time::Duration;

use axum::http::HeaderMap;

/// The longest that a request waits for an operation.
const MAX_WAIT: Duration = Duration::from_secs(60);

/// What a client prefers. Other preferences, and malformed ones, are ignored, as the RFC requires.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Preferences {
    /// Whether the call should become an operation.
    pub(super) respond_async: bool,
    /// How long to wait for the result of an operation.
    pub(super) wait: Option<Duration>,
}

impl Preferences {
    /// Reads the preferences of a request. Of repeated ones, the first counts.
    pub(super) fn read(headers: &HeaderMap) -> Self {
        let mut found = Self::default();
        let values = headers.get_all("prefer").iter().filter_map(|it| it.to_str().ok());
        for preference in values.flat_map(|it| it.split(',')) {
            // Parameters of a preference follow a semicolon.
            let preference = preference.split(';').next().unwrap_or_default();
            let (name, value) = preference.split_once('=').unwrap_or((preference, ""));
            if name.trim().eq_ignore_ascii_case("respond-async") {
                found.respond_async = true;
            } else if name.trim().eq_ignore_ascii_case("wait") {
                found.wait = found.wait.or_else(|| seconds(value));
            }
        }
        found
    }
}

fn seconds(value: &str) -> Option<Duration> {
    let seconds = value.trim().trim_matches('"').parse().ok()?;
    Some(Duration::from_secs(seconds).min(MAX_WAIT))
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn read(lines: &str) -> (bool, Option<u64>) {
        let mut headers = HeaderMap::new();
        for line in lines.lines() {
            headers.append("prefer", HeaderValue::from_str(line).unwrap());
        }
        let Preferences { respond_async, wait } = Preferences::read(&headers);
        (respond_async, wait.map(|it| it.as_secs()))
    }

    #[test]
    fn preferences_are_read_from_all_headers_and_malformed_ones_are_ignored() {
        for (lines, expected) in [
            ("", (false, None)),
            ("respond-async", (true, None)),
            ("Respond-Async, Wait=10", (true, Some(10))),
            ("respond-async; a=b\nhandling=lenient, wait = \"5\"", (true, Some(5))),
            ("wait=7, wait=8", (false, Some(7))),
            ("wait=100000000", (false, Some(60))),
            ("wait=soon, wait=-1, respond-asynchronously", (false, None)),
        ] {
            assert_eq!(read(lines), expected, "{lines:?}");
        }
    }
}
