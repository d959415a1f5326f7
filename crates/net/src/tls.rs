//! TLS by rustls: who serves with which certificate, whom a client trusts, and how both change while the process runs.
//!
//! - [`server`]: accepting connections; [`named`]: only from clients with a certain name; [`handshakes`]: many at once
//! - [`client`]: opening connections; `shown`: the certificate that a client shows; [`inspect`]: looking at the certificate of a server
//! - [`reload`]: files that are read again when they change; [`pem`]: what they contain
//! - [`facts`]: what a certificate says about itself; [`expiry`]: the time at which it ends
//! - [`stream`]: a connection, encrypted or not
//!
//! Both ends use the same provider of cryptography, `ring`, and no provider that another library installs.

use std::sync::Arc;

use rustls::crypto::CryptoProvider;

pub mod client;
pub mod expiry;
pub mod facts;
pub mod handshakes;
pub mod inspect;
pub mod named;
pub mod pem;
pub mod reload;
pub mod server;
mod shown;
pub mod stream;

/// The cryptography of all connections.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}
