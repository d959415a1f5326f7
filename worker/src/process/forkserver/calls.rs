//! The calls of a fork server that are not over, with their places.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, oneshot, watch};

use crate::admission::Slot;
use crate::process::wire::{Exit, Loaded, Report};

/// How long a call may take to be over once it has said that it ended: to take its process down, and to wait for what others
/// left behind.
const LEAVING: Duration = Duration::from_secs(1);

/// How long it may take then once it is killed. No script can stretch it: who does not go hangs in the kernel.
const STUCK: Duration = Duration::from_secs(30);

/// How a call ended.
pub(super) enum End {
    /// As its supervisor says.
    Report(Report),
    /// The program never had the word.
    NotStarted,
    /// Nobody knows how far it came.
    Unknown,
}

/// What all calls of one fork server, and the task that hears its supervisor, have in common.
pub(super) struct Calls {
    state: Mutex<State>,
    /// Told when the fork server is to go.
    pub(super) condemned: Notify,
    /// Told when a call leaves and nobody looks at those that do.
    leaving: Notify,
    /// True when nothing of it is left.
    gone: watch::Sender<bool>,
    /// True once calls are served.
    served: watch::Sender<bool>,
}

struct State {
    open: HashMap<u64, Open>,
    /// Somebody looks at the calls that leave.
    looked_at: bool,
    closed: bool,
    loaded: Option<Loaded>,
    last_used: Instant,
}

struct Open {
    ended: oneshot::Sender<End>,
    /// Its place, kept until nothing of it is left.
    slot: Slot,
    leaving: Option<Leaving>,
}

/// A call that has said that it ended.
struct Leaving {
    /// With which exit code.
    code: i32,
    /// When it is killed, or has been and all are given up with it.
    until: Instant,
    killed: bool,
}

impl Calls {
    pub(super) fn new() -> Self {
        let state =
            State { open: HashMap::new(), looked_at: false, closed: false, loaded: None, last_used: Instant::now() };
        Self {
            state: Mutex::new(state),
            condemned: Notify::new(),
            leaving: Notify::new(),
            gone: watch::Sender::new(false),
            served: watch::Sender::new(false),
        }
    }

    /// A new call. None if no call is taken any more.
    pub(super) fn open(&self, call: u64, slot: Slot) -> Option<oneshot::Receiver<End>> {
        let mut state = self.lock();
        if state.closed {
            return None;
        }
        let (ended, end) = oneshot::channel();
        state.open.insert(call, Open { ended, slot, leaving: None });
        Some(end)
    }

    /// A call that could not be sent.
    pub(super) fn take_back(&self, call: u64) {
        self.lock().open.remove(&call);
    }

    /// A call has said that it ended, with this exit code: its place is free when it has.
    pub(super) fn leave(&self, call: u64, code: i32) {
        let mut state = self.lock();
        let State { open, looked_at, .. } = &mut *state;
        if let Some(open) = open.get_mut(&call) {
            open.leaving = Some(Leaving { code, until: Instant::now() + LEAVING, killed: false });
            // One that is looking does so again soon enough.
            if !*looked_at {
                self.leaving.notify_one();
            }
        }
    }

    /// Waits for a call that said that it ended and is not over: it is to be killed.
    pub(super) async fn overdue(&self) -> u64 {
        loop {
            let Some(next) = self.next_to_leave() else {
                self.leaving.notified().await;
                continue;
            };
            // One that begins to leave meanwhile is not looked at later than it should be.
            tokio::time::sleep_until(next.min(Instant::now() + LEAVING).into()).await;
            if let Some(call) = self.take_overdue() {
                return call;
            }
        }
    }

    fn next_to_leave(&self) -> Option<Instant> {
        let mut state = self.lock();
        let next = state.open.values().filter_map(|it| Some(it.leaving.as_ref()?.until)).min();
        state.looked_at = next.is_some();
        next
    }

    fn take_overdue(&self) -> Option<u64> {
        let now = Instant::now();
        let mut state = self.lock();
        let mut leaving = state.open.iter_mut().filter_map(|(call, it)| Some((*call, it.leaving.as_mut()?)));
        let (call, late) = leaving.find(|(_, it)| it.until <= now)?;
        let killed = late.killed;
        (late.killed, late.until) = (true, now + STUCK);
        drop(state);
        if killed {
            tracing::warn!("a fork server does not end its call: all of it is ended");
            self.condemn();
            return None;
        }
        Some(call)
    }

    /// Whether the call is not over.
    pub(super) fn has(&self, call: u64) -> bool {
        self.lock().open.contains_key(&call)
    }

    /// How many have not said that they ended.
    pub(super) fn count(&self) -> usize {
        self.lock().open.values().filter(|it| it.leaving.is_none()).count()
    }

    pub(super) fn is_open(&self) -> bool {
        !self.lock().closed
    }

    /// Whether calls are served by now.
    pub(super) fn is_ready(&self) -> bool {
        self.lock().loaded.is_some()
    }

    pub(super) fn loaded(&self) -> Option<Loaded> {
        self.lock().loaded.clone()
    }

    pub(super) fn idle_for(&self) -> Duration {
        let state = self.lock();
        if state.open.is_empty() { state.last_used.elapsed() } else { Duration::ZERO }
    }

    /// No more calls; without any, that is the end.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        if state.open.is_empty() {
            self.condemned.notify_one();
        }
    }

    /// The end of all, whatever runs.
    pub(super) fn condemn(&self) {
        self.lock().closed = true;
        self.condemned.notify_one();
    }

    pub(super) fn ready(&self, loaded: Loaded) {
        self.lock().loaded = Some(loaded);
        self.served.send_replace(true);
    }

    /// Waits until calls are served.
    pub(super) async fn wait_ready(&self) {
        let mut served = self.served.subscribe();
        // The sender is here, so this can't fail.
        let _ = served.wait_for(|served| *served).await;
    }

    /// A call is over. Its place is free from here on.
    pub(super) fn end(&self, call: u64, report: Report) {
        let mut state = self.lock();
        state.last_used = Instant::now();
        let open = state.open.remove(&call);
        if state.closed && state.open.is_empty() {
            self.condemned.notify_one();
        }
        drop(state);
        if let Some(Open { ended, slot, leaving }) = open {
            drop(slot);
            let told = leaving.map(|it| Report::Ended { exit: Exit::Code(it.code), leftovers: 0 });
            if told.is_some_and(|told| told != report) {
                tracing::warn!(?report, "a call ended otherwise than it had said");
            }
            let _ = ended.send(End::Report(report));
        }
    }

    /// No call will start any more: those that have not are given back.
    pub(super) fn gone(&self, running: &[u64]) {
        let mut state = self.lock();
        state.closed = true;
        let unstarted: Vec<_> = state.open.extract_if(|call, _| !running.contains(call)).collect();
        drop(state);
        for (_, Open { ended, .. }) in unstarted {
            let _ = ended.send(End::NotStarted);
        }
    }

    /// Waits until nothing of the fork server is left.
    pub(super) async fn wait_gone(&self) {
        let mut gone = self.gone.subscribe();
        // The sender is here, so this can't fail.
        let _ = gone.wait_for(|gone| *gone).await;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Let go of when the fork server's whole tree is gone: no call is left that could still be reported.
pub(super) struct Guard(pub(super) Arc<Calls>);

impl Drop for Guard {
    fn drop(&mut self) {
        let (left, served) = {
            let mut state = self.0.lock();
            state.closed = true;
            (std::mem::take(&mut state.open), state.loaded.is_some())
        };
        for (_, Open { ended, slot, .. }) in left {
            drop(slot);
            let _ = ended.send(if served { End::Unknown } else { End::NotStarted });
        }
        self.0.gone.send_replace(true);
    }
}
