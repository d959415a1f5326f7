//! What a process that serves many calls writes may hold what any of them gave it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether a process was given secrets. From then on, only the length of what it writes is logged. Clones are of one process:
/// its calls note it, and whoever logs for it asks.
#[derive(Debug, Clone, Default)]
pub(crate) struct GivenSecrets(Arc<AtomicBool>);

impl GivenSecrets {
    /// Before a call is given to the process: whether it has secrets.
    pub(crate) fn note(&self, has_secrets: bool) {
        if has_secrets {
            self.0.store(true, Ordering::Release);
        }
    }

    /// Whether any call had some.
    pub(crate) fn any(&self) -> bool {
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
