//! Writes JSON, one object per line, directly into a buffer.
//!
//! External text can neither end a line nor control a terminal: characters for which [`is_hidden`] is true are
//! escaped, both in strings and in copied JSON, which still parses to the same value.

use std::io::Write as _;

use openskill_proto::timestamp::Timestamp;
use openskill_telemetry::log::text::is_hidden;

/// A JSON object under construction. Keys are constants that need no escapes.
#[derive(Debug)]
pub(super) struct Line<'a> {
    out: &'a mut Vec<u8>,
}

impl<'a> Line<'a> {
    /// Starts with `head`, which all lines of a call share: an object without its closing brace.
    pub(super) fn begin(out: &'a mut Vec<u8>, head: &[u8]) -> Self {
        out.extend_from_slice(head);
        Self { out }
    }

    pub(super) fn text(&mut self, key: &str, text: &str) {
        self.key(key);
        string(self.out, text);
    }

    /// Writes a text. Omits an empty one.
    pub(super) fn text_if_any(&mut self, key: &str, text: &str) {
        if !text.is_empty() {
            self.text(key, text);
        }
    }

    pub(super) fn number(&mut self, key: &str, number: u64) {
        self.key(key);
        self.out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
    }

    pub(super) fn time(&mut self, key: &str, time: Timestamp) {
        self.key(key);
        self.out.push(b'"');
        self.out.extend_from_slice(&time.text());
        self.out.push(b'"');
    }

    /// Writes a number. Omits 0.
    pub(super) fn number_if_any(&mut self, key: &str, number: u64) {
        if number > 0 {
            self.number(key, number);
        }
    }

    pub(super) fn fraction(&mut self, key: &str, number: f64) {
        self.key(key);
        // Writing to a Vec can't fail.
        let _ = if number.is_finite() { write!(self.out, "{number}") } else { write!(self.out, "null") };
    }

    pub(super) fn flag(&mut self, key: &str, flag: bool) {
        self.key(key);
        self.out.extend_from_slice(if flag { b"true" } else { b"false" });
    }

    /// Writes a flag if it is set.
    pub(super) fn flag_if_set(&mut self, key: &str, flag: bool) {
        if flag {
            self.flag(key, true);
        }
    }

    /// Copies JSON, which must be valid.
    pub(super) fn json(&mut self, key: &str, json: &str) {
        self.key(key);
        escape(self.out, json, |byte| matches!(byte, b' '..=b'~'), true);
    }

    /// Writes a list of objects. Omits an empty one.
    pub(super) fn list<T>(&mut self, key: &str, items: &[T], mut write: impl FnMut(&mut Line<'_>, &T)) {
        self.array(key, items.iter(), |out, item| {
            out.push(b'{');
            write(&mut Line { out }, item);
            out.push(b'}');
        });
    }

    /// Writes a list of texts. Omits an empty one.
    pub(super) fn texts<T: AsRef<str>>(&mut self, key: &str, texts: impl Iterator<Item = T>) {
        self.array(key, texts, |out, text| string(out, text.as_ref()));
    }

    fn array<T>(&mut self, key: &str, items: impl Iterator<Item = T>, mut write: impl FnMut(&mut Vec<u8>, T)) {
        let mut items = items.peekable();
        if items.peek().is_none() {
            return;
        }
        self.key(key);
        for (number, item) in items.enumerate() {
            self.out.push(if number == 0 { b'[' } else { b',' });
            write(self.out, item);
        }
        self.out.push(b']');
    }

    /// Writes a nested object.
    pub(super) fn object(&mut self, key: &str, write: impl FnOnce(&mut Line<'_>)) {
        self.key(key);
        self.out.push(b'{');
        write(&mut Line { out: self.out });
        self.out.push(b'}');
    }

    pub(super) fn end(self) {
        self.out.extend_from_slice(b"}\n");
    }

    fn key(&mut self, key: &str) {
        if !matches!(self.out.last(), Some(b'{')) {
            self.out.push(b',');
        }
        self.out.push(b'"');
        self.out.extend_from_slice(key.as_bytes());
        self.out.extend_from_slice(b"\":");
    }
}

/// Writes a JSON string.
fn string(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    escape(out, text, |byte| matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\', false);
    out.push(b'"');
}

/// Copies text in runs, with escapes. `is_plain` applies to ASCII, and is generic because it runs for each byte.
/// `is_json`: the text is valid JSON, which keeps its value and gets on one line.
fn escape(out: &mut Vec<u8>, text: &str, is_plain: impl Fn(u8) -> bool, is_json: bool) {
    let bytes = text.as_bytes();
    let (mut copied, mut at) = (0, 0);
    while let Some(plain) = bytes[at..].iter().position(|byte| !is_plain(*byte)) {
        at += plain;
        let character = text[at..].chars().next().unwrap_or_default();
        let next = at + character.len_utf8();
        if character.is_ascii() || is_hidden(character) {
            out.extend_from_slice(&bytes[copied..at]);
            write_escaped(out, character, is_json);
            copied = next;
        }
        at = next;
    }
    out.extend_from_slice(&bytes[copied..]);
}

fn write_escaped(out: &mut Vec<u8>, character: char, is_json: bool) {
    match character {
        // These occur only between the values of JSON: within strings, they are escaped.
        '\n' | '\r' | '\t' if is_json => out.push(b' '),
        '"' => out.extend_from_slice(b"\\\""),
        '\\' => out.extend_from_slice(b"\\\\"),
        '\n' => out.extend_from_slice(b"\\n"),
        '\t' => out.extend_from_slice(b"\\t"),
        _ => {
            for unit in character.encode_utf16(&mut [0; 2]) {
                let _ = write!(out, "\\u{unit:04x}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const HOSTILE: &str = "a\"b\\c\n\r\t\u{1b}[31m\u{7f}\u{85}\u{9b}\u{202e}\u{2028}\u{2029}\u{e0041}é日本\u{0}\u{c}";

    fn written(write: impl FnOnce(&mut Line<'_>)) -> String {
        let mut out = Vec::new();
        let mut line = Line::begin(&mut out, b"{");
        write(&mut line);
        line.end();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn hostile_text_stays_on_its_line_and_parses_to_itself() {
        let line = written(|line| line.text("text", HOSTILE));
        assert!(line.strip_suffix('\n').unwrap().chars().all(|it| !is_hidden(it)), "{line}");
        assert_eq!(serde_json::from_str::<Value>(&line).unwrap(), json!({ "text": HOSTILE }));
    }

    #[test]
    fn copied_json_stays_on_its_line_and_parses_to_the_same_value() {
        let value = json!({ "a": [1, HOSTILE, { HOSTILE: null }], "b": 12345678901234567_u64 });
        let raw = "{\n\t\"raw\": \"\u{2028}\u{202e}\u{7f}é\",\r\n \"n\": 1.50 }";
        for text in [value.to_string(), serde_json::to_string_pretty(&value).unwrap(), raw.to_owned()] {
            let line = written(|line| line.json("json", &text));
            assert!(line.strip_suffix('\n').unwrap().chars().all(|it| !is_hidden(it)), "{line}");
            let expected: Value = serde_json::from_str(&text).unwrap();
            assert_eq!(serde_json::from_str::<Value>(&line).unwrap()["json"], expected);
        }
    }

    #[test]
    fn every_kind_of_field_is_separated() {
        let line = written(|line| {
            line.number("n", 1);
            line.number("most", u64::MAX);
            line.number_if_any("zero", 0);
            line.time("time", Timestamp(5));
            line.fraction("f", 0.5);
            line.fraction("nan", f64::NAN);
            line.flag("no", false);
            line.flag_if_set("unset", false);
            line.text_if_any("empty", "");
            line.text("id", "\"");
            line.texts("texts", ["a", "b"].iter());
            line.texts("none", [""; 0].iter());
            line.list("list", &[1, 2], |line, it| line.number("it", *it));
            line.list("no_list", &[0; 0], |_, _| ());
            line.object("object", |line| line.text("a", "b"));
        });
        let expected = json!({ "n": 1, "most": u64::MAX, "time": "1970-01-01T00:00:00.000005Z", "f": 0.5, "nan": null, "no": false, "id": "\"", "texts": ["a", "b"],
            "list": [{ "it": 1 }, { "it": 2 }], "object": { "a": "b" } });
        assert_eq!(serde_json::from_str::<Value>(&line).unwrap(), expected);
    }
}
