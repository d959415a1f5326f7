//! The buckets of every histogram.

/// The upper bounds of the buckets for durations, in seconds. Formatted whole numbers keep their fraction: some
/// servers would treat `1` and `1.0` as two series.
pub const SECONDS: [f64; 12] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 15.0, 60.0];

/// The same bounds in nanoseconds.
pub(crate) const NANOS: [u64; 12] = {
    let mut nanos = [0; 12];
    let mut at = 0;
    while at < 12 {
        nanos[at] = (SECONDS[at] * 1e9) as u64;
        at += 1;
    }
    nanos
};

/// The number of buckets of a histogram. The last one has no upper bound.
pub const BUCKETS: usize = SECONDS.len() + 1;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_bounds_in_nanoseconds_are_those_in_seconds() {
        for (seconds, nanos) in SECONDS.iter().zip(NANOS) {
            assert_eq!(Duration::from_secs_f64(*seconds), Duration::from_nanos(nanos));
        }
        assert!(SECONDS.is_sorted());
    }
}
