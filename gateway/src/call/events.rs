//! The way back to a caller who listens while its call runs.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use openskill_identity::shares::Share;
use openskill_proto::v1::{
    Accepted, Blame, ErrorCode, InvokeEvent, SkillError, SkillResult, execute_event, invoke_event::Event,
};
use prost::Message as _;
use tokio::sync::{mpsc, oneshot};

use crate::state::limits::SMALL;

/// An event on its way to a client.
pub(crate) enum Delivery {
    Event(Box<InvokeEvent>),
    /// The last one. Its sender may still take it back.
    Result {
        undelivered: Arc<Undelivered>,
        taken: oneshot::Sender<()>,
    },
}

/// A result that waits for its client, and the memory it holds.
pub(crate) type Undelivered = Mutex<Option<(InvokeEvent, Share)>>;

/// What became of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Delivered {
    Taken,
    Lost,
}

impl Delivery {
    /// The event, unless it was taken back.
    pub(crate) fn open(self) -> Option<InvokeEvent> {
        match self {
            Self::Event(event) => Some(*event),
            Self::Result { undelivered, taken } => {
                let (event, _) = undelivered.lock().unwrap_or_else(PoisonError::into_inner).take()?;
                let _ = taken.send(());
                Some(event)
            }
        }
    }
}

/// Takes the result back when it is dropped.
struct TakeBack<'a>(&'a Undelivered);

impl Drop for TakeBack<'_> {
    fn drop(&mut self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

/// Relays the events of one call to its client. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct EventRelay {
    call_id: String,
    events: mpsc::Sender<Delivery>,
    /// An event waits until the client reads.
    is_blocked: Arc<AtomicBool>,
    /// The client has seen an event of the skill.
    has_relayed: Arc<AtomicBool>,
    /// The client was asked something.
    has_asked: Arc<AtomicBool>,
}

impl EventRelay {
    pub(crate) fn new(call_id: String, events: mpsc::Sender<Delivery>) -> Self {
        Self { call_id, events, is_blocked: Arc::default(), has_relayed: Arc::default(), has_asked: Arc::default() }
    }

    pub(crate) async fn accepted(&self, trace_id: &str, version: &str) {
        let accepted = Accepted { trace_id: trace_id.to_owned(), version: version.to_owned() };
        self.send(Event::Accepted(accepted)).await;
    }

    /// Relays an event of the worker. The result has its own way: [`EventRelay::result`].
    pub(crate) async fn relay(&self, event: execute_event::Event) {
        self.has_relayed.store(true, Ordering::Relaxed);
        match event {
            execute_event::Event::Progress(it) => self.send(Event::Progress(it)).await,
            execute_event::Event::Log(it) => self.send(Event::Log(it)).await,
            execute_event::Event::Partial(it) => self.send(Event::Partial(it)).await,
            execute_event::Event::InputRequired(it) => {
                self.has_asked.store(true, Ordering::Relaxed);
                self.send(Event::InputRequired(it)).await;
            }
            execute_event::Event::Artifact(it) => self.send(Event::Artifact(it)).await,
            execute_event::Event::Result(_) => {}
        }
    }

    async fn send(&self, event: Event) {
        self.is_blocked.store(true, Ordering::Relaxed);
        // A client that went away is about to drop the whole call.
        let _ = self.events.send(Delivery::Event(Box::new(self.event(event)))).await;
        self.is_blocked.store(false, Ordering::Relaxed);
    }

    /// Sends the result and waits until the client takes it. Dropped before that, it takes the result back, so that a client
    /// that does not read leaves nothing in memory. `share` accounts for what waits.
    pub(crate) async fn result(&self, mut result: SkillResult, mut share: Share) -> Delivered {
        let size = result.encoded_len();
        if size > SMALL && !share.grow(size) {
            let message =
                "the skill ran, but its result was dropped: too many results wait for clients that do not read them";
            let error = SkillError::new(ErrorCode::OutputTooLarge, message).with_blame(Blame::Gateway);
            let (output, text, artifacts) = (None, error.message.clone(), Vec::new());
            result = SkillResult { success: false, output, text, artifacts, error: Some(error), ..result };
            result.rendered_json.clear();
        }
        let (taken, is_taken) = oneshot::channel();
        let undelivered = Arc::new(Undelivered::new(Some((self.event(Event::Result(result)), share))));
        let _take_back = TakeBack(&undelivered);
        let delivery = Delivery::Result { undelivered: Arc::clone(&undelivered), taken };
        match self.events.send(delivery).await {
            Ok(()) if is_taken.await.is_ok() => Delivered::Taken,
            _ => Delivered::Lost,
        }
    }

    fn event(&self, event: Event) -> InvokeEvent {
        InvokeEvent { call_id: self.call_id.clone(), event: Some(event) }
    }

    /// Whether the client has seen an event of the skill.
    pub(crate) fn has_relayed(&self) -> bool {
        self.has_relayed.load(Ordering::Relaxed)
    }

    /// Whether the client was asked something: the call's time is then its user's, not the worker's.
    pub(crate) fn has_asked(&self) -> bool {
        self.has_asked.load(Ordering::Relaxed)
    }

    /// Whether the call waits for a client that does not read.
    pub(crate) fn is_blocked(&self) -> bool {
        self.is_blocked.load(Ordering::Relaxed)
    }
}
