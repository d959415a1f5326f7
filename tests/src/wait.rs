//! Waits on conditions instead of sleeping.

use std::time::{Duration, Instant};

use futures_util::FutureExt as _;

/// Polls until `condition` returns a value. Panics with `what` after `limit`.
pub async fn until<T, F>(what: &str, limit: Duration, mut condition: impl FnMut() -> F) -> T
where
    F: Future<Output = Option<T>>,
{
    look(limit, || condition().map(|it| it.ok_or_else(|| what.to_owned()))).await
}

/// Polls until `condition` is true. Panics with `what` after `limit`.
pub async fn until_true(what: &str, limit: Duration, mut condition: impl FnMut() -> bool) {
    until(what, limit, || std::future::ready(condition().then_some(()))).await;
}

/// Polls until `left` returns nothing. Panics with what it still returns after `limit`.
pub async fn until_none_is_left<T: std::fmt::Debug>(what: &str, limit: Duration, mut left: impl FnMut() -> Vec<T>) {
    let mut none = || match left() {
        left if left.is_empty() => Ok(()),
        left => Err(format!("no {what} are left: {left:?}")),
    };
    look(limit, || std::future::ready(none())).await;
}

/// Polls until there is a value. Panics with what was missing after `limit`.
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
        assert!(begun.elapsed() < limit, "not within {limit:?}: {missing}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
