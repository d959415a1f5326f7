//! Recorded calls, in the format that `docs/recorder.md` describes.

use openskill_redact::Redactor;
use serde_json::Value;

#[derive(Debug)]
pub(crate) struct RecordedEvent {
    /// The recorded line, unchanged.
    pub(crate) line: String,
    pub(crate) fields: Value,
}

/// The events of one call.
#[derive(Debug)]
pub(crate) struct RecordedCall(pub(crate) Vec<RecordedEvent>);

impl RecordedEvent {
    pub(crate) fn name(&self) -> &str {
        self.text("event")
    }

    /// Returns a text field. Empty if it is missing.
    pub(crate) fn text(&self, key: &str) -> &str {
        self.fields[key].as_str().unwrap_or_default()
    }

    /// Returns a numeric field. 0 if it is missing.
    pub(crate) fn number(&self, key: &str) -> u64 {
        self.fields[key].as_u64().unwrap_or_default()
    }

    pub(crate) fn flag(&self, key: &str) -> bool {
        self.fields[key] == true
    }

    /// Returns a document of the event as text: `arguments`, `data` or `details`. The recording has it as JSON, or
    /// as text if it was truncated.
    pub(crate) fn document(&self, key: &str) -> Option<String> {
        match &self.fields[key] {
            Value::Null if self.fields.get(key).is_none() => {
                let text = self.fields[format!("{key}_text")].as_str()?;
                Some(if self.flag("cut") { format!("{text}…") } else { text.to_owned() })
            }
            json => Some(json.to_string()),
        }
    }
}

impl RecordedCall {
    /// Returns the event with this name.
    pub(crate) fn event(&self, name: &str) -> Option<&RecordedEvent> {
        self.0.iter().find(|it| it.name() == name)
    }

    /// Returns a field of the call's first event.
    pub(crate) fn field(&self, key: &str) -> &str {
        self.0.first().map_or("", |it| it.text(key))
    }

    /// Returns `OK` or the error code.
    pub(crate) fn code(&self) -> &str {
        self.event("result").map_or("", |it| it.text("code"))
    }

    pub(crate) fn duration_us(&self) -> u64 {
        self.event("result").map_or(0, |it| it.number("at_us"))
    }
}

/// Groups the lines of a trace by call. Skips lines that are not events or have no call.
pub(crate) fn calls(lines: &[String]) -> Vec<RecordedCall> {
    let mut calls: Vec<RecordedCall> = Vec::new();
    for line in lines {
        let Ok(fields) = serde_json::from_str::<Value>(line) else { continue };
        let event = RecordedEvent { line: line.clone(), fields };
        match calls.last_mut() {
            _ if event.name() == "call" => calls.push(RecordedCall(vec![event])),
            Some(call) => call.0.push(event),
            None => {}
        }
    }
    calls
}

/// Returns JSON pointers to the redacted values of a document.
pub(crate) fn redacted_at(value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    collect(value, &mut String::new(), &mut found);
    found
}

fn collect(value: &Value, path: &mut String, found: &mut Vec<String>) {
    let length = path.len();
    match value {
        Value::String(text) if is_redacted(text) => found.push(path.clone()),
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                path.push_str(&format!("/{index}"));
                collect(item, path, found);
                path.truncate(length);
            }
        }
        Value::Object(fields) => {
            for (key, value) in fields {
                path.push_str(&format!("/{}", key.replace('~', "~0").replace('/', "~1")));
                if is_redacted(key) {
                    found.push(path.clone());
                }
                collect(value, path, found);
                path.truncate(length);
            }
        }
        _ => {}
    }
}

/// Whether a text contains a mask or is the hash of an id.
pub(crate) fn is_redacted(text: &str) -> bool {
    let is_hash = || {
        text.rsplit_once('_').is_some_and(|(kind, hash)| {
            let is_kind = !kind.is_empty() && kind.bytes().all(|it| it.is_ascii_lowercase() || it == b'_');
            is_kind && hash.len() == 32 && hash.bytes().all(|it| it.is_ascii_hexdigit())
        })
    };
    text.contains(Redactor::MASK) || is_hash()
}

/// Formats microseconds as milliseconds.
pub(crate) fn millis(micros: u64) -> String {
    match micros {
        0..1000 => format!("{micros} µs"),
        1000..10_000_000 => format!("{:.1} ms", micros as f64 / 1e3),
        _ => format!("{:.1} s", micros as f64 / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lines_are_grouped_by_call_and_others_are_left_out() {
        let lines = [
            "{\"event\":\"result\"}",
            "{\"event\":\"call\",\"skill\":\"a\"}",
            "torn",
            "{\"event\":\"result\",\"code\":\"OK\"}",
        ];
        let calls = calls(&lines.map(str::to_owned));
        assert_eq!((calls.len(), calls[0].0.len()), (1, 2));
        assert_eq!((calls[0].field("skill"), calls[0].code()), ("a", "OK"));
    }

    #[test]
    fn redacted_places_are_named() {
        let value = json!({"a": ["x", "key ***"], "b/c": {"***": 1}, "id": "session_00112233445566778899aabbccddeeff"});
        assert_eq!(redacted_at(&value), ["/a/1", "/b~1c/***", "/id"]);
        assert!(redacted_at(&json!({"a": "plain_text", "b": "**", "n": 5})).is_empty());
    }
}
