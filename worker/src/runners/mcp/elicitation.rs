//! Relays a server's requests (forms, URLs, sampling and roots) to the caller whose call they belong to.

use std::sync::Arc;

use openskill_proto::v1::InputKind;
#[expect(deprecated, reason = "servers sample and ask for roots, and will for years")]
use rmcp::model::{CreateMessageRequestParams, CreateMessageResult, ListRootsResult};
use rmcp::model::{ElicitRequestParams, ElicitResult, ElicitationAction, ErrorData, RequestId};
use serde::de::DeserializeOwned;

use super::tapped::ConnectionSignals;
use crate::questions::{Ask, QuestionAnswer};

/// Answers the requests that one server sends over one connection.
#[derive(Debug, Clone)]
pub(super) struct ElicitationRelay {
    signs: Arc<ConnectionSignals>,
}

impl ElicitationRelay {
    pub(super) fn new(signs: Arc<ConnectionSignals>) -> Self {
        Self { signs }
    }

    /// Returns the user's answer to an elicitation. Declines if no user can be asked, and cancels if the call ends
    /// first. `call`: the request that the server is working on, if the transport knows it.
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
                self.signs.taps.note_unrelayed(call, InputKind::Form);
                QuestionAnswer::Unavailable("only forms and URLs can be relayed".to_owned())
            }
        };
        match answer {
            QuestionAnswer::Accept(content) => {
                let content = serde_json::from_str(&content).unwrap_or_default();
                ElicitResult::new(ElicitationAction::Accept).with_content(content)
            }
            QuestionAnswer::Decline | QuestionAnswer::Unavailable(_) => ElicitResult::new(ElicitationAction::Decline),
            QuestionAnswer::Cancel => ElicitResult::new(ElicitationAction::Cancel),
        }
    }

    /// Asks the caller's model for a message.
    ///
    /// # Errors
    /// Fails if the caller has no model to ask or its user refused.
    #[expect(deprecated, reason = "servers sample, and will for years")]
    pub(super) async fn sample(
        &self,
        request: CreateMessageRequestParams,
        call: Option<&RequestId>,
    ) -> Result<CreateMessageResult, ErrorData> {
        let mut params = serde_json::to_value(&request).unwrap_or_default();
        if let Some(fields) = params.as_object_mut() {
            // `_meta` describes our connection and is not meant for the caller.
            fields.remove("_meta");
        }
        parse_answer(self.signs.taps.ask(call, Ask::sampling(params)).await)
    }

    /// Returns the folders that the caller's user works in. Fails if the caller names none.
    #[expect(deprecated, reason = "servers ask for roots, and will for years")]
    pub(super) async fn roots(&self, call: Option<&RequestId>) -> Result<ListRootsResult, ErrorData> {
        parse_answer(self.signs.taps.ask(call, Ask::roots()).await)
    }
}

/// Parses the content of an answer as the library's type.
fn parse_answer<T: DeserializeOwned>(answer: QuestionAnswer) -> Result<T, ErrorData> {
    let refused = |reason: &str| Err(ErrorData::invalid_request(reason.to_owned(), None));
    match answer {
        QuestionAnswer::Accept(content) => serde_json::from_str(&content)
            .map_err(|_| ErrorData::internal_error("the client's answer is not a valid result", None)),
        QuestionAnswer::Decline | QuestionAnswer::Cancel => refused("the user refused"),
        QuestionAnswer::Unavailable(reason) => refused(&reason),
    }
}
