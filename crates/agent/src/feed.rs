//! A client's stream of a conversation's events: first stored events, then new ones.

use futures_util::stream::{self, BoxStream, StreamExt as _};
use openskill_proto::v1;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use crate::error::AgentError;
use crate::journal::{Journal, WatchEvent};

/// A stream of a conversation's events.
pub type Events = BoxStream<'static, Result<v1::ChatEvent, AgentError>>;

struct Reader {
    journal: Journal,
    conversation: String,
    /// The number of the last returned event.
    last: u64,
    /// Events read from the log but not yet returned.
    page: std::vec::IntoIter<v1::ChatEvent>,
    /// Whether the log may contain more events.
    is_behind: bool,
    /// Receives new events. `None` if only stored events are requested.
    updates: Option<Receiver<WatchEvent>>,
}

/// Returns the stored events after the number `after`.
pub(crate) fn read(journal: Journal, conversation: &str, after: u64) -> Events {
    stream(journal, conversation, after, None)
}

/// Returns the stored events after the number `after`, followed by new events as they happen, including ephemeral
/// ones.
pub(crate) fn follow(journal: Journal, conversation: &str, after: u64) -> Events {
    // Subscribe before reading the log, so that no event is missed in between.
    let updates = journal.watch(conversation);
    stream(journal, conversation, after, Some(updates))
}

fn stream(journal: Journal, conversation: &str, after: u64, updates: Option<Receiver<WatchEvent>>) -> Events {
    let (conversation, page) = (conversation.to_owned(), Vec::new().into_iter());
    let reader = Reader { journal, conversation, last: after, page, is_behind: true, updates };
    let next = |reader: Option<Reader>| async move {
        let mut reader = reader?;
        match reader.next().await {
            Ok(Some(event)) => Some((Ok(event), Some(reader))),
            Ok(None) => None,
            Err(error) => Some((Err(error), None)),
        }
    };
    stream::unfold(Some(reader), next).boxed()
}

impl Reader {
    async fn next(&mut self) -> Result<Option<v1::ChatEvent>, AgentError> {
        loop {
            if let Some(event) = self.page.next() {
                self.last = event.number;
                return Ok(Some(event));
            }
            if self.is_behind {
                let read = self.journal.events(&self.conversation, self.last).await?;
                self.is_behind = !read.is_empty();
                self.page = read.into_iter();
                continue;
            }
            let Some(updates) = &mut self.updates else { return Ok(None) };
            match updates.recv().await {
                Ok(WatchEvent::Event(event)) if event.number == 0 => return Ok(Some(*event)),
                Ok(WatchEvent::Event(event)) if event.number > self.last => {
                    self.last = event.number;
                    return Ok(Some(*event));
                }
                Ok(WatchEvent::Event(_)) => {}
                // Also handles a slow reader, because the log contains all stored events.
                Ok(WatchEvent::InLog) | Err(RecvError::Lagged(_)) => self.is_behind = true,
                Err(RecvError::Closed) => return Ok(None),
            }
        }
    }
}
