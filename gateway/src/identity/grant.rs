//! What one request may do: the rights of its credential, while the credential is valid.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::identified::Identified;

/// The rights of one request.
#[derive(Debug)]
pub(crate) struct Grant {
    pub(crate) identified: Arc<Identified>,
    is_admitted: AtomicBool,
}

impl Grant {
    pub(crate) fn new(identified: Arc<Identified>) -> Arc<Self> {
        Arc::new(Self { identified, is_admitted: AtomicBool::new(false) })
    }

    /// Records that the request was admitted as a call.
    pub(crate) fn note_admitted(&self) {
        self.is_admitted.store(true, Ordering::Release);
    }

    /// Whether the request was admitted as a call. If so, its client gets the result even if the credential ends.
    pub(crate) fn is_admitted(&self) -> bool {
        self.is_admitted.load(Ordering::Acquire)
    }
}
