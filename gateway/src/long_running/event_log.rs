//! Stores the events and questions of a run as they come, and delivers the answers.

use std::collections::HashSet;
use std::pin::pin;

use futures_util::future::{Fuse, FusedFuture as _, FutureExt as _};
use futures_util::stream::{Stream, StreamExt as _};
use openskill_proto::v1::invoke_event::Event;
use openskill_proto::v1::{Blame, ErrorCode, InputRequired, InvokeEvent, SkillError, SkillResult};
use openskill_store::Store;
use openskill_store::operation::{Claim, StoredEvent};
use openskill_store::questions::StoredQuestion;
use prost::Message as _;
use tokio::time::{Duration, Instant};

use super::answers::deliver_until_answered;
use crate::call::outcome::Outcome;
use crate::call::request::Call;
use crate::call::result::result;
use crate::gateway::Shard;

/// Events are stored together that come within this time.
const BATCH_TIME: Duration = Duration::from_millis(50);

/// The number and the size of an operation's events that are stored. Later ones are dropped, except for the result.
const MAX_EVENTS: i64 = 10_000;
const MAX_EVENT_BYTES: usize = 8 << 20;

/// How often a question is written again while the store fails.
const WRITE_AGAIN: Duration = Duration::from_secs(1);

/// Stores the events of a run as they come, and returns its result. A slow store delays events, not the result.
pub(super) async fn follow(
    shard: &Shard,
    store: &Store,
    claim: &Claim,
    call: &Call,
    events: impl Stream<Item = Result<InvokeEvent, SkillError>>,
) -> SkillResult {
    let (mut events, mut log) = (pin!(events), EventLog::open(shard, store, claim).await);
    let (mut writing, mut answering) = (pin!(Fuse::terminated()), pin!(Fuse::terminated()));
    let (begun, mut flush_at, mut has_asked) = (Instant::now(), Instant::now() + BATCH_TIME, false);
    let error = loop {
        if has_asked && answering.is_terminated() {
            has_asked = false;
            answering.set(deliver_until_answered(shard, store, &claim.operation.id, begun).fuse());
        }
        tokio::select! {
            event = events.next() => match event {
                Some(Ok(InvokeEvent { event: Some(Event::Result(result)), .. })) => {
                    if !writing.is_terminated() {
                        writing.await;
                    }
                    log.write().await;
                    log.end().await;
                    return result;
                }
                Some(Ok(event)) => log.add(&event),
                Some(Err(error)) => break error,
                None => break SkillError::new(ErrorCode::Internal, "the call ended without a result"),
            },
            asked = &mut writing, if !writing.is_terminated() => has_asked |= asked,
            () = &mut answering, if !answering.is_terminated() => {}
            () = tokio::time::sleep_until(flush_at), if !log.waiting.is_empty() && writing.is_terminated() => {
                writing.set(log.write().fuse());
                flush_at = Instant::now() + BATCH_TIME;
            }
        }
    };
    // The call was started, so the skill may have run.
    let outcome = Outcome { may_have_run: true, ..Outcome::from_error(error.with_blame(Blame::Gateway)) };
    result(call, outcome.with_retry_advice(false, false))
}

/// An event on its way to the store, or a question that is there already and may have to be opened again.
enum LogEntry {
    Event(StoredEvent),
    Question(StoredQuestion),
}

/// The events of a run on their way to the store.
struct EventLog<'a> {
    shard: &'a Shard,
    store: &'a Store,
    claim: &'a Claim,
    waiting: Vec<LogEntry>,
    number: i64,
    bytes: usize,
    /// The questions whose events another gateway has stored.
    known: HashSet<String>,
    has_questions: bool,
}

impl<'a> EventLog<'a> {
    async fn open(shard: &'a Shard, store: &'a Store, claim: &'a Claim) -> Self {
        let asked = if claim.last_event > 0 { store.questions(&claim.operation.id).await } else { Ok(Vec::new()) };
        // Without them, a watcher sees a question twice.
        let known = asked.unwrap_or_default().into_iter().map(|it| it.request_id).collect();
        let (waiting, number) = (Vec::new(), claim.last_event);
        Self { shard, store, claim, waiting, number, bytes: 0, known, has_questions: false }
    }

    /// Adds an event, unless there are too many. That an operation was accepted is said once.
    fn add(&mut self, event: &InvokeEvent) {
        let is_repeated = self.claim.last_event > 0 && matches!(event.event, Some(Event::Accepted(_)));
        let question = match &event.event {
            Some(Event::InputRequired(question)) => Some(question),
            _ => None,
        };
        let is_known = question.is_some_and(|it| self.known.contains(&it.request_id));
        if let Some(question) = question {
            self.add_question(question);
        }
        if is_repeated || is_known || self.number >= MAX_EVENTS || self.bytes >= MAX_EVENT_BYTES {
            return;
        }
        self.number += 1;
        let event = event.encode_to_vec();
        self.bytes += event.len();
        self.waiting.push(LogEntry::Event(StoredEvent { number: self.number, event }));
    }

    fn add_question(&mut self, question: &InputRequired) {
        self.has_questions = true;
        self.waiting.push(LogEntry::Question(StoredQuestion {
            request_id: question.request_id.clone(),
            number: self.number + 1,
            question: question.encode_to_vec(),
            answer: Vec::new(),
        }));
    }

    /// Stores what waits. Events that can't be stored are lost: they are only progress. Questions are not, because nobody could
    /// answer them. Returns whether there are any.
    fn write(&mut self) -> impl Future<Output = bool> + use<'a> {
        let (shard, store, claim, waiting) = (self.shard, self.store, self.claim, std::mem::take(&mut self.waiting));
        async move {
            if waiting.is_empty() {
                return false;
            }
            let (mut events, mut has_asked) = (Vec::new(), false);
            for entry in waiting {
                match entry {
                    LogEntry::Event(event) => events.push(event),
                    // Before its event, so that whoever sees that can answer.
                    LogEntry::Question(question) => {
                        has_asked = true;
                        ask(store, claim, &question).await;
                    }
                }
            }
            if let Err(error) = store.append(claim.fence(), events).await {
                tracing::warn!(%error, operation = claim.operation.id, "events of an operation can't be stored");
            }
            shard.gateway.long_running.notify(&claim.operation.id);
            has_asked
        }
    }

    /// Closes the questions of the run: another one asks anew.
    async fn end(&self) {
        if self.has_questions
            && let Err(error) = self.store.close_questions(self.claim.fence()).await
        {
            tracing::warn!(%error, operation = self.claim.operation.id, "questions of an operation can't be closed");
        }
    }
}

async fn ask(store: &Store, claim: &Claim, question: &StoredQuestion) {
    while let Err(error) = store.ask(claim.fence(), question).await {
        tracing::error!(%error, operation = claim.operation.id, "the question of an operation can't be stored yet");
        tokio::time::sleep(WRITE_AGAIN).await;
    }
}
