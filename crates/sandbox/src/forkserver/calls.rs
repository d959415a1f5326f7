//! A fork server's unfinished calls, and the resources that are kept for them.
//!
//! ```text
//! open ──> running ──exit message──> leaving ──overdue──> killed ──still overdue──> the whole fork server is killed
//!             └──────dropped───────────────────────────>┘
//! ```
//!
//! In each of these states, the supervisor's report ends the call. A session's process is also tracked as such a
//! call, but keeps no resources, and stays while it runs nothing. If such a process is overdue, the other calls
//! continue: the fork server accepts no more calls, and ends after the last of them.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use openskill_telemetry::log::admits;
use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot, watch};

use crate::protocol::{ColdImport, Exit, Loaded, Notice, ONLY_CALL, Order, Phase, RunReport};

/// The timeout for a fork server's start. After this, its calls run elsewhere, if they still have time.
const START: Duration = Duration::from_secs(10);

/// The timeout for a call to end after its exit message, including its orphans.
const LEAVING: Duration = Duration::from_secs(1);

/// The timeout for a killed call to end. No script can delay this, so such a process hangs in the kernel.
const STUCK: Duration = Duration::from_secs(30);

/// The timeout for a call to end after it was dropped and killed. This takes milliseconds, unless the fork server
/// was stopped (SIGSTOP).
const PATIENCE: Duration = Duration::from_secs(5);

/// The ways in which a call can end.
pub(super) enum CallEnd {
    /// It ended as its supervisor reported.
    Report(RunReport),
    /// The script did not start.
    NotStarted,
    /// It is unknown whether the script started.
    Unknown,
}

/// The state that a fork server's calls share with the task that talks to its supervisor.
pub(super) struct Calls {
    state: Mutex<State>,
    /// Wakes that task if there are new [`Calls::orders`].
    pub(super) wake: Notify,
    phase: watch::Sender<Phase>,
}

struct State {
    open: HashMap<u64, OpenCall>,
    /// The orders that were not sent to the supervisor yet.
    orders: Vec<Order>,
    /// Whether the fork server accepts no more calls.
    closed: bool,
    /// The report that ended all calls at once, if any.
    end_of_all: Option<RunReport>,
    /// Whether the fork server must end, even if calls are running.
    condemned: bool,
    /// `None` until the fork server is ready.
    loaded: Option<Loaded>,
    started: Instant,
    last_used: Instant,
}

struct OpenCall {
    ended: oneshot::Sender<CallEnd>,
    /// Dropped when the call's processes have ended. `None` for a session's process.
    guard: Option<Box<dyn Send>>,
    /// Completes when the supervisor has sent the signal.
    interrupted: Option<oneshot::Sender<()>>,
    /// The exit code in its exit message.
    exit_code: Option<i32>,
    overdue: Option<Overdue>,
}

/// The next action if a call does not end in time.
#[derive(Clone, Copy)]
enum Overdue {
    Kill(Instant),
    /// The call was killed and has not ended, so kill the fork server.
    GiveUp(Instant),
    /// A session's process was killed and has not ended. Close the fork server, but let its other sessions
    /// continue.
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

    /// Registers a new call. Returns `None` if the fork server accepts no more calls.
    pub(super) fn open(&self, call: u64, guard: Option<Box<dyn Send>>) -> Option<oneshot::Receiver<CallEnd>> {
        let mut state = self.state.lock();
        if state.closed {
            return None;
        }
        let (ended, end) = oneshot::channel();
        state.open.insert(call, OpenCall { ended, guard, interrupted: None, exit_code: None, overdue: None });
        Some(end)
    }

    /// Removes a call that could not be sent.
    pub(super) fn take_back(&self, call: u64) {
        self.state.lock().open.remove(&call);
    }

    /// Records a call's exit message with its exit code. The guard is dropped when the call's processes have
    /// ended.
    pub(super) fn leave(&self, call: u64, code: i32) {
        if let Some(open) = self.state.lock().open.get_mut(&call) {
            open.exit_code = Some(code);
            open.overdue = Some(Overdue::Kill(Instant::now() + LEAVING));
        }
    }

    /// Kills a call that was dropped.
    pub(super) fn kill(&self, call: u64) {
        self.order(Order::Kill(call), |it| it.overdue = Some(Overdue::GiveUp(Instant::now() + PATIENCE)));
    }

    /// Kills a kept process. One that has not started is killed when it starts, if it ever does.
    pub(super) fn kill_kept(&self, call: u64, began: bool) {
        let time = if began { STUCK } else { PATIENCE };
        self.order(Order::Kill(call), |it| it.overdue = Some(Overdue::Abandon(Instant::now() + time)));
    }

    /// Sends SIGINT to a call's process. The receiver completes when the signal was sent or the process has ended.
    pub(super) fn interrupt(&self, call: u64) -> oneshot::Receiver<()> {
        let (interrupted, sent) = oneshot::channel();
        self.order(Order::Interrupt(call), |it| it.interrupted = Some(interrupted));
        sent
    }

    /// Sends the supervisor an order, and records it with the call. Has no effect after the call has ended.
    fn order(&self, order: Order, record: impl FnOnce(&mut OpenCall)) {
        let (Order::Kill(call) | Order::Interrupt(call)) = order;
        let mut state = self.state.lock();
        if let Some(open) = state.open.get_mut(&call) {
            record(open);
            state.orders.push(order);
            self.wake.notify_one();
        }
    }

    /// Takes the pending orders for the supervisor. Returns `None` if the fork server must end.
    pub(super) fn orders(&self) -> Option<Vec<Order>> {
        let mut state = self.state.lock();
        if state.condemned { None } else { Some(std::mem::take(&mut state.orders)) }
    }

    /// Handles calls that have not ended in time.
    pub(super) fn check_overdue(&self, now: Instant) {
        let ready = self.is_ready();
        let mut state = self.state.lock();
        let abandoned = |it: &OpenCall| matches!(it.overdue, Some(Overdue::Abandon(at)) if at <= now);
        if state.open.extract_if(|_, it| ready && abandoned(it)).count() > 0 {
            tracing::warn!("a fork server did not end a kept process; it no longer keeps processes");
            state.closed = true;
            self.end_if_done(&mut state);
        }
        let State { open, orders, condemned, started, .. } = &mut *state;
        if !ready && now >= *started + START {
            tracing::warn!("a fork server was not ready in time; giving up on it");
            *condemned = true;
        }
        for (call, it) in open {
            match it.overdue {
                Some(Overdue::Kill(at)) if at <= now => {
                    if admits("a call outlived its exit message") {
                        tracing::warn!("a call sent its exit message but still runs; killing it");
                    }
                    it.overdue = Some(Overdue::GiveUp(now + STUCK));
                    orders.push(Order::Kill(*call));
                }
                // Before the fork server is ready, it starts no call, so this need not end the calls that wait for
                // it.
                Some(Overdue::GiveUp(at)) if at <= now && ready => {
                    tracing::warn!("a fork server does not end its call; killing the fork server");
                    *condemned = true;
                }
                _ => {}
            }
        }
        state.closed |= state.condemned;
    }

    /// Returns the number of calls that have not sent their exit message.
    pub(super) fn count(&self) -> usize {
        self.state.lock().open.values().filter(|it| it.exit_code.is_none()).count()
    }

    pub(super) fn is_open(&self) -> bool {
        !self.state.lock().closed
    }

    /// Returns whether the fork server was ever ready.
    pub(super) fn is_ready(&self) -> bool {
        self.state.lock().loaded.is_some()
    }

    /// Returns a part of what the fork server loaded. Empty before it is ready.
    pub(super) fn loaded<T: Default>(&self, part: impl FnOnce(&Loaded) -> T) -> T {
        self.state.lock().loaded.as_ref().map(part).unwrap_or_default()
    }

    pub(super) fn idle_for(&self) -> Duration {
        let state = self.state.lock();
        if state.open.is_empty() { state.last_used.elapsed() } else { Duration::ZERO }
    }

    /// Stops accepting calls. The fork server ends after the last one.
    pub(super) fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        self.end_if_done(&mut state);
    }

    /// Handles a notice from the supervisor.
    ///
    /// # Errors
    /// Fails if the protocol does not allow the notice in this phase.
    pub(super) fn hear(&self, notice: Notice) -> std::io::Result<()> {
        let phase = *self.phase.borrow();
        match (phase, notice) {
            (Phase::Starting, Notice::Ready(loaded)) => self.ready(loaded),
            (Phase::Starting, Notice::Ended { call: ONLY_CALL, .. }) => self.server_ended(&[]),
            (Phase::Serving | Phase::Orphaned, Notice::Ended { call, report: report @ RunReport::Ended { .. } }) => {
                match call {
                    // The kernel killed the whole tree. The socket closes next.
                    ONLY_CALL => self.state.lock().end_of_all = Some(report),
                    _ => self.end(call, report),
                }
            }
            (Phase::Serving | Phase::Orphaned, Notice::Interrupted(call)) => self.confirm_interrupt(call),
            // No call starts before the fork server is ready, so none continues.
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
        let mut state = self.state.lock();
        state.loaded = Some(loaded);
        let until = Instant::now() + PATIENCE;
        // The time limit of calls that were dropped meanwhile starts now.
        state
            .open
            .values_mut()
            .filter(|it| matches!(it.overdue, Some(Overdue::GiveUp(_))))
            .for_each(|it| it.overdue = Some(Overdue::GiveUp(until)));
        self.phase.send_replace(Phase::Serving);
    }

    fn confirm_interrupt(&self, call: u64) {
        if let Some(sent) = self.state.lock().open.get_mut(&call).and_then(|open| open.interrupted.take()) {
            let _ = sent.send(());
        }
    }

    /// Ends a call and drops its guard.
    fn end(&self, call: u64, report: RunReport) {
        let mut state = self.state.lock();
        state.last_used = Instant::now();
        let open = state.open.remove(&call);
        self.end_if_done(&mut state);
        drop(state);
        if let Some(OpenCall { ended, guard, exit_code, .. }) = open {
            drop(guard);
            let is_as_announced =
                |code| matches!(report, RunReport::Ended { exit: Exit::Code(exit), .. } if exit == code);
            if exit_code.is_some_and(|code| !is_as_announced(code))
                && admits("a call's exit status differs from its exit message")
            {
                tracing::warn!(?report, "a call's exit status differs from its exit message");
            }
            let _ = ended.send(CallEnd::Report(report));
        }
    }

    /// Handles the end of the fork server. Calls that have not started are returned to their callers.
    fn server_ended(&self, running: &[u64]) {
        let mut state = self.state.lock();
        state.closed = true;
        let unstarted: Vec<_> = state.open.extract_if(|call, _| !running.contains(call)).collect();
        drop(state);
        self.phase.send_replace(Phase::Orphaned);
        for (_, OpenCall { ended, .. }) in unstarted {
            let _ = ended.send(CallEnd::NotStarted);
        }
    }

    /// Waits until all of the fork server's processes have ended.
    pub(super) async fn wait_gone(&self) {
        let mut phase = self.phase.subscribe();
        // This can't fail, because this value contains the sender.
        let _ = phase.wait_for(|phase| *phase == Phase::Over).await;
    }

    fn end_if_done(&self, state: &mut State) {
        if state.closed && state.open.is_empty() {
            state.condemned = true;
            self.wake.notify_one();
        }
    }
}

/// Dropped when the fork server's process tree has ended, after which no call can be reported.
pub(super) struct Guard(pub(super) Arc<Calls>);

impl Drop for Guard {
    fn drop(&mut self) {
        let ready = self.0.is_ready();
        let (left, end_of_all) = {
            let mut state = self.0.state.lock();
            state.closed = true;
            (std::mem::take(&mut state.open), state.end_of_all.take())
        };
        for (_, OpenCall { ended, guard, .. }) in left {
            drop(guard);
            let _ = ended.send(match &end_of_all {
                _ if !ready => CallEnd::NotStarted,
                Some(report) => CallEnd::Report(report.clone()),
                None => CallEnd::Unknown,
            });
        }
        self.0.phase.send_replace(Phase::Over);
    }
}

/// A call that has not ended. Dropping it before the end kills the call.
pub(super) struct PendingCall {
    /// `None` after the call has ended or sent its exit message.
    pub(super) ended: Option<oneshot::Receiver<CallEnd>>,
    pub(super) call: u64,
    pub(super) calls: Arc<Calls>,
    /// For a process that outlives a call: whether its owner has seen that it runs.
    pub(super) began: Option<bool>,
}

impl PendingCall {
    pub(super) async fn wait(&mut self) -> CallEnd {
        let Some(ended) = &mut self.ended else { return CallEnd::Unknown };
        let end = ended.await.unwrap_or(CallEnd::Unknown);
        self.ended = None;
        end
    }

    /// Records the exit code in its exit message. Its process has not exited yet.
    pub(super) fn leave(mut self, code: i32) {
        if self.ended.take().is_some() {
            self.calls.leave(self.call, code);
        }
    }

    pub(super) fn kill(&self) {
        match self.began {
            None => self.calls.kill(self.call),
            Some(began) => self.calls.kill_kept(self.call, began),
        }
    }
}

impl Drop for PendingCall {
    fn drop(&mut self) {
        if self.ended.is_some() {
            self.kill();
        }
    }
}

#[cfg(test)]
mod tests;
