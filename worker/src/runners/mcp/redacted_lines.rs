//! Redacts a server's output other than messages, for the log at DEBUG.
//!
//! The output arrives line by line, but a secret such as a private key spans several lines. The log sees each line
//! separately, so lines are redacted here, before they are truncated.

use openskill_redact::{Redactor, Stream};

use super::words::line;

/// Redacts one of a server's output streams.
#[derive(Debug)]
pub(super) struct RedactedLines {
    stream: Stream,
}

impl RedactedLines {
    pub(super) fn new(redactor: &Redactor) -> Self {
        Self { stream: redactor.stream() }
    }

    /// Adds a line without its line end. Returns the lines that can be logged now, each truncated to `most` bytes.
    /// Holds a line back while a secret may continue in the next one.
    pub(super) fn lines(&mut self, text: &[u8], most: usize) -> Vec<String> {
        let text = String::from_utf8_lossy(text) + "\n";
        printable_lines(&self.stream.push(&text), most)
    }

    /// Returns the lines that are still held back, each truncated to `most` bytes.
    pub(super) fn rest(&mut self, most: usize) -> Vec<String> {
        printable_lines(&self.stream.finish(), most)
    }
}

fn printable_lines(text: &str, most: usize) -> Vec<String> {
    text.lines().map(|it| line(it, most)).filter(|it| !it.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj";

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
}
