//! Rejects ambiguous request heads. If a proxy and the gateway read different hosts, or disagree about where a body
//! ends (request smuggling), the proxy's checks are bypassed.

use http::uri::Authority;
use http::{HeaderMap, HeaderValue, Uri, Version, header};

/// Returns why a request head is rejected. None if it is unambiguous.
pub(super) fn fault(version: Version, uri: &Uri, headers: &HeaderMap) -> Option<&'static str> {
    host_fault(version, uri, headers).or_else(|| {
        let is_repeated = headers.get_all(header::ORIGIN).iter().count() > 1;
        let has_odd_encoding = has_odd_encoding(headers);
        is_repeated.then_some("the request has several Origin headers: send one").or_else(|| {
            has_odd_encoding.then_some("the Transfer-Encoding can't be read: send 'chunked' once, or a Content-Length")
        })
    })
}

fn host_fault(version: Version, uri: &Uri, headers: &HeaderMap) -> Option<&'static str> {
    let mut hosts = headers.get_all(header::HOST).iter();
    let Some(host) = hosts.next() else {
        return (version == Version::HTTP_11).then_some("the request has no Host header: HTTP/1.1 requires one");
    };
    if hosts.next().is_some() {
        return Some("the request has several Host headers: send one");
    }
    if !is_host(host) {
        return Some("the Host header can't be read: send HOST or HOST:PORT");
    }
    let differs = |it: &Authority| !it.as_str().as_bytes().eq_ignore_ascii_case(host.as_bytes());
    uri.authority().is_some_and(differs).then_some("the Host header and the host of the URI differ: send the same")
}

/// Whether the value is a host with or without a port. It may be empty if the URI has no host.
fn is_host(value: &HeaderValue) -> bool {
    let is_authority = |text: &str| !text.contains('@') && text.parse::<Authority>().is_ok();
    value.to_str().is_ok_and(|text| text.is_empty() || is_authority(text))
}

/// Whether the request has a transfer encoding other than a single `chunked`, which is the only supported one.
fn has_odd_encoding(headers: &HeaderMap) -> bool {
    let mut encodings = headers.get_all(header::TRANSFER_ENCODING).iter();
    let is_chunked = |value: &HeaderValue| value.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked");
    encodings.next().is_some_and(|first| !is_chunked(first)) || encodings.next().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault_of(version: Version, uri: &str, given: &[(&'static str, &str)]) -> Option<&'static str> {
        let mut headers = HeaderMap::new();
        for (name, value) in given {
            headers.append(*name, value.parse().unwrap());
        }
        fault(version, &uri.parse().unwrap(), &headers)
    }

    fn is_refused(given: &[(&'static str, &str)], word: &str) {
        let fault = fault_of(Version::HTTP_11, "/", given);
        assert!(fault.is_some_and(|it| it.contains(word)), "{given:?}: {fault:?}");
    }

    #[test]
    fn usual_heads_are_fine() {
        let host = ("host", "localhost:8000");
        for given in [
            &[host][..],
            &[("host", "")],
            &[("host", "[::1]:8000")],
            &[host, ("origin", "http://localhost:8000"), ("transfer-encoding", " Chunked ")],
        ] {
            assert_eq!(fault_of(Version::HTTP_11, "/", given), None, "{given:?}");
        }
        assert_eq!(fault_of(Version::HTTP_10, "/", &[]), None);
        assert_eq!(fault_of(Version::HTTP_2, "http://localhost:8000/", &[]), None);
        assert_eq!(fault_of(Version::HTTP_2, "http://LOCALHOST:8000/", &[host]), None);
    }

    #[test]
    fn a_host_is_named_once_and_whole() {
        is_refused(&[], "no Host");
        is_refused(&[("host", "a"), ("host", "a")], "several Host");
        is_refused(&[("host", "a, b")], "can't be read");
        is_refused(&[("host", "user@a")], "can't be read");
        for version in [Version::HTTP_11, Version::HTTP_2] {
            let fault = fault_of(version, "http://localhost:8000/", &[("host", "evil.example")]);
            assert!(fault.is_some_and(|it| it.contains("differ")), "{fault:?}");
        }
    }

    #[test]
    fn several_origins_and_odd_encodings_are_refused() {
        let host = ("host", "a");
        is_refused(&[host, ("origin", "http://a"), ("origin", "http://b")], "several Origin");
        for encodings in [&["chunked, chunked"][..], &["chunked", "chunked"], &["gzip, chunked"], &["identity"], &[""]]
        {
            let given: Vec<_> = encodings.iter().map(|it| ("transfer-encoding", *it)).chain([host]).collect();
            is_refused(&given, "Transfer-Encoding");
        }
    }
}
