//! Sends the events of a running call to a caller that is listening.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use openskill_identity::shares::Share;
use openskill_proto::v1::{
    Accepted, Blame, ErrorCode, InvokeEvent, SkillError, SkillResult, execute_event, invoke_event::Event,
};
use parking_lot::Mutex;
use prost::Message as _;
use tokio::sync::{mpsc, oneshot};

use crate::state::limits::SMALL;

/// An event on its way to a client.
pub(crate) enum Delivery {
    Event(Box<InvokeEvent>),
    /// The last event. Its sender revokes it by dropping the result.
    Result {
        pending: Weak<PendingResult>,
        taken: oneshot::Sender<()>,
    },
}

/// A result that waits for its client, with its share of memory. None once it is taken.
pub(crate) type PendingResult = Mutex<Option<(InvokeEvent, Share)>>;

/// Whether the client took the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DeliveryOutcome {
    Taken,
    Lost,
}

impl Delivery {
    /// Returns the event. None if it was revoked.
    pub(crate) fn open(self) -> Option<InvokeEvent> {
        match self {
            Self::Event(event) => Some(*event),
            Self::Result { pending, taken } => {
                let (event, _) = pending.upgrade()?.lock().take()?;
                let _ = taken.send(());
                Some(event)
            }
        }
    }
}

/// Converts an event from a worker to one for the caller. None for a result, which becomes one in the caller's format.
pub(crate) fn invoke_event(event: execute_event::Event) -> Option<Event> {
    Some(match event {
        execute_event::Event::Progress(it) => Event::Progress(it),
        execute_event::Event::Log(it) => Event::Log(it),
        execute_event::Event::Partial(it) => Event::Partial(it),
        execute_event::Event::InputRequired(it) => Event::InputRequired(it),
        execute_event::Event::Artifact(it) => Event::Artifact(it),
        execute_event::Event::Result(_) => return None,
    })
}

/// Relays the events of one call to its client. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct EventRelay {
    call_id: String,
    events: mpsc::Sender<Delivery>,
    /// An event is waiting until the client reads.
    is_blocked: Arc<AtomicBool>,
    /// The client has received an event from the skill.
    has_relayed: Arc<AtomicBool>,
    /// The skill has asked the client a question.
    has_asked: Arc<AtomicBool>,
}

impl EventRelay {
    pub(crate) fn new(call_id: String, events: mpsc::Sender<Delivery>) -> Self {
        Self { call_id, events, is_blocked: Arc::default(), has_relayed: Arc::default(), has_asked: Arc::default() }
    }

    pub(crate) async fn send_accepted(&self, trace_id: &str, version: &str) {
        let accepted = Accepted { trace_id: trace_id.to_owned(), version: version.to_owned() };
        self.send(Event::Accepted(accepted)).await;
    }

    /// Relays an event from the worker. Results go through [`EventRelay::result`].
    pub(crate) async fn relay(&self, event: execute_event::Event) {
        self.has_relayed.store(true, Ordering::Relaxed);
        if matches!(event, execute_event::Event::InputRequired(_)) {
            self.has_asked.store(true, Ordering::Relaxed);
        }
        if let Some(event) = invoke_event(event) {
            self.send(event).await;
        }
    }

    async fn send(&self, event: Event) {
        self.is_blocked.store(true, Ordering::Relaxed);
        // Sending fails if the client disconnected. The whole call is then about to be dropped.
        let _ = self.events.send(Delivery::Event(Box::new(self.event(event)))).await;
        self.is_blocked.store(false, Ordering::Relaxed);
    }

    /// Sends the result, and waits until the client takes it. If the future is dropped before that, it revokes the
    /// result, so that a client that does not read leaves nothing in memory. `share` accounts for the memory
    /// meanwhile.
    pub(crate) async fn result(&self, mut result: SkillResult, mut share: Share) -> DeliveryOutcome {
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
        let pending = Arc::new(PendingResult::new(Some((self.event(Event::Result(result)), share))));
        // `pending` lives as long as this future: the delivery alone does not keep the result.
        let delivery = Delivery::Result { pending: Arc::downgrade(&pending), taken };
        match self.events.send(delivery).await {
            Ok(()) if is_taken.await.is_ok() => DeliveryOutcome::Taken,
            _ => DeliveryOutcome::Lost,
        }
    }

    fn event(&self, event: Event) -> InvokeEvent {
        InvokeEvent { call_id: self.call_id.clone(), event: Some(event) }
    }

    /// Whether the client has received an event from the skill.
    pub(crate) fn has_relayed(&self) -> bool {
        self.has_relayed.load(Ordering::Relaxed)
    }

    /// Whether the skill asked the client a question. If so, the call's duration depends on the user, not on the
    /// worker.
    pub(crate) fn has_asked(&self) -> bool {
        self.has_asked.load(Ordering::Relaxed)
    }

    /// Whether the call is blocked on a client that does not read.
    pub(crate) fn is_blocked(&self) -> bool {
        self.is_blocked.load(Ordering::Relaxed)
    }
}
