//! How much a test does: enough to find a fault by default, and much more in `make soak`.

/// If it is set, tests repeat things as often as about an hour allows.
const VARIABLE: &str = "OPENSKILL_TEST_SOAK";

/// How often to repeat something: `quick` times by default.
pub fn count(quick: usize, soak: usize) -> usize {
    if std::env::var_os(VARIABLE).is_some() { soak } else { quick }
}
