//! A connection to a gateway. Its requests carry the credentials and headers of the settings. Cheap to clone.

use std::time::Duration;

use http::header::AUTHORIZATION;
use http::uri::InvalidUri;
use http::{Request, Response, Uri};
use openskill_net::dial::Dial;
use tonic::body::Body;
use tonic::transport::{self, Endpoint};
use tower::ServiceExt as _;
use tower::util::BoxCloneService;

use crate::exit::Failure;
use crate::settings::Settings;

pub(crate) type Channel = BoxCloneService<Request<Body>, Response<Body>, transport::Error>;

/// Connects to the configured gateway.
///
/// # Errors
/// The gateway is unreachable or untrusted, or a file in the settings is unusable.
pub(crate) async fn connect(settings: &Settings, timeout: Duration) -> Result<Channel, Failure> {
    let dial = dial(settings)?;
    let endpoint = endpoint(&settings.base_url)?.connect_timeout(timeout);
    let (authorization, headers) = (settings.access.authorization()?, settings.access.headers.clone());
    let connected = endpoint.connect_with_connector(dial).await;
    let channel = connected.map_err(|error| unreachable(&settings.base_url, &error))?;
    Ok(BoxCloneService::new(channel.map_request(move |mut request: Request<Body>| {
        for (name, value) in &headers {
            request.headers_mut().append(name.clone(), value.clone());
        }
        if let Some(authorization) = &authorization {
            request.headers_mut().insert(AUTHORIZATION, authorization.clone());
        }
        request
    })))
}

/// Builds the endpoint for a gateway URL.
///
/// The endpoint's address always has the scheme `http`, since [`Dial`] handles TLS: for an `https` address, tonic
/// would add a second TLS layer. Requests keep the scheme of the URL.
///
/// # Errors
/// The text is not a gateway URL.
pub(crate) fn endpoint(url: &str) -> Result<Endpoint, Failure> {
    let origin: Uri = url.parse().map_err(|error: InvalidUri| Failure::gateway(url, error.to_string()))?;
    let host = origin.host().ok_or_else(|| Failure::gateway(url, "has no host"))?;
    let port = origin.port_u16().unwrap_or(if origin.scheme_str() == Some("https") { 443 } else { 80 });
    let address = Endpoint::from_shared(format!("http://{host}:{port}"));
    let address = address.map_err(|error| Failure::gateway(url, error.to_string()))?;
    Ok(address.origin(origin))
}

/// Builds the connector for the gateway. It uses TLS if the gateway's URL is `https`.
///
/// # Errors
/// A file in the settings is unusable.
pub(crate) fn dial(settings: &Settings) -> Result<Dial, Failure> {
    let is_https = settings.base_url.starts_with("https:");
    let tls = is_https.then(|| settings.tls.connector()).transpose()?;
    Ok(Dial { tls })
}

fn unreachable(url: &str, error: &transport::Error) -> Failure {
    let other = || "is unreachable: start one with `openskill up`, or set another URL with --url".to_owned();
    Failure::gateway(url, tls_reason(error).unwrap_or_else(other))
}

const NEEDS_CERTIFICATE: &str = "requires a client certificate: set one with --cert and --key";

/// Returns the reason if TLS caused an error. Returns `None` for other errors.
pub(crate) fn tls_reason(error: &(dyn std::error::Error + 'static)) -> Option<String> {
    use rustls::{AlertDescription, CertificateError, Error};
    let causes = || std::iter::successors(Some(error), |error| (*error).source());
    let found = causes().flat_map(|cause| {
        let within = cause.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        let within = within.and_then(|it| it.downcast_ref::<Error>());
        within.or_else(|| cause.downcast_ref::<Error>())
    });
    let Some(found) = found.last() else {
        // An HTTP/2 error keeps only the text of its cause.
        return causes().any(|it| it.to_string().contains("CertificateRequired")).then(|| NEEDS_CERTIFICATE.to_owned());
    };
    Some(match found {
        Error::InvalidCertificate(CertificateError::UnknownIssuer | CertificateError::BadSignature) => {
            "has a certificate from an authority that this command does not trust: set the authority's file with --ca"
                .to_owned()
        }
        Error::InvalidCertificate(reason) => format!("presented an invalid certificate: {reason}"),
        Error::AlertReceived(AlertDescription::CertificateRequired) => NEEDS_CERTIFICATE.to_owned(),
        Error::AlertReceived(alert) => {
            format!("refused the TLS connection ({alert:?}): it may not accept the certificate of --cert")
        }
        Error::InvalidMessage(_) => "does not speak TLS: use an http:// URL".to_owned(),
        error => format!("cannot be reached over TLS: {error}"),
    })
}
