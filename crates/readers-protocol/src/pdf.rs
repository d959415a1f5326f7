//! The messages between a worker and the process that reads a PDF file, sent over the process's stdin and stdout.
//!
//! The worker writes the file and closes the pipe. The process writes one line of JSON, a [`PdfReply`], and exits.
//! Neither side trusts the other: both limit how much they read.

use serde::{Deserialize, Serialize};

/// The only argument with which `openskill-readers` reads a PDF file.
pub const ARGUMENT: &str = "pdf-reader";

/// The maximum size of a file, in bytes.
pub const MAX_FILE_BYTES: usize = 16 << 20;

/// The maximum size of a reply, in bytes.
pub const MAX_REPLY_BYTES: usize = 8 << 20;

/// The text of a file, or why it could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum PdfReply {
    /// The text of each page.
    Pages(Vec<String>),
    /// A short reason, for a warning.
    Failed(String),
}
