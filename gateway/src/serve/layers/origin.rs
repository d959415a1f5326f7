//! Refuses requests from web pages of other sites.
//!
//! The gateway may listen on loopback without authentication, where every browser on the machine can reach it. A
//! page of any site could send it calls (cross-site requests), or resolve its own name to loopback (DNS rebinding).
//! Only browsers send `Origin`, so a request with it must come from the gateway's own pages, under an IP address or
//! `localhost`. On a loopback listener, no request may name another host. [`Sites`] are the operator's exceptions.

use std::net::{Ipv4Addr, Ipv6Addr};

use http::{HeaderMap, HeaderName, header};

use super::sites::Sites;

const SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Why a request counts as coming from another site.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Foreign {
    /// It comes from a web page of another site.
    Site,
    /// It names a host that may belong to another site.
    Host,
}

/// Returns why a request counts as coming from another site, if it does. `authority` is the URI's. `is_loopback`:
/// the listener has a loopback address.
pub(super) fn fault(
    headers: &HeaderMap,
    authority: Option<&str>,
    is_loopback: bool,
    sites: Option<&Sites>,
) -> Option<Foreign> {
    let text = |name: HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    // HTTP/2 has the host in the URI, HTTP/1 in a header.
    let host = text(header::HOST).or(authority).unwrap_or_default();
    let is_ours = || is_literal(host) || sites.is_some_and(|sites| sites.has_host(host));
    let origin = text(header::ORIGIN);
    let is_allowed = origin.is_some_and(|origin| sites.is_some_and(|sites| sites.has_origin(origin)));
    if !is_allowed {
        if headers.get_all(SITE).iter().any(|site| site != "same-origin" && site != "none") {
            return Some(Foreign::Site);
        }
        if let Some(origin) = origin {
            let is_own = origin.split_once("://").is_some_and(|(_, it)| it.eq_ignore_ascii_case(host));
            return if !is_own { Some(Foreign::Site) } else { (!is_ours()).then_some(Foreign::Host) };
        }
    }
    // gRPC over a Unix socket or a proxy may name no host.
    let is_checked = is_loopback || sites.is_some_and(|sites| !sites.hosts.is_empty());
    (is_checked && !host.is_empty() && !is_ours()).then_some(Foreign::Host)
}

/// Whether the host is an IP address or `localhost`, with or without a port. DNS can't redirect these.
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
        fault(&headers, None, loopback, None).is_none()
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
        // The names resolve to this machine, but don't belong to the gateway.
        assert!(!welcome("evil.example:8000", &[]));
        assert!(!welcome("evil.example:8000", &[("origin", "http://evil.example:8000")]));
    }

    #[test]
    fn an_operator_admits_hosts_and_origins_and_no_others() {
        let sites = Sites {
            hosts: vec!["skills.example".into(), "a.example:81".into()],
            origins: vec!["https://app.example".into()],
        };
        let of = |host: &str, rest: &[(&'static str, &str)]| {
            let mut headers = HeaderMap::from_iter([(header::HOST, host.parse().unwrap())]);
            rest.iter().for_each(|(name, value)| drop(headers.insert(*name, value.parse().unwrap())));
            fault(&headers, None, true, Some(&sites))
        };
        let (app, cross) = (("origin", "https://app.example"), ("sec-fetch-site", "cross-site"));
        for host in ["skills.example", "SKILLS.example:8000", "a.example:81", "127.0.0.1:8000"] {
            assert_eq!(of(host, &[]), None, "{host}");
            assert_eq!(of(host, &[app, cross]), None, "a page of an allowed origin, at {host}");
        }
        assert_eq!(of("skills.example", &[("origin", "https://skills.example")]), None, "a page of its own");
        for host in ["a.example", "a.example:82", "b.skills.example", "skills.example.evil.example", "evil.example"] {
            assert_eq!(of(host, &[]), Some(Foreign::Host), "{host}");
            assert_eq!(of(host, &[app]), Some(Foreign::Host), "{host}");
        }
        for origin in ["http://app.example", "https://app.example:444", "https://evil.example", "null"] {
            assert_eq!(of("skills.example", &[("origin", origin)]), Some(Foreign::Site), "{origin}");
        }
        assert_eq!(of("skills.example", &[cross]), Some(Foreign::Site), "such as an image of another site");
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
