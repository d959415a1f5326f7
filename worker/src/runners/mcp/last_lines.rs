//! The last lines that a server's processes wrote to stderr, redacted, for `openskill check` and `openskill doctor`.

use std::collections::VecDeque;

use openskill_log::text::one_line;
use parking_lot::Mutex;

use super::words::line;

/// The maximum number of lines, and the maximum length of each in bytes.
const MAX_LINES: usize = 10;
const MAX_LINE_BYTES: usize = 300;

/// The last lines, oldest first. Older lines are dropped.
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
