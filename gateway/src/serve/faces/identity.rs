//! What the faces know of requests that need a key, and how they refuse those without one.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Response, header};
use http_body::Frame;
use openskill_proto::render;
use openskill_proto::v1::admin_service_server::SERVICE_NAME as ADMIN;
use openskill_proto::v1::trace_service_server::SERVICE_NAME as TRACES;
use openskill_proto::v1::{ErrorCode, SkillError};

use super::grpc::methods::is_server_streaming;
use super::grpc::{protocol, status};
use super::rest::{answer, body};
use crate::serve::bodies::outbound::Answer;
use crate::serve::layers::identity::{Denied, Rules, StreamKind};
use crate::serve::resource::METADATA;

/// The rules of all listeners.
pub(crate) const RULES: Rules = Rules {
    is_open,
    is_administration,
    is_change,
    is_insight,
    is_stream: is_server_streaming,
    events,
    is_grpc: protocol::has_grpc_type,
    refuse,
    last,
};

/// The same text whatever is wrong: missing, malformed, unknown, expired, revoked.
const UNAUTHENTICATED: &str = "this gateway needs a valid API key or token: send it as 'authorization: Bearer …'";

const NOT_ADMIN: &str = "only administrators may call this: use a key of a principal with admin = true";

const ENDED: &str =
    "the key or token of this request was revoked or has expired, or its policy has changed: send a new request";

/// Probes have no keys, and learn nothing but whether the gateway is ready. Nor has a browser that asks what it may send, or a
/// client that asks where to get a token.
fn is_open(method: &Method, headers: &HeaderMap, path: &str) -> bool {
    let is_preflight = *method == Method::OPTIONS && headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
    let is_metadata = path.strip_prefix(METADATA).is_some_and(|rest| rest.is_empty() || rest.starts_with("/mcp"));
    is_preflight || is_metadata || matches!(path, "/healthz" | "/readyz") || path.starts_with("/grpc.health.v1.Health/")
}

fn is_administration(path: &str) -> bool {
    method(path, ADMIN).is_some()
}

fn is_change(path: &str) -> bool {
    matches!(method(path, ADMIN), Some("Drain" | "ResetCircuits"))
}

/// What else administrators alone may read, and the recorded calls, of which others see their own.
fn is_insight(path: &str) -> bool {
    let is_rest = path.strip_prefix("/traces").is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    is_rest || method(path, TRACES).is_some() || (is_administration(path) && !is_change(path))
}

fn method<'a>(path: &'a str, service: &str) -> Option<&'a str> {
    path.strip_prefix('/')?.strip_prefix(service)?.strip_prefix('/')
}

fn events(path: &str) -> StreamKind {
    let is_mcp = path.strip_prefix("/mcp").is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    if is_mcp { StreamKind::JsonRpc } else { StreamKind::ServerSentEvents }
}

fn refuse(denied: Denied, is_grpc: bool, trace_id: &str) -> Response<Answer> {
    let error = match denied {
        Denied::Ended => credential_error(),
        Denied::Unauthenticated => SkillError::new(ErrorCode::Unauthenticated, UNAUTHENTICATED),
        Denied::NotAdmin => SkillError::new(ErrorCode::PermissionDenied, NOT_ADMIN),
    };
    if is_grpc {
        return status::of(&error).into_http::<tonic::body::Body>().map(Answer::Grpc);
    }
    let mut refusal = answer(body::error(&error, trace_id));
    if denied != Denied::NotAdmin {
        refusal.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    refusal
}

/// Why a request ends with its credential. What it began may have run.
fn credential_error() -> SkillError {
    SkillError { may_have_run: true, ..SkillError::new(ErrorCode::Unauthenticated, ENDED) }
}

fn last(kind: StreamKind, trace_id: &str) -> Frame<Bytes> {
    let error = credential_error();
    match kind {
        StreamKind::Grpc => {
            let mut trailers = HeaderMap::new();
            // It fails only for a message that is no header value, and that one is encoded.
            let _ = status::of(&error).add_header(&mut trailers);
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
        // The stream may be that of any request, or of none.
        StreamKind::JsonRpc => Frame::data(format!(": {}\n\n", error.message).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_health_is_open() {
        let none = HeaderMap::new();
        let open = |path: &str| is_open(&Method::GET, &none, path);
        let metadata = [METADATA.to_owned(), format!("{METADATA}/mcp"), format!("{METADATA}/mcp/a")];
        assert!(metadata.iter().all(|it| open(it)) && !open(&format!("{METADATA}x")));
        for path in ["/healthz", "/readyz", "/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch"] {
            assert!(open(path), "{path}");
        }
        for path in
            ["/", "/docs", "/openapi.json", "/metrics", "/skills", "/healthz/x", "/grpc.health.v1.Healthy/Check"]
        {
            assert!(!open(path), "{path}");
        }
        assert!(!is_open(&Method::OPTIONS, &none, "/skills"));
    }

    #[test]
    fn administration_is_told_from_what_only_sounds_like_it() {
        assert!(is_administration("/openskill.v1.AdminService/ListWorkers"));
        assert!(!is_administration("/openskill.v1.AdminServiceX/ListWorkers"));
        assert!(is_change("/openskill.v1.AdminService/Drain") && !is_change("/openskill.v1.AdminService/ListWorkers"));
        for path in
            ["/openskill.v1.AdminService/ListCircuits", "/openskill.v1.TraceService/GetTrace", "/traces", "/traces/t-1"]
        {
            assert!(is_insight(path), "{path}");
        }
        for path in ["/openskill.v1.AdminService/Drain", "/openskill.v1.SkillService/Invoke", "/tracesx", "/skills"] {
            assert!(!is_insight(path), "{path}");
        }
    }

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
