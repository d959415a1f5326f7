//! The certificate that a client presents on request.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustls::SignatureScheme;
use rustls::client::ResolvesClientCert;
use rustls::sign::CertifiedKey;

/// Presents the client's certificate, if it has one, to servers that request it. Remembers the request.
#[derive(Debug, Default)]
pub(super) struct ClientCertResolver {
    own: Option<Arc<CertifiedKey>>,
    was_asked: AtomicBool,
}

impl ClientCertResolver {
    pub(super) fn new(own: Option<CertifiedKey>) -> Self {
        Self { own: own.map(Arc::new), was_asked: AtomicBool::new(false) }
    }

    /// Whether the server has requested a certificate.
    pub(super) fn was_asked(&self) -> bool {
        self.was_asked.load(Ordering::Relaxed)
    }
}

impl ResolvesClientCert for ClientCertResolver {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.was_asked.store(true, Ordering::Relaxed);
        self.own.clone()
    }

    fn has_certs(&self) -> bool {
        // True even without a certificate: otherwise rustls does not report the server's request.
        true
    }
}
