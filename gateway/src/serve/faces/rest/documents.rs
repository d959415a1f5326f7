//! Documents: bytes that many clients get, kept once. A client that has the current one gets 304 without a body.

use std::sync::{Arc, Weak};

use arc_swap::ArcSwapOption;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use sha2::{Digest as _, Sha256};

/// A document as it is served.
#[derive(Debug, Clone)]
pub(super) struct Document {
    bytes: Bytes,
    kind: HeaderValue,
    tag: HeaderValue,
}

impl Document {
    /// `kind`: the media type.
    pub(super) fn new(bytes: Bytes, kind: HeaderValue) -> Self {
        let digest = openskill_proto::trace::hex(&Sha256::digest(&bytes)[..16]);
        let tag = HeaderValue::try_from(format!("\"{digest}\"")).unwrap_or(HeaderValue::from_static("\"\""));
        Self { bytes, kind, tag }
    }

    /// The answer to a request with these headers.
    pub(super) fn answer(&self, request: &HeaderMap) -> Response {
        // Kept, but asked about each time: the catalog changes, and so does the binary.
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

/// A document that is made of something else, and made again when that changes. The shards share it.
#[derive(Debug)]
pub(super) struct Derived<K>(ArcSwapOption<Made<K>>);

#[derive(Debug)]
struct Made<K> {
    /// Only known by its address: whoever asks last must not keep it alive.
    source: Weak<K>,
    document: Document,
}

impl<K> Derived<K> {
    /// Nothing has been asked for yet.
    pub(super) const fn new() -> Self {
        Self(ArcSwapOption::const_empty())
    }

    /// The document of `source`.
    pub(super) fn get(&self, source: &Arc<K>, make: impl FnOnce(&K) -> Document) -> Document {
        let is_current = |made: &&Arc<Made<K>>| std::ptr::eq(made.source.as_ptr(), Arc::as_ptr(source));
        if let Some(made) = self.0.load().as_ref().filter(is_current) {
            return made.document.clone();
        }
        let document = make(source);
        self.0.store(Some(Arc::new(Made { source: Arc::downgrade(source), document: document.clone() })));
        document
    }
}

#[cfg(test)]
impl Document {
    /// Whether both are the same bytes in memory.
    pub(super) fn is_the_same(&self, other: &Self) -> bool {
        std::ptr::eq(self.bytes.as_ptr(), other.bytes.as_ptr())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(text: &'static str) -> Document {
        Document::new(Bytes::from_static(text.as_bytes()), HeaderValue::from_static("text/plain"))
    }

    fn status(document: &Document, tags: &[&str]) -> u16 {
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
