//! The certificate that a client shows, and whether a server has asked for one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustls::SignatureScheme;
use rustls::client::ResolvesClientCert;
use rustls::sign::CertifiedKey;

/// Shows a certificate, or none, to servers that ask for one.
#[derive(Debug, Default)]
pub(super) struct Shown {
    own: Option<Arc<CertifiedKey>>,
    was_asked: AtomicBool,
}

impl Shown {
    pub(super) fn new(own: Option<CertifiedKey>) -> Self {
        Self { own: own.map(Arc::new), was_asked: AtomicBool::new(false) }
    }

    /// Whether a server has asked.
    pub(super) fn was_asked(&self) -> bool {
        self.was_asked.load(Ordering::Relaxed)
    }
}

impl ResolvesClientCert for Shown {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.was_asked.store(true, Ordering::Relaxed);
        self.own.clone()
    }

    fn has_certs(&self) -> bool {
        // Also with none: or it would not be told that a server asks.
        true
    }
}
