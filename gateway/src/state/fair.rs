//! A bounded LRU map that principals share fairly. When full, it evicts the least recently used value of the
//! principal that has the most. A key starts with its principal: [`super::key`] builds it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ahash::HashMap;

use super::key;

/// A bounded map whose capacity principals share fairly.
#[derive(Debug)]
pub(crate) struct FairRecent<V> {
    values: HashMap<Arc<str>, Slot<V>>,
    /// The keys of each principal, least recently used first.
    by_principal: HashMap<Arc<str>, BTreeMap<u64, Arc<str>>>,
    /// The principals, ordered by their number of values. The last one has the most. If several do, it is the one
    /// whose oldest value was used least recently.
    by_size: BTreeSet<(usize, Reverse<u64>, Arc<str>)>,
    capacity: usize,
    /// Counts uses, as a logical clock.
    clock: u64,
}

#[derive(Debug)]
struct Slot<V> {
    value: V,
    /// When it was last used, by the logical clock.
    used: u64,
}

impl<V> FairRecent<V> {
    /// Stores at most `capacity` values.
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            values: HashMap::default(),
            by_principal: HashMap::default(),
            by_size: BTreeSet::new(),
            capacity: capacity.max(1),
            clock: 0,
        }
    }

    /// Looks a value up and marks it as used.
    pub(crate) fn use_mut(&mut self, key: &str) -> Option<&mut V> {
        let used = self.values.get(key)?.used;
        self.clock += 1;
        let now = self.clock;
        self.change(principal(key), |keys| {
            if let Some(key) = keys.remove(&used) {
                keys.insert(now, key);
            }
        });
        let slot = self.values.get_mut(key)?;
        slot.used = now;
        Some(&mut slot.value)
    }

    /// Looks a value up without marking it as used.
    pub(crate) fn peek(&self, key: &str) -> Option<&V> {
        self.values.get(key).map(|it| &it.value)
    }

    pub(crate) fn insert(&mut self, key: &str, value: V) {
        self.remove(key);
        if self.values.len() >= self.capacity {
            self.evict();
        }
        self.clock += 1;
        let (now, key) = (self.clock, Arc::<str>::from(key));
        self.change(principal(&key), |keys| drop(keys.insert(now, Arc::clone(&key))));
        self.values.insert(key, Slot { value, used: now });
    }

    pub(crate) fn remove(&mut self, key: &str) {
        if let Some(slot) = self.values.remove(key) {
            self.change(principal(key), |keys| drop(keys.remove(&slot.used)));
        }
    }

    /// Changes the keys of a principal, and updates its position in the order by size.
    fn change(&mut self, principal: &str, change: impl FnOnce(&mut BTreeMap<u64, Arc<str>>)) {
        let (name, mut keys) =
            self.by_principal.remove_entry(principal).unwrap_or_else(|| (principal.into(), BTreeMap::new()));
        self.by_size.remove(&place(&name, &keys));
        change(&mut keys);
        if !keys.is_empty() {
            self.by_size.insert(place(&name, &keys));
            self.by_principal.insert(name, keys);
        }
    }

    /// Removes the least recently used value of the principal that has the most.
    fn evict(&mut self) {
        let most = self.by_size.last().and_then(|(.., name)| self.by_principal.get(name)?.values().next().cloned());
        if let Some(key) = most {
            self.remove(&key);
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &V)> {
        self.values.iter().map(|(key, slot)| (&**key, &slot.value))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (&str, &mut V)> {
        self.values.iter_mut().map(|(key, slot)| (&**key, &mut slot.value))
    }
}

/// Returns the sort key of a principal in `by_size`.
fn place(name: &Arc<str>, keys: &BTreeMap<u64, Arc<str>>) -> (usize, Reverse<u64>, Arc<str>) {
    (keys.len(), Reverse(keys.keys().next().copied().unwrap_or_default()), Arc::clone(name))
}

fn principal(key: &str) -> &str {
    let [principal] = key::split(key);
    principal
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_stays_bounded_and_values_in_use_stay() {
        let mut recent = FairRecent::new(500);
        recent.insert("mine", 0);
        for number in 0..100_000 {
            recent.insert(&key::join(["", &number.to_string()]), number);
            assert!(number % 100 != 0 || recent.use_mut("mine").is_some());
        }
        assert_eq!((recent.iter().count(), recent.by_principal.values().map(BTreeMap::len).sum::<usize>()), (500, 500));
    }

    #[test]
    fn one_principal_evicts_its_own_values() {
        let mut recent = FairRecent::new(100);
        let key = |principal: &str, number: usize| key::join([principal, &number.to_string()]);
        (0..40).for_each(|it| recent.insert(&key("honest", it), it));
        (0..1000).for_each(|it| recent.insert(&key("greedy", it), it));
        assert!((0..40).all(|it| recent.peek(&key("honest", it)) == Some(&it)));
        assert_eq!(recent.iter().count(), 100);
        (40..1000).for_each(|it| recent.insert(&key("honest", it), it));
        assert!(recent.peek(&key("greedy", 999)).is_some(), "an even share stays");
    }

    #[test]
    fn a_key_has_one_value() {
        let mut recent = FairRecent::new(2);
        for value in 0..10 {
            recent.insert("one", value);
            recent.insert("two", value);
        }
        assert_eq!((recent.peek("one"), recent.iter().count()), (Some(&9), 2));
        recent.remove("one");
        assert_eq!((recent.peek("one"), recent.by_principal.len(), recent.by_size.len()), (None, 1, 1));
    }
}
