//! JSON from outside: what servers, programs and pages answer.
//!
//! In memory, a value takes up to a hundred times its text. A text is therefore refused before it becomes values, by their
//! number. Reading a large text takes tens of milliseconds, during which a shard would serve no other call: a few threads read
//! large texts, one at a time each.

use std::sync::LazyLock;

use openskill_proto::json::Survey;
use openskill_proto::limits::MAX_JSON_VALUES;
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

/// A text of up to so many bytes is read where it arrives, in about the time that it takes to wake another thread.
pub(crate) const LIGHT_BYTES: usize = 64 * 1024;

/// One permit for each thread that may read at once: shards need the other processors.
static READERS: LazyLock<Semaphore> = LazyLock::new(|| {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    Semaphore::new((processors / 2).max(1))
});

/// Why a text has no values.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unreadable {
    #[error("has more than {MAX_JSON_VALUES} values")]
    TooManyValues,
    #[error("is not valid JSON: {0}")]
    Invalid(#[from] serde_json::Error),
}

/// Counts the values of a text that is JSON or about to be parsed.
///
/// # Errors
/// They are more than [`MAX_JSON_VALUES`].
pub(crate) fn count(text: &[u8]) -> Result<(), Unreadable> {
    let values = Survey::of(text, MAX_JSON_VALUES).values;
    if values > MAX_JSON_VALUES { Err(Unreadable::TooManyValues) } else { Ok(()) }
}

/// Parses a text of at most [`MAX_JSON_VALUES`] values.
///
/// # Errors
/// It has more, or it is no `T`.
pub(crate) fn parse<'a, T: Deserialize<'a>>(text: &'a [u8]) -> Result<T, Unreadable> {
    count(text)?;
    Ok(serde_json::from_slice(text)?)
}

/// Whether a value is a large text when it is written as JSON. Writes no more of it than tells.
pub(crate) fn is_heavy(value: &impl Serialize) -> bool {
    serde_json::to_writer(&mut vec![0; LIGHT_BYTES][..], value).is_err()
}

/// Runs `work` here, or on another thread if it is `heavy`. `work` has to be bounded: once it has begun on another thread, it
/// runs to its end, even if the future is dropped.
pub(crate) async fn off_shard<T: Send + 'static>(heavy: bool, work: impl FnOnce() -> T + Send + 'static) -> T {
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
        // As if it had run here.
        Err(Ok(panic)) => std::panic::resume_unwind(panic),
        // The runtime ends, and this future with it.
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
        // Not even the first value is read: that it is invalid stays unnoticed.
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
        // This runtime has one thread: it could not send what the work waits for.
        let (send, receive) = sync_channel(1);
        let (got, ()) = tokio::join!(off_shard(true, move || receive.recv().ok()), async { send.send(7).unwrap() });
        assert_eq!(got, Some(7));
    }
}
