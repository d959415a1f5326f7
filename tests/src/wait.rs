//! Waiting on conditions, never for luck.

use std::time::{Duration, Instant};

use futures_util::FutureExt as _;

/// Looks again and again until `condition` gives a value. Panics with `what` after `limit`.
pub async fn until<T, F>(what: &str, limit: Duration, mut condition: impl FnMut() -> F) -> T
where
    F: Future<Output = Option<T>>,
{
    look(limit, || condition().map(|it| it.ok_or_else(|| what.to_owned()))).await
}

/// The same for what is true or not.
pub async fn until_true(what: &str, limit: Duration, mut condition: impl FnMut() -> bool) {
    until(what, limit, || std::future::ready(condition().then_some(()))).await;
}

/// Waits until `left` gives nothing any more. Panics with what it still gives after `limit`.
pub async fn until_none_is_left<T: std::fmt::Debug>(what: &str, limit: Duration, mut left: impl FnMut() -> Vec<T>) {
    let mut none = || match left() {
        left if left.is_empty() => Ok(()),
        left => Err(format!("no {what} are left: {left:?}")),
    };
    look(limit, || std::future::ready(none())).await;
}

/// Looks until there is a value. Panics with what was missing at the last look after `limit`.
async fn look<T, F>(limit: Duration, mut condition: impl FnMut() -> F) -> T
where
    F: Future<Output = Result<T, String>>,
{
    let begun = Instant::now();
    loop {
        let missing = match condition().await {
            Ok(value) => return value,
            Err(missing) => missing,
        };
        assert!(begun.elapsed() < limit, "waited {limit:?} in vain: {missing}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
