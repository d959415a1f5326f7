//! What a server writes beside its messages, for the log at level DEBUG.
//!
//! It comes line by line, and a secret such as a private key has several lines. So it is redacted here, where the lines are
//! still together, and before they are cut: the log sees each line alone.

use openskill_redact::{Redactor, Stream};

use super::words::line;

/// The lines of one stream of a server.
#[derive(Debug)]
pub(super) struct Said {
    stream: Stream,
}

impl Said {
    pub(super) fn new(redactor: &Redactor) -> Self {
        Self { stream: redactor.stream() }
    }

    /// Takes a line without its end. Returns the lines that can be logged now, at most `most` bytes of each: a line is held
    /// back while a secret may go on in the next one.
    pub(super) fn lines(&mut self, text: &[u8], most: usize) -> Vec<String> {
        let text = String::from_utf8_lossy(text) + "\n";
        shown(&self.stream.push(&text), most)
    }

    /// The lines that are still held back.
    pub(super) fn rest(&mut self, most: usize) -> Vec<String> {
        shown(&self.stream.finish(), most)
    }
}

fn shown(text: &str, most: usize) -> Vec<String> {
    text.lines().map(|it| line(it, most)).filter(|it| !it.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj";

    #[test]
    fn a_key_of_several_lines_is_masked_as_a_whole() {
        let mut said = Said::new(&Redactor::default());
        let text = format!("starting\n-----BEGIN PRIVATE KEY-----\n{KEY}\n{KEY}\n-----END PRIVATE KEY-----\nready");
        let mut lines: Vec<_> = text.lines().flat_map(|it| said.lines(it.as_bytes(), 100)).collect();
        lines.extend(said.rest(100));
        assert_eq!(lines, ["starting", "***", "ready"]);
    }

    #[test]
    fn a_line_is_redacted_before_it_is_cut() {
        let mut said = Said::new(&Redactor::default());
        let line = format!("{} AKIAABCDEFGHIJKLMNOP", "x".repeat(80));
        assert_eq!(said.lines(line.as_bytes(), 90), [format!("{} ***", "x".repeat(80))]);
    }

    #[test]
    fn other_lines_are_logged_at_once() {
        let mut said = Said::new(&Redactor::default());
        assert_eq!(said.lines(b"listening\x1b[31m\xff", 100), ["listening[31m\u{fffd}"]);
        assert_eq!(Said::new(&Redactor::off()).lines(b"password=hunter2", 100), ["password=hunter2"]);
    }
}
