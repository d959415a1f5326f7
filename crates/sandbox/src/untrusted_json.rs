//! Parses JSON from outside: the output of servers, programs and pages.
//!
//! In memory, values can take up to a hundred times the size of their text. So texts with too many values are
//! rejected before they are parsed. Parsing a large text takes tens of milliseconds, during which a shard could
//! serve no other call. So a few other threads parse large texts, one text per thread at a time.

use std::sync::LazyLock;

use openskill_proto::json::Survey;
use openskill_proto::limits::MAX_JSON_VALUES;
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

/// The maximum size of a text that is parsed where it arrives, in bytes. That takes about as long as waking
/// another thread.
pub const LIGHT_BYTES: usize = 64 * 1024;

/// One permit per thread that may parse concurrently. Shards need the other CPUs.
static READERS: LazyLock<Semaphore> = LazyLock::new(|| {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    Semaphore::new((processors / 2).max(1))
});

/// The reasons why a text can't be parsed.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    /// The text has too many values.
    #[error("has more than {MAX_JSON_VALUES} values")]
    TooManyValues,
    /// The text is not JSON, or not the expected value.
    #[error("is not valid JSON: {0}")]
    Invalid(#[from] serde_json::Error),
}

/// Counts the values in a text, before or after it is parsed.
///
/// # Errors
/// Fails if there are more than [`MAX_JSON_VALUES`].
pub fn count(text: &[u8]) -> Result<(), Unreadable> {
    let values = Survey::scan(text, MAX_JSON_VALUES).values;
    if values > MAX_JSON_VALUES { Err(Unreadable::TooManyValues) } else { Ok(()) }
}

/// Parses a text with at most [`MAX_JSON_VALUES`] values.
///
/// # Errors
/// Fails if the text has more values or is not a `T`.
pub fn parse<'a, T: Deserialize<'a>>(text: &'a [u8]) -> Result<T, Unreadable> {
    count(text)?;
    Ok(serde_json::from_slice(text)?)
}

/// Removes the byte order mark that some programs and servers write first.
pub fn without_byte_order_mark(text: &[u8]) -> &[u8] {
    text.strip_prefix("\u{feff}".as_bytes()).unwrap_or(text)
}

/// Returns whether a value would be a large text as JSON. Serializes only as much of it as necessary.
pub fn is_heavy(value: &impl Serialize) -> bool {
    serde_json::to_writer(&mut vec![0; LIGHT_BYTES][..], value).is_err()
}

/// Runs `work` here, or on another thread if it is `heavy`. `work` must be limited: on another thread, it runs to
/// its end even if the future is dropped.
pub async fn off_shard<T: Send + 'static>(heavy: bool, work: impl FnOnce() -> T + Send + 'static) -> T {
    if !heavy {
        return work();
    }
    // The semaphore is never closed.
    let permit = READERS.acquire().await.ok();
    let done = spawn_blocking(move || {
        let done = work();
        drop(permit);
        done
    });
    match done.await.map_err(tokio::task::JoinError::try_into_panic) {
        Ok(done) => done,
        // Panic as if it had run here.
        Err(Ok(panic)) => std::panic::resume_unwind(panic),
        // The runtime is shutting down, together with this future.
        Err(Err(_)) => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;

    use serde_json::Value;

    use super::*;

    #[test]
    fn values_are_counted_before_they_are_made() {
        let list = |values: usize| format!("[{}0]", "0,".repeat(values - 2));
        assert!(parse::<Value>(list(MAX_JSON_VALUES).as_bytes()).is_ok());
        // The first value is invalid, but this goes unnoticed because not even this value is parsed.
        let many = list(MAX_JSON_VALUES + 1).replacen('0', "?", 1);
        assert!(matches!(parse::<Value>(many.as_bytes()), Err(Unreadable::TooManyValues)));
        assert!(matches!(parse::<Value>(b"[1"), Err(Unreadable::Invalid(_))));
    }

    #[test]
    fn what_is_long_as_text_is_heavy() {
        assert!(!is_heavy(&vec![0; 1000]) && is_heavy(&vec![0; LIGHT_BYTES]) && is_heavy(&"x".repeat(LIGHT_BYTES)));
    }

    #[tokio::test]
    async fn heavy_work_leaves_its_thread_to_others() {
        // This runtime has only one thread, which could not send the value that the work waits for.
        let (send, receive) = sync_channel(1);
        let (got, ()) = tokio::join!(off_shard(true, move || receive.recv().ok()), async { send.send(7).unwrap() });
        assert_eq!(got, Some(7));
    }
}
