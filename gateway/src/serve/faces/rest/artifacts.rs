//! `GET /artifacts/{handle}` and `GET /operations/{id}/artifacts/{number}`: an artifact, as a whole or in part (RFC 9110,
//! single range).

use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use futures_util::stream;
use openskill_proto::v1::{ErrorCode, ReadArtifactRequest, ReadArtifactResponse, SkillError};

use super::body;
use crate::call::principal::Principal;
use crate::gateway::Shard;
use crate::serve::artifacts;
use crate::serve::layers::request_context;

pub(crate) async fn read(
    State(shard): State<Shard>,
    handle: Result<Path<String>, PathRejection>,
    request: Request,
) -> Response {
    // A handle that is not UTF-8 matches no artifact.
    respond(shard, handle.map_or_else(|_| String::new(), |Path(handle)| handle), request).await
}

pub(crate) async fn read_from_operation(
    State(shard): State<Shard>,
    path: Result<Path<(String, String)>, PathRejection>,
    request: Request,
) -> Response {
    let handle =
        path.map_or_else(|_| String::new(), |Path((id, number))| format!("operations/{id}/artifacts/{number}"));
    respond(shard, handle, request).await
}

async fn respond(shard: Shard, handle: String, request: Request) -> Response {
    let context = request_context(request.extensions());
    let reader = Reader { shard, principal: context.principal, handle };
    // A read of the first byte also returns the size.
    let first = match reader.read(0, 1).await {
        Ok(first) => first,
        Err(error) => return body::error(&error, &context.trace.id),
    };
    let size = first.size_bytes;
    let headers = request.headers();
    let tag = entity_tag(&first);
    if tag.as_ref().is_some_and(|it| headers.get(header::IF_NONE_MATCH) == Some(it)) {
        let mut response = StatusCode::NOT_MODIFIED.into_response();
        response.headers_mut().extend(tag.map(|it| (header::ETAG, it)));
        return response;
    }
    // The part of other content would not fit what the client has.
    let has_other = headers.get(header::IF_RANGE).is_some_and(|it| tag.as_ref() != Some(it));
    match if has_other { Some((0, size)) } else { range(headers, size) } {
        Some((begin, end)) => reader.respond(&first, begin, end),
        None => {
            let message = format!("the artifact has {size} bytes: the range is outside of it");
            let error = SkillError::new(ErrorCode::InvalidArgument, message);
            let mut response = body::error(&error, &context.trace.id);
            *response.status_mut() = StatusCode::RANGE_NOT_SATISFIABLE;
            set(&mut response, header::CONTENT_RANGE, &format!("bytes */{size}"));
            response
        }
    }
}

struct Reader {
    shard: Shard,
    principal: Principal,
    handle: String,
}

impl Reader {
    async fn read(&self, offset: u64, length: u64) -> Result<ReadArtifactResponse, SkillError> {
        let range = ReadArtifactRequest { handle: self.handle.clone(), offset, length };
        artifacts::read(&self.shard, &self.principal, range).await
    }

    /// Streams the bytes from `begin` up to `end`, exclusive.
    fn respond(self, about: &ReadArtifactResponse, begin: u64, end: u64) -> Response {
        let (size, is_all) = (about.size_bytes, begin == 0 && end == about.size_bytes);
        let pieces = stream::try_unfold((self, begin), move |(reader, offset)| async move {
            if offset >= end {
                return Ok::<_, std::io::Error>(None);
            }
            let piece =
                reader.read(offset, end - offset).await.map_err(|error| std::io::Error::other(error.message))?;
            if piece.data.is_empty() {
                return Err(std::io::Error::other("the artifact has expired"));
            }
            let next = offset + piece.data.len() as u64;
            Ok(Some((piece.data, (reader, next))))
        });
        let mut response = Body::from_stream(pieces).into_response();
        *response.status_mut() = if is_all { StatusCode::OK } else { StatusCode::PARTIAL_CONTENT };
        set(&mut response, header::CONTENT_TYPE, &about.media_type);
        set(&mut response, header::CONTENT_LENGTH, &(end - begin).to_string());
        set(&mut response, header::ACCEPT_RANGES, "bytes");
        response.headers_mut().extend(entity_tag(about).map(|it| (header::ETAG, it)));
        // Files from skills are untrusted: a browser must neither sniff their type nor display them.
        set(&mut response, header::X_CONTENT_TYPE_OPTIONS, "nosniff");
        set(&mut response, header::CONTENT_DISPOSITION, "attachment");
        if !is_all {
            set(&mut response, header::CONTENT_RANGE, &format!("bytes {begin}-{}/{size}", end - 1));
        }
        response
    }
}

/// The SHA-256 of the content, if it is known.
fn entity_tag(about: &ReadArtifactResponse) -> Option<HeaderValue> {
    (!about.sha256.is_empty()).then(|| HeaderValue::try_from(format!("\"{}\"", about.sha256)).ok())?
}

fn set(response: &mut Response, name: header::HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
    }
}

/// Reads the `Range` header. Returns the first byte, and the one after the last. None if the range lies outside the
/// content. Ignores a malformed header, or several ranges, as the RFC allows.
fn range(headers: &HeaderMap, size: u64) -> Option<(u64, u64)> {
    let value = headers.get(header::RANGE).and_then(|value| value.to_str().ok());
    let (begin, end) = value.and_then(|it| it.strip_prefix("bytes=")?.split_once('-')).unwrap_or_default();
    match (begin.parse::<u64>(), end.parse::<u64>()) {
        (Ok(begin), Ok(end)) if begin <= end => (begin < size).then(|| (begin, end.saturating_add(1).min(size))),
        (Ok(begin), Err(_)) if end.is_empty() => (begin < size).then_some((begin, size)),
        // This many bytes at the end.
        (Err(_), Ok(count)) if begin.is_empty() => (count > 0 && size > 0).then(|| (size.saturating_sub(count), size)),
        _ => Some((0, size)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(value: &str) -> Option<(u64, u64)> {
        let mut headers = HeaderMap::new();
        headers.insert(header::RANGE, value.parse().unwrap());
        range(&headers, 100)
    }

    #[test]
    fn ranges_are_resolved_within_the_content() {
        for (value, expected) in [
            ("bytes=0-9", Some((0, 10))),
            ("bytes=90-", Some((90, 100))),
            ("bytes=90-900", Some((90, 100))),
            ("bytes=-5", Some((95, 100))),
            ("bytes=-500", Some((0, 100))),
            ("bytes=100-", None),
            ("bytes=-0", None),
            ("bytes=9-0", Some((0, 100))),
            ("bytes=0-1,5-6", Some((0, 100))),
            ("pages=1-2", Some((0, 100))),
        ] {
            assert_eq!(of(value), expected, "{value}");
        }
    }
}
