//! TLS by rustls: server certificates, the authorities that clients trust, and reloading both while the process
//! runs.
//!
//! - [`server`]: accepts connections; [`named`]: only from peers with a certain name; [`handshakes`]: concurrent
//!   handshakes
//! - [`client`]: opens connections; `client_cert`: the certificate that a client presents; [`inspect`]: the
//!   certificate of a server
//! - [`reload`]: reloads files when they change; [`pem`]: parses them
//! - [`certificate_info`]: the human-readable content of a certificate; [`expiry`]: its period of validity
//! - [`stream`]: a connection, encrypted or not
//!
//! Both sides use `ring` for cryptography, even if another library installs a different provider.

use std::sync::Arc;

use rustls::crypto::CryptoProvider;

pub mod certificate_info;
pub mod client;
mod client_cert;
pub mod expiry;
pub mod handshakes;
pub mod inspect;
pub mod named;
pub mod pem;
pub mod reload;
pub mod server;
pub mod stream;

/// Returns the cryptography provider of all connections.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}
