//! `--watch` on lists that no RPC streams: the list every second, and what changed.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::args::Format;
use crate::exit::Failure;
use crate::listing::{Change, Changes, Item};

const INTERVAL: Duration = Duration::from_secs(1);

/// An item that is recognized from one list to the next.
pub(super) trait Watched: Item + Clone {
    /// What tells it from the others.
    fn key(&self) -> String;

    /// Whether a reader wants to know of the change.
    fn differs(&self, before: &Self) -> bool;
}

/// Prints the list, then each change, until `ask` fails or the user ends it. `left`: an item that is listed no more.
pub(super) async fn watch<T: Watched>(
    format: Format,
    left: impl Fn(T) -> T,
    mut ask: impl AsyncFnMut() -> Result<Vec<T>, Failure>,
) -> Result<std::convert::Infallible, Failure> {
    let mut changes = Changes::new(format);
    let mut seen = BTreeMap::new();
    let mut is_first = true;
    loop {
        let now = ask().await?.into_iter().map(|item| (item.key(), item)).collect();
        let found = difference(&seen, &now, &left);
        if is_first || !found.is_empty() {
            changes.tell(&found);
        }
        (seen, is_first) = (now, false);
        tokio::time::sleep(INTERVAL).await;
    }
}

/// What changed between two lists: removals first, then in the order of the list.
fn difference<T: Watched>(
    before: &BTreeMap<String, T>,
    now: &BTreeMap<String, T>,
    left: impl Fn(T) -> T,
) -> Vec<(Change, T)> {
    let gone = before.iter().filter(|(key, _)| !now.contains_key(*key));
    let mut found: Vec<_> = gone.map(|(_, item)| (Change::Removed, left(item.clone()))).collect();
    found.extend(now.iter().filter_map(|(key, item)| match before.get(key) {
        None => Some((Change::Added, item.clone())),
        Some(old) => item.differs(old).then(|| (Change::Updated, item.clone())),
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

    impl Item for Thing {
        const KIND: &'static str = "thing";
        const COLUMNS: &'static [Column<Self>] = &[];

        fn value(&self) -> Value {
            json!(self.1)
        }
    }

    impl Watched for Thing {
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
        let expected =
            [(Change::Removed, Thing("a", 0)), (Change::Updated, Thing("c", 2)), (Change::Added, Thing("d", 1))];
        assert_eq!(found, expected);
        assert!(difference(&now, &now, |it| it).is_empty());
    }
}
