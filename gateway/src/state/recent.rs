//! A bounded map that keeps the most recently used values.
//!
//! The map has two generations. When the younger one is full, the older one is dropped. A lookup moves its value to
//! the younger generation, so that values in use stay. The map keeps at least the last `capacity` used values, and
//! at most twice as many.

use ahash::HashMap;

/// A bounded map of recently used values.
#[derive(Debug)]
pub(crate) struct Recent<V> {
    young: HashMap<String, V>,
    old: HashMap<String, V>,
    generation: usize,
}

impl<V> Recent<V> {
    /// Keeps at least the last `capacity` used values, and at most twice as many.
    pub(crate) fn new(capacity: usize) -> Self {
        Self { young: HashMap::default(), old: HashMap::default(), generation: capacity.max(1) }
    }

    /// Looks a value up and marks it as used.
    pub(crate) fn use_mut(&mut self, key: &str) -> Option<&mut V> {
        if let Some((key, value)) = self.old.remove_entry(key) {
            self.insert(key, value);
        }
        self.young.get_mut(key)
    }

    /// Looks a value up without marking it as used.
    pub(crate) fn peek(&self, key: &str) -> Option<&V> {
        self.young.get(key).or_else(|| self.old.get(key))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &V)> {
        self.young.iter().chain(&self.old).map(|(key, value)| (key.as_str(), value))
    }

    pub(crate) fn insert(&mut self, key: String, value: V) {
        if self.young.len() >= self.generation {
            self.old = std::mem::take(&mut self.young);
        }
        self.old.remove(&key);
        self.young.insert(key, value);
    }

    pub(crate) fn remove(&mut self, key: &str) {
        self.young.remove(key);
        self.old.remove(key);
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.young.len() + self.old.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_stays_bounded_and_values_in_use_stay() {
        let mut recent = Recent::new(500);
        recent.insert("mine".to_owned(), 0);
        for number in 0..100_000 {
            recent.insert(number.to_string(), number);
            assert!(number % 100 != 0 || recent.use_mut("mine").is_some());
        }
        assert!(recent.len() <= 1000);
    }

    #[test]
    fn a_key_has_one_value() {
        let mut recent = Recent::new(1);
        for value in 0..10 {
            recent.insert("one".to_owned(), value);
            recent.insert("two".to_owned(), value);
        }
        assert_eq!((recent.peek("one"), recent.len()), (Some(&9), 2));
        recent.remove("one");
        assert_eq!(recent.peek("one"), None);
    }
}
