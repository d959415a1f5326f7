//! Relays what a server asks its client for to the caller of the call it belongs to: forms, URLs, sampling and roots.

use std::sync::Arc;

use openskill_proto::v1::InputKind;
#[expect(deprecated, reason = "servers sample and ask for roots, and will for years")]
use rmcp::model::{CreateMessageRequestParams, CreateMessageResult, ListRootsResult};
use rmcp::model::{ElicitRequestParams, ElicitResult, ElicitationAction, ErrorData, RequestId};
use serde::de::DeserializeOwned;

use super::tapped::Signs;
use crate::questions::{Answer, Ask};

/// Answers the requests of one server, over one connection.
#[derive(Debug, Clone)]
pub(super) struct Asks {
    signs: Arc<Signs>,
}

impl Asks {
    pub(super) fn new(signs: Arc<Signs>) -> Self {
        Self { signs }
    }

    /// The user's answer to an elicitation. `call`: the request that the server works on, where the transport knows it.
    /// Declined if nobody can be asked; cancelled if the call ends first.
    pub(super) async fn answer(&self, request: ElicitRequestParams, call: Option<&RequestId>) -> ElicitResult {
        let answer = match request {
            ElicitRequestParams::FormElicitationParams { message, requested_schema, .. } => {
                let schema = serde_json::to_value(&requested_schema).ok();
                self.signs.taps.ask(call, Ask::form(message, schema)).await
            }
            ElicitRequestParams::UrlElicitationParams { message, url, .. } => {
                self.signs.taps.ask(call, Ask::url(message, &url)).await
            }
            _ => {
                self.signs.taps.not_asked(call, InputKind::Form);
                Answer::Unavailable("only forms and URLs can be relayed".to_owned())
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

    /// A message of the caller's model.
    ///
    /// # Errors
    /// The caller has no model to ask, or its user refused.
    #[expect(deprecated, reason = "servers sample, and will for years")]
    pub(super) async fn sample(
        &self,
        request: CreateMessageRequestParams,
        call: Option<&RequestId>,
    ) -> Result<CreateMessageResult, ErrorData> {
        let mut params = serde_json::to_value(&request).unwrap_or_default();
        if let Some(fields) = params.as_object_mut() {
            // What it says of our connection is not for the caller.
            fields.remove("_meta");
        }
        given(self.signs.taps.ask(call, Ask::sampling(params)).await)
    }

    /// The folders that the caller's user works in. None if nobody says so.
    #[expect(deprecated, reason = "servers ask for roots, and will for years")]
    pub(super) async fn roots(&self, call: Option<&RequestId>) -> Result<ListRootsResult, ErrorData> {
        given(self.signs.taps.ask(call, Ask::roots()).await)
    }
}

/// The content of an answer as the library has it.
fn given<T: DeserializeOwned>(answer: Answer) -> Result<T, ErrorData> {
    let refused = |reason: &str| Err(ErrorData::invalid_request(reason.to_owned(), None));
    match answer {
        Answer::Accept(content) => serde_json::from_str(&content)
            .map_err(|_| ErrorData::internal_error("the client's answer is not a valid result", None)),
        Answer::Decline | Answer::Cancel => refused("the user refused"),
        Answer::Unavailable(reason) => refused(&reason),
    }
}
