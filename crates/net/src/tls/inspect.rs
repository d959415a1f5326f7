//! Looks at the certificate of a server, whether it can be trusted or not.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, SignatureScheme};
use rustls_platform_verifier::Verifier;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::facts::Facts;
use super::{pem, provider};

/// How long it may take.
const TIMEOUT: Duration = Duration::from_secs(5);

/// What was found.
#[derive(Debug, Clone)]
pub struct Inspection {
    /// What the server's certificate says. None: it showed none, or a malformed one.
    pub facts: Option<Facts>,
    /// Why there is no connection. None: there is one.
    pub failure: Option<String>,
}

/// Connects, and says what the server shows. `authorities`: those in PEM that are trusted; none means those of the system.
///
/// # Errors
/// The authorities can't be used.
pub async fn inspect(host: &str, port: u16, authorities: Option<&[u8]>) -> Result<Inspection, String> {
    let trusted: Arc<dyn ServerCertVerifier> = match authorities {
        Some(pem) => {
            let roots = Arc::new(pem::authorities(pem)?.0);
            WebPkiServerVerifier::builder_with_provider(roots, provider()).build().map_err(|it| it.to_string())?
        }
        None => Arc::new(Verifier::new(provider()).map_err(|error| error.to_string())?),
    };
    let seen = Arc::new(Seen { trusted, certificate: Mutex::default() });
    let builder = ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| error.to_string())?;
    let verifier = Arc::clone(&seen) as Arc<dyn ServerCertVerifier>;
    let mut config = builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    config.resumption = Resumption::disabled();
    let connecting = async {
        let name = ServerName::try_from(host.to_owned()).map_err(std::io::Error::other)?;
        let stream = TcpStream::connect((host, port)).await?;
        TlsConnector::from(Arc::new(config)).connect(name, stream).await.map(drop)
    };
    let failure = match tokio::time::timeout(TIMEOUT, connecting).await {
        Ok(Ok(())) => None,
        Ok(Err(error)) => Some(error.to_string()),
        Err(_) => Some(format!("it did not answer within {} s", TIMEOUT.as_secs())),
    };
    let certificate = seen.certificate.lock().unwrap_or_else(PoisonError::into_inner).take();
    Ok(Inspection { facts: certificate.and_then(|it| Facts::read(&it)), failure })
}

/// Decides as `trusted` does, and keeps the certificate.
#[derive(Debug)]
struct Seen {
    trusted: Arc<dyn ServerCertVerifier>,
    certificate: Mutex<Option<Vec<u8>>>,
}

impl ServerCertVerifier for Seen {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        *self.certificate.lock().unwrap_or_else(PoisonError::into_inner) = Some(certificate.to_vec());
        self.trusted.verify_server_cert(certificate, intermediates, name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.trusted.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.trusted.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.trusted.supported_verify_schemes()
    }
}
