//! From what a worker says to what the caller hears.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use openskill_proto::v1::{
    Accepted, Blame, ErrorCode, InvokeEvent, SkillError, SkillResult, execute_event, invoke_event::Event,
};
use prost::Message as _;
use tokio::sync::{mpsc, oneshot};

use crate::memory::{Memory, SMALL, Share};

/// An event on its way to a client.
pub(crate) enum Parcel {
    Event(Box<InvokeEvent>),
    /// The last one, for as long as it is not taken back.
    Result {
        slot: Arc<Slot>,
        taken: oneshot::Sender<()>,
    },
}

/// A result that waits to be taken, and the memory it takes.
pub(crate) type Slot = Mutex<Option<(InvokeEvent, Share)>>;

/// What became of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Delivered {
    Taken,
    Lost,
}

impl Parcel {
    /// The event; none if it was taken back.
    pub(crate) fn open(self) -> Option<InvokeEvent> {
        match self {
            Self::Event(event) => Some(*event),
            Self::Result { slot, taken } => {
                let (event, _) = slot.lock().unwrap_or_else(PoisonError::into_inner).take()?;
                let _ = taken.send(());
                Some(event)
            }
        }
    }
}

/// Empties the slot when it is dropped.
struct TakenBack<'a>(&'a Slot);

impl Drop for TakenBack<'_> {
    fn drop(&mut self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

/// Who hears of one call while it runs.
#[derive(Debug, Clone)]
pub(crate) struct Listener {
    call_id: String,
    events: mpsc::Sender<Parcel>,
    /// An event waits for the client to make room for it.
    waits: Arc<AtomicBool>,
    /// An event of the skill was handed on.
    relayed: Arc<AtomicBool>,
}

impl Listener {
    pub(crate) fn new(call_id: String, events: mpsc::Sender<Parcel>) -> Self {
        Self { call_id, events, waits: Arc::default(), relayed: Arc::default() }
    }

    pub(crate) async fn accepted(&self, trace_id: &str, version: &str) {
        let accepted = Accepted { trace_id: trace_id.to_owned(), version: version.to_owned() };
        self.send(Event::Accepted(accepted)).await;
    }

    /// Hands a worker's event on. The result goes another way.
    pub(crate) async fn relay(&self, event: execute_event::Event) {
        self.relayed.store(true, Ordering::Relaxed);
        match event {
            execute_event::Event::Progress(it) => self.send(Event::Progress(it)).await,
            execute_event::Event::Log(it) => self.send(Event::Log(it)).await,
            execute_event::Event::Partial(it) => self.send(Event::Partial(it)).await,
            execute_event::Event::InputRequired(it) => self.send(Event::InputRequired(it)).await,
            execute_event::Event::Artifact(it) => self.send(Event::Artifact(it)).await,
            execute_event::Event::Result(_) => {}
        }
    }

    async fn send(&self, event: Event) {
        self.waits.store(true, Ordering::Relaxed);
        // A listener that went away is about to drop the whole call.
        let _ = self.events.send(Parcel::Event(Box::new(self.event(event)))).await;
        self.waits.store(false, Ordering::Relaxed);
    }

    /// Hands the result on and waits until it is taken. Dropped before that, it takes the result back: a client that does
    /// not read leaves nothing lying about. `memory` counts what waits.
    pub(crate) async fn result(&self, mut result: SkillResult, memory: &Memory) -> Delivered {
        let mut share = memory.share();
        let size = result.encoded_len();
        if size > SMALL && !share.add(size) {
            let message = "the skill ran, and its answer was dropped: too many answers wait to be read";
            let error = SkillError::new(ErrorCode::OutputTooLarge, message).with_blame(Blame::Gateway);
            let (output, text) = (None, error.message.clone());
            result = SkillResult { success: false, output, text, error: Some(error), ..result };
            result.rendered_json.clear();
        }
        let (taken, hears) = oneshot::channel();
        let slot = Arc::new(Slot::new(Some((self.event(Event::Result(result)), share))));
        let _taken_back = TakenBack(&slot);
        let parcel = Parcel::Result { slot: Arc::clone(&slot), taken };
        match self.events.send(parcel).await {
            Ok(()) if hears.await.is_ok() => Delivered::Taken,
            _ => Delivered::Lost,
        }
    }

    fn event(&self, event: Event) -> InvokeEvent {
        InvokeEvent { call_id: self.call_id.clone(), event: Some(event) }
    }

    /// Whether the client has heard of the skill's run.
    pub(crate) fn has_relayed(&self) -> bool {
        self.relayed.load(Ordering::Relaxed)
    }

    /// Whether the call is held up by a client that does not read.
    pub(crate) fn is_held_up(&self) -> bool {
        self.waits.load(Ordering::Relaxed)
    }
}
