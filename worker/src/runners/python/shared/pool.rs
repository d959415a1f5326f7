//! Assigns a skill's calls to its interpreters.
//!
//! A call goes to the interpreter with the fewest calls. Calls behind the first one wait in its
//! [queue](super::queue). The pool takes them back when another interpreter is idle or this one ends. A call that
//! was taken back has not begun.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant, SystemTime};

use futures_util::future::BoxFuture;
use openskill_sandbox::launch::LaunchError;
use openskill_sandbox::run::RunError;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::super::freshness::changed_since;
use super::interpreter::{CallEnd, Connected, Interpreter, Launch, Pending, Process, Wire};
use super::message::CallMessage;
use crate::events::EventSink;
use crate::runner::RawOutput;
use crate::schedule::Slot;

/// An interpreter is replaced after this many calls, to free the memory that it has accumulated.
const MOST_CALLS: u64 = 100_000;

/// How many interpreters may end before one of them begins a call.
const TRIES: u32 = 3;

/// Creates a new interpreter's descriptors, and a closure that starts its process.
pub(super) type Connect = Box<dyn Fn() -> io::Result<Connected> + Send + Sync>;

/// Starts an interpreter's process and reads its output until it ends.
pub(super) type Attend = fn(Arc<Pool>, StartingInterpreter) -> BoxFuture<'static, ()>;

/// An interpreter whose process is about to be started.
pub(super) struct StartingInterpreter {
    pub(super) id: u64,
    pub(super) answers: OwnedFd,
    pub(super) wire: Arc<Wire>,
    pub(super) launch: Launch,
    /// The slot in which the pool stores its process.
    pub(super) kept: Weak<Mutex<Option<Process>>>,
}

pub(super) struct Pool {
    connect: Connect,
    attend: Attend,
    script: PathBuf,
    most: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    interpreters: Vec<Interpreter>,
    /// The last number that was given to a call or interpreter.
    last: u64,
    /// Whether new interpreters end after their first calls.
    retired: bool,
}

/// A call that was put into an interpreter's queue.
pub(super) struct QueuedCall {
    pub(super) number: u64,
    pub(super) end: oneshot::Receiver<CallEnd>,
    /// Whether another call precedes it.
    pub(super) behind: bool,
}

impl Pool {
    pub(super) fn new(connect: Connect, attend: Attend, script: PathBuf, most: usize) -> Arc<Self> {
        Arc::new(Self { connect, attend, script, most, state: Mutex::default() })
    }

    /// Assigns a call to an interpreter. Must be called within a runtime.
    pub(super) fn put(self: &Arc<Self>, mut message: CallMessage, slot: Slot, events: EventSink) -> QueuedCall {
        let mut state = self.state.lock();
        state.drop_changed(self);
        state.last += 1;
        let number = state.last;
        message.number(number);
        let (ended, end) = oneshot::channel();
        let behind = state.place(self, Pending { number, message, tries: 0, dropped: false, slot, events, ended });
        QueuedCall { number, end, behind }
    }

    /// Drops a call that is no longer wanted. Ends its interpreter if it has begun the call.
    pub(super) fn drop_call(self: &Arc<Self>, number: u64) {
        let mut state = self.state.lock();
        let Some(at) = state.with_call(number) else { return };
        let wire = Arc::clone(&state.interpreters[at].wire);
        state.judge(self, at, number);
        wire.changed.notify_one();
    }

    /// Settles the dropped calls of an interpreter after new output. Returns whether the interpreter continues.
    pub(super) fn judge_dropped(self: &Arc<Self>, id: u64) -> bool {
        let mut state = self.state.lock();
        let Some(at) = state.with_id(id) else { return false };
        state.interpreters[at].wire.dropped.store(false, Ordering::Release);
        let dropped: Vec<_> = state.interpreters[at].calls.iter().filter(|it| it.dropped).map(|it| it.number).collect();
        for number in dropped {
            let Some(at) = state.with_call(number) else { continue };
            state.judge(self, at, number);
        }
        state.with_id(id).is_some()
    }

    /// Moves calls behind the first one of their interpreter to idle interpreters. Called for a call that has
    /// waited for a while. Returns whether this call is still behind another.
    pub(super) fn rebalance(self: &Arc<Self>, number: u64) -> bool {
        let mut state = self.state.lock();
        let Some(at) = state.with_call(number) else { return false };
        if state.interpreters[at].calls.front().is_some_and(|first| first.number == number) {
            return false;
        }
        let idle = state.open().any(|it| it.calls.is_empty()) || state.open().count() < self.most;
        if idle {
            let waiting = state.interpreters[at].take_back();
            waiting.into_iter().for_each(|call| {
                state.place(self, call);
            });
        }
        true
    }

    /// Ends a call that its interpreter answered. If this is its `last` call, the interpreter accepts no more.
    /// Returns whether the interpreter continues.
    pub(super) fn finish_call(self: &Arc<Self>, id: u64, number: u64, last: bool, mut output: RawOutput) -> bool {
        let mut state = self.state.lock();
        let Some(at) = state.with_id(id) else { return false };
        let interpreter = &mut state.interpreters[at];
        let Some(call) = interpreter.calls.pop_front_if(|it| it.number == number) else {
            // The interpreter answered a call that is not in its queue.
            state.end(self, at, RunError::Launch(LaunchError::Lost));
            return false;
        };
        interpreter.last_used = Instant::now();
        if last {
            // The interpreter ends, and with it the threads and processes that the call left running. Only then is
            // the call's slot free.
            interpreter.slots.lock().push(call.slot);
        }
        if let RawOutput::Process { had_secrets, .. } = &mut output {
            *had_secrets = interpreter.given_secrets.any();
        }
        let _ = call.ended.send(CallEnd::Ran(output));
        let interpreter = &state.interpreters[at];
        if last || (interpreter.draining && interpreter.calls.is_empty()) {
            state.end(self, at, RunError::Launch(LaunchError::Lost));
            return false;
        }
        true
    }

    /// Ends an interpreter that failed. If its first call has begun, this call fails with `error`.
    pub(super) fn fail_interpreter(self: &Arc<Self>, id: u64, error: RunError) {
        let mut state = self.state.lock();
        if let Some(at) = state.with_id(id) {
            state.end(self, at, error);
        }
    }

    /// Returns the sink for an interpreter's events. Returns `None` if its call was dropped or it has no call.
    pub(super) fn events(&self, id: u64) -> Option<EventSink> {
        let state = self.state.lock();
        let first = state.interpreters[state.with_id(id)?].calls.front()?;
        (!first.dropped).then(|| first.events.clone())
    }

    /// Ends interpreters that are idle, or whose script changed.
    pub(super) fn maintain(self: &Arc<Self>, idle: Duration) {
        let mut state = self.state.lock();
        for it in &mut state.interpreters {
            it.draining |= it.calls.is_empty() && it.last_used.elapsed() >= idle;
        }
        state.end_drained(self);
        state.drop_changed(self);
    }

    /// Returns the number of interpreters.
    pub(super) fn len(&self) -> usize {
        self.state.lock().interpreters.len()
    }

    /// Returns whether the pool still contains this interpreter.
    pub(super) fn has(&self, id: u64) -> bool {
        self.state.lock().with_id(id).is_some()
    }

    /// Ends all interpreters, each after its last call.
    pub(super) fn retire(self: &Arc<Self>) {
        let mut state = self.state.lock();
        state.retired = true;
        state.interpreters.iter_mut().for_each(|it| it.draining = true);
        state.end_drained(self);
    }
}

impl State {
    fn with_id(&self, id: u64) -> Option<usize> {
        self.interpreters.iter().position(|it| it.id == id)
    }

    fn with_call(&self, number: u64) -> Option<usize> {
        self.interpreters.iter().position(|it| it.calls.iter().any(|call| call.number == number))
    }

    /// Iterates over the interpreters that accept calls.
    fn open(&self) -> impl Iterator<Item = &Interpreter> {
        self.interpreters.iter().filter(|it| !it.draining)
    }

    fn drop_changed(&mut self, pool: &Arc<Pool>) {
        let changed = |started| changed_since(started, [pool.script.as_path()].into_iter());
        if self.open().map(|it| it.started).min().is_some_and(changed) {
            self.interpreters.iter_mut().for_each(|it| it.draining |= changed(it.started));
            self.end_drained(pool);
        }
    }

    fn end_drained(&mut self, pool: &Arc<Pool>) {
        while let Some(at) = self.interpreters.iter().position(|it| it.draining && it.calls.is_empty()) {
            self.end(pool, at, RunError::Launch(LaunchError::Lost));
        }
    }

    /// Puts a call into the shortest queue, or ends it as not started. Returns whether it is behind another call.
    fn place(&mut self, pool: &Arc<Pool>, call: Pending) -> bool {
        if call.ended.is_closed() {
            return false;
        }
        let picked = if call.tries < TRIES { self.pick(pool) } else { None };
        let put = |at: &usize| {
            let interpreter = &self.interpreters[*at];
            interpreter.given_secrets.note(call.message.has_secrets);
            interpreter.queue.put(&call.message).is_ok()
        };
        let Some(at) = picked.filter(put) else {
            let _ = call.ended.send(CallEnd::NotStarted);
            return false;
        };
        let interpreter = &mut self.interpreters[at];
        interpreter.served += 1;
        interpreter.draining |= interpreter.served == MOST_CALLS;
        interpreter.calls.push_back(call);
        interpreter.calls.len() > 1
    }

    /// Returns the interpreter with the fewest calls, or creates one if all are busy and the limit allows it.
    fn pick(&mut self, pool: &Arc<Pool>) -> Option<usize> {
        let open = self.interpreters.iter().enumerate().filter(|(_, it)| !it.draining);
        // Prefer interpreters that will not end soon.
        let rank = |it: &Interpreter| (it.wire.dropped.load(Ordering::Acquire), it.calls.len());
        let best = open.min_by_key(|(_, it)| rank(it)).map(|(at, it)| (at, it.calls.len()));
        if let Some((at, calls)) = best
            && (calls == 0 || self.open().count() >= pool.most)
        {
            return Some(at);
        }
        match self.start(pool) {
            Ok(at) => Some(at),
            Err(error) => {
                if openskill_telemetry::log::admits("a shared interpreter was not started") {
                    tracing::warn!(%error, "a shared interpreter could not be started");
                }
                best.map(|(at, _)| at)
            }
        }
    }

    /// Creates an interpreter. Its attending task starts the process, because this function runs under the pool's
    /// lock.
    fn start(&mut self, pool: &Arc<Pool>) -> io::Result<usize> {
        // No runtime exists while the worker shuts down.
        let runtime = tokio::runtime::Handle::try_current().map_err(io::Error::other)?;
        let started_at = SystemTime::now();
        let Connected { queue, answers, launch, slots, given_secrets } = (pool.connect)()?;
        self.last += 1;
        let id = self.last;
        let wire = Arc::new(Wire::new(&answers)?);
        let process = Arc::default();
        let started =
            StartingInterpreter { id, answers, wire: Arc::clone(&wire), launch, kept: Arc::downgrade(&process) };
        runtime.spawn((pool.attend)(Arc::clone(pool), started));
        self.interpreters.push(Interpreter {
            id,
            queue,
            calls: VecDeque::new(),
            wire,
            _process: process,
            slots,
            given_secrets,
            started: started_at,
            last_used: Instant::now(),
            served: 0,
            draining: self.retired,
        });
        Ok(self.interpreters.len() - 1)
    }

    /// Settles a dropped call. First takes back the calls behind it. If the call has begun, and no unread output
    /// could show that it has ended, ends its interpreter, which has no other call.
    fn judge(&mut self, pool: &Arc<Pool>, at: usize, number: u64) {
        let mut behind = self.interpreters[at].take_back();
        let interpreter = &mut self.interpreters[at];
        let waiting = behind.len();
        behind.retain(|call| call.number != number);
        let was_begun = behind.len() == waiting;
        let is_alone = interpreter.calls.len() == 1;
        // This call was checked before, so do not wait for a script that keeps reporting events.
        let again = interpreter.calls.iter().any(|it| it.number == number && it.dropped);
        let ends = was_begun && (!interpreter.wire.has_more() || (again && is_alone));
        if was_begun && !ends {
            interpreter.calls.iter_mut().filter(|it| it.number == number).for_each(|it| it.dropped = true);
            interpreter.wire.dropped.store(true, Ordering::Release);
        }
        if ends {
            self.end(pool, at, RunError::Launch(LaunchError::Lost));
        }
        for call in behind {
            self.place(pool, call);
        }
    }

    /// Ends an interpreter. Moves calls that it has not begun to others.
    fn end(&mut self, pool: &Arc<Pool>, at: usize, error: RunError) {
        self.interpreters[at].draining = true;
        let behind = self.interpreters[at].take_back();
        let interpreter = self.interpreters.swap_remove(at);
        let mut error = Some(error);
        for call in interpreter.calls {
            interpreter.slots.lock().push(call.slot);
            let error = error.take().unwrap_or(RunError::Launch(LaunchError::Lost));
            let _ = call.ended.send(CallEnd::Failed(error));
        }
        interpreter.wire.changed.notify_one();
        for mut call in behind {
            call.tries += 1;
            self.place(pool, call);
        }
    }
}
