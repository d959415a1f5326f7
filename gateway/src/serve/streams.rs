//! Calls in, events out: what `InvokeStream`, `InvokeMany` and server-sent events share. The faces give each event its
//! form on the wire: a gRPC message, or a server-sent event in `faces/rest/call.rs`.
//!
//! Each call is a task that belongs to the stream: dropping the stream (the client went away) cancels them all. A client that
//! stops reading blocks its own events and nothing else: the calls' deadlines go on, and a result that is not read in time
//! is dropped.
//!
//! A stream of many calls is its own queue: while the gateway is full, the stream's next calls wait for one of its own calls
//! to end. Only a stream with no call in flight is told that the gateway is full. The stream is read on meanwhile, because an
//! answer that lets a call end may come behind the calls that wait.

use std::collections::VecDeque;
use std::convert::Infallible;
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

use crate::call::events::{Delivered, Delivery, EventRelay};
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

/// How many events may wait for a slow client before the skills have to.
const EVENT_BUFFER: usize = 64;

/// How often a waiting call asks for a permit again: the calls of others end too.
const ASK_AGAIN: Duration = Duration::from_millis(50);

/// How long a client may take to make room for the first and the last event of a call.
const DELIVERY_TIMEOUT: Duration = Duration::from_secs(10);

/// A message of a stream of calls.
pub(crate) enum Message {
    Call(Box<Call>),
    /// The answer to a question of a call.
    Answer {
        call_id: String,
        principal: Principal,
        response: InputResponse,
    },
}

/// Why a stream ends before its calls do.
#[derive(Debug)]
pub(crate) enum StreamError<E> {
    /// The client's half broke.
    Client(E),
    /// The gateway ends it.
    Gateway(SkillError),
}

impl StreamError<Infallible> {
    /// The error of the gateway: there is no other where the client's half can't break.
    pub(crate) fn into_gateway(self) -> SkillError {
        match self {
            Self::Client(never) => match never {},
            Self::Gateway(error) => error,
        }
    }

    /// The same error where the client's half can't break.
    pub(crate) fn without_client<E>(self) -> StreamError<E> {
        match self {
            Self::Client(never) => match never {},
            Self::Gateway(error) => StreamError::Gateway(error),
        }
    }
}

/// The messages of a stream, as they arrive.
pub(crate) type Messages<E> = BoxStream<'static, Result<Message, E>>;

struct State<E> {
    shard: Shard,
    /// None when no more will come.
    messages: Option<Messages<E>>,
    /// Calls that got no permit yet, in order.
    waiting: VecDeque<Waiting>,
    /// When they ask for permits again.
    ask_at: Instant,
    running: JoinSet<Result<(), NotRead>>,
    /// Answers on their way to workers.
    answering: JoinSet<()>,
    sender: mpsc::Sender<Delivery>,
    events: mpsc::Receiver<Delivery>,
    /// Why the stream ends early. Reported after the calls in flight are done.
    error: Option<StreamError<E>>,
}

/// A call that got no permit yet.
struct Waiting {
    call: Arc<Call>,
    /// Its arguments are held meanwhile.
    _share: Share,
}

/// The client did not read an event in time.
struct NotRead;

/// The events of one call that holds its permit already.
pub(crate) fn one(
    shard: Shard,
    call: Arc<Call>,
    permit: Permit,
) -> impl Stream<Item = Result<InvokeEvent, StreamError<Infallible>>> {
    let mut state = State::new(shard, None);
    state.start(call, permit);
    stream::unfold(state, State::step)
}

/// The events of many calls, at most [`MAX_CALLS_PER_STREAM`] at a time.
pub(crate) fn many<E: Send + 'static>(
    shard: Shard,
    messages: Messages<E>,
) -> impl Stream<Item = Result<InvokeEvent, StreamError<E>>> {
    stream::unfold(State::new(shard, Some(messages)), State::step)
}

impl<E> State<E> {
    fn new(shard: Shard, messages: Option<Messages<E>>) -> Self {
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
        }
    }

    fn take(&mut self, message: Message) {
        match message {
            Message::Call(call) if self.waiting.is_empty() => {
                let call = Arc::new(*call);
                if let Err(call) = self.try_start(call) {
                    self.wait(call);
                }
            }
            Message::Call(call) => self.wait(Arc::new(*call)),
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

    /// Starts the call, or refuses it for good. Gives it back if it should wait for a permit.
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

    /// Keeps a call until it gets a permit.
    fn wait(&mut self, call: Arc<Call>) {
        let mut share = self.shard.gateway.share(SharedLimit::Requests, &call.principal);
        if self.waiting.len() < MAX_CALLS_PER_STREAM && share.grow(call.input.size()) {
            self.waiting.push_back(Waiting { call, _share: share });
        } else {
            self.refuse(call, SkillError::overloaded("too many calls of this stream wait for a permit"));
        }
    }

    /// Starts the calls that wait, in order, up to the first that still gets no permit.
    fn try_waiting(&mut self) {
        self.ask_at = Instant::now() + ASK_AGAIN;
        while let Some(Waiting { call, _share }) = self.waiting.pop_front() {
            if let Err(call) = self.try_start(call) {
                return self.waiting.push_front(Waiting { call, _share });
            }
        }
    }

    async fn step(mut self) -> Option<(Result<InvokeEvent, StreamError<E>>, Self)> {
        loop {
            let is_idle = self.waiting.is_empty() && self.running.is_empty() && self.answering.is_empty();
            if self.messages.is_none() && is_idle {
                // Events that were sent before the end come before it.
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
                        self.end(StreamError::Gateway(error.with_blame(Blame::Caller)));
                    }
                    self.try_waiting();
                }
                Some(_) = self.answering.join_next() => {}
                // Calls in flight finish; those that were not admitted are for another gateway.
                () = self.shard.gateway.shutdown.cancelled(), if self.messages.is_some() => {
                    self.end(StreamError::Gateway(shutting_down()));
                }
                next = next(&mut self.messages), if reads && self.messages.is_some() => match next {
                    Some(Ok(message)) => self.take(message),
                    Some(Err(error)) => self.end(StreamError::Client(error)),
                    None => self.messages = None,
                },
            }
        }
    }

    /// Takes no more calls.
    fn end(&mut self, error: StreamError<E>) {
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
    let entry = shard.gateway.catalog.get_for(&call.skill_id, &call.principal);
    let version = entry.map(|entry| entry.skill.version.clone()).unwrap_or_default();
    in_time(relay.accepted(&call.trace.id, &version)).await?;
    let invoked = invoke(&shard, Arc::clone(&call), permit, Some(relay.clone()), record);
    // A call that panics has a result too.
    let result = AssertUnwindSafe(invoked).catch_unwind().await.unwrap_or_else(|_| {
        let error = SkillError::new(ErrorCode::Internal, "the gateway panicked during this call");
        result(&call, Outcome { may_have_run: true, ..Outcome::failed(error.with_blame(Blame::Gateway)) })
    });
    deliver(&relay, result, shard.gateway.share(SharedLimit::Responses, &call.principal)).await
}

async fn deliver(relay: &EventRelay, result: SkillResult, share: Share) -> Result<(), NotRead> {
    match in_time(relay.result(result, share)).await? {
        Delivered::Taken => Ok(()),
        Delivered::Lost => Err(NotRead),
    }
}

async fn in_time<T>(sent: impl Future<Output = T>) -> Result<T, NotRead> {
    tokio::time::timeout(DELIVERY_TIMEOUT, sent).await.map_err(|_| NotRead)
}

/// Hands an answer to the skill that asked. One that is refused is reported as a log event of its call.
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
        // A client that went away needs no news.
        let _ = sender.send(Delivery::Event(Box::new(InvokeEvent { call_id, event }))).await;
    }
}

fn shutting_down() -> SkillError {
    let message = "the gateway is shutting down: send calls that got no result to another gateway";
    SkillError::unavailable(message).with_retry_after_ms(1000).with_blame(Blame::Gateway)
}
