//! Refuses requests before they reach a face, and ends streams whose key ended, in the format of each face.

use axum::body::Body;
use bytes::Bytes;
use http::{Extensions, HeaderMap, HeaderValue, Response, header};
use http_body::Frame;
use openskill_proto::render;
use openskill_proto::v1::{Blame, ErrorCode, SkillError};

use super::grpc::status;
use super::rest::{answer, body};
use crate::serve::layers::encoding::has_grpc_type;
use crate::serve::layers::origin::Foreign;
use crate::serve::layers::request_context;
use crate::serve::layers::screen::RejectReason;
use crate::state::limits::SharedLimit;

/// Why the credentials of a request do not admit it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Denied {
    /// It has no valid credentials. The response does not tell what is wrong with them.
    Unauthenticated,
    /// Its credentials ended before the response began.
    Ended,
    /// The caller is not an administrator.
    NotAdmin,
}

/// Determines the format of a stream's last frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StreamKind {
    Grpc,
    ServerSentEvents,
    /// JSON lines.
    Lines,
    /// JSON-RPC messages.
    JsonRpc,
}

/// Deliberately the same text for every reason: missing, malformed, unknown, expired, revoked.
const UNAUTHENTICATED: &str = "this gateway needs a valid API key or token: send it as 'authorization: Bearer …'";

const NOT_ADMIN: &str = "only administrators may call this: use a key of a principal with admin = true";

const ENDED: &str =
    "the key or token of this request was revoked or has expired, or its policy has changed: send a new request";

const OTHER_SITE: &str =
    "a web page of another site may not call this gateway: to allow it, list its origin in OPENSKILL_ALLOWED_ORIGINS";

const OTHER_HOST: &str = "the request names a host that may belong to another site: if this gateway is served under that \
                          name, list it in OPENSKILL_ALLOWED_HOSTS";

fn respond(error: &SkillError, is_grpc: bool, trace_id: &str) -> Response<Body> {
    if is_grpc { status::response(error) } else { answer(body::error(error, trace_id)) }
}

/// Refuses a request because of its head.
pub(crate) fn reject(reason: RejectReason, headers: &HeaderMap, extensions: &Extensions) -> Response<Body> {
    let (code, message) = match reason {
        RejectReason::Malformed(fault) => (ErrorCode::InvalidArgument, fault),
        RejectReason::Foreign(Foreign::Site) => (ErrorCode::PermissionDenied, OTHER_SITE),
        RejectReason::Foreign(Foreign::Host) => (ErrorCode::PermissionDenied, OTHER_HOST),
    };
    let is_grpc = code == ErrorCode::PermissionDenied && has_grpc_type(headers);
    let mut refusal = respond(&SkillError::new(code, message), is_grpc, &request_context(extensions).trace.id);
    if let RejectReason::Malformed(_) = reason {
        // Close the connection: the start of its next request is unknown.
        refusal.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    refusal
}

/// Refuses a request because of its credentials. `is_grpc`: it came over gRPC.
pub(crate) fn deny(denied: Denied, is_grpc: bool, trace_id: &str) -> Response<Body> {
    let error = match denied {
        Denied::Ended => credential_error(),
        Denied::Unauthenticated => SkillError::new(ErrorCode::Unauthenticated, UNAUTHENTICATED),
        Denied::NotAdmin => SkillError::new(ErrorCode::PermissionDenied, NOT_ADMIN),
    };
    let mut refusal = respond(&error, is_grpc, trace_id);
    if !is_grpc && denied != Denied::NotAdmin {
        refusal.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    refusal
}

/// Refuses a request that exceeds its principal's share.
pub(crate) fn shed(limit: SharedLimit, headers: &HeaderMap, extensions: &Extensions) -> Response<Body> {
    let what = limit.name();
    let message = format!("this caller has used its share of {what}, or all are in use: end some, or try again later");
    let error = SkillError::overloaded(message);
    respond(&error, has_grpc_type(headers), &request_context(extensions).trace.id)
}

/// Builds the response that replaces one that exceeds its principal's share.
pub(crate) fn too_much(is_grpc: bool, trace_id: &str) -> Response<Body> {
    let message = "the response was dropped: this caller, or others, have too many unread responses. Read them first";
    // It may be the response to a call, which must not be retried automatically.
    let error = SkillError { may_have_run: true, ..SkillError::new(ErrorCode::OutputTooLarge, message) };
    respond(&error.with_blame(Blame::Gateway), is_grpc, trace_id)
}

/// The error for a request whose credential ended while it ran. The skill may have run.
fn credential_error() -> SkillError {
    SkillError { may_have_run: true, ..SkillError::new(ErrorCode::Unauthenticated, ENDED) }
}

/// Builds the last frame of a stream whose key was revoked or has expired.
pub(crate) fn last(kind: StreamKind, trace_id: &str) -> Frame<Bytes> {
    let error = credential_error();
    match kind {
        StreamKind::Grpc => {
            let mut trailers = HeaderMap::new();
            // Only an invalid header value makes this fail, and this message is encoded.
            let _ = status::from_error(&error).add_header(&mut trailers);
            Frame::trailers(trailers)
        }
        StreamKind::ServerSentEvents => {
            let data = render::refusal(&error, trace_id);
            Frame::data(format!("event: error\ndata: {data}\n\n").into())
        }
        StreamKind::Lines => {
            let data = render::refusal(&error, trace_id);
            Frame::data(format!("{{\"event\":\"error\",\"data\":{data}}}\n").into())
        }
        // A comment, because the stream may not belong to any request.
        StreamKind::JsonRpc => Frame::data(format!(": {}\n\n", error.message).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_ends_with_a_status_or_an_event() {
        let trailers = last(StreamKind::Grpc, "t").into_trailers().unwrap();
        assert_eq!(trailers["grpc-status"], "16");
        let event = last(StreamKind::ServerSentEvents, "t").into_data().unwrap();
        let event = std::str::from_utf8(&event).unwrap();
        assert!(event.starts_with("event: error\ndata: {") && event.ends_with("}\n\n"), "{event}");
        assert_eq!(event.lines().count(), 3);
    }
}
