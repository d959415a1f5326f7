//! Reads bounded request bodies, and answers rejected requests with a failed result.

use axum::body::{Bytes, to_bytes};
use axum::extract::Request;
use axum::http::{Extensions, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use http_body::Body as _;
use openskill_proto::limits::MAX_REQUEST_BYTES;
use openskill_proto::render;
use openskill_proto::trace::Trace;
use openskill_proto::v1::SkillError;

use crate::faces::refusal::invalid;

const JSON: (header::HeaderName, HeaderValue) = (header::CONTENT_TYPE, HeaderValue::from_static("application/json"));

/// Returns a response with JSON text.
pub(super) fn json(text: String) -> Response {
    ([JSON], text).into_response()
}

/// Returns the response for an error, with the HTTP status that belongs to its code.
pub(super) fn error(error: &SkillError, trace_id: &str) -> Response {
    let status = StatusCode::from_u16(error.code().meaning().http).unwrap_or(StatusCode::BAD_REQUEST);
    let mut response = (status, [JSON], render::refusal(error, trace_id)).into_response();
    if error.retry_after_ms > 0 {
        let seconds = HeaderValue::from(error.retry_after_ms.div_ceil(1000));
        response.headers_mut().insert(header::RETRY_AFTER, seconds);
    }
    response
}

fn refuse(status: StatusCode, message: &str, trace_id: &str) -> Response {
    (status, [JSON], render::refusal(&invalid(message), trace_id)).into_response()
}

/// Returns the trace id of the request, if an earlier layer set one.
pub(super) fn trace_id(extensions: &Extensions) -> String {
    extensions.get::<Trace>().map(|trace| trace.id.clone()).unwrap_or_default()
}

/// Reads a JSON body within the size limit. Also accepts the default content type of `curl -d` as JSON, and
/// rejects all others.
pub(super) async fn read(request: Request, trace_id: &str) -> Result<Bytes, Response> {
    if !is_json(&request) {
        let message = "the body must be JSON: send 'Content-Type: application/json'";
        return Err(refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, message, trace_id));
    }
    let too_large = || {
        let message = format!("the body is over {MAX_REQUEST_BYTES} bytes");
        refuse(StatusCode::PAYLOAD_TOO_LARGE, &message, trace_id)
    };
    let body = request.into_body();
    if body.size_hint().lower() > MAX_REQUEST_BYTES as u64 {
        return Err(too_large());
    }
    to_bytes(body, MAX_REQUEST_BYTES).await.map_err(|error| {
        let mut causes = std::iter::successors(std::error::Error::source(&error), |cause| (*cause).source());
        if causes.any(|cause| cause.is::<http_body_util::LengthLimitError>()) {
            return too_large();
        }
        let message = "the body is incomplete, or took too long to arrive";
        refuse(StatusCode::BAD_REQUEST, message, trace_id)
    })
}

fn is_json(request: &Request) -> bool {
    let Some(value) = request.headers().get(header::CONTENT_TYPE) else { return true };
    let kind = value.to_str().unwrap_or_default().split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    kind == "application/json" || kind.ends_with("+json") || kind == "application/x-www-form-urlencoded"
}
