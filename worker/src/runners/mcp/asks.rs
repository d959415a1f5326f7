//! Relays a server's elicitation to the caller of the call it belongs to.

use std::sync::Arc;

use rmcp::model::{ElicitRequestParams, ElicitResult, ElicitationAction, RequestId};

use super::tapped::Signs;
use crate::questions::Answer;

/// Answers the elicitation requests of one connection.
#[derive(Debug, Clone)]
pub(super) struct Asks {
    signs: Arc<Signs>,
}

impl Asks {
    pub(super) fn new(signs: Arc<Signs>) -> Self {
        Self { signs }
    }

    /// The user's answer to a form. `call`: the request that the server works on, where the transport knows it. Declined if
    /// nobody can be asked; cancelled if the call ends first.
    pub(super) async fn answer(&self, request: ElicitRequestParams, call: Option<&RequestId>) -> ElicitResult {
        let answer = match request {
            ElicitRequestParams::FormElicitationParams { message, requested_schema, .. } => {
                self.signs.taps.ask(call, message, serde_json::to_value(&requested_schema).ok()).await
            }
            _ => {
                self.signs.taps.not_asked(call);
                Answer::Unavailable("only forms can be relayed".to_owned())
            }
        };
        match answer {
            Answer::Accept(content) => {
                let content = serde_json::from_str(&content).unwrap_or_default();
                ElicitResult::new(ElicitationAction::Accept).with_content(content)
            }
            Answer::Decline | Answer::Unavailable(_) => ElicitResult::new(ElicitationAction::Decline),
            Answer::Cancel => ElicitResult::new(ElicitationAction::Cancel),
        }
    }
}
