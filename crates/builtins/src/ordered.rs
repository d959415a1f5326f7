//! Builds an answer from results of several threads or processes. Results are added in file order, so the answer
//! does not depend on the degree of parallelism.

use std::collections::BTreeMap;

/// How much of an answer's limits a result uses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Weight {
    pub(super) items: usize,
    pub(super) bytes: usize,
}

/// An answer that is built file by file.
pub(super) trait BoundedAnswer {
    /// What one file contributes to the answer.
    type FileResult;

    fn weigh(found: &Self::FileResult) -> Weight;

    /// Adds the result for the next file. Drops whatever exceeds the limits.
    fn add(&mut self, found: Self::FileResult);

    /// Returns whether the answer would be full after adding this much.
    fn is_full_with(&self, more: Weight) -> bool;
}

/// Adds results to an answer in file order, whatever the order in which they arrive.
pub(super) struct InFileOrder<A: BoundedAnswer> {
    pub(super) answer: A,
    /// The number of the file to add next.
    next: usize,
    /// Results of later files, which wait for their turn.
    waiting: BTreeMap<usize, A::FileResult>,
    /// The weights of the non-empty results.
    weights: BTreeMap<usize, Weight>,
}

impl<A: BoundedAnswer> InFileOrder<A> {
    pub(super) fn new(answer: A) -> Self {
        Self { answer, next: 0, waiting: BTreeMap::new(), weights: BTreeMap::new() }
    }

    /// Returns whether the results of earlier files already fill the answer. If so, results of this file can't be
    /// part of it and don't need to be kept in memory.
    pub(super) fn is_full_before(&self, number: usize) -> bool {
        let sum = |sum: Weight, it: &Weight| Weight { items: sum.items + it.items, bytes: sum.bytes + it.bytes };
        self.answer.is_full_with(self.weights.range(..number).map(|(_, weight)| weight).fold(Weight::default(), sum))
    }

    /// Adds the result of a file. Must be called once for each number.
    pub(super) fn put(&mut self, number: usize, found: A::FileResult) {
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

    /// A test answer with room for three words.
    #[derive(Default)]
    struct Words(Vec<&'static str>);

    impl BoundedAnswer for Words {
        type FileResult = Vec<&'static str>;

        fn weigh(found: &Self::FileResult) -> Weight {
            Weight { items: found.len(), bytes: 0 }
        }

        fn add(&mut self, found: Self::FileResult) {
            self.0.extend(found);
            self.0.truncate(3);
        }

        fn is_full_with(&self, more: Weight) -> bool {
            self.0.len() + more.items >= 3
        }
    }

    #[test]
    fn the_order_of_the_files_counts_and_not_that_of_the_threads() {
        let mut ordered = InFileOrder::new(Words::default());
        ordered.put(2, vec!["e", "f", "g"]);
        assert!(ordered.is_full_before(3) && !ordered.is_full_before(2), "an earlier file may have more");
        ordered.put(0, vec!["a"]);
        ordered.put(1, vec![]);
        assert_eq!(ordered.answer.0, ["a", "e", "f"]);
        assert!(ordered.is_full_before(3));
    }
}
