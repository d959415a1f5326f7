//! TLS by rustls: server certificates, the authorities that clients trust, and reloading both while the process
//! runs.
//!
//! - [`server`]: accepts connections; [`named`]: only from peers with a certain name; [`handshakes`]: concurrent
//!   handshakes
//! - [`client`]: opens connections; [`inspect`]: the certificate of a server
//! - [`reload`]: reloads files when they change; [`pem`]: parses them
//! - [`certificate_info`]: the human-readable content of a certificate; [`expiry`]: its period of validity
//! - [`MaybeTls`]: a connection, encrypted or not
//!
//! Both sides use `ring` for cryptography, even if another library installs a different provider.

use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;
use tokio_util::either::Either;

/// Implements the checks of signatures of a certificate verifier like those of its field `inner`.
macro_rules! forward_signature_checks {
    () => {
        fn verify_tls12_signature(
            &self,
            message: &[u8],
            certificate: &rustls::pki_types::CertificateDer<'_>,
            signature: &rustls::DigitallySignedStruct,
        ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
            self.inner.verify_tls12_signature(message, certificate, signature)
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            certificate: &rustls::pki_types::CertificateDer<'_>,
            signature: &rustls::DigitallySignedStruct,
        ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
            self.inner.verify_tls13_signature(message, certificate, signature)
        }

        fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
            self.inner.supported_verify_schemes()
        }
    };
}

pub mod certificate_info;
pub mod client;
pub mod expiry;
pub mod handshakes;
pub mod inspect;
pub mod named;
pub mod pem;
pub mod reload;
pub mod server;

/// A connection in plain text (left), or encrypted (right). By default, the encrypted side is a server's.
pub type MaybeTls<T = TlsStream<TcpStream>> = Either<TcpStream, Box<T>>;

/// Returns the cryptography provider of all connections.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// Makes that provider the one of libraries that are given none.
pub fn install_provider() {
    // Fails if another thread has already installed one.
    let _ = rustls::crypto::ring::default_provider().install_default();
}
