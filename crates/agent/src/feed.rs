//! The events of a conversation, as a client reads them: what is kept, then what happens.

use futures_util::stream::{self, BoxStream, StreamExt as _};
use openskill_proto::v1;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use crate::error::AgentError;
use crate::journal::{Journal, Seen};

/// The events of a conversation.
pub type Events = BoxStream<'static, Result<v1::ChatEvent, AgentError>>;

/// A reader of a conversation.
struct Reader {
    journal: Journal,
    conversation: String,
    /// The number of the last event that was handed on.
    last: u64,
    /// Read, and not handed on yet.
    page: std::vec::IntoIter<v1::ChatEvent>,
    /// Whether the log may hold more.
    is_behind: bool,
    /// What happens. None: only what is kept is wanted.
    shown: Option<Receiver<Seen>>,
}

/// The events after a number that are kept now.
pub(crate) fn kept(journal: Journal, conversation: &str, after: u64) -> Events {
    stream(Reader::new(journal, conversation, after, None))
}

/// The events after a number, then new ones as they come, those that are not kept included.
pub(crate) async fn follow(journal: Journal, conversation: &str, after: u64) -> Result<Events, AgentError> {
    // Before the log is read: nothing can come between.
    let shown = journal.watch(conversation);
    Ok(stream(Reader::new(journal, conversation, after, Some(shown))))
}

fn stream(reader: Reader) -> Events {
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
    fn new(journal: Journal, conversation: &str, after: u64, shown: Option<Receiver<Seen>>) -> Self {
        Self {
            journal,
            conversation: conversation.to_owned(),
            last: after,
            page: Vec::new().into_iter(),
            is_behind: true,
            shown,
        }
    }

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
            let Some(shown) = &mut self.shown else { return Ok(None) };
            match shown.recv().await {
                Ok(Seen::Event(event)) if event.number == 0 => return Ok(Some(*event)),
                Ok(Seen::Event(event)) if event.number > self.last => {
                    self.last = event.number;
                    return Ok(Some(*event));
                }
                Ok(Seen::Event(_)) => {}
                // Or too slow for what happens: the log has all that is kept.
                Ok(Seen::InLog) | Err(RecvError::Lagged(_)) => self.is_behind = true,
                Err(RecvError::Closed) => return Ok(None),
            }
        }
    }
}
