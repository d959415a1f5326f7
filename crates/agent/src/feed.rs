//! A client's stream of a conversation's events: first stored events, then new ones.

use std::time::Duration;

use futures_util::stream::{self, BoxStream, StreamExt as _};
use openskill_proto::v1;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio_util::sync::CancellationToken;

use crate::error::AgentError;
use crate::journal::{Journal, WatchEvent};

/// How often a watcher looks for entries that another gateway wrote.
const POLL: Duration = Duration::from_millis(500);

/// A stream of a conversation's events.
pub type Events = BoxStream<'static, Result<v1::ChatEvent, AgentError>>;

struct Reader {
    journal: Journal,
    closed: CancellationToken,
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

/// Returns the stored events after the number `after`. With `follow`, new events follow as they happen, including
/// ephemeral ones. The stream ends with an error once `closed` is cancelled.
pub(crate) fn events(
    journal: Journal,
    closed: CancellationToken,
    conversation: &str,
    after: u64,
    follow: bool,
) -> Events {
    // Subscribe before reading the log, so that no event is missed in between.
    let updates = follow.then(|| journal.watch(conversation));
    let (conversation, page) = (conversation.to_owned(), Vec::new().into_iter());
    let reader = Reader { journal, closed, conversation, last: after, page, is_behind: true, updates };
    let next = |reader: Option<Reader>| async move {
        let mut reader = reader?;
        let closed = reader.closed.clone();
        let next = tokio::select! {
            biased;
            next = reader.next() => next,
            () = closed.cancelled() => Err(AgentError::Shutdown),
        };
        match next {
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
            let update = if self.journal.is_shared() {
                let Ok(update) = tokio::time::timeout(POLL, updates.recv()).await else {
                    // Another gateway may have written or deleted it.
                    let Some(last) = self.journal.last_number(&self.conversation).await? else { return Ok(None) };
                    self.is_behind = last > self.last;
                    continue;
                };
                update
            } else {
                updates.recv().await
            };
            match update {
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
