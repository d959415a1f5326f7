//! Calls in, events out: what `InvokeStream`, `InvokeMany` and server-sent events have in common.
//!
//! The stream drives the calls itself, so whoever drops it (a client that went away) ends them all.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream, FuturesUnordered, Stream, StreamExt as _};
use openskill_proto::limits::MAX_CALLS_PER_STREAM;
use openskill_proto::v1::{ErrorCode, InvokeEvent, SkillError, invoke_event::Event};
use tokio::sync::mpsc;
use tonic::Status;

use crate::admission::Permit;
use crate::call::Call;
use crate::gateway::Gateway;
use crate::invoke::invoke;
use crate::outcome::{self, Outcome};
use crate::recorder::Record;
use crate::relay::Listener;

/// How many events may wait for a slow client before the skills have to.
const EVENT_BUFFER: usize = 64;

/// The calls of a stream, as they arrive.
pub(crate) type Calls = BoxStream<'static, Result<Call, Status>>;

struct State {
    gateway: Arc<Gateway>,
    shard: usize,
    /// None when no more will come.
    calls: Option<Calls>,
    running: FuturesUnordered<BoxFuture<'static, ()>>,
    sender: mpsc::Sender<InvokeEvent>,
    events: mpsc::Receiver<InvokeEvent>,
    /// What broke the stream of calls; said when the calls that had come are done.
    broken: Option<Status>,
}

/// One call that has its place already.
pub(crate) fn one(
    gateway: Arc<Gateway>,
    shard: usize,
    call: Call,
    permit: Permit,
) -> impl Stream<Item = Result<InvokeEvent, Status>> {
    let state = State::new(gateway, shard, None);
    state.running.push(run(Arc::clone(&state.gateway), shard, call, Some(permit), state.sender.clone()));
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
        Self { gateway, shard, calls, running: FuturesUnordered::new(), sender, events, broken: None }
    }

    async fn step(mut self) -> Option<(Result<InvokeEvent, Status>, Self)> {
        loop {
            if self.calls.is_none() && self.running.is_empty() {
                // What was sent before the end comes before it.
                let last = match self.events.try_recv() {
                    Ok(event) => Ok(event),
                    Err(_) => Err(self.broken.take()?),
                };
                return Some((last, self));
            }
            let has_room = self.running.len() < MAX_CALLS_PER_STREAM;
            tokio::select! {
                biased;
                Some(event) = self.events.recv() => return Some((Ok(event), self)),
                Some(()) = self.running.next() => {}
                next = next(&mut self.calls), if has_room && self.calls.is_some() => self.take(next),
                // Calls that were taken finish; a drain takes no more.
                () = self.gateway.draining.cancelled(), if self.calls.is_some() => self.calls = None,
            }
        }
    }

    fn take(&mut self, next: Option<Result<Call, Status>>) {
        match next {
            Some(Ok(call)) => {
                let permit = self.gateway.admission.enter();
                self.running.push(run(Arc::clone(&self.gateway), self.shard, call, permit, self.sender.clone()));
            }
            Some(Err(status)) => {
                self.broken = Some(status);
                self.calls = None;
            }
            None => self.calls = None,
        }
    }
}

async fn next(calls: &mut Option<Calls>) -> Option<Result<Call, Status>> {
    match calls {
        Some(calls) => calls.next().await,
        None => None,
    }
}

fn run(
    gateway: Arc<Gateway>,
    shard: usize,
    call: Call,
    permit: Option<Permit>,
    sender: mpsc::Sender<InvokeEvent>,
) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        let listener = Listener::new(call.call_id.clone(), sender);
        let result = match permit {
            Some(permit) => invoke(&gateway, shard, &call, Some(&listener), permit).await,
            None => {
                let record = Record::begin(&call);
                listener.accepted(&call.trace.id, "").await;
                let error = SkillError::new(ErrorCode::Overloaded, "the gateway is full").with_retry_after_ms(1000);
                let result = outcome::result(&call, Outcome::failed(error));
                record.end(&result);
                result
            }
        };
        let result = if call.wants_value() { outcome::with_values(result) } else { result };
        listener.send(Event::Result(result)).await;
    })
}
