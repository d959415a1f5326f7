//! A transport that updates the taps of the messages that it carries, and handles notifications about calls.

use std::collections::HashSet;
use std::sync::Arc;

use openskill_proto::v1::InputKind;
use openskill_sandbox::given_secrets::GivenSecrets;
use parking_lot::Mutex;
use rmcp::RoleClient;
use rmcp::model::{
    ClientJsonRpcMessage, Extensions, GetExtensions as _, JsonRpcMessage, RequestId, ServerJsonRpcMessage,
    ServerNotification, ServerRequest,
};
#[expect(deprecated, reason = "servers log by it, and will for years")]
use rmcp::model::{LoggingLevel, LoggingMessageNotification};
use rmcp::service::InboundStreamOrigin;
use rmcp::transport::Transport;
use tokio::sync::Notify;

use super::message::own_id;
use super::subscriptions::ChangedResources;
use super::tap::{Tap, Taps};

/// The maximum number of the server's unanswered requests. A server that exceeds it does not read the answers.
const MAX_QUESTIONS: usize = 256;

/// The state that a connection shares with the tasks that watch it.
#[derive(Debug, Default)]
pub(super) struct ConnectionSignals {
    pub(super) taps: Taps,
    /// Notified when the server announces that one of its lists has changed.
    pub(super) tools_changed: Notify,
    /// The resources that the server has reported as changed.
    pub(super) changed: ChangedResources,
    /// Tells the task that logs the server's other output whether calls had secrets.
    pub(super) given_secrets: GivenSecrets,
    questions: Mutex<HashSet<RequestId>>,
}

/// Wraps a transport, and updates the taps of passing messages.
pub(super) struct TappedTransport<T> {
    pub(super) inner: T,
    pub(super) signs: Arc<ConnectionSignals>,
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for TappedTransport<T> {
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
                signs.questions.lock().remove(&id);
            }
            sent
        }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            let message = self.inner.receive().await?;
            match message {
                // The listener task waits for this notification.
                JsonRpcMessage::Notification(it)
                    if matches!(it.notification, ServerNotification::SubscriptionsAcknowledgedNotification(_)) =>
                {
                    return Some(JsonRpcMessage::Notification(it));
                }
                JsonRpcMessage::Notification(it) => self.signs.handle_notification(it.notification),
                JsonRpcMessage::Request(it) => {
                    if !self.signs.admit_request(&it.id, &it.request) {
                        if openskill_telemetry::log::admits("an MCP server was stopped") {
                            tracing::warn!("an MCP server sends requests without reading the answers; stopping it");
                        }
                        return None;
                    }
                    return Some(JsonRpcMessage::Request(it));
                }
                JsonRpcMessage::Response(mut it) => {
                    it.id = own_id(&it.id).unwrap_or(it.id);
                    self.signs.taps.complete(&it.id);
                    return Some(JsonRpcMessage::Response(it));
                }
                JsonRpcMessage::Error(mut it) => {
                    // An error with an unknown id belongs to the only waiting call.
                    it.id = it.id.as_ref().and_then(own_id).or_else(|| self.signs.taps.only_waiting());
                    if let Some(id) = &it.id {
                        self.signs.taps.complete(id);
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

impl ConnectionSignals {
    fn handle_notification(&self, notification: ServerNotification) {
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

    /// Returns whether a request from the server is within the limits.
    fn admit_request(&self, id: &RequestId, request: &ServerRequest) -> bool {
        // The library could not parse this elicitation.
        if matches!(request, ServerRequest::CustomRequest(it) if it.method == "elicitation/create") {
            self.taps.note_unrelayed(origin(request.extensions()), InputKind::Form);
        }
        let mut questions = self.questions.lock();
        // A repeated id would be answered twice.
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

/// Returns the call that a request from the server belongs to, if the transport knows it.
pub(super) fn origin(extensions: &Extensions) -> Option<&RequestId> {
    match extensions.get::<InboundStreamOrigin>() {
        Some(InboundStreamOrigin::OutboundRequest(id)) => Some(id),
        _ => None,
    }
}

/// Returns whether a message may be written. False for a withdrawn request.
pub(super) fn may_send(message: &ClientJsonRpcMessage) -> bool {
    Tap::from_message(message).is_none_or(Tap::send)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rmcp::model::{NumberOrString, PingRequest};

    #[test]
    fn an_id_of_ours_is_a_number() {
        let text = |id: &str| NumberOrString::String(id.into());
        let four = Some(NumberOrString::Number(4));
        let ids = [NumberOrString::Number(4), text("4"), text("server-error")];
        assert_eq!(ids.map(|id| own_id(&id)), [four.clone(), four, None]);
    }

    #[test]
    fn the_requests_of_a_server_are_bounded_and_their_ids_unique() {
        let signs = ConnectionSignals::default();
        let ask =
            |id| signs.admit_request(&NumberOrString::Number(id), &ServerRequest::PingRequest(PingRequest::default()));
        assert!((0..MAX_QUESTIONS as i64).all(ask));
        assert!(!ask(0) && !ask(-1));
    }
}
