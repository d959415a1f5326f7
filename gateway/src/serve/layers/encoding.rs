//! Negotiates how gRPC messages are compressed.
//!
//! Like grpc-go, the gateway compresses responses only for clients that compress their own messages. Many clients
//! always accept gzip, although compressing small responses only adds latency.

use http::{HeaderMap, HeaderName, HeaderValue, Request, header};
use openskill_proto::metadata::{GRPC_ACCEPT_ENCODING, GRPC_ENCODING};

/// The encoding of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// The messages are not compressed.
    Identity,
    Gzip {
        /// Whether the client also accepts gzip in the response.
        in_kind: bool,
    },
    /// An encoding that the service refuses.
    Unknown,
}

const ENCODING: HeaderName = HeaderName::from_static(GRPC_ENCODING);
const ACCEPTED: HeaderName = HeaderName::from_static(GRPC_ACCEPT_ENCODING);

impl Encoding {
    /// Reads the encoding headers, and removes gzip from them, because the services get uncompressed messages.
    pub(crate) fn take<B>(request: &mut Request<B>) -> Self {
        let headers = request.headers_mut();
        match headers.get(ENCODING).map(HeaderValue::as_bytes) {
            None | Some(b"identity") => Self::Identity,
            Some(b"gzip") if is_grpc(headers) => {
                headers.remove(ENCODING);
                Self::Gzip { in_kind: accepts_gzip(headers) }
            }
            Some(_) => Self::Unknown,
        }
    }

    /// Adds the encoding to the response headers. Returns true if its messages must be compressed.
    pub(crate) fn answer(self, headers: &mut HeaderMap) -> bool {
        if self == Self::Identity || !is_grpc(headers) {
            return false;
        }
        headers.insert(ACCEPTED, HeaderValue::from_static("identity,gzip"));
        // A response whose headers contain a status has no messages.
        let is_deflated = self == (Self::Gzip { in_kind: true }) && !headers.contains_key("grpc-status");
        if is_deflated {
            headers.insert(ENCODING, HeaderValue::from_static("gzip"));
        }
        is_deflated
    }
}

/// Whether a request or a response has gRPC's media type.
pub(crate) fn is_grpc(headers: &HeaderMap) -> bool {
    headers.get(header::CONTENT_TYPE).is_some_and(|it| it.as_bytes().starts_with(b"application/grpc"))
}

/// Whether the content type is `application/grpc` or `application/grpc+proto`, with or without parameters. False
/// for gRPC-Web and other encodings.
pub(crate) fn has_grpc_type(headers: &HeaderMap) -> bool {
    let Some(Ok(kind)) = headers.get(header::CONTENT_TYPE).map(HeaderValue::to_str) else { return false };
    let kind = kind.split(';').next().unwrap_or_default().trim_end();
    ["application/grpc", "application/grpc+proto"].iter().any(|it| it.eq_ignore_ascii_case(kind))
}

fn accepts_gzip(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(ACCEPTED).iter().filter_map(|it| it.to_str().ok());
    accepted.flat_map(|it| it.split(',')).any(|it| it.trim() == "gzip")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(given: &[(&'static str, &'static str)]) -> Request<()> {
        let mut request = Request::new(());
        for (name, value) in given {
            request.headers_mut().append(*name, HeaderValue::from_static(value));
        }
        request
    }

    #[test]
    fn only_clients_that_send_gzip_are_answered_in_gzip() {
        let (grpc, accept) = (("content-type", "application/grpc+proto"), (GRPC_ACCEPT_ENCODING, "identity, gzip"));
        for (given, expected) in [
            (&[grpc, accept][..], Encoding::Identity),
            (&[grpc, accept, (GRPC_ENCODING, "identity")], Encoding::Identity),
            (&[grpc, accept, (GRPC_ENCODING, "gzip")], Encoding::Gzip { in_kind: true }),
            (&[grpc, (GRPC_ENCODING, "gzip")], Encoding::Gzip { in_kind: false }),
            (&[grpc, accept, (GRPC_ENCODING, "zstd")], Encoding::Unknown),
            (&[("content-type", "application/json"), (GRPC_ENCODING, "gzip")], Encoding::Unknown),
        ] {
            let mut request = request(given);
            let encoding = Encoding::take(&mut request);
            assert_eq!(encoding, expected, "{given:?}");
            let is_left = request.headers().contains_key(GRPC_ENCODING);
            assert_eq!(is_left && expected != Encoding::Identity, expected == Encoding::Unknown, "{given:?}");
            let mut answer =
                HeaderMap::from_iter([(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"))]);
            let is_deflated = encoding.answer(&mut answer);
            assert_eq!(is_deflated, expected == Encoding::Gzip { in_kind: true });
            assert_eq!(answer.contains_key(GRPC_ENCODING), is_deflated);
            assert_eq!(answer.contains_key(GRPC_ACCEPT_ENCODING), expected != Encoding::Identity);
        }
    }

    #[test]
    fn an_answer_without_messages_says_what_is_accepted_and_nothing_more() {
        let mut answer = HeaderMap::new();
        assert!(!Encoding::Unknown.answer(&mut answer) && answer.is_empty(), "no gRPC");
        answer.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        answer.insert("grpc-status", HeaderValue::from_static("8"));
        assert!(!Encoding::Gzip { in_kind: true }.answer(&mut answer));
        assert_eq!(answer[GRPC_ACCEPT_ENCODING], "identity,gzip");
    }
}
