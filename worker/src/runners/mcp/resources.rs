//! Asks a server for the content of its prompts and resources.

use std::sync::Arc;
use std::time::{Duration, Instant};

use openskill_proto::v1::{ConsultMethod, ConsultRequest, ErrorCode, SkillError};
use openskill_sandbox::untrusted_json::{is_heavy, off_shard};
use rmcp::{Peer, RoleClient, ServiceError};
use serde_json::{Value, json};

use super::errors::TOO_LARGE;
use super::lists::ask;
use super::server::Server;
use super::texts::clean;

/// The timeout for one answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// The maximum size of an answer, in bytes.
const MAX_ANSWER_BYTES: usize = 12 * 1024 * 1024;

/// The maximum length of an error message, in bytes.
const MAX_MESSAGE_BYTES: usize = 1024;

/// Asks the server, and returns its answer with secrets masked.
///
/// # Errors
/// Returns the reason, for people, if the server is unreachable or refuses.
pub(super) async fn consult(server: Arc<Server>, request: ConsultRequest) -> Result<String, SkillError> {
    let params: Value = serde_json::from_str(&request.params_json).unwrap_or_default();
    let method = match request.method() {
        ConsultMethod::Prompt => "prompts/get",
        ConsultMethod::Read => "resources/read",
        ConsultMethod::Complete => "completion/complete",
        ConsultMethod::Subscribe => "resources/subscribe",
    };
    let until = Instant::now() + PATIENCE;
    let reserved = server.reserve(until).await.map_err(|reason| SkillError::new(ErrorCode::Unavailable, reason))?;
    if request.method() == ConsultMethod::Subscribe {
        let uri = params.get("uri").and_then(Value::as_str).unwrap_or_default();
        if !server.subscriptions.add(uri) {
            let message = "the server has too many subscriptions";
            return Err(SkillError::new(ErrorCode::Overloaded, message));
        }
    }
    let asked = tokio::time::timeout_at(until.into(), ask(&reserved.connection.peer, method, params)).await;
    match asked {
        Ok(Ok(result)) => {
            let secrets = Arc::clone(&server.secrets);
            let json = off_shard(is_heavy(&result), move || {
                let json = Some(result.to_string()).filter(|it| it.len() <= MAX_ANSWER_BYTES);
                json.map(|it| secrets.scrub_json(it))
            });
            json.await.ok_or_else(|| {
                let message = format!("the answer has more than {MAX_ANSWER_BYTES} bytes");
                SkillError::new(ErrorCode::OutputTooLarge, message)
            })
        }
        Ok(Err(ServiceError::McpError(error))) => {
            let code = match error.code.0 {
                -32002 | -32601 => ErrorCode::NotFound,
                -32602 => ErrorCode::InvalidArgument,
                TOO_LARGE => ErrorCode::OutputTooLarge,
                _ => ErrorCode::McpExecutionError,
            };
            let message = clean(&server.secrets.scrub_text(error.message.into_owned()), MAX_MESSAGE_BYTES);
            Err(SkillError::new(code, message))
        }
        Ok(Err(_)) => Err(SkillError::new(ErrorCode::Unavailable, "the connection to the server was lost")),
        Err(_) => Err(SkillError::new(ErrorCode::Unavailable, "the server did not answer in time")),
    }
}

/// Restores all subscriptions on a new connection.
pub(super) async fn subscribe_again(server: &Server, peer: &Peer<RoleClient>) {
    for uri in server.subscriptions.uris() {
        // If this fails, subscribers miss changes to the resource, but can still read it.
        let _ = tokio::time::timeout(PATIENCE, ask(peer, "resources/subscribe", json!({ "uri": uri }))).await;
        server.subscriptions.note_change(&uri);
    }
}
