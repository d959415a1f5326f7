//! An answer that several threads or processes fill, and that does not depend on their number: results count in the order of
//! the files.

use std::collections::BTreeMap;

/// How much of an answer something takes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Weight {
    pub(super) items: usize,
    pub(super) bytes: usize,
}

/// An answer that grows file by file.
pub(super) trait Grows {
    /// What was found in one file.
    type Found;

    fn weigh(found: &Self::Found) -> Weight;

    /// Adds the next file. Drops what exceeds its limits.
    fn add(&mut self, found: Self::Found);

    /// Whether it would be full after this much more.
    fn is_full_with(&self, more: Weight) -> bool;
}

/// What was found, in order.
pub(super) struct Ordered<A: Grows> {
    pub(super) answer: A,
    /// The number of the file that the answer waits for.
    next: usize,
    /// Results of later files.
    waiting: BTreeMap<usize, A::Found>,
    /// The weights of those that are not empty.
    weights: BTreeMap<usize, Weight>,
}

impl<A: Grows> Ordered<A> {
    pub(super) fn new(answer: A) -> Self {
        Self { answer, next: 0, waiting: BTreeMap::new(), weights: BTreeMap::new() }
    }

    /// Whether the files before this one that are done already fill the answer. Then results of this file cannot be part of it,
    /// and need not be kept in memory.
    pub(super) fn is_full_before(&self, number: usize) -> bool {
        let sum = |sum: Weight, it: &Weight| Weight { items: sum.items + it.items, bytes: sum.bytes + it.bytes };
        self.answer.is_full_with(self.weights.range(..number).map(|(_, weight)| weight).fold(Weight::default(), sum))
    }

    /// Adds the result of a file. Each number must be added once.
    pub(super) fn put(&mut self, number: usize, found: A::Found) {
        let weight = A::weigh(&found);
        if weight != Weight::default() {
            self.weights.insert(number, weight);
        }
        self.waiting.insert(number, found);
        while let Some(found) = self.waiting.remove(&self.next) {
            self.weights.remove(&self.next);
            self.answer.add(found);
            self.next += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes three words.
    #[derive(Default)]
    struct Words(Vec<&'static str>);

    impl Grows for Words {
        type Found = Vec<&'static str>;

        fn weigh(found: &Self::Found) -> Weight {
            Weight { items: found.len(), bytes: 0 }
        }

        fn add(&mut self, found: Self::Found) {
            self.0.extend(found);
            self.0.truncate(3);
        }

        fn is_full_with(&self, more: Weight) -> bool {
            self.0.len() + more.items >= 3
        }
    }

    #[test]
    fn the_order_of_the_files_counts_and_not_that_of_the_threads() {
        let mut ordered = Ordered::new(Words::default());
        ordered.put(2, vec!["e", "f", "g"]);
        assert!(ordered.is_full_before(3) && !ordered.is_full_before(2), "an earlier file may have more");
        ordered.put(0, vec!["a"]);
        ordered.put(1, vec![]);
        assert_eq!(ordered.answer.0, ["a", "e", "f"]);
        assert!(ordered.is_full_before(3));
    }
}
