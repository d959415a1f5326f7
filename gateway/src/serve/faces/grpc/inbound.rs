//! Request bodies whose errors are statuses, as the generated services expect.

use http_body_util::BodyExt as _;
use http_body_util::combinators::MapErr;
use openskill_proto::v1::{ErrorCode, SkillError};
use tonic::Status;

use super::status;
use crate::serve::bodies::inbound::{Inbound, InboundError};
use crate::serve::bodies::inflate::InflateError;

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
        InboundError::Revoked => status::from_error(&SkillError::new(ErrorCode::Unauthenticated, error.to_string())),
        InboundError::OverBudget => status::from_error(&SkillError::overloaded(error.to_string())),
        InboundError::Compressed(InflateError::TooLarge) => Status::resource_exhausted(error.to_string()),
        // grpc-go returns the same status.
        InboundError::Compressed(InflateError::NotGzip) => Status::internal(error.to_string()),
        InboundError::Broken(source) => Status::from_error(source),
    }
}
