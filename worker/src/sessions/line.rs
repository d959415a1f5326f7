//! The lines that a session's process writes and reads. `host/session.py` implements the other side.
//!
//! Their content is untrusted, so it is limited and parsed.

use bytes::BufMut as _;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::io::{AsyncRead, AsyncReadExt as _};

/// The maximum length of a line, in bytes.
pub(super) const MAX_LINE_BYTES: usize = 512 * 1024;

/// The size of one read. This limits how many lines are parsed between two reads of the stream.
const CHUNK: usize = 8192;

/// The maximum sizes of the result and of other texts, in bytes.
const MAX_RESULT_BYTES: usize = 64 * 1024;
const MAX_TEXT_BYTES: usize = 8 * 1024;

/// The maximum number of artifacts, and of notes.
const MAX_LISTED: usize = 64;

/// Reads lines. Buffers the bytes that follow a line.
#[derive(Default)]
pub(crate) struct LineReader {
    waiting: Vec<u8>,
    /// Everything before this index was returned. The next read moves the rest.
    begin: usize,
    /// No newline is between `begin` and this index.
    searched: usize,
    /// Whether to skip the rest of an overlong line.
    overlong: bool,
}

/// The result of a read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Read {
    /// A line, without its newline.
    Line(Vec<u8>),
    /// A part of an overlong line.
    TooLong,
    /// The stream ended.
    End,
}

/// A message about the session itself. Other lines are events.
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum SessionNotice {
    /// Whether the process accepts cells.
    Ready(bool),
    /// The code of the cell with this number started.
    Began(u64),
    /// A cell ended.
    Ended(CellEnd),
}

/// How a cell ended, as its process reports it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub(crate) struct CellEnd {
    pub(crate) cell: u64,
    #[serde(default)]
    pub(crate) return_code: i64,
    /// The representation of its last expression's value.
    #[serde(default)]
    pub(crate) result: Option<String>,
    #[serde(default)]
    pub(crate) error: Option<Exception>,
    #[serde(default)]
    pub(crate) artifacts: Vec<Label>,
    /// Notes about values that did not become artifacts, with the reasons.
    #[serde(default)]
    pub(crate) notes: Vec<String>,
}

/// An exception, or another reason why a cell did not complete.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Exception {
    pub(crate) name: String,
    pub(crate) message: String,
    /// Only the lines inside the cell. May be empty.
    pub(crate) traceback: String,
}

/// The labels of a cell's artifact.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Label {
    pub(crate) name: String,
    pub(crate) media_type: String,
    pub(crate) size_bytes: u64,
}

impl LineReader {
    /// Returns the next line. Cancel safe. Consumes cooperative budget even if lines are buffered.
    pub(super) async fn next(&mut self, from: &mut (impl AsyncRead + Unpin)) -> Read {
        tokio::task::consume_budget().await;
        loop {
            while let Some(end) = self.waiting[self.searched..].iter().position(|it| *it == b'\n') {
                let end = self.searched + end;
                let line = self.begin..end;
                (self.begin, self.searched) = (end + 1, end + 1);
                match () {
                    () if std::mem::take(&mut self.overlong) => {}
                    // The line exceeds the limit by less than a chunk.
                    () if line.len() > MAX_LINE_BYTES => return Read::TooLong,
                    () => return Read::Line(self.waiting[line].to_vec()),
                }
            }
            // What follows the newline in the last chunk.
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

/// Parses a message about the session itself. Returns `None` for other lines.
pub(super) fn parse_notice(line: &[u8]) -> Option<SessionNotice> {
    #[derive(Deserialize)]
    struct Spoken {
        session: SessionNotice,
    }
    if !line.starts_with(b"{\"session\"") {
        return None;
    }
    let Spoken { session } = serde_json::from_slice(line).ok()?;
    Some(match session {
        SessionNotice::Ended(ended) => SessionNotice::Ended(ended.truncate()),
        other => other,
    })
}

/// Returns whether a line ends this cell, as `host/session.py` writes it, but can't be parsed. No other end
/// follows.
pub(super) fn is_broken_end(line: &[u8], cell: u64) -> bool {
    line.starts_with(format!("{{\"session\": {{\"ended\": {{\"cell\": {cell}, ").as_bytes())
        && parse_notice(line).is_none()
}

/// Returns the line that makes the process run a cell.
pub(super) fn run(cell: u64, code: &str) -> Vec<u8> {
    format!("{}\n", json!({"run": {"cell": cell, "code": code}})).into_bytes()
}

impl CellEnd {
    fn truncate(mut self) -> Self {
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
