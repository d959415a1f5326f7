//! Eviction from a bounded store that principals share: the principal with the most entries loses one. Others can't
//! evict what is within an even share, and a single principal may fill the store.

use ahash::HashMap;

/// Returns the principal with the largest total weight in `kept`.
pub(super) fn heaviest<'k>(kept: impl Iterator<Item = (&'k str, usize)>) -> Option<&'k str> {
    let mut weights: HashMap<&str, usize> = HashMap::default();
    for (principal, weight) in kept {
        *weights.entry(principal).or_default() += weight;
    }
    // Deterministic, regardless of the map's order.
    weights
        .into_iter()
        .max_by(|(one, mine), (other, its)| mine.cmp(its).then(other.cmp(one)))
        .map(|(principal, _)| principal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_principal_that_keeps_most_is_evicted() {
        assert_eq!(heaviest([("a", 3), ("b", 2), ("b", 2)].into_iter()), Some("b"));
        assert_eq!(heaviest([("b", 1), ("a", 1)].into_iter()), Some("a"));
        assert_eq!(heaviest(std::iter::empty()), None);
    }
}
