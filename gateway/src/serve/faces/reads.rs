//! Responses to requests that exceed their principal's share.

use http::{Extensions, HeaderMap, Response};
use openskill_proto::v1::{Blame, ErrorCode, SkillError};

use super::grpc::{protocol, status};
use super::rest::{answer, body};
use crate::serve::bodies::outbound::ResponseBody;
use crate::serve::layers::bodies::RefusalFormat;
use crate::serve::layers::request_context;
use crate::state::limits::SharedLimit;

/// Refuses a request that exceeds its principal's share.
pub(crate) fn refuse(limit: SharedLimit, headers: &HeaderMap, extensions: &Extensions) -> Response<ResponseBody> {
    let what = limit.name();
    let message = format!("this caller has used its share of {what}, or all are in use: end some, or try again later");
    let error = SkillError::overloaded(message);
    if protocol::has_grpc_type(headers) {
        return status::from_error(&error).into_http::<tonic::body::Body>().map(ResponseBody::Grpc);
    }
    answer(body::error(&error, &request_context(extensions).trace.id))
}

/// Builds the response that replaces one that exceeds its principal's share.
pub(crate) fn too_much(format: &RefusalFormat) -> Response<ResponseBody> {
    let message = "the response was dropped: this caller, or others, have too many unread responses. Read them first";
    // It may be the response to a call, which must not be retried automatically.
    let error = SkillError { may_have_run: true, ..SkillError::new(ErrorCode::OutputTooLarge, message) };
    let error = error.with_blame(Blame::Gateway);
    match format {
        RefusalFormat::Grpc => status::from_error(&error).into_http::<tonic::body::Body>().map(ResponseBody::Grpc),
        RefusalFormat::Rest(trace_id) => answer(body::error(&error, trace_id)),
    }
}
