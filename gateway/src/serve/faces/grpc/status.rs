//! Statuses, for what only the calling program or its operator can act on, with google.rpc details.

use std::collections::HashMap;
use std::time::Duration;

use openskill_proto::metadata::ERROR_DOMAIN;
use openskill_proto::v1::{ErrorCode, SkillError};
use tonic::Status;
use tonic_types::{ErrorDetails, StatusExt as _};

use crate::serve::streams::StreamError;

/// The status of an error.
pub(crate) fn of(error: &SkillError) -> Status {
    let code = error.code();
    let mut details = ErrorDetails::new();
    details.set_error_info(code.as_str_name(), ERROR_DOMAIN, HashMap::new());
    if error.retryable {
        details.set_retry_info(Some(Duration::from_millis(error.retry_after_ms)));
    }
    Status::with_error_details(code.meaning().grpc.into(), error.message.clone(), details)
}

/// The status that ends a stream.
pub(super) fn of_stream(error: StreamError<Status>) -> Status {
    match error {
        StreamError::Client(status) => status,
        StreamError::Gateway(error) => of(&error),
    }
}

/// There is no such skill.
pub(super) fn not_found() -> Status {
    of(&SkillError::new(ErrorCode::NotFound, "unknown skill: ListSkills lists all skills"))
}
