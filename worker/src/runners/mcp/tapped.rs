//! A transport that marks what goes through it, and keeps from the protocol's machinery what is for calls alone.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::RoleClient;
use rmcp::model::{
    ClientJsonRpcMessage, GetExtensions as _, JsonRpcMessage, RequestId, ServerJsonRpcMessage, ServerNotification,
    ServerRequest,
};
#[expect(deprecated, reason = "servers log by it, and will for years")]
use rmcp::model::{LoggingLevel, LoggingMessageNotification};
use rmcp::service::InboundStreamOrigin;
use rmcp::transport::Transport;
use tokio::sync::Notify;

use super::tap::{Tap, Taps};

/// How many requests of the server may wait for our answer. A server with more does not read what it is sent.
const MAX_QUESTIONS: usize = 256;

/// What a connection and whoever watches it share.
#[derive(Debug, Default)]
pub(super) struct Signs {
    pub(super) taps: Taps,
    /// The server says that its tools changed.
    pub(super) tools_changed: Notify,
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
                JsonRpcMessage::Notification(it) => self.signs.notified(it.notification),
                JsonRpcMessage::Request(it) => {
                    if !self.signs.asked(&it.id, &it.request) {
                        tracing::warn!("an MCP server asks on and on and reads no answer: it is ended");
                        return None;
                    }
                    return Some(JsonRpcMessage::Request(it));
                }
                JsonRpcMessage::Response(it) => {
                    self.signs.taps.answered(&it.id);
                    return Some(JsonRpcMessage::Response(it));
                }
                JsonRpcMessage::Error(it) => {
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
            ServerNotification::ToolListChangedNotification(_) => self.tools_changed.notify_one(),
            _ => {}
        }
    }

    /// Whether a request of the server is within bounds.
    fn asked(&self, id: &RequestId, request: &ServerRequest) -> bool {
        let asks_user = match request {
            ServerRequest::ElicitRequest(_) => true,
            // One that the library can't read is one all the same.
            ServerRequest::CustomRequest(it) => it.method == "elicitation/create",
            _ => false,
        };
        if asks_user {
            let call = match request.extensions().get::<InboundStreamOrigin>() {
                Some(InboundStreamOrigin::OutboundRequest(id)) => Some(id),
                _ => None,
            };
            self.taps.asks(call);
        }
        let mut questions = self.questions.lock().unwrap_or_else(PoisonError::into_inner);
        // One that is asked again while it waits is two answers for one entry.
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

/// Whether a message may be written now: one that was taken back may not.
pub(super) fn may_send(message: &ClientJsonRpcMessage) -> bool {
    Tap::of(message).is_none_or(Tap::send)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rmcp::model::{NumberOrString, PingRequest};

    #[test]
    fn a_server_may_ask_so_much_and_nothing_twice_before_it_is_answered() {
        let signs = Signs::default();
        let ask = |id| signs.asked(&NumberOrString::Number(id), &ServerRequest::PingRequest(PingRequest::default()));
        assert!((0..MAX_QUESTIONS as i64).all(ask));
        assert!(!ask(0) && !ask(-1));
    }
}
