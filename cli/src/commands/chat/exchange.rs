//! The events of one turn, and the user's requests during it.

use std::time::Duration;

use openskill_proto::v1::agent_service_client::AgentServiceClient;
use openskill_proto::v1::{ChatEvent, ChatRequest, WatchConversationRequest, chat_request::Request};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status, Streaming};

use crate::channel::Channel;

/// The maximum number of reconnection attempts, and the first pause. Each pause is twice as long as the previous
/// one.
const ATTEMPTS: u32 = 6;
const PAUSE: Duration = Duration::from_millis(250);

pub(super) struct Exchange {
    client: AgentServiceClient<Channel>,
    conversation: String,
    /// `None` after the stream was lost, and if this client only watches the turn.
    requests: Option<mpsc::Sender<ChatRequest>>,
    events: Streaming<ChatEvent>,
}

impl Exchange {
    /// Sends the first request of a turn.
    pub(super) async fn begin(mut client: AgentServiceClient<Channel>, first: ChatRequest) -> Result<Self, Status> {
        let (requests, sent) = mpsc::channel(8);
        let conversation = first.conversation_id.clone();
        // Cannot fail: the channel is new and has room.
        let _ = requests.try_send(first);
        let events = client.chat(ReceiverStream::new(sent)).await?.into_inner();
        Ok(Self { client, conversation, requests: Some(requests), events })
    }

    /// Watches a running turn.
    pub(super) async fn watch(
        mut client: AgentServiceClient<Channel>,
        conversation: String,
        after: u64,
    ) -> Result<Self, Status> {
        let request = WatchConversationRequest { conversation_id: conversation.clone(), after, no_follow: false };
        let events = client.watch_conversation(request).await?.into_inner();
        Ok(Self { client, conversation, requests: None, events })
    }

    /// Waits for the next event. After a lost connection, reconnects and continues after the event `seen`.
    pub(super) async fn next(&mut self, seen: u64) -> Result<Option<ChatEvent>, Status> {
        let mut lost = match self.events.message().await {
            Ok(event) => {
                if let Some(event) = &event {
                    self.conversation.clone_from(&event.conversation_id);
                }
                return Ok(event);
            }
            Err(status) if is_lost(&status) && !self.conversation.is_empty() => status,
            Err(status) => return Err(status),
        };
        self.requests = None;
        for attempt in 0..ATTEMPTS {
            tokio::time::sleep(PAUSE * 2_u32.pow(attempt)).await;
            match Self::watch(self.client.clone(), self.conversation.clone(), seen).await {
                Ok(again) => {
                    *self = again;
                    return Box::pin(self.next(seen)).await;
                }
                Err(status) if is_lost(&status) => lost = status,
                Err(status) => return Err(status),
            }
        }
        Err(lost)
    }

    /// Sends an answer, a decision or a cancellation.
    pub(super) async fn send(&mut self, request: Request) -> Result<(), Status> {
        let request = ChatRequest { conversation_id: self.conversation.clone(), request: Some(request) };
        if let Some(requests) = &self.requests
            && requests.send(request.clone()).await.is_ok()
        {
            return Ok(());
        }
        // A new stream carries the request. Its events arrive on the stream that is being watched.
        let taken = self.client.chat(tokio_stream::once(request)).await?;
        drop(taken);
        Ok(())
    }
}

fn is_lost(status: &Status) -> bool {
    matches!(status.code(), Code::Unavailable | Code::Unknown | Code::Cancelled)
}
