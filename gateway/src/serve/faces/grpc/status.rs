//! gRPC statuses with google.rpc details, for errors that only the calling program or its operator can fix.

use std::collections::HashMap;
use std::time::Duration;

use axum::body::Body;
use http::Response;
use http_body_util::BodyExt as _;
use http_body_util::combinators::MapErr;
use openskill_proto::metadata::ERROR_DOMAIN;
use openskill_proto::v1::{ErrorCode, SkillError};
use tonic::Status;
use tonic_types::{ErrorDetails, StatusExt as _};

use crate::catalog::lookup::MAY_BE_NEW;
use crate::serve::bodies::inbound::{Inbound, InboundError};
use crate::serve::bodies::inflate::InflateError;

/// Converts an error.
pub(crate) fn from_error(error: &SkillError) -> Status {
    let code = error.code();
    let mut details = ErrorDetails::new();
    let may_have_run = ("may_have_run".to_owned(), error.may_have_run.to_string());
    details.set_error_info(code.as_str_name(), ERROR_DOMAIN, HashMap::from([may_have_run]));
    if error.retryable {
        details.set_retry_info(Some(Duration::from_millis(error.retry_after_ms)));
    }
    Status::with_error_details(code.meaning().grpc.into(), error.message.clone(), details)
}

/// Builds the response that is only an error.
pub(crate) fn response(error: &SkillError) -> Response<Body> {
    from_error(error).into_http()
}

/// The status for a skill that does not exist.
pub(super) fn not_found() -> Status {
    from_error(&SkillError::new(
        ErrorCode::NotFound,
        format!("unknown skill. {MAY_BE_NEW} ListSkills lists all skills"),
    ))
}

/// A request body of the gRPC services.
pub(crate) type GrpcBody<B> = MapErr<Inbound<B>, fn(InboundError) -> Status>;

/// Turns a body's errors into statuses.
pub(crate) fn grpc_body<B>(body: Inbound<B>) -> GrpcBody<B>
where
    Inbound<B>: http_body::Body<Error = InboundError>,
{
    body.map_err(as_status)
}

fn as_status(error: InboundError) -> Status {
    match error {
        InboundError::TooSlow => Status::deadline_exceeded(error.to_string()),
        InboundError::Revoked => from_error(&SkillError::new(ErrorCode::Unauthenticated, error.to_string())),
        InboundError::OverBudget => from_error(&SkillError::overloaded(error.to_string())),
        InboundError::Compressed(InflateError::TooLarge) => Status::resource_exhausted(error.to_string()),
        // grpc-go returns the same status.
        InboundError::Compressed(InflateError::NotGzip) => Status::internal(error.to_string()),
        InboundError::Broken(source) => Status::from_error(source),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_says_whether_the_skill_may_have_run_and_when_to_retry() {
        let details = |error: &SkillError| from_error(error).get_error_details();
        let refused = details(&SkillError::overloaded("full"));
        let info = refused.error_info().unwrap();
        assert_eq!((info.reason.as_str(), info.metadata["may_have_run"].as_str()), ("OVERLOADED", "false"));
        assert!(refused.retry_info().is_some());
        let error = SkillError::new(ErrorCode::Unavailable, "lost");
        let lost = details(&SkillError { may_have_run: true, retryable: false, ..error });
        assert_eq!(lost.error_info().unwrap().metadata["may_have_run"], "true");
        assert!(lost.retry_info().is_none());
    }
}
