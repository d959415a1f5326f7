//! Trusts only peers whose certificate has a certain name and is signed by an authority.
//!
//! The authority of a mesh signs the certificates of both gateways and workers. Without the name check, each
//! worker could call every other worker. The name is a role, so a wildcard, which stands for hosts, does not match
//! it.

use std::sync::Arc;

use rustls::client::danger::{ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DistinguishedName, Error};

use super::certificate_info::{CertificateInfo, has_dns_name};

/// Verifies clients like `inner`, and requires the name among the alternative names of their certificate.
#[derive(Debug)]
pub(super) struct NamedClients {
    pub(super) inner: Arc<dyn ClientCertVerifier>,
    pub(super) name: ServerName<'static>,
}

impl ClientCertVerifier for NamedClients {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.inner.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let verified = self.inner.verify_client_cert(certificate, intermediates, now)?;
        verify_server_name(&ParsedCertificate::try_from(certificate)?, &self.name)?;
        check_role(certificate, &self.name)?;
        Ok(verified)
    }

    forward_signature_checks!();
}

/// Verifies servers like `inner`, including the host name, and requires that the certificate contains the role
/// name itself, not a wildcard.
#[derive(Debug)]
pub(super) struct NamedServers {
    pub(super) inner: Arc<WebPkiServerVerifier>,
}

impl ServerCertVerifier for NamedServers {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified = self.inner.verify_server_cert(certificate, intermediates, name, ocsp_response, now)?;
        check_role(certificate, name)?;
        Ok(verified)
    }

    forward_signature_checks!();
}

/// Checks that the DNS names of a certificate include exactly this name. Ignores a trailing dot, which makes a name absolute.
fn check_role(certificate: &CertificateDer<'_>, name: &ServerName<'_>) -> Result<(), Error> {
    let role = name.to_str();
    if has_dns_name(certificate, role.strip_suffix('.').unwrap_or(&role)) {
        return Ok(());
    }
    let presented = CertificateInfo::parse(certificate).map(|it| it.names).unwrap_or_default();
    Err(Error::InvalidCertificate(CertificateError::NotValidForNameContext { expected: name.to_owned(), presented }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a certificate from `tests/fixtures/tls`.
    fn fixture(name: &str) -> CertificateDer<'static> {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/tls/");
        super::super::pem::chain(&std::fs::read(format!("{path}{name}")).unwrap()).unwrap().remove(0)
    }

    /// Whether a certificate is accepted for a role: as a server certificate, and as a client certificate.
    fn counts(certificate: &str, role: &str) -> [bool; 2] {
        let (certificate, role) = (fixture(certificate), ServerName::try_from(role.to_owned()).unwrap());
        let mut roots = rustls::RootCertStore::empty();
        roots.add(fixture("authority.pem")).unwrap();
        let (roots, provider) = (Arc::new(roots), super::super::provider());
        let now = UnixTime::now();
        let inner = WebPkiServerVerifier::builder_with_provider(roots.clone(), provider.clone()).build().unwrap();
        let as_server = NamedServers { inner }.verify_server_cert(&certificate, &[], &role, &[], now);
        let inner = rustls::server::WebPkiClientVerifier::builder_with_provider(roots, provider).build().unwrap();
        let as_client = NamedClients { inner, name: role }.verify_client_cert(&certificate, &[], now);
        [as_server.is_ok(), as_client.is_ok()]
    }

    #[test]
    fn a_role_is_a_name_as_a_whole_and_no_wildcard_common_name_or_uri() {
        assert_eq!(counts("server.pem", "localhost"), [true; 2]);
        assert_eq!(counts("server.pem", "LocalHost."), [true; 2]);
        for role in ["worker.openskill.internal", "gateway.openskill.internal"] {
            // The certificate has `*.openskill.internal`, and the role as its common name and as a URI.
            assert_eq!(counts("wildcard.pem", role), [false; 2], "{role}");
        }
        assert_eq!(counts("wildcard.pem", "other.openskill.internal"), [false; 2]);
    }
}
