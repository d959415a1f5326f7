//! Cached documents that many clients request. A client that has the current version gets 304 without a body.

use std::sync::{Arc, Weak};

use arc_swap::ArcSwapOption;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use sha2::{Digest as _, Sha256};

/// A document with its HTTP headers.
#[derive(Debug, Clone)]
pub(super) struct HttpDocument {
    bytes: Bytes,
    kind: HeaderValue,
    tag: HeaderValue,
}

impl HttpDocument {
    /// `kind` is the media type.
    pub(super) fn new(bytes: Bytes, kind: HeaderValue) -> Self {
        let digest = openskill_proto::trace::hex(&Sha256::digest(&bytes)[..16]);
        let tag = HeaderValue::try_from(format!("\"{digest}\"")).unwrap_or(HeaderValue::from_static("\"\""));
        Self { bytes, kind, tag }
    }

    /// Responds to a request with these headers.
    pub(super) fn answer(&self, request: &HeaderMap) -> Response {
        // Clients may cache it, but must revalidate: the catalog changes, and the binary may change.
        let headers = [(header::ETAG, self.tag.clone()), (header::CACHE_CONTROL, HeaderValue::from_static("no-cache"))];
        if self.is_known(request) {
            return (StatusCode::NOT_MODIFIED, headers).into_response();
        }
        (headers, [(header::CONTENT_TYPE, self.kind.clone())], self.bytes.clone()).into_response()
    }

    /// Whether the client has this version (RFC 9110, If-None-Match).
    fn is_known(&self, request: &HeaderMap) -> bool {
        let tags =
            request.get_all(header::IF_NONE_MATCH).iter().flat_map(|value| value.as_bytes().split(|it| *it == b','));
        tags.map(<[u8]>::trim_ascii)
            .any(|tag| tag == b"*" || tag.strip_prefix(b"W/").unwrap_or(tag) == self.tag.as_bytes())
    }
}

/// A document that is generated from a source, and regenerated when the source changes. All shards share it.
#[derive(Debug)]
pub(super) struct Derived<K>(ArcSwapOption<Derivation<K>>);

#[derive(Debug)]
struct Derivation<K> {
    /// Weak, so that the cache does not keep it alive. Only its address is compared.
    source: Weak<K>,
    document: HttpDocument,
}

impl<K> Derived<K> {
    /// Creates an empty cache.
    pub(super) const fn new() -> Self {
        Self(ArcSwapOption::const_empty())
    }

    /// Returns the document for `source`. Calls `make` if the cached one has another source.
    pub(super) fn get(&self, source: &Arc<K>, make: impl FnOnce(&K) -> HttpDocument) -> HttpDocument {
        let is_current =
            |derivation: &&Arc<Derivation<K>>| std::ptr::eq(derivation.source.as_ptr(), Arc::as_ptr(source));
        if let Some(derivation) = self.0.load().as_ref().filter(is_current) {
            return derivation.document.clone();
        }
        let document = make(source);
        self.0.store(Some(Arc::new(Derivation { source: Arc::downgrade(source), document: document.clone() })));
        document
    }
}

#[cfg(test)]
impl HttpDocument {
    /// Whether both share their bytes in memory.
    pub(super) fn is_the_same(&self, other: &Self) -> bool {
        std::ptr::eq(self.bytes.as_ptr(), other.bytes.as_ptr())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(text: &'static str) -> HttpDocument {
        HttpDocument::new(Bytes::from_static(text.as_bytes()), HeaderValue::from_static("text/plain"))
    }

    fn status(document: &HttpDocument, tags: &[&str]) -> u16 {
        let mut headers = HeaderMap::new();
        for tag in tags {
            headers.append(header::IF_NONE_MATCH, tag.parse().unwrap());
        }
        document.answer(&headers).status().as_u16()
    }

    #[test]
    fn a_client_that_has_the_document_gets_no_second_one() {
        let (one, other) = (document("one"), document("other"));
        let (tag, another) = (one.tag.to_str().unwrap(), other.tag.to_str().unwrap());
        for tags in [&[tag][..], &["*"], &[&format!("W/{tag}")], &[&format!("{another}, {tag}")], &[another, tag]] {
            assert_eq!(status(&one, tags), 304, "{tags:?}");
        }
        for tags in [&[][..], &[another], &["garbage"], &[tag.trim_matches('"')]] {
            assert_eq!(status(&one, tags), 200, "{tags:?}");
        }
    }

    #[test]
    fn a_derived_document_is_made_again_only_when_its_source_changes() {
        let derived = Derived::new();
        let (first, second) = (Arc::new("first"), Arc::new("second"));
        let mut made = 0;
        for source in [&first, &first, &second, &second, &first] {
            let document = derived.get(source, |text| {
                made += 1;
                document(text)
            });
            assert_eq!(document.bytes, source.as_bytes());
        }
        assert_eq!(made, 3);
    }
}
