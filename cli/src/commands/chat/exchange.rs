//! The events of one turn, and what the user sends meanwhile.

use std::time::Duration;

use openskill_proto::v1::agent_service_client::AgentServiceClient;
use openskill_proto::v1::{ChatEvent, ChatRequest, WatchConversationRequest, chat_request::Request};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status, Streaming};

use crate::channel::Channel;

/// How often a lost connection is made again, and the first pause before that.
const ATTEMPTS: u32 = 6;
const PAUSE: Duration = Duration::from_millis(250);

/// A turn at the agent.
pub(super) struct Exchange {
    client: AgentServiceClient<Channel>,
    conversation: String,
    /// None: the stream was lost, or only watched.
    requests: Option<mpsc::Sender<ChatRequest>>,
    events: Streaming<ChatEvent>,
}

impl Exchange {
    /// Sends the first request of a turn.
    pub(super) async fn begin(mut client: AgentServiceClient<Channel>, first: ChatRequest) -> Result<Self, Status> {
        let (requests, sent) = mpsc::channel(8);
        let conversation = first.conversation_id.clone();
        // The channel is new: there is room.
        let _ = requests.try_send(first);
        let events = client.chat(ReceiverStream::new(sent)).await?.into_inner();
        Ok(Self { client, conversation, requests: Some(requests), events })
    }

    /// Follows a turn that goes on.
    pub(super) async fn watch(
        mut client: AgentServiceClient<Channel>,
        conversation: String,
        after: u64,
    ) -> Result<Self, Status> {
        let request = WatchConversationRequest { conversation_id: conversation.clone(), after, no_follow: false };
        let events = client.watch_conversation(request).await?.into_inner();
        Ok(Self { client, conversation, requests: None, events })
    }

    /// The next event. A lost connection is made again, from `seen` on.
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
        // A stream of its own takes it; its events come by the other one.
        let taken = self.client.chat(tokio_stream::once(request)).await?;
        drop(taken);
        Ok(())
    }
}

fn is_lost(status: &Status) -> bool {
    matches!(status.code(), Code::Unavailable | Code::Unknown | Code::Cancelled)
}
