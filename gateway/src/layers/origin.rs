//! Refuses web pages of other sites.
//!
//! The gateway listens on loopback without a password, and so does every browser on the machine: a page of any site
//! could send it calls (cross-site requests), or make its own name point here (DNS rebinding). So a request with an
//! `Origin`, which only browsers send, must come from the gateway's own pages, under an address or `localhost`; and on a
//! loopback listener no request may name another host.

use http::uri::Authority;
use http::{HeaderMap, HeaderName, header};

const SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// What is known of the listener.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Listener {
    /// It listens on a loopback address.
    pub(crate) loopback: bool,
}

impl Listener {
    /// Whether a request is none of another site's. `authority`: of its URI.
    pub(crate) fn welcomes(self, headers: &HeaderMap, authority: Option<&str>) -> bool {
        let text = |name: HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
        let site = text(SITE);
        if site.is_some_and(|site| !["same-origin", "none"].contains(&site)) {
            return false;
        }
        // HTTP/2 has the host in the URI, HTTP/1 in a header.
        let host = text(header::HOST).or(authority).unwrap_or_default();
        match text(header::ORIGIN) {
            // gRPC over a unix socket or a proxy may name no host at all.
            None => !self.loopback || host.is_empty() || is_literal(host),
            Some(origin) => {
                let own = origin.split_once("://").is_some_and(|(_, it)| it.eq_ignore_ascii_case(host));
                own && is_literal(host)
            }
        }
    }
}

/// An address or `localhost`: a name that nobody can point elsewhere.
fn is_literal(host: &str) -> bool {
    let Ok(authority) = host.parse::<Authority>() else { return false };
    let host = authority.host().trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost") || host.parse::<std::net::IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn welcome(host: &str, rest: &[(&'static str, &str)]) -> bool {
        welcome_at(host, rest, true)
    }

    fn welcome_at(host: &str, rest: &[(&'static str, &str)], loopback: bool) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, host.parse().unwrap());
        for (name, value) in rest {
            headers.insert(*name, value.parse().unwrap());
        }
        Listener { loopback }.welcomes(&headers, None)
    }

    #[test]
    fn programs_and_the_gateways_own_pages_are_welcome() {
        assert!(welcome("127.0.0.1:8000", &[]) && welcome("localhost:8000", &[]) && welcome("[::1]:8000", &[]));
        assert!(welcome_at("gateway.internal:8000", &[], false));
        assert!(welcome("127.0.0.1:8000", &[("origin", "http://127.0.0.1:8000"), ("sec-fetch-site", "same-origin")]));
        assert!(welcome("localhost:8000", &[("origin", "http://localhost:8000")]));
    }

    #[test]
    fn other_sites_pages_are_not() {
        assert!(!welcome("127.0.0.1:8000", &[("origin", "http://evil.example")]));
        assert!(!welcome("127.0.0.1:8000", &[("origin", "null")]));
        assert!(!welcome("127.0.0.1:8000", &[("origin", "http://127.0.0.1:9999")]));
        assert!(!welcome("127.0.0.1:8000", &[("sec-fetch-site", "cross-site")]));
        // The names point here, but they are not ours.
        assert!(!welcome("evil.example:8000", &[]));
        assert!(!welcome("evil.example:8000", &[("origin", "http://evil.example:8000")]));
    }
}
