//! Connections from client commands to a gateway.

use std::error::Error as _;
use std::time::Duration;

use openskill_proto::limits::MAX_RESULT_BYTES;
use openskill_proto::longrunning::operations_client::OperationsClient;
use openskill_proto::v1::admin_service_client::AdminServiceClient;
use openskill_proto::v1::operation_service_client::OperationServiceClient;
use openskill_proto::v1::skill_service_client::SkillServiceClient;
use openskill_proto::v1::trace_service_client::TraceServiceClient;
use tonic::{Code, Status};

use crate::channel::{self, Channel, tls_reason};
use crate::exit::Failure;
use crate::settings::Settings;

/// The timeout of a connection attempt.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

pub(super) async fn connect(settings: &Settings) -> Result<Channel, Failure> {
    channel::connect(settings, CONNECT_TIMEOUT).await
}

/// Connects a SkillService client.
pub(super) async fn skills(settings: &Settings) -> Result<SkillServiceClient<Channel>, Failure> {
    let client = SkillServiceClient::new(connect(settings).await?);
    Ok(client.max_decoding_message_size(3 * MAX_RESULT_BYTES))
}

/// Connects an AdminService client.
pub(super) async fn admin(settings: &Settings) -> Result<AdminServiceClient<Channel>, Failure> {
    Ok(AdminServiceClient::new(connect(settings).await?).max_decoding_message_size(3 * MAX_RESULT_BYTES))
}

/// Connects a TraceService client.
pub(super) async fn traces(settings: &Settings) -> Result<TraceServiceClient<Channel>, Failure> {
    Ok(TraceServiceClient::new(connect(settings).await?).max_decoding_message_size(3 * MAX_RESULT_BYTES))
}

/// Connects an OperationService client, which begins and follows operations.
pub(super) async fn operation_service(settings: &Settings) -> Result<OperationServiceClient<Channel>, Failure> {
    Ok(OperationServiceClient::new(connect(settings).await?).max_decoding_message_size(3 * MAX_RESULT_BYTES))
}

/// Connects a `google.longrunning.Operations` client, which reads and manages operations.
pub(super) async fn operations(settings: &Settings) -> Result<OperationsClient<Channel>, Failure> {
    Ok(OperationsClient::new(connect(settings).await?).max_decoding_message_size(3 * MAX_RESULT_BYTES))
}

/// Converts gateway statuses into errors.
pub(super) fn into_failure(settings: &Settings) -> impl Fn(Status) -> Failure {
    let url = settings.base_url.clone();
    move |status| failure(&url, &status)
}

/// Distinguishes a gateway that rejects the request from one that is unreachable.
fn failure(url: &str, status: &Status) -> Failure {
    let (code, message) = (status.code(), status.message());
    // The connection failed: no gateway sent this status.
    let is_broken = status.source().is_some();
    if let Some(reason) = tls_reason(status) {
        return Failure::gateway(url, reason);
    }
    match code {
        // Either an older gateway, or the public address of a gateway that serves AdminService at another address.
        Code::Unimplemented => {
            let reason = "does not serve this command at this address: if AdminService has a separate address, set it with --url";
            Failure::gateway(url, reason)
        }
        // The gateway is draining or shutting down.
        Code::Unavailable if !is_broken => Failure::gateway(url, format!("is not available: {message}")),
        Code::Unavailable | Code::Unknown | Code::Cancelled | Code::Internal => {
            // A TLS gateway does not answer plain text with HTTP/2.
            let is_plain = is_broken && url.starts_with("http://");
            let hint = if is_plain { "; if this address speaks TLS, use an https:// URL" } else { "" };
            Failure::gateway(url, format!("failed: {message} ({code:?}){hint}"))
        }
        Code::Unauthenticated => {
            let reason =
                format!("{message}; this command sends the key or token from OPENSKILL_TOKEN, --token or --token-file");
            Failure::refused(url, reason)
        }
        _ => Failure::refused(url, format!("{message} ({code:?})")),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn plain_text_to_a_gateway_that_may_speak_tls_gets_a_hint() {
        let hints = |url: &str, status: &Status| match failure(url, status) {
            Failure::NotReady(reason) => reason.contains("use an https:// URL"),
            other => panic!("{other:?}"),
        };
        for code in [Code::Unknown, Code::Internal, Code::Cancelled, Code::Unavailable] {
            let mut status = Status::new(code, "broken");
            assert!(!hints("http://localhost:1", &status), "a gateway says it: {code:?}");
            status.set_source(Arc::new(std::io::Error::other("the connection broke")));
            assert!(hints("http://localhost:1", &status) && !hints("https://localhost:1", &status), "{code:?}");
        }
    }

    #[test]
    fn only_a_missing_gateway_counts_as_one() {
        let is_missing = |code| matches!(failure("", &Status::new(code, "")), Failure::NotReady(_));
        for code in [Code::Unavailable, Code::Unimplemented, Code::Unknown] {
            assert!(is_missing(code), "{code:?}");
        }
        for code in [Code::NotFound, Code::Unauthenticated, Code::FailedPrecondition, Code::ResourceExhausted] {
            assert!(!is_missing(code), "{code:?}");
        }
    }
}
