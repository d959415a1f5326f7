//! Reads bounded request bodies, and writes refusals.

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use http_body::Body as _;
use http_body_util::BodyExt as _;
use openskill_proto::limits::MAX_REQUEST_BYTES;
use openskill_proto::render;
use openskill_proto::v1::{ErrorCode, PreparedCall, SkillError, SkillResult};
use tonic::{Code, Status};

use crate::serve::layers::encoding::is_grpc;
use crate::serve::layers::request_context;

/// The maximum number of bytes that are read from an oversized body and discarded.
const MAX_DISCARDED_BYTES: usize = 8 * MAX_REQUEST_BYTES;

const JSON: (header::HeaderName, HeaderValue) = (header::CONTENT_TYPE, HeaderValue::from_static("application/json"));

/// Refuses a request that is not a call.
pub(super) fn refuse(code: ErrorCode, message: impl Into<String>, request: &Request) -> Response {
    error(&SkillError::new(code, message), &trace_id(request))
}

/// Refuses a request with another status than that of the error's code.
fn refuse_with_status(status: StatusCode, code: ErrorCode, message: &str, trace_id: &str) -> Response {
    (status, [JSON], render::refusal(&SkillError::new(code, message), trace_id)).into_response()
}

/// Converts an error to the response to a request that is not a call.
pub(crate) fn error(error: &SkillError, trace_id: &str) -> Response {
    with_status_of(Some(error), render::refusal(error, trace_id))
}

/// Builds a response from JSON text.
pub(super) fn json(text: String) -> Response {
    ([JSON], text).into_response()
}

/// Renders a result, with the HTTP status of its error.
pub(super) fn result(result: &SkillResult) -> Response {
    let text = if result.rendered_json.is_empty() { render::result(result) } else { result.rendered_json.clone() };
    with_status_of(result.error.as_ref(), text)
}

/// Renders a prepared call, with the HTTP status of its error.
pub(super) fn prepared_call(prepared: &PreparedCall, trace_id: &str) -> Response {
    with_status_of(prepared.error.as_ref(), render::prepared_call(prepared, trace_id))
}

fn with_status_of(error: Option<&SkillError>, json: String) -> Response {
    let status = error.map_or(200, |error| error.code().meaning().http);
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = (status, [JSON], json).into_response();
    if let Some(error) = error.filter(|it| it.retry_after_ms > 0) {
        let retry_after_s = error.retry_after_ms.div_ceil(1000);
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(retry_after_s));
    }
    response
}

/// Why a body was not read.
#[derive(Debug)]
pub(crate) struct BodyError {
    pub(crate) status: StatusCode,
    pub(crate) code: ErrorCode,
    pub(crate) message: String,
}

impl BodyError {
    fn new(status: StatusCode, code: ErrorCode, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into() }
    }
}

/// Reads a JSON body within the limit. Accepts the media type that `curl -d` sends as JSON, and refuses all others.
///
/// # Errors
/// The body can't be read. The error is the response.
pub(super) async fn read(request: Request, trace_id: &str) -> Result<Bytes, Box<Response>> {
    let (parts, body) = request.into_parts();
    let read = bytes(&parts.headers, body).await;
    read.map_err(|it| Box::new(refuse_with_status(it.status, it.code, &it.message, trace_id)))
}

/// Reads a bounded body, for a face that writes its own refusals.
pub(crate) async fn bytes(headers: &HeaderMap, body: Body) -> Result<Bytes, BodyError> {
    if !is_json(headers) {
        let message = "the body must be JSON: send 'Content-Type: application/json'";
        return Err(BodyError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, ErrorCode::InvalidArgument, message));
    }
    let expects = headers.contains_key(header::EXPECT);
    if body.size_hint().lower() > MAX_REQUEST_BYTES as u64 {
        if !expects {
            discard(body).await;
        }
        return Err(too_large());
    }
    to_bytes(body, MAX_REQUEST_BYTES).await.map_err(|error| read_error(&error))
}

/// Explains why a body could not be read to its end.
fn read_error(error: &axum::Error) -> BodyError {
    let mut causes = std::iter::successors(std::error::Error::source(error), |cause| (*cause).source());
    if causes.clone().any(|cause| cause.is::<http_body_util::LengthLimitError>()) {
        return too_large();
    }
    let is_full = |status: &Status| status.code() == Code::ResourceExhausted;
    match causes.find_map(|cause| cause.downcast_ref::<Status>()).filter(|status| is_full(status)) {
        Some(status) => BodyError::new(StatusCode::SERVICE_UNAVAILABLE, ErrorCode::Overloaded, status.message()),
        None => {
            let message = "the body is incomplete, or took too long to arrive";
            BodyError::new(StatusCode::BAD_REQUEST, ErrorCode::InvalidArgument, message)
        }
    }
}

fn too_large() -> BodyError {
    let message = format!("the body is over {MAX_REQUEST_BYTES} bytes");
    BodyError::new(StatusCode::PAYLOAD_TOO_LARGE, ErrorCode::InvalidArgument, message)
}

/// Reads and discards the rest of a body, within limits: a client that is disconnected while it sends may not see
/// the response.
async fn discard(mut body: Body) {
    let mut left = MAX_DISCARDED_BYTES;
    while let Some(Ok(frame)) = body.frame().await {
        let length = frame.data_ref().map_or(0, Bytes::len);
        if length > left {
            return;
        }
        left -= length;
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let Some(value) = headers.get(header::CONTENT_TYPE) else { return true };
    let Ok(value) = value.to_str() else { return false };
    let kind = value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    kind == "application/json" || kind.ends_with("+json") || kind == "application/x-www-form-urlencoded"
}

/// Responds to an unknown path: with a status over gRPC, with a body over REST.
pub(super) async fn no_route(request: Request) -> Response {
    if is_grpc(request.headers()) {
        return Status::unimplemented("there is no such method: use reflection to list them").into_http();
    }
    refuse(ErrorCode::NotFound, "there is no such path: GET /openapi.json lists all paths", &request)
}

/// Responds to a known path with a wrong method. The router adds the `Allow` header.
pub(super) async fn method_not_allowed(request: Request) -> Response {
    let message = "this path does not support this method: GET /docs lists its methods";
    refuse_with_status(StatusCode::METHOD_NOT_ALLOWED, ErrorCode::InvalidArgument, message, &trace_id(&request))
}

/// Responds to a wrong method where the router can't know the allowed ones.
pub(super) fn not_allowed(request: &Request, methods: &'static str) -> Response {
    let message = format!("this path supports only {methods}");
    let status = StatusCode::METHOD_NOT_ALLOWED;
    let refusal = refuse_with_status(status, ErrorCode::InvalidArgument, &message, &trace_id(request));
    ([(header::ALLOW, HeaderValue::from_static(methods))], refusal).into_response()
}

/// Returns the trace id of a request.
fn trace_id(request: &Request) -> String {
    request_context(request.extensions()).trace.id
}
