//! `--watch` for lists that no RPC streams: fetches the list every second and prints the changes.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::args::Format;
use crate::exit::Failure;
use crate::listing::{ChangePrinter, ListChange, ListItem};

const INTERVAL: Duration = Duration::from_secs(1);

/// An item that can be matched with the same item in the next list.
pub(super) trait WatchableItem: ListItem + Clone {
    /// Identifies the item in a list.
    fn key(&self) -> String;

    /// Whether the change is worth printing.
    fn differs(&self, before: &Self) -> bool;
}

/// Prints the list, then each change, until `fetch` fails or the user stops it. `left` converts an item that
/// disappeared from the list into the item to print.
pub(super) async fn watch<T: WatchableItem>(
    format: Format,
    left: impl Fn(T) -> T,
    mut fetch: impl AsyncFnMut() -> Result<Vec<T>, Failure>,
) -> Result<std::convert::Infallible, Failure> {
    let mut changes = ChangePrinter::new(format);
    let mut seen = BTreeMap::new();
    let mut is_first = true;
    loop {
        let now = fetch().await?.into_iter().map(|item| (item.key(), item)).collect();
        let found = difference(&seen, &now, &left);
        if is_first || !found.is_empty() {
            changes.print(&found);
        }
        (seen, is_first) = (now, false);
        tokio::time::sleep(INTERVAL).await;
    }
}

/// Returns the changes between two lists: first the removed items, then the others in the order of the list.
fn difference<T: WatchableItem>(
    before: &BTreeMap<String, T>,
    now: &BTreeMap<String, T>,
    left: impl Fn(T) -> T,
) -> Vec<(ListChange, T)> {
    let gone = before.iter().filter(|(key, _)| !now.contains_key(*key));
    let mut found: Vec<_> = gone.map(|(_, item)| (ListChange::Removed, left(item.clone()))).collect();
    found.extend(now.iter().filter_map(|(key, item)| match before.get(key) {
        None => Some((ListChange::Added, item.clone())),
        Some(old) => item.differs(old).then(|| (ListChange::Updated, item.clone())),
    }));
    found
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::listing::Column;

    #[derive(Clone, Debug, PartialEq)]
    struct Thing(&'static str, u32);

    impl ListItem for Thing {
        const KIND: &'static str = "thing";
        const COLUMNS: &'static [Column<Self>] = &[];

        fn value(&self) -> Value {
            json!(self.1)
        }
    }

    impl WatchableItem for Thing {
        fn key(&self) -> String {
            self.0.to_owned()
        }

        fn differs(&self, before: &Self) -> bool {
            self.1 != before.1
        }
    }

    #[test]
    fn only_what_changed_is_told() {
        let list = |things: &[Thing]| things.iter().map(|it| (it.key(), it.clone())).collect();
        let before = list(&[Thing("a", 1), Thing("b", 1), Thing("c", 1)]);
        let now = list(&[Thing("b", 1), Thing("c", 2), Thing("d", 1)]);
        let found = difference(&before, &now, |it| Thing(it.0, 0));
        let expected = [
            (ListChange::Removed, Thing("a", 0)),
            (ListChange::Updated, Thing("c", 2)),
            (ListChange::Added, Thing("d", 1)),
        ];
        assert_eq!(found, expected);
        assert!(difference(&now, &now, |it| it).is_empty());
    }
}
