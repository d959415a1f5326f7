//! `--watch` for lists that no RPC streams: fetches the list every second and prints the changes.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::args::Format;
use crate::exit::Failure;
use crate::listing::{ADDED, ChangePrinter, ListItem, REMOVED, UPDATED};

const INTERVAL: Duration = Duration::from_secs(1);

/// How the items of a list are matched with those of the next list.
pub(super) struct Matching<T> {
    /// Identifies the item in a list.
    pub(super) key: fn(&T) -> String,
    /// Whether an item differs enough from the one before for the change to be printed.
    pub(super) differs: fn(&T, &T) -> bool,
    /// Converts an item that disappeared from the list into the item to print.
    pub(super) left: fn(T) -> T,
}

/// Prints the list, then each change, until `fetch` fails or the user stops it.
pub(super) async fn watch<T: ListItem + Clone>(
    format: Format,
    matching: &Matching<T>,
    mut fetch: impl AsyncFnMut() -> Result<Vec<T>, Failure>,
) -> Result<std::convert::Infallible, Failure> {
    let mut changes = ChangePrinter::new(format);
    let mut seen = BTreeMap::new();
    let mut is_first = true;
    loop {
        let now = fetch().await?.into_iter().map(|item| ((matching.key)(&item), item)).collect();
        let found = difference(&seen, &now, matching);
        if is_first || !found.is_empty() {
            changes.print(&found);
        }
        (seen, is_first) = (now, false);
        tokio::time::sleep(INTERVAL).await;
    }
}

/// Returns the changes between two lists: first the removed items, then the others in the order of the list.
fn difference<T: Clone>(
    before: &BTreeMap<String, T>,
    now: &BTreeMap<String, T>,
    matching: &Matching<T>,
) -> Vec<(&'static str, T)> {
    let gone = before.iter().filter(|(key, _)| !now.contains_key(*key));
    let mut found: Vec<_> = gone.map(|(_, item)| (REMOVED, (matching.left)(item.clone()))).collect();
    found.extend(now.iter().filter_map(|(key, item)| match before.get(key) {
        None => Some((ADDED, item.clone())),
        Some(old) => (matching.differs)(item, old).then(|| (UPDATED, item.clone())),
    }));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_changed_is_told() {
        let matching = Matching::<(&str, u32)> {
            key: |it| it.0.to_owned(),
            differs: |now, before| now.1 != before.1,
            left: |it| (it.0, 0),
        };
        let list = |things: &[(&'static str, u32)]| things.iter().map(|it| ((matching.key)(it), *it)).collect();
        let before = list(&[("a", 1), ("b", 1), ("c", 1)]);
        let now = list(&[("b", 1), ("c", 2), ("d", 1)]);
        let expected = [(REMOVED, ("a", 0)), (UPDATED, ("c", 2)), (ADDED, ("d", 1))];
        assert_eq!(difference(&before, &now, &matching), expected);
        assert!(difference(&now, &now, &matching).is_empty());
    }
}
