//! The interpreters of one skill, and which call is with which.
//!
//! A call goes to the interpreter with the fewest calls. Those behind the first wait in its [queue](super::queue). The pool takes
//! them back when another interpreter is idle, and when this one ends: a call that was taken back was not begun.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant, SystemTime};

use futures_util::future::BoxFuture;
use tokio::sync::oneshot;

use super::super::freshness::changed_since;
use super::interpreter::{Connected, End, Interpreter, Launch, Pending, Process, Wire};
use super::message::Message;
use crate::events::EventSink;
use crate::process::launch::LaunchError;
use crate::process::run::RunError;
use crate::runner::RawOutput;
use crate::schedule::Slot;

/// An interpreter is replaced after so many calls, which frees what they made it keep.
const MOST_CALLS: u64 = 100_000;

/// How many interpreters may end before one of them begins a call.
const TRIES: u32 = 3;

/// Makes the descriptors of a new interpreter, and what starts its process.
pub(super) type Connect = Box<dyn Fn() -> io::Result<Connected> + Send + Sync>;

/// Starts an interpreter's process and reads what it says, until it ends.
pub(super) type Attend = fn(Arc<Pool>, Started) -> BoxFuture<'static, ()>;

/// An interpreter whose process is to be started.
pub(super) struct Started {
    pub(super) id: u64,
    pub(super) answers: OwnedFd,
    pub(super) wire: Arc<Wire>,
    pub(super) launch: Launch,
    /// Where the pool keeps its process.
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
    /// Counted up with each call, and each interpreter.
    last: u64,
    /// An interpreter that is started from now on ends after its first calls.
    retired: bool,
}

/// A call in the queue of an interpreter.
pub(super) struct Queued {
    pub(super) number: u64,
    pub(super) end: oneshot::Receiver<End>,
    /// Another call is before it.
    pub(super) behind: bool,
}

impl Pool {
    pub(super) fn new(connect: Connect, attend: Attend, script: PathBuf, most: usize) -> Arc<Self> {
        Arc::new(Self { connect, attend, script, most, state: Mutex::default() })
    }

    /// Gives a call to an interpreter. Must be called within a runtime.
    pub(super) fn put(self: &Arc<Self>, mut message: Message, slot: Slot, events: EventSink) -> Queued {
        let mut state = self.lock();
        state.drop_changed(self);
        state.last += 1;
        let number = state.last;
        message.number(number);
        let (ended, end) = oneshot::channel();
        let behind = state.place(self, Pending { number, message, tries: 0, dropped: false, slot, events, ended });
        Queued { number, end, behind }
    }

    /// Nobody waits for a call any more. If it was begun, its interpreter ends.
    pub(super) fn drop_call(self: &Arc<Self>, number: u64) {
        let mut state = self.lock();
        let Some(at) = state.with_call(number) else { return };
        let wire = Arc::clone(&state.interpreters[at].wire);
        state.judge(self, at, number);
        wire.changed.notify_one();
    }

    /// Decides about the dropped calls of an interpreter, of which more is known now. Whether it goes on.
    pub(super) fn judge_dropped(self: &Arc<Self>, id: u64) -> bool {
        let mut state = self.lock();
        let Some(at) = state.with_id(id) else { return false };
        state.interpreters[at].wire.dropped.store(false, Ordering::Release);
        let dropped: Vec<_> = state.interpreters[at].calls.iter().filter(|it| it.dropped).map(|it| it.number).collect();
        for number in dropped {
            let Some(at) = state.with_call(number) else { continue };
            state.judge(self, at, number);
        }
        state.with_id(id).is_some()
    }

    /// A call has waited for a while. Those behind the first of its interpreter move to idle ones. Whether it is still behind
    /// another.
    pub(super) fn rebalance(self: &Arc<Self>, number: u64) -> bool {
        let mut state = self.lock();
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

    /// An interpreter answered, and takes no other call if this is its `last`. Whether it goes on.
    pub(super) fn answered(self: &Arc<Self>, id: u64, number: u64, last: bool, output: RawOutput) -> bool {
        let mut state = self.lock();
        let Some(at) = state.with_id(id) else { return false };
        let interpreter = &mut state.interpreters[at];
        let Some(call) = interpreter.calls.pop_front_if(|it| it.number == number) else {
            // It answers a call that it does not have.
            state.end(self, at, RunError::Launch(LaunchError::Lost));
            return false;
        };
        interpreter.last_used = Instant::now();
        if last {
            // It ends, with the threads and processes that the call left. The call's slot is free after that.
            lock(&interpreter.slots).push(call.slot);
        }
        let _ = call.ended.send(End::Ran(output));
        let interpreter = &state.interpreters[at];
        if last || (interpreter.draining && interpreter.calls.is_empty()) {
            state.end(self, at, RunError::Launch(LaunchError::Lost));
            return false;
        }
        true
    }

    /// An interpreter failed. Its first call fails with `error`, if it was begun.
    pub(super) fn lost(self: &Arc<Self>, id: u64, error: RunError) {
        let mut state = self.lock();
        if let Some(at) = state.with_id(id) {
            state.end(self, at, error);
        }
    }

    /// Where the events go that an interpreter reports. None: its call was dropped, or there is none.
    pub(super) fn events(&self, id: u64) -> Option<EventSink> {
        let state = self.lock();
        let first = state.interpreters[state.with_id(id)?].calls.front()?;
        (!first.dropped).then(|| first.events.clone())
    }

    /// Ends interpreters that are idle, or whose script changed.
    pub(super) fn tend(self: &Arc<Self>, idle: Duration) {
        let mut state = self.lock();
        for it in &mut state.interpreters {
            it.draining |= it.calls.is_empty() && it.last_used.elapsed() >= idle;
        }
        state.end_drained(self);
        state.drop_changed(self);
    }

    /// How many interpreters there are.
    pub(super) fn len(&self) -> usize {
        self.lock().interpreters.len()
    }

    /// Whether the pool still has this interpreter.
    pub(super) fn has(&self, id: u64) -> bool {
        self.lock().with_id(id).is_some()
    }

    /// Ends all interpreters, each after its calls.
    pub(super) fn retire(self: &Arc<Self>) {
        let mut state = self.lock();
        state.retired = true;
        state.interpreters.iter_mut().for_each(|it| it.draining = true);
        state.end_drained(self);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl State {
    fn with_id(&self, id: u64) -> Option<usize> {
        self.interpreters.iter().position(|it| it.id == id)
    }

    fn with_call(&self, number: u64) -> Option<usize> {
        self.interpreters.iter().position(|it| it.calls.iter().any(|call| call.number == number))
    }

    /// Those that take calls.
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

    /// Puts a call into the shortest queue, or ends it as not started. Whether it is behind another.
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
            let _ = call.ended.send(End::NotStarted);
            return false;
        };
        let interpreter = &mut self.interpreters[at];
        interpreter.served += 1;
        interpreter.draining |= interpreter.served == MOST_CALLS;
        interpreter.calls.push_back(call);
        interpreter.calls.len() > 1
    }

    /// The interpreter with the fewest calls, or a new one if all are busy and there may be more.
    fn pick(&mut self, pool: &Arc<Pool>) -> Option<usize> {
        let open = self.interpreters.iter().enumerate().filter(|(_, it)| !it.draining);
        // One that may be about to end is the last choice.
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
                if openskill_log::admits("a shared interpreter was not started") {
                    tracing::warn!(%error, "a shared interpreter could not be started");
                }
                best.map(|(at, _)| at)
            }
        }
    }

    /// A new interpreter. Its process is started by the task that attends to it: this holds the pool's lock.
    fn start(&mut self, pool: &Arc<Pool>) -> io::Result<usize> {
        // There is none when the worker ends.
        let runtime = tokio::runtime::Handle::try_current().map_err(io::Error::other)?;
        let started_at = SystemTime::now();
        let Connected { queue, answers, launch, slots, given_secrets } = (pool.connect)()?;
        self.last += 1;
        let id = self.last;
        let wire = Arc::new(Wire::of(&answers)?);
        let process = Arc::default();
        let started = Started { id, answers, wire: Arc::clone(&wire), launch, kept: Arc::downgrade(&process) };
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

    /// Decides about a call that nobody waits for. The calls behind it are taken back first. If it was begun, and nothing is
    /// left to read after which it may be over, nothing else runs in its interpreter, which is ended.
    fn judge(&mut self, pool: &Arc<Pool>, at: usize, number: u64) {
        let mut behind = self.interpreters[at].take_back();
        let interpreter = &mut self.interpreters[at];
        let waiting = behind.len();
        behind.retain(|call| call.number != number);
        let was_begun = behind.len() == waiting;
        let is_alone = interpreter.calls.len() == 1;
        // Decided on once before: a script that goes on to report events is not waited for.
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

    /// Ends an interpreter. Calls it did not begin move to others.
    fn end(&mut self, pool: &Arc<Pool>, at: usize, error: RunError) {
        self.interpreters[at].draining = true;
        let behind = self.interpreters[at].take_back();
        let interpreter = self.interpreters.swap_remove(at);
        let mut error = Some(error);
        for call in interpreter.calls {
            lock(&interpreter.slots).push(call.slot);
            let error = error.take().unwrap_or(RunError::Launch(LaunchError::Lost));
            let _ = call.ended.send(End::Failed(error));
        }
        interpreter.wire.changed.notify_one();
        for mut call in behind {
            call.tries += 1;
            self.place(pool, call);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
