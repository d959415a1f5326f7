//! Handles the worker's end of a process's events descriptor.

use bytes::Bytes;
use tokio::sync::mpsc;

/// Receives the lines that a process writes to its events descriptor, and provides the lines that it reads from
/// it.
pub trait EventChannel: Sync {
    /// Handles one line. A slow receiver slows the process down.
    fn line(&self, line: &[u8]) -> impl Future<Output = ()> + Send;

    /// Counts a line that was too long.
    fn drop_one(&self);

    /// Returns the receiver of answers to questions. Each answer is a line including its newline. Called at the
    /// process's first event. Returns the receiver only once.
    fn answers(&self) -> Option<mpsc::Receiver<Bytes>>;
}
