//! Errors by code and blame. Only calls that fail come here, so a lock is cheap enough.

use std::sync::{Mutex, PoisonError};

use crate::metric::OTHER;

/// Codes and blames of one skill that are counted each for itself. More share one series: a skill chooses its codes.
pub const MOST_KINDS: usize = 24;

/// How often each error occurred.
#[derive(Debug, Default)]
pub struct Errors(Mutex<Vec<Kind>>);

/// A code, a blame, and how often they came together.
pub type Kind = (&'static str, &'static str, u64);

impl Errors {
    /// Counts an error.
    pub fn add(&self, code: &'static str, blame: &'static str) {
        let mut kinds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = |kinds: &[Kind], code, blame| kinds.iter().position(|it| (it.0, it.1) == (code, blame));
        let at = known(&kinds, code, blame);
        let (code, blame) = if at.is_none() && kinds.len() >= MOST_KINDS { (OTHER, OTHER) } else { (code, blame) };
        match at.or_else(|| known(&kinds, code, blame)) {
            Some(at) => kinds[at].2 += 1,
            None => kinds.push((code, blame, 1)),
        }
    }

    /// All that occurred.
    pub fn read(&self) -> Vec<Kind> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
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
