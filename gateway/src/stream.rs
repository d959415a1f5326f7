//! Calls in, events out: what `InvokeStream`, `InvokeMany` and server-sent events have in common.
//!
//! Each call is a task that belongs to the stream: whoever drops the stream (a client that went away) ends them all. A
//! client that stops reading holds up its own events and nothing else: the calls' deadlines go on, and a result that is
//! not taken in time is dropped.
//!
//! A stream of many calls is its own queue: while there is no place for the next call, it waits for one of the stream's
//! own to end. Only a stream that has none running is told that the gateway is full.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::stream::{self, BoxStream, Stream, StreamExt as _};
use openskill_proto::limits::MAX_CALLS_PER_STREAM;
use openskill_proto::v1::{Blame, ErrorCode, InvokeEvent, SkillError};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tonic::Status;

use crate::admission::Permit;
use crate::call::Call;
use crate::gateway::{Gateway, NoPlace};
use crate::grpc::status;
use crate::invoke::{finish, invoke};
use crate::memory::Share;
use crate::outcome::{self, Outcome};
use crate::recorder::Record;
use crate::relay::{Delivered, Listener, Parcel};

/// How many events may wait for a slow client before the skills have to.
const EVENT_BUFFER: usize = 64;

/// How often a call that waits for a place asks again: others' calls end too.
const ASK_AGAIN: Duration = Duration::from_millis(50);

/// How long a client may take to make room for an event that every call has: its first and its last.
const DELIVERY: Duration = Duration::from_secs(10);

/// The calls of a stream, as they arrive.
pub(crate) type Calls = BoxStream<'static, Result<Call, Status>>;

struct State {
    gateway: Arc<Gateway>,
    shard: usize,
    /// None when no more will come.
    calls: Option<Calls>,
    /// The next call, for which there was no place yet.
    waiting: Option<Waiting>,
    running: JoinSet<Result<(), NotTaken>>,
    sender: mpsc::Sender<Parcel>,
    events: mpsc::Receiver<Parcel>,
    /// Why the stream ends before its time; said when the calls that were accepted are done.
    broken: Option<Status>,
}

/// A call for which there was no place yet.
struct Waiting {
    call: Arc<Call>,
    ask_at: Instant,
    /// Its arguments are held meanwhile.
    _share: Share,
}

/// The client did not take an event in time.
struct NotTaken;

/// One call that has its place already.
pub(crate) fn one(
    gateway: Arc<Gateway>,
    shard: usize,
    call: Arc<Call>,
    permit: Permit,
) -> impl Stream<Item = Result<InvokeEvent, Status>> {
    let mut state = State::new(gateway, shard, None);
    state.start(call, Ok(permit));
    stream::unfold(state, State::step)
}

/// Many calls, at most [`MAX_CALLS_PER_STREAM`] of them at a time.
pub(crate) fn many(
    gateway: Arc<Gateway>,
    shard: usize,
    calls: Calls,
) -> impl Stream<Item = Result<InvokeEvent, Status>> {
    stream::unfold(State::new(gateway, shard, Some(calls)), State::step)
}

impl State {
    fn new(gateway: Arc<Gateway>, shard: usize, calls: Option<Calls>) -> Self {
        let (sender, events) = mpsc::channel(EVENT_BUFFER);
        Self { gateway, shard, calls, waiting: None, running: JoinSet::new(), sender, events, broken: None }
    }

    fn start(&mut self, call: Arc<Call>, permit: Result<Permit, SkillError>) {
        self.running.spawn(run(Arc::clone(&self.gateway), self.shard, call, permit, self.sender.clone()));
    }

    /// Starts the call if there is a place for it, or keeps it until there is.
    fn try_start(&mut self, call: Arc<Call>) {
        let permit = self.gateway.ask(&call);
        let is_full = matches!(permit, Err(NoPlace::Full(_)));
        if !is_full || self.running.is_empty() {
            return self.start(call, permit.map_err(|why| self.gateway.refuse(why)));
        }
        if call.is_overdue(self.gateway.config.default_timeout) {
            let error = SkillError::new(ErrorCode::Timeout, "the deadline passed while the call waited for a place");
            return self.start(call, Err(error.with_blame(Blame::Gateway)));
        }
        let mut share = self.gateway.arriving.share();
        if share.add(call.input.size()) {
            self.waiting = Some(Waiting { call, ask_at: Instant::now() + ASK_AGAIN, _share: share });
        } else {
            self.start(call, permit.map_err(|why| self.gateway.refuse(why)));
        }
    }

    fn try_waiting(&mut self) {
        if let Some(Waiting { call, .. }) = self.waiting.take() {
            self.try_start(call);
        }
    }

    async fn step(mut self) -> Option<(Result<InvokeEvent, Status>, Self)> {
        loop {
            if self.calls.is_none() && self.waiting.is_none() && self.running.is_empty() {
                // What was sent before the end comes before it.
                let last = match self.events.try_recv() {
                    Ok(parcel) => match parcel.open() {
                        Some(event) => Ok(event),
                        None => continue,
                    },
                    Err(_) => Err(self.broken.take()?),
                };
                return Some((last, self));
            }
            let has_room = self.waiting.is_none() && self.running.len() < MAX_CALLS_PER_STREAM;
            let ask_at = self.waiting.as_ref().map_or_else(Instant::now, |waiting| waiting.ask_at);
            tokio::select! {
                biased;
                () = tokio::time::sleep_until(ask_at), if self.waiting.is_some() => self.try_waiting(),
                Some(parcel) = self.events.recv() => match parcel.open() {
                    Some(event) => return Some((Ok(event), self)),
                    None => continue,
                },
                Some(ended) = self.running.join_next() => {
                    if matches!(ended, Ok(Err(NotTaken))) {
                        self.end(Status::deadline_exceeded("the client did not read its events in time"));
                    }
                    self.try_waiting();
                }
                // Calls that were accepted finish; those that were not are for another gateway.
                () = self.gateway.draining.cancelled(), if self.calls.is_some() => self.end(status::draining()),
                next = next(&mut self.calls), if has_room && self.calls.is_some() => match next {
                    Some(Ok(call)) => self.try_start(Arc::new(call)),
                    Some(Err(status)) => self.end(status),
                    None => self.calls = None,
                },
            }
        }
    }

    /// Takes no more calls.
    fn end(&mut self, reason: Status) {
        self.calls = None;
        self.waiting = None;
        self.broken.get_or_insert(reason);
    }
}

async fn next(calls: &mut Option<Calls>) -> Option<Result<Call, Status>> {
    match calls {
        Some(calls) => calls.next().await,
        None => None,
    }
}

async fn run(
    gateway: Arc<Gateway>,
    shard: usize,
    call: Arc<Call>,
    permit: Result<Permit, SkillError>,
    sender: mpsc::Sender<Parcel>,
) -> Result<(), NotTaken> {
    let record = Record::begin(&call);
    let listener = Listener::new(call.call_id.clone(), sender);
    let version = gateway.catalog.get(&call.skill_id).map(|entry| entry.skill.version.clone()).unwrap_or_default();
    in_time(listener.accepted(&call.trace.id, &version)).await?;
    let invoked = async {
        match permit {
            Ok(permit) => invoke(&gateway, shard, &call, Some(&listener), permit, record).await,
            Err(error) => finish(&gateway, &call, Outcome::failed(error), record),
        }
    };
    // A call that panics has a result too.
    let result = AssertUnwindSafe(invoked).catch_unwind().await.unwrap_or_else(|_| {
        let error = SkillError::new(ErrorCode::Internal, "the gateway failed at this call").with_blame(Blame::Gateway);
        outcome::result(&call, Outcome::failed(error))
    });
    match in_time(listener.result(result, &gateway.leaving)).await {
        Ok(Delivered::Taken) => Ok(()),
        Ok(Delivered::Lost) | Err(NotTaken) => Err(NotTaken),
    }
}

async fn in_time<T>(sent: impl Future<Output = T>) -> Result<T, NotTaken> {
    tokio::time::timeout(DELIVERY, sent).await.map_err(|_| NotTaken)
}
