//! Refuses requests without a valid key, and ends streams whose key ended, in the format of each face.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, header};
use http_body::Frame;
use openskill_proto::render;
use openskill_proto::v1::{ErrorCode, SkillError};

use super::grpc::{protocol, status};
use super::rest::{answer, body};
use crate::serve::bodies::outbound::ResponseBody;
use crate::serve::layers::identity::{Denied, Rules, StreamKind};

/// The protocol details that the identity layer needs.
pub(crate) const RULES: Rules = Rules { is_grpc: protocol::has_grpc_type, refuse, last };

/// Deliberately the same text for every reason: missing, malformed, unknown, expired, revoked.
const UNAUTHENTICATED: &str = "this gateway needs a valid API key or token: send it as 'authorization: Bearer …'";

const NOT_ADMIN: &str = "only administrators may call this: use a key of a principal with admin = true";

const ENDED: &str =
    "the key or token of this request was revoked or has expired, or its policy has changed: send a new request";

fn refuse(denied: Denied, is_grpc: bool, trace_id: &str) -> Response<ResponseBody> {
    let error = match denied {
        Denied::Ended => credential_error(),
        Denied::Unauthenticated => SkillError::new(ErrorCode::Unauthenticated, UNAUTHENTICATED),
        Denied::NotAdmin => SkillError::new(ErrorCode::PermissionDenied, NOT_ADMIN),
    };
    if is_grpc {
        return status::from_error(&error).into_http::<tonic::body::Body>().map(ResponseBody::Grpc);
    }
    let mut refusal = answer(body::error(&error, trace_id));
    if denied != Denied::NotAdmin {
        refusal.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    refusal
}

/// The error for a request whose credential ended while it ran. The skill may have run.
fn credential_error() -> SkillError {
    SkillError { may_have_run: true, ..SkillError::new(ErrorCode::Unauthenticated, ENDED) }
}

fn last(kind: StreamKind, trace_id: &str) -> Frame<Bytes> {
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
