//! A transport that updates the taps of the messages that pass, and handles the notifications that concern calls.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use openskill_proto::v1::InputKind;
use rmcp::RoleClient;
use rmcp::model::{
    ClientJsonRpcMessage, Extensions, GetExtensions as _, JsonRpcMessage, NumberOrString, RequestId,
    ServerJsonRpcMessage, ServerNotification, ServerRequest,
};
#[expect(deprecated, reason = "servers log by it, and will for years")]
use rmcp::model::{LoggingLevel, LoggingMessageNotification};
use rmcp::service::InboundStreamOrigin;
use rmcp::transport::Transport;
use tokio::sync::Notify;

use super::subscriptions::Changed;
use super::tap::{Tap, Taps};
use crate::process::given_secrets::GivenSecrets;

/// How many requests of the server may wait for our answer. A server with more does not read its answers.
const MAX_QUESTIONS: usize = 256;

/// What a connection shares with those that watch it.
#[derive(Debug, Default)]
pub(super) struct Signs {
    pub(super) taps: Taps,
    /// The server announced that its tools, or something else that it lists, changed.
    pub(super) tools_changed: Notify,
    /// Resources that the server says have changed.
    pub(super) changed: Changed,
    /// For whoever logs what the server writes beside its messages.
    pub(super) given_secrets: GivenSecrets,
    questions: Mutex<HashSet<RequestId>>,
}

/// A transport with taps.
pub(super) struct Tapped<T> {
    inner: T,
    signs: Arc<Signs>,
}

impl<T> Tapped<T> {
    pub(super) fn new(inner: T, signs: Arc<Signs>) -> Self {
        Self { inner, signs }
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for Tapped<T> {
    type Error = T::Error;

    fn send(&mut self, item: ClientJsonRpcMessage) -> impl Future<Output = Result<(), T::Error>> + Send + 'static {
        self.signs.taps.watch(&item);
        let answer = match &item {
            JsonRpcMessage::Response(response) => Some(response.id.clone()),
            JsonRpcMessage::Error(error) => error.id.clone(),
            _ => None,
        };
        let signs = Arc::clone(&self.signs);
        let sent = self.inner.send(item);
        async move {
            let sent = sent.await;
            if let Some(id) = answer {
                signs.questions.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
            }
            sent
        }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            let message = self.inner.receive().await?;
            match message {
                // Whoever listens waits for it.
                JsonRpcMessage::Notification(it)
                    if matches!(it.notification, ServerNotification::SubscriptionsAcknowledgedNotification(_)) =>
                {
                    return Some(JsonRpcMessage::Notification(it));
                }
                JsonRpcMessage::Notification(it) => self.signs.notified(it.notification),
                JsonRpcMessage::Request(it) => {
                    if !self.signs.asked(&it.id, &it.request) {
                        if openskill_log::admits("an MCP server is ended") {
                            tracing::warn!("an MCP server sends requests without reading the answers: it is ended");
                        }
                        return None;
                    }
                    return Some(JsonRpcMessage::Request(it));
                }
                JsonRpcMessage::Response(it) => {
                    self.signs.taps.answered(&it.id);
                    return Some(JsonRpcMessage::Response(it));
                }
                JsonRpcMessage::Error(mut it) => {
                    // Without an id of ours, it is the call that waits.
                    it.id = it.id.filter(is_ours).or_else(|| self.signs.taps.only_waiting());
                    if let Some(id) = &it.id {
                        self.signs.taps.answered(id);
                    }
                    return Some(JsonRpcMessage::Error(it));
                }
            }
        }
    }

    fn close(&mut self) -> impl Future<Output = Result<(), T::Error>> + Send {
        self.inner.close()
    }
}

impl Signs {
    fn notified(&self, notification: ServerNotification) {
        match notification {
            ServerNotification::ProgressNotification(it) => self.taps.progress(it.params),
            ServerNotification::LoggingMessageNotification(it) => {
                let (level, text) = log_line(&it);
                self.taps.log(level, &text);
            }
            ServerNotification::ToolListChangedNotification(_)
            | ServerNotification::PromptListChangedNotification(_)
            | ServerNotification::ResourceListChangedNotification(_) => self.tools_changed.notify_one(),
            ServerNotification::ResourceUpdatedNotification(it) => self.changed.add(it.params.uri),
            _ => {}
        }
    }

    /// Whether a request of the server is within bounds.
    fn asked(&self, id: &RequestId, request: &ServerRequest) -> bool {
        // An elicitation that the library cannot read.
        if matches!(request, ServerRequest::CustomRequest(it) if it.method == "elicitation/create") {
            self.taps.not_asked(origin(request.extensions()), InputKind::Form);
        }
        let mut questions = self.questions.lock().unwrap_or_else(PoisonError::into_inner);
        // A repeated id would get two answers.
        questions.insert(id.clone()) && questions.len() <= MAX_QUESTIONS
    }
}

#[expect(deprecated, reason = "servers log by it, and will for years")]
fn log_line(message: &LoggingMessageNotification) -> (&'static str, String) {
    let level = match message.params.level {
        LoggingLevel::Debug => "debug",
        LoggingLevel::Info | LoggingLevel::Notice => "info",
        LoggingLevel::Warning => "warning",
        _ => "error",
    };
    let data = &message.params.data;
    (level, data.as_str().map_or_else(|| data.to_string(), str::to_owned))
}

/// The request that a request of the server belongs to, where the transport knows it.
pub(super) fn origin(extensions: &Extensions) -> Option<&RequestId> {
    match extensions.get::<InboundStreamOrigin>() {
        Some(InboundStreamOrigin::OutboundRequest(id)) => Some(id),
        _ => None,
    }
}

/// Whether an id may be that of a request of ours: they are numbers, which some servers answer as strings.
fn is_ours(id: &RequestId) -> bool {
    match id {
        NumberOrString::Number(_) => true,
        NumberOrString::String(text) => text.parse::<i64>().is_ok(),
    }
}

/// Whether a message may be written now: a withdrawn one may not.
pub(super) fn may_send(message: &ClientJsonRpcMessage) -> bool {
    Tap::of(message).is_none_or(Tap::send)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rmcp::model::PingRequest;

    #[test]
    fn an_id_of_ours_is_a_number() {
        let text = |id: &str| NumberOrString::String(id.into());
        assert!(is_ours(&NumberOrString::Number(4)) && is_ours(&text("4")) && !is_ours(&text("server-error")));
    }

    #[test]
    fn the_requests_of_a_server_are_bounded_and_their_ids_unique() {
        let signs = Signs::default();
        let ask = |id| signs.asked(&NumberOrString::Number(id), &ServerRequest::PingRequest(PingRequest::default()));
        assert!((0..MAX_QUESTIONS as i64).all(ask));
        assert!(!ask(0) && !ask(-1));
    }
}
