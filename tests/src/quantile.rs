//! One rule for medians and percentiles.

/// The nearest-rank quantile: the least value that at least `share` of all values do not exceed. The default, such as zero,
/// if there are no values.
pub fn quantile<T: Copy + PartialOrd + Default>(mut values: Vec<T>, share: f64) -> T {
    values.sort_unstable_by(|a, b| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal));
    let rank = (values.len() as f64 * share).ceil() as usize;
    values.get(rank.clamp(1, values.len().max(1)) - 1).copied().unwrap_or_default()
}

/// The median, of an even number of values the lower of the two in the middle.
pub fn median<T: Copy + PartialOrd + Default>(values: Vec<T>) -> T {
    quantile(values, 0.5)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_one_of_the_values() {
        assert_eq!(median(vec![3, 1, 2]), 2);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 9.0]), 2.0);
        assert_eq!(median(Vec::<u64>::new()), 0);
    }

    #[test]
    fn the_quantile_is_the_nearest_rank() {
        let values: Vec<_> = (1..=100).collect();
        assert_eq!(quantile(values.clone(), 0.99), 99);
        assert_eq!(quantile(values.clone(), 1.0), 100);
        assert_eq!(quantile(values, 0.0), 1);
    }
}
