//! Reads the names, the issuer and the period of validity of a certificate.
//!
//! The result is only shown, for example in a log. rustls decides whether to trust a certificate.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

use rustls::pki_types::CertificateDer;

use super::expiry::{Time, Validity};

/// The maximum number of names shown.
const MAX_NAMES: usize = 8;

/// The parts of a certificate that are shown to people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateInfo {
    /// Its alternative names: DNS names, IP addresses and URIs.
    pub names: Vec<String>,
    /// The common name of the authority that signed it. Empty if the authority has no common name.
    pub issuer: String,
    /// Whether its issuer and its subject are the same.
    pub is_self_issued: bool,
    /// The start of its validity.
    pub begins: Time,
    /// The end of its validity.
    pub ends: Time,
}

impl CertificateInfo {
    /// Parses a DER certificate. Returns `None` if it is malformed.
    pub fn parse(certificate: &[u8]) -> Option<Self> {
        let mut body = Der::body(certificate)?;
        let issuer = body.take(SEQUENCE)?;
        let mut validity = Der(body.take(SEQUENCE)?);
        let (begins, ends) = (validity.time()?, validity.time()?);
        let subject = body.take(SEQUENCE)?;
        body.take(SEQUENCE)?;
        let names = body.alternative_names().into_iter().filter_map(|(tag, content)| match tag {
            DNS_NAME | URI => Some(visible(content)),
            IP_ADDRESS => address(content),
            _ => None,
        });
        let (names, is_self_issued) = (names.collect(), issuer == subject);
        Some(Self { names, issuer: common_name(issuer).unwrap_or_default(), is_self_issued, begins, ends })
    }
}

/// Whether a DER certificate has exactly this DNS name, ignoring case. Wildcards do not match.
pub(super) fn has_dns_name(certificate: &[u8], name: &str) -> bool {
    let names = || {
        let mut body = Der::body(certificate)?;
        (0..4).try_for_each(|_| body.take(SEQUENCE).map(drop))?;
        Some(body.alternative_names())
    };
    let is_name = |(tag, content): (u8, &[u8])| tag == DNS_NAME && content.eq_ignore_ascii_case(name.as_bytes());
    names().is_some_and(|names| names.into_iter().any(is_name))
}

/// Describes the first certificate of a chain on one line.
pub(super) fn describe_chain(chain: &[CertificateDer<'_>]) -> String {
    let info = chain.first().and_then(|it| CertificateInfo::parse(it));
    info.map_or_else(|| "a certificate".to_owned(), |it| it.to_string())
}

/// Returns the periods of validity of all certificates that can be parsed.
pub(super) fn validities(certificates: &[CertificateDer<'_>]) -> Vec<Validity> {
    let info = certificates.iter().filter_map(|it| CertificateInfo::parse(it));
    info.map(|CertificateInfo { begins, ends, .. }| Validity { begins, ends }).collect()
}

/// Returns the period in which all certificates of a chain are valid. `None` if no certificate can be parsed.
pub(super) fn chain_validity(chain: &[CertificateDer<'_>]) -> Option<Validity> {
    let both = |a: Validity, b: Validity| Validity { begins: a.begins.max(b.begins), ends: a.ends.min(b.ends) };
    validities(chain).into_iter().reduce(both)
}

impl fmt::Display for CertificateInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown: Vec<_> = self.names.iter().take(MAX_NAMES).map(String::as_str).collect();
        let more = if self.names.len() > MAX_NAMES { ", …" } else { "" };
        let names = if shown.is_empty() { "no name".to_owned() } else { shown.join(", ") };
        let signer = match (self.is_self_issued, self.issuer.as_str()) {
            (true, _) => "by itself".to_owned(),
            (false, "") => "by an authority without a name".to_owned(),
            (false, issuer) => format!("by '{issuer}'"),
        };
        write!(f, "for {names}{more}; signed {signer}; valid until {}", self.ends)
    }
}

const INTEGER: u8 = 0x02;
const OCTET_STRING: u8 = 0x04;
const OBJECT_ID: u8 = 0x06;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const BOOLEAN: u8 = 0x01;
const VERSION: u8 = 0xa0;
const UNIQUE_IDS: [u8; 2] = [0x81, 0x82];
const EXTENSIONS: u8 = 0xa3;

/// The tags of alternative names.
const DNS_NAME: u8 = 0x82;
const URI: u8 = 0x86;
const IP_ADDRESS: u8 = 0x87;

const COMMON_NAME: [u8; 3] = [0x55, 0x04, 0x03];
const ALTERNATIVE_NAME: [u8; 3] = [0x55, 0x1d, 0x11];

/// The unread part of a DER encoding.
#[derive(Debug, Clone, Copy)]
struct Der<'a>(&'a [u8]);

impl<'a> Der<'a> {
    /// Reads the next element. Returns its tag and its content.
    fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let (tag, rest) = self.0.split_first()?;
        let (first, mut rest) = rest.split_first()?;
        let length = match first {
            length @ 0..=0x7f => usize::from(*length),
            // The long form. Three bytes of length are enough for any certificate.
            0x81..=0x83 => {
                let (bytes, after) = rest.split_at_checked(usize::from(first & 0x7f))?;
                rest = after;
                bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte))
            }
            _ => return None,
        };
        let (content, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((*tag, content))
    }

    fn take(&mut self, tag: u8) -> Option<&'a [u8]> {
        self.next().filter(|(found, _)| *found == tag).map(|(_, content)| content)
    }

    fn skip_if(&mut self, tag: u8) {
        if self.0.first() == Some(&tag) {
            self.next();
        }
    }

    fn time(&mut self) -> Option<Time> {
        match self.next()? {
            (UTC_TIME, text) => Time::read(text, true),
            (GENERALIZED_TIME, text) => Time::read(text, false),
            _ => None,
        }
    }

    /// Returns the body of a certificate, starting at its issuer.
    fn body(certificate: &'a [u8]) -> Option<Self> {
        let mut body = Der(Der(Der(certificate).take(SEQUENCE)?).take(SEQUENCE)?);
        body.skip_if(VERSION);
        body.take(INTEGER)?;
        body.take(SEQUENCE)?;
        Some(body)
    }

    /// Returns the tags and contents of the alternative names, which follow the public key.
    fn alternative_names(mut self) -> Vec<(u8, &'a [u8])> {
        UNIQUE_IDS.into_iter().for_each(|tag| self.skip_if(tag));
        let (mut names, mut extensions) = (Vec::new(), self.take(EXTENSIONS).map(Der));
        let mut extensions = Der(extensions.as_mut().and_then(|it| it.take(SEQUENCE)).unwrap_or_default());
        while let Some(extension) = extensions.take(SEQUENCE) {
            let mut extension = Der(extension);
            if extension.take(OBJECT_ID) != Some(&ALTERNATIVE_NAME) {
                continue;
            }
            extension.skip_if(BOOLEAN);
            let mut list = Der(extension.take(OCTET_STRING).and_then(|it| Der(it).take(SEQUENCE)).unwrap_or_default());
            names.extend(std::iter::from_fn(|| list.next()));
        }
        names
    }
}

/// Returns the first common name in a distinguished name.
fn common_name(name: &[u8]) -> Option<String> {
    let mut sets = Der(name);
    while let Some(set) = sets.take(SET) {
        let mut attribute = Der(Der(set).take(SEQUENCE)?);
        if attribute.take(OBJECT_ID)? == COMMON_NAME {
            return Some(visible(attribute.next()?.1));
        }
    }
    None
}

fn address(bytes: &[u8]) -> Option<String> {
    let v4 = <[u8; 4]>::try_from(bytes).map(|it| Ipv4Addr::from(it).to_string());
    v4.or_else(|_| <[u8; 16]>::try_from(bytes).map(|it| Ipv6Addr::from(it).to_string())).ok()
}

/// Makes untrusted text safe for a terminal.
fn visible(text: &[u8]) -> String {
    String::from_utf8_lossy(text).chars().take(256).map(|it| if it.is_control() { '?' } else { it }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a fixture made with `openssl req -x509 -addext subjectAltName=...`; see `tests/fixtures/tls`.
    fn read_certificate(name: &str) -> Vec<u8> {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/tls/");
        let pem = std::fs::read(format!("{path}{name}")).unwrap();
        super::super::pem::chain(&pem).unwrap().remove(0).to_vec()
    }

    #[test]
    fn a_certificate_is_described() {
        let info = CertificateInfo::parse(&read_certificate("server.pem")).unwrap();
        assert!(info.names.iter().any(|it| it == "localhost"), "{info:?}");
        assert!(!info.is_self_issued && info.begins < info.ends, "{info:?}");
        assert!(info.to_string().contains("valid until 2"), "{info}");
        assert!(CertificateInfo::parse(&read_certificate("authority.pem")).unwrap().is_self_issued);
    }

    #[test]
    fn no_prefix_and_no_flipped_byte_of_a_certificate_does_harm() {
        let whole = read_certificate("server.pem");
        assert!((0..whole.len() / 2).all(|end| CertificateInfo::parse(&whole[..end]).is_none()));
        for at in 0..whole.len() {
            let mut other = whole.clone();
            other[at] ^= 0xff;
            let _ = CertificateInfo::parse(&other);
        }
    }

    #[test]
    fn a_name_is_one_of_the_dns_names_as_a_whole() {
        let certificate = read_certificate("server.pem");
        for (name, is_there) in [
            ("localhost", true),
            ("LOCALHOST", true),
            ("localhost.", false),
            ("ocalhost", false),
            ("127.0.0.1", false),
            ("openskill tests: server", false),
        ] {
            assert_eq!(has_dns_name(&certificate, name), is_there, "{name}");
        }
        assert!(!has_dns_name(&read_certificate("wildcard.pem"), "worker.openskill.internal"));
        assert!(has_dns_name(&read_certificate("wildcard.pem"), "*.openskill.internal"));
        assert!(!has_dns_name(&certificate[..certificate.len() / 2], "localhost"));
    }
}
