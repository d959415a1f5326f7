//! The calls of a fork server that are not over, with their slots.
//!
//! ```text
//! open ──> running ──last word──> leaving ──overdue──> killed ──still overdue──> the whole fork server is ended
//!             └──────dropped───────────────────────────>┘
//! ```
//!
//! From each of them, the supervisor's report ends the call. The process of a session is such a call too, without a slot: it is
//! kept while nothing runs in it. One that is overdue takes no other with it: its fork server takes no more calls, and ends
//! after the last of the others.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use openskill_log::admits;
use tokio::sync::{Notify, oneshot, watch};

use crate::process::protocol::{ColdImport, Exit, Loaded, Notice, ONLY_CALL, Order, Phase, Report};
use crate::schedule::Slot;

/// How long it may take to get ready. Its calls go elsewhere then, while they still have time.
const START: Duration = Duration::from_secs(10);

/// How long a call may take to be over after its last word: to take its process down, and to wait for its orphans.
const LEAVING: Duration = Duration::from_secs(1);

/// How long a call may then take to be over once it is killed. No script can stretch this: such a process hangs in the kernel.
const STUCK: Duration = Duration::from_secs(30);

/// How long a call may take to be over once it was dropped and killed. It takes milliseconds, unless somebody stopped the
/// fork server.
const PATIENCE: Duration = Duration::from_secs(5);

/// How a call ended.
pub(super) enum End {
    /// As its supervisor says.
    Report(Report),
    /// The script did not begin.
    NotStarted,
    /// Nobody knows how far it came.
    Unknown,
}

/// What all calls of one fork server share with the task that talks to its supervisor.
pub(super) struct Calls {
    state: Mutex<State>,
    /// Wakes that task: there is something in [`Calls::orders`].
    pub(super) wake: Notify,
    phase: watch::Sender<Phase>,
}

struct State {
    open: HashMap<u64, Open>,
    /// Orders for the supervisor.
    orders: Vec<Order>,
    /// No more calls are taken.
    closed: bool,
    /// How all of it ended, if that was at once.
    end_of_all: Option<Report>,
    /// The fork server is to end, whatever runs.
    condemned: bool,
    /// None: it never got ready.
    loaded: Option<Loaded>,
    started: Instant,
    last_used: Instant,
}

struct Open {
    ended: oneshot::Sender<End>,
    /// Held until nothing of the call is left. `None` for the process of a session.
    slot: Option<Slot>,
    /// Completed when the supervisor has sent a signal.
    interrupted: Option<oneshot::Sender<()>>,
    /// The exit code of its last word.
    told: Option<i32>,
    overdue: Option<Overdue>,
}

/// What happens to a call that is not over by then.
#[derive(Clone, Copy)]
enum Overdue {
    Kill(Instant),
    /// It was killed: the fork server is ended.
    GiveUp(Instant),
    /// It was killed and does not end. The fork server is closed, and its other sessions continue.
    Abandon(Instant),
}

impl Calls {
    pub(super) fn new() -> Self {
        let now = Instant::now();
        let state = State {
            open: HashMap::new(),
            orders: Vec::new(),
            closed: false,
            end_of_all: None,
            condemned: false,
            loaded: None,
            started: now,
            last_used: now,
        };
        Self { state: Mutex::new(state), wake: Notify::new(), phase: watch::Sender::new(Phase::Starting) }
    }

    /// A new call. None: no more calls are taken.
    pub(super) fn open(&self, call: u64, slot: Option<Slot>) -> Option<oneshot::Receiver<End>> {
        let mut state = self.lock();
        if state.closed {
            return None;
        }
        let (ended, end) = oneshot::channel();
        state.open.insert(call, Open { ended, slot, interrupted: None, told: None, overdue: None });
        Some(end)
    }

    /// A call that could not be sent.
    pub(super) fn take_back(&self, call: u64) {
        self.lock().open.remove(&call);
    }

    /// A call has said its last word, with this exit code: its slot is free when its process has exited.
    pub(super) fn leave(&self, call: u64, code: i32) {
        if let Some(open) = self.lock().open.get_mut(&call) {
            open.told = Some(code);
            open.overdue = Some(Overdue::Kill(Instant::now() + LEAVING));
        }
    }

    /// Nobody waits for a call any more.
    pub(super) fn kill(&self, call: u64) {
        let mut state = self.lock();
        if let Some(open) = state.open.get_mut(&call) {
            open.overdue = Some(Overdue::GiveUp(Instant::now() + PATIENCE));
            state.orders.push(Order::Kill(call));
            self.wake.notify_one();
        }
    }

    /// Kills a process that was kept. One that has not begun is killed when it begins, which may be never.
    pub(super) fn kill_kept(&self, call: u64, began: bool) {
        let mut state = self.lock();
        if let Some(open) = state.open.get_mut(&call) {
            let time = if began { STUCK } else { PATIENCE };
            open.overdue = Some(Overdue::Abandon(Instant::now() + time));
            state.orders.push(Order::Kill(call));
            self.wake.notify_one();
        }
    }

    /// Sends SIGINT to the process of a call. The receiver completes when the signal was sent or the process is gone.
    pub(super) fn interrupt(&self, call: u64) -> oneshot::Receiver<()> {
        let (interrupted, sent) = oneshot::channel();
        let mut state = self.lock();
        if let Some(open) = state.open.get_mut(&call) {
            open.interrupted = Some(interrupted);
            state.orders.push(Order::Interrupt(call));
            self.wake.notify_one();
        }
        sent
    }

    /// The orders for the supervisor, each once. `None`: the fork server must end.
    pub(super) fn orders(&self) -> Option<Vec<Order>> {
        let mut state = self.lock();
        if state.condemned { None } else { Some(std::mem::take(&mut state.orders)) }
    }

    /// Looks for what is overdue.
    pub(super) fn look(&self, now: Instant) {
        let ready = self.is_ready();
        let mut state = self.lock();
        let abandoned = |it: &Open| matches!(it.overdue, Some(Overdue::Abandon(at)) if at <= now);
        if state.open.extract_if(|_, it| ready && abandoned(it)).count() > 0 {
            tracing::warn!("a fork server does not end a process that was kept: it makes no more of them");
            state.closed = true;
            self.end_if_done(&mut state);
        }
        let State { open, orders, condemned, started, .. } = &mut *state;
        if !ready && now >= *started + START {
            tracing::warn!("a fork server did not get ready in time and is given up");
            *condemned = true;
        }
        for (call, it) in open {
            match it.overdue {
                Some(Overdue::Kill(at)) if at <= now => {
                    if admits("a call outlived its last word") {
                        tracing::warn!("a call said that it ended and is not over: it is killed");
                    }
                    it.overdue = Some(Overdue::GiveUp(now + STUCK));
                    orders.push(Order::Kill(*call));
                }
                // Until it is ready it starts nothing: no reason to end the calls that wait for it.
                Some(Overdue::GiveUp(at)) if at <= now && ready => {
                    tracing::warn!("a fork server does not end its call: all of it is ended");
                    *condemned = true;
                }
                _ => {}
            }
        }
        state.closed |= state.condemned;
    }

    /// How many have not said their last word.
    pub(super) fn count(&self) -> usize {
        self.lock().open.values().filter(|it| it.told.is_none()).count()
    }

    pub(super) fn is_open(&self) -> bool {
        !self.lock().closed
    }

    /// Whether it got ready once.
    pub(super) fn is_ready(&self) -> bool {
        self.lock().loaded.is_some()
    }

    pub(super) fn files(&self) -> Vec<PathBuf> {
        self.lock().loaded.as_ref().map(|it| it.files.clone()).unwrap_or_default()
    }

    pub(super) fn cold_imports(&self) -> Vec<ColdImport> {
        self.lock().loaded.as_ref().map(|it| it.not_preloaded.clone()).unwrap_or_default()
    }

    pub(super) fn idle_for(&self) -> Duration {
        let state = self.lock();
        if state.open.is_empty() { state.last_used.elapsed() } else { Duration::ZERO }
    }

    /// Takes no more calls; the fork server ends with the last one.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        self.end_if_done(&mut state);
    }

    /// What the supervisor says.
    ///
    /// # Errors
    /// The protocol does not allow it in this phase.
    pub(super) fn hear(&self, notice: Notice) -> std::io::Result<()> {
        let phase = *self.phase.borrow();
        match (phase, notice) {
            (Phase::Starting, Notice::Ready(loaded)) => self.ready(loaded),
            (Phase::Starting, Notice::Ended { call: ONLY_CALL, .. }) => self.server_ended(&[]),
            // The kernel ended all of it; the socket closes next.
            (
                Phase::Serving | Phase::Orphaned,
                Notice::Ended { call: ONLY_CALL, report: report @ Report::Ended { .. } },
            ) => self.lock().end_of_all = Some(report),
            (Phase::Serving | Phase::Orphaned, Notice::Ended { call, report: report @ Report::Ended { .. } }) => {
                self.end(call, report);
            }
            (Phase::Serving | Phase::Orphaned, Notice::Interrupted(call)) => self.interrupted(call),
            // No call starts before the fork server is ready, so none goes on.
            (Phase::Starting, Notice::ServerEnded { running }) if running.is_empty() => self.server_ended(&[]),
            (Phase::Serving, Notice::ServerEnded { running }) => self.server_ended(&running),
            (_, notice) => {
                let reason = format!("{notice:?} is not allowed in the phase {phase:?}");
                return Err(std::io::Error::new(std::io::ErrorKind::InvalidData, reason));
            }
        }
        Ok(())
    }

    fn ready(&self, loaded: Loaded) {
        for ColdImport { import, leaves } in &loaded.not_preloaded {
            if leaves == ColdImport::FAILED {
                tracing::warn!(import, "this import of python.preload failed, so nothing is preloaded for it");
                continue;
            }
            tracing::info!(
                import,
                leaves,
                "this import leaves something behind that forks would share: each call runs it again"
            );
        }
        let mut state = self.lock();
        state.loaded = Some(loaded);
        let until = Instant::now() + PATIENCE;
        // The time of calls that were dropped meanwhile begins now.
        state
            .open
            .values_mut()
            .filter(|it| matches!(it.overdue, Some(Overdue::GiveUp(_))))
            .for_each(|it| it.overdue = Some(Overdue::GiveUp(until)));
        self.phase.send_replace(Phase::Serving);
    }

    fn interrupted(&self, call: u64) {
        if let Some(sent) = self.lock().open.get_mut(&call).and_then(|open| open.interrupted.take()) {
            let _ = sent.send(());
        }
    }

    /// A call is over: its slot is free.
    fn end(&self, call: u64, report: Report) {
        let mut state = self.lock();
        state.last_used = Instant::now();
        let open = state.open.remove(&call);
        self.end_if_done(&mut state);
        drop(state);
        if let Some(Open { ended, slot, told, .. }) = open {
            drop(slot);
            let as_told = |code| matches!(report, Report::Ended { exit: Exit::Code(exit), .. } if exit == code);
            if told.is_some_and(|code| !as_told(code)) && admits("a call ended otherwise than it said") {
                tracing::warn!(?report, "a call ended otherwise than its last word said");
            }
            let _ = ended.send(End::Report(report));
        }
    }

    /// No call starts any more: those that have not are given back.
    fn server_ended(&self, running: &[u64]) {
        let mut state = self.lock();
        state.closed = true;
        let unstarted: Vec<_> = state.open.extract_if(|call, _| !running.contains(call)).collect();
        drop(state);
        self.phase.send_replace(Phase::Orphaned);
        for (_, Open { ended, .. }) in unstarted {
            let _ = ended.send(End::NotStarted);
        }
    }

    /// Waits until nothing of the fork server is left.
    pub(super) async fn wait_gone(&self) {
        let mut phase = self.phase.subscribe();
        // The sender is here, so this can't fail.
        let _ = phase.wait_for(|phase| *phase == Phase::Over).await;
    }

    fn end_if_done(&self, state: &mut State) {
        if state.closed && state.open.is_empty() {
            state.condemned = true;
            self.wake.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Dropped when the fork server's process tree is gone: no call is left that could still be reported.
pub(super) struct Guard(pub(super) Arc<Calls>);

impl Drop for Guard {
    fn drop(&mut self) {
        let ready = self.0.is_ready();
        let (left, end_of_all) = {
            let mut state = self.0.lock();
            state.closed = true;
            (std::mem::take(&mut state.open), state.end_of_all.take())
        };
        for (_, Open { ended, slot, .. }) in left {
            drop(slot);
            let _ = ended.send(match &end_of_all {
                _ if !ready => End::NotStarted,
                Some(report) => End::Report(report.clone()),
                None => End::Unknown,
            });
        }
        self.0.phase.send_replace(Phase::Over);
    }
}

#[cfg(test)]
mod tests;
