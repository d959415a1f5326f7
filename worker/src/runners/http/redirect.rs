//! Handles redirects. Pure.
//!
//! The client itself does not follow redirects. Each target is checked like the first request; see
//! [`openskill_egress::reach`].

use openskill_egress::reach::EgressRefusal;
use openskill_proto::v1::{ErrorCode, SkillError};
use reqwest::Method;
use reqwest::header::{ACCEPT, ACCEPT_LANGUAGE, CONTENT_TYPE, USER_AGENT};
use url::Url;

use super::request::Request;

/// The maximum length of a redirect's URL, in bytes.
const MAX_LOCATION_BYTES: usize = 16 * 1024;

/// The reasons why a redirect is not followed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Broken {
    /// The egress rules forbid its target.
    #[error(transparent)]
    Refused(#[from] EgressRefusal),
    /// Its location is not a usable URL.
    #[error("the server redirected the request to an unusable URL")]
    Nowhere,
}

impl Broken {
    /// Converts this to the call's error.
    pub(super) fn into_error(self) -> SkillError {
        match self {
            Self::Refused(refusal) => super::status::error_from_refusal(&refusal),
            Self::Nowhere => SkillError::new(ErrorCode::ExecutionError, self.to_string()),
        }
    }
}

/// Returns whether this status is a redirect that the worker follows.
pub(super) fn is_redirect(status: u16) -> bool {
    matches!(status, 301 | 302 | 303 | 307 | 308)
}

/// Creates the request that follows a redirect. At another origin, it keeps only headers that can't contain a
/// credential or a caller's data.
///
/// # Errors
/// Fails if the redirect must not be followed.
pub(super) fn follow(before: Request, status: u16, location: &str) -> Result<Request, Broken> {
    if location.len() > MAX_LOCATION_BYTES {
        return Err(Broken::Nowhere);
    }
    let mut url = before.url.join(location).map_err(|_| Broken::Nowhere)?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(EgressRefusal::Scheme(url.scheme().to_owned()).into());
    }
    if before.url.scheme() == "https" && url.scheme() == "http" {
        return Err(EgressRefusal::Downgrade.into());
    }
    url.set_fragment(None);
    // A server must not choose the credentials that the worker sends.
    if url.set_username("").is_err() || url.set_password(None).is_err() {
        return Err(Broken::Nowhere);
    }
    let mut next = Request { url, ..before };
    let safe = next.method == Method::GET || next.method == Method::HEAD;
    if !safe && (status == 303 || (next.method == Method::POST && matches!(status, 301 | 302))) {
        next.method = Method::GET;
        next.body = None;
        next.headers.remove(CONTENT_TYPE);
    } else if !safe && !same_origin(&before.url, &next.url) {
        return Err(EgressRefusal::OtherOrigin.into());
    }
    if !same_origin(&before.url, &next.url) {
        let harmless = [ACCEPT, ACCEPT_LANGUAGE, USER_AGENT];
        let kept = next.headers.iter().filter(|it| harmless.contains(it.0));
        next.headers = kept.map(|(name, value)| (name.clone(), value.clone())).collect();
    }
    Ok(next)
}

/// Returns whether two URLs have the same scheme, host and port.
pub(super) fn same_origin(one: &Url, other: &Url) -> bool {
    one.origin() == other.origin()
}

#[cfg(test)]
mod tests {
    use super::super::request::RequestBody;
    use super::*;
    use bytes::Bytes;
    use reqwest::header::{AUTHORIZATION, COOKIE, HeaderMap, HeaderValue};

    fn request(method: Method, url: &str) -> Request {
        let mut headers = HeaderMap::new();
        for name in [AUTHORIZATION, COOKIE, ACCEPT, CONTENT_TYPE, "x-key".parse().unwrap()] {
            headers.insert(name, HeaderValue::from_static("x"));
        }
        let body = (method == Method::POST).then(|| RequestBody { kind: "application/json", bytes: Bytes::from("{}") });
        Request { method, url: url.parse().unwrap(), headers, body }
    }

    fn go(method: Method, from: &str, status: u16, location: &str) -> Result<Request, Broken> {
        follow(request(method, from), status, location)
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
            assert_eq!(next.unwrap_err(), Broken::Refused(EgressRefusal::OtherOrigin));
        }
    }

    #[test]
    fn a_downgrade_or_an_unusable_location_is_not_followed() {
        let down = go(Method::GET, "https://a.example/", 302, "http://a.example/");
        assert_eq!(down.unwrap_err(), Broken::Refused(EgressRefusal::Downgrade));
        for scheme in ["file:///etc/passwd", "ftp://a.example/", "javascript:alert(1)", "data:text/plain,x"] {
            let refused = go(Method::GET, "http://a.example/", 302, scheme).unwrap_err();
            assert!(matches!(refused, Broken::Refused(EgressRefusal::Scheme(_))), "{scheme}");
        }
        assert_eq!(go(Method::GET, "http://a.example/", 302, "http://[").unwrap_err(), Broken::Nowhere);
        let long = format!("/{}", "x".repeat(20_000));
        assert_eq!(go(Method::GET, "http://a.example/", 302, &long).unwrap_err(), Broken::Nowhere);
    }

    #[test]
    fn credentials_in_a_location_are_ignored() {
        let next = go(Method::GET, "http://a.example/", 302, "http://me:secret@b.example/x").unwrap();
        assert_eq!(next.url.as_str(), "http://b.example/x");
    }
}
