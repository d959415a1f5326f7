//! gRPC statuses with google.rpc details, for errors that only the calling program or its operator can fix.

use std::collections::HashMap;
use std::time::Duration;

use openskill_proto::metadata::ERROR_DOMAIN;
use openskill_proto::v1::{ErrorCode, SkillError};
use tonic::Status;
use tonic_types::{ErrorDetails, StatusExt as _};

use crate::catalog::lookup::MAY_BE_NEW;
use crate::serve::streams::StreamError;

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

/// Converts the error that ends a stream.
pub(super) fn from_stream_error(error: StreamError<Status>) -> Status {
    match error {
        StreamError::Client(status) => status,
        StreamError::Gateway(error) => from_error(&error),
    }
}

/// The status for a skill that does not exist.
pub(super) fn not_found() -> Status {
    from_error(&SkillError::new(
        ErrorCode::NotFound,
        format!("unknown skill. {MAY_BE_NEW} ListSkills lists all skills"),
    ))
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
