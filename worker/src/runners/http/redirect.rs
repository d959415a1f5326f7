//! Handles redirects. Pure.
//!
//! The client itself does not follow redirects. Each target is checked like the first request; see
//! [`openskill_net::egress::reach`].

use openskill_net::egress::reach::EgressRefusal;
use openskill_proto::v1::{ErrorCode, SkillError};
use reqwest::Method;
use reqwest::header::{ACCEPT, ACCEPT_LANGUAGE, CONTENT_TYPE, USER_AGENT};

use super::request::Request;
use super::status;

/// The maximum length of a redirect's URL, in bytes.
const MAX_LOCATION_BYTES: usize = 16 * 1024;

/// Returns whether this status is a redirect that the worker follows.
pub(super) fn is_redirect(status: u16) -> bool {
    matches!(status, 301 | 302 | 303 | 307 | 308)
}

/// Creates the request that follows a redirect. At another origin, it keeps only headers that can't contain a
/// credential or a caller's data.
///
/// # Errors
/// Fails if the redirect must not be followed.
pub(super) fn follow(before: Request, status: u16, location: &str) -> Result<Request, SkillError> {
    let refused = |refusal| Err(status::error_from_refusal(&refusal));
    let unusable =
        || SkillError::new(ErrorCode::ExecutionError, "the server redirected the request to an unusable URL");
    if location.len() > MAX_LOCATION_BYTES {
        return Err(unusable());
    }
    let mut url = before.url.join(location).map_err(|_| unusable())?;
    if !matches!(url.scheme(), "http" | "https") {
        return refused(EgressRefusal::Scheme(url.scheme().to_owned()));
    }
    if before.url.scheme() == "https" && url.scheme() == "http" {
        return refused(EgressRefusal::Downgrade);
    }
    url.set_fragment(None);
    // A server must not choose the credentials that the worker sends.
    if url.set_username("").is_err() || url.set_password(None).is_err() {
        return Err(unusable());
    }
    // The same scheme, host and port.
    let is_same_origin = before.url.origin() == url.origin();
    let mut next = Request { url, ..before };
    let safe = next.method == Method::GET || next.method == Method::HEAD;
    if !safe && (status == 303 || (next.method == Method::POST && matches!(status, 301 | 302))) {
        next.method = Method::GET;
        next.body = None;
        next.headers.remove(CONTENT_TYPE);
    } else if !safe && !is_same_origin {
        return refused(EgressRefusal::OtherOrigin);
    }
    if !is_same_origin {
        let harmless = [ACCEPT, ACCEPT_LANGUAGE, USER_AGENT];
        let kept = next.headers.iter().filter(|it| harmless.contains(it.0));
        next.headers = kept.map(|(name, value)| (name.clone(), value.clone())).collect();
    }
    Ok(next)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use reqwest::header::{AUTHORIZATION, COOKIE, HeaderMap, HeaderValue};

    fn request(method: Method, url: &str) -> Request {
        let mut headers = HeaderMap::new();
        for name in [AUTHORIZATION, COOKIE, ACCEPT, CONTENT_TYPE, "x-key".parse().unwrap()] {
            headers.insert(name, HeaderValue::from_static("x"));
        }
        let body = (method == Method::POST).then(|| Bytes::from("{}"));
        Request { method, url: url.parse().unwrap(), headers, body }
    }

    fn go(method: Method, from: &str, status: u16, location: &str) -> Result<Request, SkillError> {
        follow(request(method, from), status, location)
    }

    fn refusal(refusal: EgressRefusal) -> SkillError {
        status::error_from_refusal(&refusal)
    }

    #[test]
    fn within_an_origin_everything_is_kept() {
        let next = go(Method::POST, "http://a.example/x/y", 307, "../z?q=1#f").unwrap();
        assert_eq!((next.url.as_str(), &next.method), ("http://a.example/z?q=1", &Method::POST));
        assert!(next.body.is_some() && next.headers.len() == 5);
        let next = go(Method::GET, "http://a.example/", 308, "http://a.example:80/b").unwrap();
        assert_eq!(next.headers.len(), 5);
    }

    #[test]
    fn another_origin_sees_no_header_that_could_be_a_credential() {
        for elsewhere in
            ["http://b.example/", "http://a.example:8080/", "https://a.example/", "//b.example/", "http://a.example./"]
        {
            let next = go(Method::GET, "http://a.example/", 302, elsewhere).unwrap();
            assert_eq!(next.headers.keys().collect::<Vec<_>>(), [ACCEPT], "{elsewhere}");
        }
    }

    #[test]
    fn a_post_becomes_a_get_as_the_standard_requires() {
        for status in [301, 302, 303] {
            let next = go(Method::POST, "http://a.example/", status, "/b").unwrap();
            assert_eq!((next.method, next.body.is_none()), (Method::GET, true), "{status}");
            assert!(!next.headers.contains_key(CONTENT_TYPE), "{status}");
        }
        assert_eq!(go(Method::DELETE, "http://a.example/", 303, "/b").unwrap().method, Method::GET);
        assert_eq!(go(Method::DELETE, "http://a.example/", 302, "/b").unwrap().method, Method::DELETE);
        assert_eq!(go(Method::HEAD, "http://a.example/", 303, "/b").unwrap().method, Method::HEAD);
    }

    #[test]
    fn a_change_is_not_repeated_at_another_origin() {
        for (method, status) in [(Method::POST, 307), (Method::POST, 308), (Method::DELETE, 302), (Method::PUT, 301)] {
            let next = go(method, "http://a.example/", status, "http://b.example/");
            assert_eq!(next.unwrap_err(), refusal(EgressRefusal::OtherOrigin));
        }
    }

    #[test]
    fn a_downgrade_or_an_unusable_location_is_not_followed() {
        let down = go(Method::GET, "https://a.example/", 302, "http://a.example/");
        assert_eq!(down.unwrap_err(), refusal(EgressRefusal::Downgrade));
        for location in ["file:///etc/passwd", "ftp://a.example/", "javascript:alert(1)", "data:text/plain,x"] {
            let refused = go(Method::GET, "http://a.example/", 302, location).unwrap_err();
            let scheme = location.split(':').next().unwrap().to_owned();
            assert_eq!(refused, refusal(EgressRefusal::Scheme(scheme)));
        }
        assert_eq!(
            go(Method::GET, "http://a.example/", 302, "http://[").unwrap_err().code(),
            ErrorCode::ExecutionError
        );
        let long = format!("/{}", "x".repeat(20_000));
        assert_eq!(go(Method::GET, "http://a.example/", 302, &long).unwrap_err().code(), ErrorCode::ExecutionError);
    }

    #[test]
    fn credentials_in_a_location_are_ignored() {
        let next = go(Method::GET, "http://a.example/", 302, "http://me:secret@b.example/x").unwrap();
        assert_eq!(next.url.as_str(), "http://b.example/x");
    }
}
