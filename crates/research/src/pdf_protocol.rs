//! What a worker and the process that reads a PDF file say to each other, over the process's stdin and stdout.
//!
//! The worker writes the file and closes its end. The process writes one line of JSON, a [`Reply`], and ends. Neither side
//! trusts the other: both bound what they read.

use serde::{Deserialize, Serialize};

/// The one argument that makes `openskill-readers` such a process.
pub const ARGUMENT: &str = "pdf-reader";

/// The largest file.
pub const MAX_FILE_BYTES: usize = 16 << 20;

/// The longest reply, in bytes.
pub const MAX_REPLY_BYTES: usize = 8 << 20;

/// The text of a file, or why there is none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    /// The text of each page.
    Pages(Vec<String>),
    /// A word or two, for a warning.
    Failed(String),
}
