//! How much a test does: enough to find a fault by default, and much more in `make soak`.

/// Set: tests that repeat something do it as often as they can in an hour or so.
const VARIABLE: &str = "OPENSKILL_TEST_SOAK";

/// How often to repeat something: `quick` times by default.
pub fn count(quick: usize, soak: usize) -> usize {
    if std::env::var_os(VARIABLE).is_some() { soak } else { quick }
}
