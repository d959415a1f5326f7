//! Tracks whether the output of a process that serves many calls may contain secrets.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether a process was given secrets. If so, only the length of its output is logged. Clones share the state:
/// calls set it through one clone, and the task that logs reads it through another.
#[derive(Debug, Clone, Default)]
pub struct GivenSecrets(Arc<AtomicBool>);

impl GivenSecrets {
    /// Records whether a call has secrets. Call this before the process receives the call.
    pub fn note(&self, has_secrets: bool) {
        if has_secrets {
            self.0.store(true, Ordering::Release);
        }
    }

    /// Returns whether any call had secrets.
    pub fn any(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_without_secrets_does_not_undo_what_one_with_them_did() {
        let given = GivenSecrets::default();
        let logger = given.clone();
        let noted = [false, true, false].map(|has_secrets| {
            given.note(has_secrets);
            logger.any()
        });
        assert_eq!(noted, [false, true, true]);
    }
}
