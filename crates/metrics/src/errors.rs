//! Counts errors by code and blame. Only failed calls are counted here, so a lock is cheap enough.

use parking_lot::Mutex;

use crate::metric::OTHER;

/// The maximum number of separately counted pairs of code and blame per skill. All other pairs share one count,
/// because a skill chooses its own codes.
pub const MOST_KINDS: usize = 24;

/// The number of occurrences of each error.
#[derive(Debug, Default)]
pub struct Errors(Mutex<Vec<ErrorCount>>);

/// A code, a blame, and the number of errors with both.
pub type ErrorCount = (&'static str, &'static str, u64);

impl Errors {
    /// Adds one to the count of an error.
    pub fn add(&self, code: &'static str, blame: &'static str) {
        let mut kinds = self.0.lock();
        let known = |kinds: &[ErrorCount], code, blame| kinds.iter().position(|it| (it.0, it.1) == (code, blame));
        let at = known(&kinds, code, blame);
        let (code, blame) = if at.is_none() && kinds.len() >= MOST_KINDS { (OTHER, OTHER) } else { (code, blame) };
        match at.or_else(|| known(&kinds, code, blame)) {
            Some(at) => kinds[at].2 += 1,
            None => kinds.push((code, blame, 1)),
        }
    }

    /// Returns the counts of all errors that occurred.
    pub fn read(&self) -> Vec<ErrorCount> {
        self.0.lock().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_counted_by_kind_and_those_past_the_bound_together() {
        const CODES: [&str; 30] = ["x"; 30];
        let errors = Errors::default();
        for _ in 0..2 {
            errors.add("TIMEOUT", "skill");
            errors.add("TIMEOUT", "caller");
        }
        assert_eq!(errors.read(), [("TIMEOUT", "skill", 2), ("TIMEOUT", "caller", 2)]);
        for (at, code) in CODES.iter().enumerate() {
            let code: &'static str = Box::leak(format!("{code}{at}").into_boxed_str());
            errors.add(code, "skill");
        }
        let read = errors.read();
        assert_eq!(read.len(), MOST_KINDS + 1);
        assert_eq!(read.last(), Some(&(OTHER, OTHER, 32 - MOST_KINDS as u64)));
    }
}
