//! Runs calls and streams their events, for `InvokeStream`, `InvokeMany` and server-sent events. The faces encode
//! each event as a gRPC message, or as a server-sent event in `faces/rest/call.rs`.
//!
//! Each call is a task that belongs to the stream: dropping the stream (the client disconnected) cancels all calls.
//! A client that stops reading blocks only its own events: the calls' deadlines still apply, and a result that is
//! not read in time is dropped.
//!
//! A stream of many calls is its own queue: while the gateway is full, the stream's next calls wait for one of its
//! own calls to end. Only a stream without calls in flight gets the error that the gateway is full. The stream is
//! still read meanwhile, because an answer that lets a call finish may follow the waiting calls.

use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::stream::{self, BoxStream, Stream, StreamExt as _};
use openskill_proto::limits::MAX_CALLS_PER_STREAM;
use openskill_proto::v1::{
    Blame, ErrorCode, InputResponse, InvokeEvent, Log, SkillError, SkillResult, invoke_event::Event,
};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::call::events::{Delivery, DeliveryOutcome, EventRelay};
use crate::call::outcome::Outcome;
use crate::call::principal::Principal;
use crate::call::request::Call;
use crate::call::result::result;
use crate::gateway::Shard;
use crate::invoke::{invoke, refuse};
use crate::observe::call_record::CallRecord;
use crate::protect::admission::Permit;
use crate::state::limits::SharedLimit;
use openskill_identity::shares::Share;

/// The maximum number of events that are buffered for a slow client before its skills block.
const EVENT_BUFFER: usize = 64;

/// How often a waiting call retries to get a permit: other clients' calls also end.
const ASK_AGAIN: Duration = Duration::from_millis(50);

/// How long the first and the last event of a call may each wait for the client to read. Then the stream ends.
const DELIVERY_TIMEOUT: Duration = Duration::from_secs(10);

/// A message in a stream of calls.
pub(crate) enum Message {
    Call(Arc<Call>),
    /// The answer to a call's question.
    Answer {
        call_id: String,
        principal: Principal,
        response: InputResponse,
    },
}

/// The messages of a stream, as they arrive.
pub(crate) type Messages<E> = BoxStream<'static, Result<Message, E>>;

struct State<E> {
    shard: Shard,
    /// None after the last message.
    messages: Option<Messages<E>>,
    /// The calls that wait for a permit, in order.
    waiting: VecDeque<WaitingCall>,
    /// When the waiting calls retry.
    ask_at: Instant,
    running: JoinSet<Result<(), NotRead>>,
    /// Answers that are being delivered to workers.
    answering: JoinSet<()>,
    sender: mpsc::Sender<Delivery>,
    events: mpsc::Receiver<Delivery>,
    /// Why the stream ends early. Reported after the calls in flight are done.
    error: Option<E>,
    /// Converts an error of the gateway.
    into_error: fn(SkillError) -> E,
}

/// A call that is waiting for a permit.
struct WaitingCall {
    call: Arc<Call>,
    /// Accounts for its arguments while it waits.
    _share: Share,
}

/// The client did not read an event in time.
struct NotRead;

/// Streams the events of one call, which already has its permit.
pub(crate) fn one(
    shard: Shard,
    call: Arc<Call>,
    permit: Permit,
) -> impl Stream<Item = Result<InvokeEvent, SkillError>> {
    let mut state = State::new(shard, None, std::convert::identity);
    state.start(call, permit);
    stream::unfold(state, State::step)
}

/// Streams the events of many calls, at most [`MAX_CALLS_PER_STREAM`] at a time. `into_error` converts an error of the
/// gateway to one of the client's half of the stream.
pub(crate) fn many<E: Send + 'static>(
    shard: Shard,
    messages: Messages<E>,
    into_error: fn(SkillError) -> E,
) -> impl Stream<Item = Result<InvokeEvent, E>> {
    stream::unfold(State::new(shard, Some(messages), into_error), State::step)
}

impl<E> State<E> {
    fn new(shard: Shard, messages: Option<Messages<E>>, into_error: fn(SkillError) -> E) -> Self {
        let (sender, events) = mpsc::channel(EVENT_BUFFER);
        let (running, answering) = (JoinSet::new(), JoinSet::new());
        Self {
            shard,
            messages,
            waiting: VecDeque::new(),
            ask_at: Instant::now(),
            running,
            answering,
            sender,
            events,
            error: None,
            into_error,
        }
    }

    fn take(&mut self, message: Message) {
        match message {
            Message::Call(call) => {
                let waiting = if self.waiting.is_empty() { self.try_start(call) } else { Err(call) };
                if let Err(call) = waiting {
                    self.wait(call);
                }
            }
            Message::Answer { call_id, principal, response } => {
                let answered = answer(self.shard.clone(), call_id, principal, response, self.sender.clone());
                self.answering.spawn(answered);
            }
        }
    }

    fn start(&mut self, call: Arc<Call>, permit: Permit) {
        self.running.spawn(run(self.shard.clone(), call, permit, self.sender.clone()));
    }

    fn refuse(&mut self, call: Arc<Call>, error: SkillError) {
        let (shard, relay) = (self.shard.clone(), EventRelay::new(call.call_id.clone(), self.sender.clone()));
        self.running.spawn(async move {
            let share = shard.gateway.share(SharedLimit::Responses, &call.principal);
            deliver(&relay, refuse(&shard, &call, error), share).await
        });
    }

    /// Starts the call, or refuses it permanently. Returns the call as an error if it should wait for a permit.
    fn try_start(&mut self, call: Arc<Call>) -> Result<(), Arc<Call>> {
        if self.running.len() < MAX_CALLS_PER_STREAM {
            match self.shard.gateway.try_admit(&call) {
                Ok(permit) => {
                    self.start(call, permit);
                    return Ok(());
                }
                Err(refusal) if !refusal.may_pass() || self.running.is_empty() => {
                    self.shard.gateway.count(refusal, &call);
                    self.refuse(call, refusal.into());
                    return Ok(());
                }
                Err(_) => {}
            }
        }
        if call.is_overdue(self.shard.gateway.config.default_timeout) {
            let error = SkillError::new(ErrorCode::Timeout, "the deadline passed while the call waited for a permit");
            self.refuse(call, error.with_blame(Blame::Gateway));
            return Ok(());
        }
        Err(call)
    }

    /// Queues a call until it gets a permit.
    fn wait(&mut self, call: Arc<Call>) {
        let mut share = self.shard.gateway.share(SharedLimit::Requests, &call.principal);
        if self.waiting.len() < MAX_CALLS_PER_STREAM && share.grow(call.input.size()) {
            self.waiting.push_back(WaitingCall { call, _share: share });
        } else {
            self.refuse(call, SkillError::overloaded("too many calls of this stream are waiting for a permit"));
        }
    }

    /// Starts the waiting calls in order, until one is refused a permit.
    fn try_waiting(&mut self) {
        self.ask_at = Instant::now() + ASK_AGAIN;
        while let Some(WaitingCall { call, _share }) = self.waiting.pop_front() {
            if let Err(call) = self.try_start(call) {
                return self.waiting.push_front(WaitingCall { call, _share });
            }
        }
    }

    async fn step(mut self) -> Option<(Result<InvokeEvent, E>, Self)> {
        loop {
            let is_idle = self.waiting.is_empty() && self.running.is_empty() && self.answering.is_empty();
            if self.messages.is_none() && is_idle {
                // Deliver events that were sent before the end first.
                let last = match self.events.try_recv() {
                    Ok(delivery) => match delivery.open() {
                        Some(event) => Ok(event),
                        None => continue,
                    },
                    Err(_) => Err(self.error.take()?),
                };
                return Some((last, self));
            }
            let reads = self.waiting.len() < MAX_CALLS_PER_STREAM && self.answering.len() < MAX_CALLS_PER_STREAM;
            tokio::select! {
                biased;
                () = tokio::time::sleep_until(self.ask_at), if !self.waiting.is_empty() => self.try_waiting(),
                Some(delivery) = self.events.recv() => match delivery.open() {
                    Some(event) => return Some((Ok(event), self)),
                    None => continue,
                },
                Some(ended) = self.running.join_next() => {
                    if matches!(ended, Ok(Err(NotRead))) {
                        let error = SkillError::new(ErrorCode::Timeout, "the client did not read its events in time");
                        self.end((self.into_error)(error.with_blame(Blame::Caller)));
                    }
                    self.try_waiting();
                }
                Some(_) = self.answering.join_next() => {}
                // Let calls in flight finish. Refuse the waiting ones, so that clients send them to another
                // gateway.
                () = self.shard.gateway.shutdown.cancelled(), if self.messages.is_some() => {
                    self.end((self.into_error)(shutting_down()));
                }
                next = next(&mut self.messages), if reads && self.messages.is_some() => match next {
                    Some(Ok(message)) => self.take(message),
                    Some(Err(error)) => self.end(error),
                    None => self.messages = None,
                },
            }
        }
    }

    /// Stops reading calls, and ends the stream with this error.
    fn end(&mut self, error: E) {
        self.messages = None;
        self.waiting.clear();
        self.error.get_or_insert(error);
    }
}

async fn next<E>(messages: &mut Option<Messages<E>>) -> Option<Result<Message, E>> {
    match messages {
        Some(messages) => messages.next().await,
        None => None,
    }
}

async fn run(shard: Shard, call: Arc<Call>, permit: Permit, sender: mpsc::Sender<Delivery>) -> Result<(), NotRead> {
    let record = CallRecord::begin(&shard.gateway.observer, &call);
    let relay = EventRelay::new(call.call_id.clone(), sender);
    let route = shard.gateway.find_route(&call);
    let version = route.as_ref().map_or("", |it| &it.entry.skill.version);
    in_time(relay.send_accepted(&call.trace.id, version)).await?;
    drop(route);
    let invoked = invoke(&shard, Arc::clone(&call), permit, Some(relay.clone()), record);
    // A call that panics also gets a result.
    let result = AssertUnwindSafe(invoked).catch_unwind().await.unwrap_or_else(|_| {
        let error = SkillError::new(ErrorCode::Internal, "the gateway panicked during this call");
        result(&call, Outcome { may_have_run: true, ..Outcome::from_error(error.with_blame(Blame::Gateway)) })
    });
    deliver(&relay, result, shard.gateway.share(SharedLimit::Responses, &call.principal)).await
}

async fn deliver(relay: &EventRelay, result: SkillResult, share: Share) -> Result<(), NotRead> {
    match in_time(relay.result(result, share)).await? {
        DeliveryOutcome::Taken => Ok(()),
        DeliveryOutcome::Lost => Err(NotRead),
    }
}

async fn in_time<T>(sent: impl Future<Output = T>) -> Result<T, NotRead> {
    tokio::time::timeout(DELIVERY_TIMEOUT, sent).await.map_err(|_| NotRead)
}

/// Delivers an answer to the skill that asked. If the answer is refused, the call gets a log event.
async fn answer(
    shard: Shard,
    call_id: String,
    principal: Principal,
    response: InputResponse,
    sender: mpsc::Sender<Delivery>,
) {
    let answered = shard.gateway.questions.answer(&principal, response, shard.number).await;
    if let Err(error) = answered {
        let message = format!("the answer was refused: {}", error.message);
        let event = Some(Event::Log(Log { level: "error".to_owned(), message }));
        // Sending fails if the client has disconnected.
        let _ = sender.send(Delivery::Event(Box::new(InvokeEvent { call_id, event }))).await;
    }
}

fn shutting_down() -> SkillError {
    let message = "the gateway is shutting down: send calls that got no result to another gateway";
    SkillError::unavailable(message).with_retry_after_ms(1000).with_blame(Blame::Gateway)
}
