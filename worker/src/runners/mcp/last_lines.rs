//! The last lines that a server's processes wrote to stderr, redacted, for `openskill check` and `openskill doctor`.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use openskill_log::text::one_line;

use super::words::line;

/// How many lines are kept, and how many bytes of each.
const MAX_LINES: usize = 10;
const MAX_LINE_BYTES: usize = 300;

/// The lines, the oldest first.
#[derive(Debug, Default)]
pub(super) struct LastLines(Mutex<VecDeque<String>>);

impl LastLines {
    /// Adds a line. What is not seen on a terminal is escaped or left out.
    pub(super) fn push(&self, text: &str) {
        let line = line(text, MAX_LINE_BYTES);
        if line.is_empty() {
            return;
        }
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() == MAX_LINES {
            lines.pop_front();
        }
        lines.push_back(one_line(&line).into_owned());
    }

    /// All of them.
    pub(super) fn read(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
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
