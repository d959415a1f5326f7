//! Refuses requests from web pages of other sites.
//!
//! The gateway listens on loopback without a password, and so does every browser on the machine: a page of any site could
//! send it calls (cross-site requests), or point its own name here (DNS rebinding). So a request with an `Origin`, which
//! only browsers send, must come from the gateway's own pages, under an IP address or `localhost`; and on a loopback
//! listener no request may name another host.

use std::net::{Ipv4Addr, Ipv6Addr};

use http::{HeaderMap, HeaderName, header};

const SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Whether a request does not come from another site. `authority` is that of its URI. `is_loopback`: the listener's address
/// is a loopback address.
pub(super) fn is_welcome(headers: &HeaderMap, authority: Option<&str>, is_loopback: bool) -> bool {
    let text = |name: HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    if headers.get_all(SITE).iter().any(|site| site != "same-origin" && site != "none") {
        return false;
    }
    // HTTP/2 has the host in the URI, HTTP/1 in a header.
    let host = text(header::HOST).or(authority).unwrap_or_default();
    match text(header::ORIGIN) {
        // gRPC over a unix socket or a proxy may name no host.
        None => !is_loopback || host.is_empty() || is_literal(host),
        Some(origin) => {
            let own = origin.split_once("://").is_some_and(|(_, it)| it.eq_ignore_ascii_case(host));
            own && is_literal(host)
        }
    }
}

/// An IP address or `localhost`, with or without a port: a host that nobody can point elsewhere.
fn is_literal(host: &str) -> bool {
    let (is_own, rest) = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, rest)) => (address.parse::<Ipv6Addr>().is_ok(), rest),
        None => {
            let (name, rest) = host.split_at(host.find(':').unwrap_or(host.len()));
            (name.eq_ignore_ascii_case("localhost") || name.parse::<Ipv4Addr>().is_ok(), rest)
        }
    };
    let is_port = |port: &str| port.bytes().all(|it| it.is_ascii_digit()) && port.len() <= 5;
    is_own && (rest.is_empty() || rest.strip_prefix(':').is_some_and(is_port))
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
            headers.append(*name, value.parse().unwrap());
        }
        is_welcome(&headers, None, loopback)
    }

    #[test]
    fn programs_and_the_gateways_own_pages_are_admitted() {
        assert!(welcome("127.0.0.1:8000", &[]) && welcome("localhost:8000", &[]) && welcome("[::1]:8000", &[]));
        assert!(welcome_at("gateway.internal:8000", &[], false));
        assert!(welcome("127.0.0.1:8000", &[("origin", "http://127.0.0.1:8000"), ("sec-fetch-site", "same-origin")]));
        assert!(welcome("localhost:8000", &[("origin", "http://localhost:8000")]));
    }

    #[test]
    fn pages_of_other_sites_are_refused() {
        assert!(!welcome("127.0.0.1:8000", &[("origin", "http://evil.example")]));
        assert!(!welcome("127.0.0.1:8000", &[("origin", "null")]));
        assert!(!welcome("127.0.0.1:8000", &[("origin", "http://127.0.0.1:9999")]));
        assert!(!welcome("127.0.0.1:8000", &[("sec-fetch-site", "cross-site")]));
        assert!(!welcome("127.0.0.1:8000", &[("sec-fetch-site", "none"), ("sec-fetch-site", "cross-site")]));
        // The names point here, but they are not ours.
        assert!(!welcome("evil.example:8000", &[]));
        assert!(!welcome("evil.example:8000", &[("origin", "http://evil.example:8000")]));
    }

    #[test]
    fn only_a_whole_host_is_a_literal() {
        for host in ["127.0.0.1", "LOCALHOST:1", "[::1]", "[::1]:65535", "192.0.2.7:8000", "localhost:"] {
            assert!(is_literal(host), "{host}");
        }
        for host in [
            "[::1].evil.example",
            "[::1]evil:8000",
            "[::1",
            "::1",
            "[127.0.0.1]",
            "127.0.0.1.evil.example",
            "127.0.0.1:8000.evil.example",
            "localhost.evil.example:8000",
            "localhost:8000@evil.example",
            "user@localhost",
            "0x7f000001",
            "127.1",
            "",
        ] {
            assert!(!is_literal(host), "{host}");
        }
    }
}
