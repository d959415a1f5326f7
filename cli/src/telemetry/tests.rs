//! Tests both log formats with the production setup.

use std::io::Write;
use std::sync::Arc;

use openskill_telemetry::log::text::{HIDDEN, is_hidden};
use parking_lot::Mutex;
use serde_json::Value;

use super::*;

/// What was logged.
#[derive(Debug, Clone, Default)]
pub(super) struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    pub(super) fn text(&self) -> String {
        String::from_utf8(self.0.lock().clone()).unwrap()
    }
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Returns the log output of `tell`.
fn written(format: LogFormat, tell: impl FnOnce()) -> String {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::registry().with(logs(format, move || writer.clone()));
    tracing::subscriber::with_default(subscriber, tell);
    log.text()
}

/// Returns every escaped character, each between two unescaped ones.
fn hostile() -> String {
    let controls = ('\0'..='\u{1f}').chain('\u{7f}'..='\u{9f}');
    let all = controls.chain(HIDDEN.into_iter().flat_map(|(first, last)| first..=last));
    all.flat_map(|it| ['é', it]).collect()
}

fn tell(text: &str) {
    let _span = tracing::info_span!("around", text).entered();
    tracing::info!(target: "target", text, shown = %text, debugged = ?text, "{text}");
}

#[test]
fn no_hidden_character_is_written_in_either_format() {
    let hostile = hostile();
    for format in [LogFormat::Text, LogFormat::Json] {
        let log = written(format, || tell(&hostile));
        let line = log.strip_suffix('\n').unwrap();
        let hidden: Vec<_> = line.chars().filter(|it| is_hidden(*it)).collect();
        assert!(hidden.is_empty(), "{format:?}: {hidden:?}");
        assert!(line.matches('é').count() >= 4 * hostile.chars().count() / 2, "{format:?}");
    }
}

#[test]
fn json_decodes_to_the_text_that_was_logged() {
    let hostile = hostile();
    let line: Value = serde_json::from_str(&written(LogFormat::Json, || tell(&hostile))).unwrap();
    for (field, expected) in [("text", &hostile), ("shown", &hostile), ("message", &hostile)] {
        assert_eq!(line[field], **expected, "{field}");
    }
    assert_eq!(line["span"]["text"], *hostile);
}
