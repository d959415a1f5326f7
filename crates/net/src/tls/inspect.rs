//! Inspects a server's certificate, even an untrusted one.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rustls::client::danger::{ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, Error};
use rustls_platform_verifier::Verifier;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::certificate_info::CertificateInfo;
use super::{pem, provider};

/// The timeout for connecting and the handshake together.
const TIMEOUT: Duration = Duration::from_secs(5);

/// What an inspection found.
#[derive(Debug, Clone)]
pub struct Inspection {
    /// The server's certificate. `None` if the server presented none, or a malformed one.
    pub certificate: Option<CertificateInfo>,
    /// The reason why the connection failed. `None` if it succeeded.
    pub failure: Option<String>,
}

/// Connects to a server and reports its certificate. `authorities` are the trusted ones, in PEM. `None` trusts the
/// system's authorities.
///
/// # Errors
/// The authorities cannot be parsed.
pub async fn inspect(host: &str, port: u16, authorities: Option<&[u8]>) -> Result<Inspection, String> {
    let inner: Arc<dyn ServerCertVerifier> = match authorities {
        Some(pem) => {
            let roots = Arc::new(pem::authorities(pem)?.0);
            WebPkiServerVerifier::builder_with_provider(roots, provider()).build().map_err(|it| it.to_string())?
        }
        None => Arc::new(Verifier::new(provider()).map_err(|error| error.to_string())?),
    };
    let recorder = Arc::new(CertificateRecorder { inner, certificate: Mutex::default() });
    let builder = ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| error.to_string())?;
    let verifier = Arc::clone(&recorder) as Arc<dyn ServerCertVerifier>;
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
    let certificate = recorder.certificate.lock().take();
    Ok(Inspection { certificate: certificate.and_then(|it| CertificateInfo::parse(&it)), failure })
}

/// Verifies like `inner`, and records the certificate.
#[derive(Debug)]
struct CertificateRecorder {
    inner: Arc<dyn ServerCertVerifier>,
    certificate: Mutex<Option<Vec<u8>>>,
}

impl ServerCertVerifier for CertificateRecorder {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        *self.certificate.lock() = Some(certificate.to_vec());
        self.inner.verify_server_cert(certificate, intermediates, name, ocsp_response, now)
    }

    forward_signature_checks!();
}
