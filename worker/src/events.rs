//! What a skill says while it runs: progress, log lines, parts of its answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use openskill_proto::limits::{MAX_EVENTS, MAX_JSON_DEPTH};
use openskill_proto::v1::{Log, Partial, Progress, execute_event::Event};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::mpsc;

/// Where a run's events go. Cheap to clone. With no listener, events are checked for nothing and dropped.
#[derive(Debug, Clone, Default)]
pub struct EventSink {
    listener: Option<mpsc::Sender<Event>>,
    counts: Arc<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    sent: AtomicUsize,
    dropped: AtomicUsize,
}

/// One line of the events descriptor: an object with exactly one of these.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Line<'a> {
    Progress(ProgressLine),
    Log(LogLine),
    #[serde(borrow)]
    Partial(&'a RawValue),
}

#[derive(Deserialize)]
struct ProgressLine {
    fraction: Option<f64>,
    #[serde(default)]
    message: String,
}

#[derive(Deserialize)]
struct LogLine {
    #[serde(default)]
    level: String,
    message: String,
}

impl EventSink {
    /// A sink that waits for its listener: a slow one slows the skill down, up to its deadline.
    pub fn new(listener: mpsc::Sender<Event>) -> Self {
        Self { listener: Some(listener), counts: Arc::default() }
    }

    /// Sends one event, if the run's share is not used up.
    pub async fn send(&self, event: Event) {
        let Some(listener) = &self.listener else { return };
        if self.counts.sent.fetch_add(1, Ordering::Relaxed) >= MAX_EVENTS {
            return self.drop_one();
        }
        // A listener that went away is about to drop the whole run.
        let _ = listener.send(event).await;
    }

    /// Reads one line of JSON and sends it; counts it as dropped if it is no event.
    pub(crate) async fn line(&self, line: &[u8]) {
        if self.listener.is_none() {
            return;
        }
        match parse(line) {
            Some(event) => self.send(event).await,
            None => self.drop_one(),
        }
    }

    /// The answers to the questions that the skill asks on its events descriptor: whole lines of JSON, each with its newline.
    /// A runner takes them once the skill has sent its first event, and writes each to the skill. Gives the receiver
    /// once. None: the call is not interactive, or they are taken. The channel is bounded; closing it tells the skill
    /// that no answer will come.
    pub(crate) fn answers(&self) -> Option<mpsc::Receiver<Bytes>> {
        None
    }

    pub(crate) fn drop_one(&self) {
        self.counts.dropped.fetch_add(1, Ordering::Relaxed);
    }

    /// What the caller should know of events that were dropped.
    pub(crate) fn warning(&self) -> Option<String> {
        let dropped = self.counts.dropped.load(Ordering::Relaxed);
        (dropped > 0).then(|| format!("{dropped} events of the skill were dropped: malformed, too long, or too many"))
    }
}

fn parse(line: &[u8]) -> Option<Event> {
    let text = std::str::from_utf8(line).ok()?;
    Some(match serde_json::from_str(text).ok()? {
        Line::Progress(ProgressLine { fraction, message }) => {
            let fraction = fraction.map_or(-1.0, |fraction| fraction.clamp(0.0, 1.0));
            Event::Progress(Progress { fraction, message })
        }
        Line::Log(LogLine { level, message }) => {
            let known = ["debug", "info", "warning", "error"].contains(&level.as_str());
            Event::Log(Log { level: if known { level } else { "info".to_owned() }, message })
        }
        Line::Partial(data) => {
            let data_json = data.get().to_owned();
            if openskill_proto::json::depth(data_json.as_bytes()) > MAX_JSON_DEPTH {
                return None;
            }
            Event::Partial(Partial { data_json })
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_line_is_read() {
        let progress = parse(br#"{"progress": {"fraction": 0.5, "message": "half"}}"#);
        assert_eq!(progress, Some(Event::Progress(Progress { fraction: 0.5, message: "half".to_owned() })));
        let partial = parse(br#"{"partial": [1, 2]}"#);
        assert_eq!(partial, Some(Event::Partial(Partial { data_json: "[1, 2]".to_owned() })));
        let log = parse(br#"{"log": {"level": "shout", "message": "hi"}}"#);
        assert_eq!(log, Some(Event::Log(Log { level: "info".to_owned(), message: "hi".to_owned() })));
    }

    #[test]
    fn what_is_no_event_is_not_taken_for_one() {
        for line in ["", "7", "{}", r#"{"progress": 0.5}"#, r#"{"other": 1}"#, "\u{fffd}", r#"{"log": {}}"#] {
            assert_eq!(parse(line.as_bytes()), None, "{line}");
        }
        assert_eq!(parse(b"{\"partial\": \"\xff\"}"), None);
    }

    #[tokio::test]
    async fn a_flood_is_cut_and_said_to_be() {
        let (sender, mut receiver) = mpsc::channel(MAX_EVENTS + 10);
        let sink = EventSink::new(sender);
        for _ in 0..MAX_EVENTS + 3 {
            sink.line(br#"{"partial": 1}"#).await;
        }
        assert!(sink.warning().unwrap().starts_with("3 events"));
        receiver.close();
        let mut count = 0;
        while receiver.recv().await.is_some() {
            count += 1;
        }
        assert_eq!(count, MAX_EVENTS);
    }
}
