//! The lines that a session's process writes, and those it reads. As `host/session.py` has them.
//!
//! What comes from there was written by anybody: it is bounded and parsed, and nothing in it is believed beyond that.

use bytes::BufMut as _;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt as _};

/// The longest line that is read.
pub(super) const MAX_LINE_BYTES: usize = 512 * 1024;

/// How much is read at a time: so many lines at most come without a look at the stream.
const CHUNK: usize = 8192;

/// The longest texts that are passed on, in bytes.
const MAX_RESULT_BYTES: usize = 64 * 1024;
const MAX_TEXT_BYTES: usize = 8 * 1024;

/// How many artifacts and notes are listed.
const MAX_LISTED: usize = 64;

/// Reads lines, and buffers what follows a line for the next call.
#[derive(Default)]
pub(crate) struct Lines {
    waiting: Vec<u8>,
    /// Everything before this was returned. The next read moves the rest.
    begin: usize,
    /// There is no newline between `begin` and this.
    searched: usize,
    /// Skips the rest of a line that is too long.
    overlong: bool,
}

/// What was read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Read {
    /// A line, without its newline.
    Line(Vec<u8>),
    /// A part of a line that is too long.
    TooLong,
    /// The stream has ended.
    End,
}

/// A line about the session itself. Other lines are events.
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Said {
    /// The process takes cells.
    Ready(bool),
    /// The code of this cell runs.
    Began(u64),
    /// A cell is over.
    Ended(Ended),
}

/// The end of a cell, as its process tells it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub(crate) struct Ended {
    pub(crate) cell: u64,
    #[serde(default)]
    pub(crate) return_code: i64,
    /// How the value of its last expression shows itself.
    #[serde(default)]
    pub(crate) result: Option<String>,
    #[serde(default)]
    pub(crate) error: Option<Exception>,
    #[serde(default)]
    pub(crate) artifacts: Vec<Label>,
    /// What did not become an artifact, and why.
    #[serde(default)]
    pub(crate) notes: Vec<String>,
}

/// An exception, or another reason why a cell did not complete.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Exception {
    #[serde(default)]
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) message: String,
    /// The cell's own lines. Empty if there are none.
    #[serde(default)]
    pub(crate) traceback: String,
}

/// An artifact of the cell.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Label {
    #[serde(default)]
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) media_type: String,
    #[serde(default)]
    pub(crate) size_bytes: u64,
}

#[derive(Serialize)]
struct Order<'a> {
    run: Run<'a>,
}

#[derive(Serialize)]
struct Run<'a> {
    cell: u64,
    code: &'a str,
}

impl Lines {
    /// The next line. Cancel safe. Consumes cooperative budget even while lines are buffered.
    pub(super) async fn next(&mut self, from: &mut (impl AsyncRead + Unpin)) -> Read {
        tokio::task::consume_budget().await;
        loop {
            while let Some(end) = self.waiting[self.searched..].iter().position(|it| *it == b'\n') {
                let end = self.searched + end;
                let line = self.begin..end;
                (self.begin, self.searched) = (end + 1, end + 1);
                match () {
                    () if std::mem::take(&mut self.overlong) => {}
                    // By less than a chunk.
                    () if line.len() > MAX_LINE_BYTES => return Read::TooLong,
                    () => return Read::Line(self.waiting[line].to_vec()),
                }
            }
            // The rest of the last chunk, if it had a newline.
            self.waiting.drain(..std::mem::take(&mut self.begin));
            self.searched = self.waiting.len();
            if self.waiting.len() > MAX_LINE_BYTES {
                self.overlong = true;
                self.waiting.clear();
                self.searched = 0;
                return Read::TooLong;
            }
            self.waiting.reserve(CHUNK);
            match from.read_buf(&mut (&mut self.waiting).limit(CHUNK)).await {
                Ok(1..) => {}
                Ok(0) | Err(_) => return Read::End,
            }
        }
    }
}

/// Parses a line about the session itself. `None` for other lines.
pub(super) fn said(line: &[u8]) -> Option<Said> {
    #[derive(Deserialize)]
    struct Spoken {
        session: Said,
    }
    if !line.starts_with(b"{\"session\"") {
        return None;
    }
    let Spoken { session } = serde_json::from_slice(line).ok()?;
    Some(match session {
        Said::Ended(ended) => Said::Ended(ended.bounded()),
        other => other,
    })
}

/// Whether a line is the end of this cell, as `host/session.py` writes it, and cannot be parsed. No other end follows.
pub(super) fn is_broken_end(line: &[u8], cell: u64) -> bool {
    line.starts_with(format!("{{\"session\": {{\"ended\": {{\"cell\": {cell}, ").as_bytes()) && said(line).is_none()
}

/// The line that runs a cell.
pub(super) fn run(cell: u64, code: &str) -> Vec<u8> {
    let mut line = serde_json::to_vec(&Order { run: Run { cell, code } }).unwrap_or_default();
    line.push(b'\n');
    line
}

impl Ended {
    fn bounded(mut self) -> Self {
        if let Some(result) = &mut self.result {
            cut(result, MAX_RESULT_BYTES);
        }
        if let Some(Exception { name, message, traceback }) = &mut self.error {
            cut(name, MAX_TEXT_BYTES);
            cut(message, MAX_TEXT_BYTES);
            cut(traceback, MAX_RESULT_BYTES);
        }
        self.artifacts.truncate(MAX_LISTED);
        self.notes.truncate(MAX_LISTED);
        for Label { name, media_type, .. } in &mut self.artifacts {
            cut(name, MAX_TEXT_BYTES);
            cut(media_type, MAX_TEXT_BYTES);
        }
        self.notes.iter_mut().for_each(|note| cut(note, MAX_TEXT_BYTES));
        self
    }
}

fn cut(text: &mut String, most: usize) {
    text.truncate(text.floor_char_boundary(most));
}

#[cfg(test)]
mod tests;
