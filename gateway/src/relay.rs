//! From what a worker says to what the caller hears.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use openskill_proto::v1::{Accepted, InvokeEvent, execute_event, invoke_event::Event};
use tokio::sync::mpsc;

/// Who hears of one call while it runs.
#[derive(Debug, Clone)]
pub(crate) struct Listener {
    call_id: String,
    events: mpsc::Sender<InvokeEvent>,
    /// An event waits for the client to make room for it.
    waits: Arc<AtomicBool>,
    /// An event of the skill was handed on.
    relayed: Arc<AtomicBool>,
}

impl Listener {
    pub(crate) fn new(call_id: String, events: mpsc::Sender<InvokeEvent>) -> Self {
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
            execute_event::Event::Result(_) => {}
        }
    }

    pub(crate) async fn send(&self, event: Event) {
        self.waits.store(true, Ordering::Relaxed);
        // A listener that went away is about to drop the whole call.
        let _ = self.events.send(InvokeEvent { call_id: self.call_id.clone(), event: Some(event) }).await;
        self.waits.store(false, Ordering::Relaxed);
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
