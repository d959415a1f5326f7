//! Waiting on conditions, never for luck.

use std::time::{Duration, Instant};

/// Looks again and again until `condition` gives a value. Panics with `what` after `limit`.
pub async fn until<T, F>(what: &str, limit: Duration, mut condition: impl FnMut() -> F) -> T
where
    F: Future<Output = Option<T>>,
{
    let begun = Instant::now();
    loop {
        if let Some(value) = condition().await {
            return value;
        }
        assert!(begun.elapsed() < limit, "waited {limit:?} in vain: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// The same for what is true or not.
pub async fn until_true(what: &str, limit: Duration, mut condition: impl FnMut() -> bool) {
    until(what, limit, || std::future::ready(condition().then_some(()))).await;
}

/// Waits until `left` gives nothing any more. Panics with what it still gives after `limit`.
pub async fn until_none_is_left<T: std::fmt::Debug>(what: &str, limit: Duration, mut left: impl FnMut() -> Vec<T>) {
    let begun = Instant::now();
    loop {
        let now = left();
        if now.is_empty() {
            return;
        }
        assert!(begun.elapsed() < limit, "after {limit:?} there are {what} left: {now:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
