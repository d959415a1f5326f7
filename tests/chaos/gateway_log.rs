//! The gateway's log line of each call.

use std::path::Path;
use std::time::{Duration, SystemTime};

use serde_json::Value;

/// A line of the call log.
#[derive(Debug, Clone, Default)]
pub(crate) struct Line {
    pub(crate) call_id: String,
    pub(crate) worker: String,
    pub(crate) success: bool,
    pub(crate) code: String,
    /// When the call ended, since the epoch.
    pub(crate) ended: Duration,
    pub(crate) took: Duration,
}

impl Line {
    /// When the call began, since the epoch.
    pub(crate) fn begun(&self) -> Duration {
        self.ended.saturating_sub(self.took)
    }
}

/// The gateway writes its lines some milliseconds after the answers. A log that did not grow for this long is complete.
const WRITTEN: Duration = Duration::from_millis(100);
const LOOKS: usize = 100;

/// The same as [`read`], of calls that have all ended.
pub(crate) async fn read_all(file: &Path, prefix: &str) -> Vec<Line> {
    let size = || std::fs::metadata(file).map_or(0, |it| it.len());
    for _ in 0..LOOKS {
        let before = size();
        tokio::time::sleep(WRITTEN).await;
        if size() == before {
            break;
        }
    }
    read(file, prefix)
}

/// The lines of calls whose ids start with `prefix`, in order.
pub(crate) fn read(file: &Path, prefix: &str) -> Vec<Line> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    // A killed gateway may leave an incomplete line.
    let lines = text.lines().filter(|line| line.contains("openskill::call")).filter_map(parse);
    lines.filter(|line| line.call_id.starts_with(prefix)).collect()
}

fn parse(line: &str) -> Option<Line> {
    let fields: Value = serde_json::from_str(line).ok()?;
    let text = |name: &str| fields[name].as_str().unwrap_or_default().to_owned();
    (fields["target"] == "openskill::call").then_some(())?;
    Some(Line {
        call_id: text("call_id"),
        worker: text("worker_id"),
        success: fields["success"].as_bool()?,
        code: text("error.code"),
        ended: since_epoch(&text("timestamp"))?,
        took: Duration::from_secs_f64(fields["latency_ms"].as_f64()? / 1000.0),
    })
}

/// Now, since the epoch.
pub(crate) fn now() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

/// Reads `2026-01-31T12:34:56.789012Z`.
fn since_epoch(text: &str) -> Option<Duration> {
    let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
    let mut date = date.splitn(3, '-').map(|it| it.parse::<i64>().ok());
    let (year, month, day) = (date.next()??, date.next()??, date.next()??);
    let mut time = time.splitn(3, ':').map(|it| it.parse::<f64>().ok());
    let seconds = time.next()?? * 3600.0 + time.next()?? * 60.0 + time.next()??;
    Some(Duration::from_secs(days(year, month, day).try_into().ok()?) * 86_400 + Duration::from_secs_f64(seconds))
}

/// Days since 1970-01-01. <https://howardhinnant.github.io/date_algorithms.html#days_from_civil>
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// The date of a moment.
pub(crate) fn date(since_epoch: Duration) -> String {
    let number = (since_epoch.as_secs() / 86_400) as i64;
    // Search forward from an estimate that is never too late.
    let mut year = 1970 + number / 366;
    while days(year + 1, 1, 1) <= number {
        year += 1;
    }
    let month = (1..=12).rev().find(|month| days(year, *month, 1) <= number).unwrap_or(1);
    format!("{year}-{month:02}-{:02}", number - days(year, month, 1) + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_call_log_is_read_and_no_other() {
        let line = r#"{"timestamp":"2026-03-01T00:00:01.500000Z","level":"INFO","target":"openskill::call",
            "call_id":"c.1","worker_id":"w1","latency_ms":500.0,"success":false,"error.code":"TIMEOUT"}"#;
        let read = parse(line).unwrap();
        assert_eq!((read.call_id.as_str(), read.worker.as_str(), read.success), ("c.1", "w1", false));
        assert_eq!((read.code.as_str(), read.begun()), ("TIMEOUT", Duration::from_secs(1_772_323_201)));
        assert!(parse(&line.replace("openskill::call", "other")).is_none() && parse("half a").is_none());
    }

    #[test]
    fn dates_come_back_as_they_went() {
        for text in ["1970-01-01", "2024-02-29", "2026-12-31", "2100-03-01"] {
            assert_eq!(date(since_epoch(&format!("{text}T23:59:59.5Z")).unwrap()), text);
        }
    }
}
