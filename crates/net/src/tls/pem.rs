//! Parses certificates and keys in PEM. Pure: other modules read the files.

use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// The maximum number of certificates in one file.
const MAX_CERTIFICATES: usize = 1000;

/// Parses a certificate chain, leaf first.
///
/// # Errors
/// The file contains no certificate, a malformed certificate, or too many.
pub fn chain(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let mut found = Vec::new();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        found.push(certificate.map_err(|error| format!("it has a malformed PEM section: {error}"))?);
        if found.len() > MAX_CERTIFICATES {
            return Err(format!("it has more than {MAX_CERTIFICATES} certificates"));
        }
    }
    if found.is_empty() {
        return Err("it has no certificate in PEM ('-----BEGIN CERTIFICATE-----')".to_owned());
    }
    Ok(found)
}

/// Parses a private key: PKCS #8, PKCS #1 or SEC1. The error never contains content of the file.
///
/// # Errors
/// The file contains no private key.
pub fn key(pem: &[u8]) -> Result<PrivateKeyDer<'static>, String> {
    PrivateKeyDer::from_pem_slice(pem)
        .map_err(|_| "it has no private key in PEM ('-----BEGIN PRIVATE KEY-----')".to_owned())
}

/// Parses the authorities of a file: as a store for verification, and as certificates.
///
/// # Errors
/// The file contains no certificates, or a malformed one.
pub fn authorities(pem: &[u8]) -> Result<(RootCertStore, Vec<CertificateDer<'static>>), String> {
    let (mut roots, certificates) = (RootCertStore::empty(), chain(pem)?);
    for certificate in &certificates {
        let added = roots.add(certificate.clone());
        added.map_err(|error| format!("it has a certificate that cannot be used: {error}"))?;
    }
    Ok((roots, certificates))
}
