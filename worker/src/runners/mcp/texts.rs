//! Sanitizes and redacts servers' texts for logs and terminals.

use std::collections::VecDeque;

use openskill_redact::{Redactor, Stream};
use openskill_telemetry::log::text::one_line;
use parking_lot::Mutex;

/// The maximum number of last lines, and the maximum length of each in bytes.
const MAX_LINES: usize = 10;
const MAX_LINE_BYTES: usize = 300;

/// Truncates a text to at most `most` bytes at a character boundary. Removes control characters except line ends.
pub(super) fn clean(text: &str, most: usize) -> String {
    let shown = |it: &char| !it.is_control() || *it == '\n';
    let mut cleaned: String = text.chars().filter(shown).take(most).collect();
    cleaned.truncate(cleaned.floor_char_boundary(most));
    cleaned
}

/// Does the same, and joins all lines.
pub(super) fn line(text: &str, most: usize) -> String {
    clean(text, most).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Redacts one of a server's output streams, other than messages, for the log at DEBUG.
///
/// The output arrives line by line, but a secret such as a private key spans several lines. The log sees each line
/// separately, so lines are redacted here, before they are truncated.
#[derive(Debug)]
pub(super) struct RedactedLines(Stream);

impl RedactedLines {
    pub(super) fn new(redactor: &Redactor) -> Self {
        Self(redactor.stream())
    }

    /// Adds a line without its line end. Returns the lines that can be logged now, each truncated to `most` bytes.
    /// Holds a line back while a secret may continue in the next one.
    pub(super) fn lines(&mut self, text: &[u8], most: usize) -> Vec<String> {
        let text = String::from_utf8_lossy(text) + "\n";
        printable_lines(&self.0.push(&text), most)
    }

    /// Returns the lines that are still held back, each truncated to `most` bytes.
    pub(super) fn rest(&mut self, most: usize) -> Vec<String> {
        printable_lines(&self.0.finish(), most)
    }
}

fn printable_lines(text: &str, most: usize) -> Vec<String> {
    text.lines().map(|it| line(it, most)).filter(|it| !it.is_empty()).collect()
}

/// The last lines that a server's processes wrote to stderr, redacted, oldest first, for `openskill check` and
/// `openskill doctor`. Older lines are dropped.
#[derive(Debug, Default)]
pub(super) struct LastLines(Mutex<VecDeque<String>>);

impl LastLines {
    /// Adds a line. Escapes or removes characters that terminals do not show.
    pub(super) fn push(&self, text: &str) {
        let line = line(text, MAX_LINE_BYTES);
        if line.is_empty() {
            return;
        }
        let mut lines = self.0.lock();
        if lines.len() == MAX_LINES {
            lines.pop_front();
        }
        lines.push_back(one_line(&line).into_owned());
    }

    /// Returns all stored lines, oldest first.
    pub(super) fn read(&self) -> Vec<String> {
        self.0.lock().iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj";

    #[test]
    fn a_text_is_bounded_and_has_no_control_characters() {
        assert_eq!(clean("a\u{1b}[31m\r\nb\u{7}", 100), "a[31m\nb");
        assert_eq!(clean("aé", 2), "a");
        assert_eq!(line("a\n  b\tc", 100), "a bc");
    }

    #[test]
    fn a_key_of_several_lines_is_masked_as_a_whole() {
        let mut redacted = RedactedLines::new(&Redactor::default());
        let text = format!("starting\n-----BEGIN PRIVATE KEY-----\n{KEY}\n{KEY}\n-----END PRIVATE KEY-----\nready");
        let mut lines: Vec<_> = text.lines().flat_map(|it| redacted.lines(it.as_bytes(), 100)).collect();
        lines.extend(redacted.rest(100));
        assert_eq!(lines, ["starting", "***", "ready"]);
    }

    #[test]
    fn a_line_is_redacted_before_it_is_cut() {
        let mut redacted = RedactedLines::new(&Redactor::default());
        let line = format!("{} AKIAABCDEFGHIJKLMNOP", "x".repeat(80));
        assert_eq!(redacted.lines(line.as_bytes(), 90), [format!("{} ***", "x".repeat(80))]);
    }

    #[test]
    fn other_lines_are_logged_at_once() {
        let mut redacted = RedactedLines::new(&Redactor::default());
        assert_eq!(redacted.lines(b"listening\x1b[31m\xff", 100), ["listening[31m\u{fffd}"]);
        assert_eq!(RedactedLines::new(&Redactor::off()).lines(b"password=hunter2", 100), ["password=hunter2"]);
    }

    #[test]
    fn the_last_lines_are_kept_short_and_escaped() {
        let lines = LastLines::default();
        (0..12).for_each(|number| lines.push(&format!("line {number}")));
        lines.push("  \r");
        lines.push("\u{1b}[31mred\u{202e} \u{fffd}");
        lines.push(&"x".repeat(1000));
        let read = lines.read();
        assert_eq!((read.len(), read[0].as_str(), read[7].as_str()), (MAX_LINES, "line 4", "line 11"));
        assert_eq!(read[8], "[31mred\\u{202e} \u{fffd}");
        assert_eq!(read[9].len(), MAX_LINE_BYTES);
    }
}
