//! The client side of the protocol: relays a server's requests (forms, URLs, sampling and roots) to the caller whose
//! call they belong to.

use std::sync::Arc;

use openskill_proto::v1::InputKind;
use rmcp::model::{
    ClientCapabilities, ClientConfig, ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationCapability,
    ErrorData, FormElicitationCapability, Implementation, UrlElicitationCapability,
};
#[expect(deprecated, reason = "servers sample and ask for roots, and will for years")]
use rmcp::model::{
    CreateMessageRequestParams, CreateMessageResult, ListRootsResult, RootsCapabilities, SamplingCapability,
};
use rmcp::service::RequestContext;
use rmcp::{ClientHandler, RoleClient};
use serde::de::DeserializeOwned;

use super::tapped::{ConnectionSignals, origin};
use crate::questions::{Ask, QuestionAnswer};

/// Answers the requests that one server sends over one connection.
#[derive(Debug)]
pub(super) struct Handler {
    pub(super) signs: Arc<ConnectionSignals>,
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        let own = Implementation::new("openskill", env!("CARGO_PKG_VERSION"));
        let form = FormElicitationCapability::new().with_schema_validation(true);
        let mut capabilities = ClientCapabilities::default();
        let url = UrlElicitationCapability::new();
        capabilities.elicitation = Some(ElicitationCapability::new().with_form(form).with_url(url));
        capabilities.sampling = Some(SamplingCapability::default());
        capabilities.roots = Some(RootsCapabilities::default());
        ClientConfig::new(capabilities, own)
    }

    /// Returns the user's answer. Declines if no user can be asked, and cancels if the call ends first.
    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let (taps, call) = (&self.signs.taps, origin(&context.extensions));
        let answer = match request {
            ElicitRequestParams::FormElicitationParams { message, requested_schema, .. } => {
                taps.ask(call, Ask::form(message, serde_json::to_value(&requested_schema).ok())).await
            }
            ElicitRequestParams::UrlElicitationParams { message, url, .. } => {
                taps.ask(call, Ask::url(message, &url)).await
            }
            _ => {
                taps.note_unrelayed(call, InputKind::Form);
                QuestionAnswer::Unavailable("only forms and URLs can be relayed".to_owned())
            }
        };
        Ok(match answer {
            QuestionAnswer::Accept(content) => {
                let content = serde_json::from_str(&content).unwrap_or_default();
                ElicitResult::new(ElicitationAction::Accept).with_content(content)
            }
            QuestionAnswer::Decline | QuestionAnswer::Unavailable(_) => ElicitResult::new(ElicitationAction::Decline),
            QuestionAnswer::Cancel => ElicitResult::new(ElicitationAction::Cancel),
        })
    }

    /// Asks the caller's model for a message. Fails if the caller has no model to ask or its user refused.
    #[expect(deprecated, reason = "servers sample, and will for years")]
    async fn create_message(
        &self,
        request: CreateMessageRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        let mut params = serde_json::to_value(&request).unwrap_or_default();
        if let Some(fields) = params.as_object_mut() {
            // `_meta` describes our connection and is not meant for the caller.
            fields.remove("_meta");
        }
        parse_answer(self.signs.taps.ask(origin(&context.extensions), Ask::sampling(params)).await)
    }

    /// Returns the folders that the caller's user works in. Fails if the caller names none.
    #[expect(deprecated, reason = "servers ask for roots, and will for years")]
    async fn list_roots(&self, context: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        parse_answer(self.signs.taps.ask(origin(&context.extensions), Ask::roots()).await)
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
