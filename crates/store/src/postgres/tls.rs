//! Encrypted connections to servers.
//!
//! `sslmode=require` checks the server's certificate. `prefer` does not, as in libpq: whoever can present a false
//! certificate can also claim that the server has none.

use std::io::{Error, ErrorKind, Result as IoResult};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::future::BoxFuture;
use openskill_net::tls::client::{ClientFiles, Connector};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::config::SslMode;
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_rustls::TlsConnector;

use crate::engine::StoreError;

/// Encrypts connections. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Tls {
    config: Arc<ClientConfig>,
}

impl Tls {
    /// Loads the trusted authorities: those of the file, or the system's.
    pub(super) fn load(mode: SslMode, authorities: Option<PathBuf>) -> Result<Self, StoreError> {
        let unusable = |reason: String| StoreError::Unusable(format!("its TLS settings are invalid: {reason}"));
        let mut config = if mode == SslMode::Require {
            let files = ClientFiles { authorities, identity: None };
            Connector::load("PostgreSQL", files).map_err(|error| unusable(error.to_string()))?.client_config()
        } else {
            let provider = Arc::new(rustls::crypto::ring::default_provider());
            let verifier = Arc::new(Unverified { provider: Arc::clone(&provider) });
            let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
            let builder = builder.map_err(|error| unusable(error.to_string()))?.dangerous();
            builder.with_custom_certificate_verifier(verifier).with_no_client_auth()
        };
        config.alpn_protocols = vec![b"postgresql".to_vec()];
        Ok(Self { config: Arc::new(config) })
    }
}

/// Accepts every certificate.
#[derive(Debug)]
struct Unverified {
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Unverified {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> MakeTlsConnect<S> for Tls {
    type Stream = Encrypted<S>;
    type TlsConnect = Handshake;
    type Error = Error;

    fn make_tls_connect(&mut self, host: &str) -> IoResult<Handshake> {
        Ok(Handshake { config: Arc::clone(&self.config), host: host.to_owned() })
    }
}

/// A handshake to perform with a server.
pub(super) struct Handshake {
    config: Arc<ClientConfig>,
    /// Empty for a Unix socket, whose server offers no TLS.
    host: String,
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> TlsConnect<S> for Handshake {
    type Stream = Encrypted<S>;
    type Error = Error;
    type Future = BoxFuture<'static, IoResult<Encrypted<S>>>;

    fn connect(self, stream: S) -> Self::Future {
        Box::pin(async move {
            let invalid = |_| Error::new(ErrorKind::InvalidInput, "the host is not a valid server name");
            let name = ServerName::try_from(self.host).map_err(invalid)?;
            TlsConnector::from(self.config).connect(name, stream).await.map(Encrypted)
        })
    }
}

/// An encrypted stream.
pub(super) struct Encrypted<S>(tokio_rustls::client::TlsStream<S>);

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream for Encrypted<S> {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Encrypted<S> {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<IoResult<()>> {
        Pin::new(&mut self.get_mut().0).poll_read(context, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Encrypted<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<IoResult<usize>> {
        Pin::new(&mut self.get_mut().0).poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<IoResult<()>> {
        Pin::new(&mut self.get_mut().0).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<IoResult<()>> {
        Pin::new(&mut self.get_mut().0).poll_shutdown(context)
    }
}
