//! One run of an operation: its state, and who listens to it.

use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::{FutureExt as _, Stream, stream};
use openskill_proto::limits::MAX_CALL_QUESTIONS;
use openskill_proto::v1::execute_event::Event;
use openskill_proto::v1::{ExecuteEvent, ExecuteResult, InputRequired};
use parking_lot::Mutex;
use prost::Message as _;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::Status;

/// The number and the size of the events of a run that wait for a listener. Beyond it, the oldest are dropped.
pub(super) const MAX_EVENTS: usize = 1000;
const MAX_EVENT_BYTES: usize = 1 << 20;

/// A run, as long as somebody may ask for it.
#[derive(Debug)]
pub(super) struct KeptRun {
    pub(super) principal: String,
    pub(super) state: Mutex<RunState>,
    /// Wakes the listener and the run's task.
    pub(super) changes: watch::Sender<()>,
    /// Ends the run, and forgets its result.
    pub(super) cancelled: CancellationToken,
    /// Whatever works for the run: its future, its processes.
    pub(super) parts: TaskTracker,
    /// Cancelled once all of these have ended.
    pub(super) gone: CancellationToken,
}

#[derive(Debug)]
pub(super) struct RunState {
    /// Of the last gateway that started the run or took it over.
    pub(super) epoch: u64,
    /// Counts the listeners. Only the last one gets events.
    listener: u64,
    /// Since when nobody has listened. None while somebody does.
    pub(super) unheard_since: Option<Instant>,
    /// Whether it can't be taken over any more.
    is_closed: bool,
    /// The events that nobody has read yet, and their size.
    events: VecDeque<Event>,
    event_bytes: usize,
    /// The last questions that a listener has read, the newest first.
    asked: VecDeque<InputRequired>,
    pub(super) end: Option<RunEnd>,
}

#[derive(Debug)]
pub(super) struct RunEnd {
    result: Result<ExecuteResult, Status>,
    bytes: usize,
    at: Instant,
    /// Whether a listener got it.
    was_heard: bool,
}

/// Reads the events of a run. When dropped, the run is kept for a while.
#[derive(Debug)]
pub(crate) struct RunListener {
    run: Arc<KeptRun>,
    number: u64,
    changes: watch::Receiver<()>,
}

/// What a kept result is worth, and costs.
pub(super) struct ResultValue {
    pub(super) was_heard: bool,
    pub(super) at: Instant,
    pub(super) bytes: usize,
}

impl KeptRun {
    pub(super) fn new(epoch: u64, principal: &str) -> Self {
        let state = RunState {
            epoch,
            listener: 0,
            unheard_since: Some(Instant::now()),
            is_closed: false,
            events: VecDeque::new(),
            event_bytes: 0,
            asked: VecDeque::new(),
            end: None,
        };
        Self {
            principal: principal.to_owned(),
            state: Mutex::new(state),
            changes: watch::Sender::new(()),
            cancelled: CancellationToken::new(),
            parts: TaskTracker::new(),
            gone: CancellationToken::new(),
        }
    }

    /// Gives the run to a new listener. None if a later gateway has it, or it ends.
    pub(super) fn listen(self: &Arc<Self>, epoch: u64) -> Option<RunListener> {
        let changes = self.changes.subscribe();
        let mut state = self.state.lock();
        if state.is_closed || state.epoch > epoch {
            return None;
        }
        (state.epoch, state.listener, state.unheard_since) = (epoch, state.listener + 1, None);
        self.changes.send_replace(());
        Some(RunListener { run: Arc::clone(self), number: state.listener, changes })
    }

    /// Asks again what an earlier listener has read, if it is still open.
    pub(super) fn repeat_questions(&self, is_open: impl Fn(&str) -> bool) {
        let mut state = self.state.lock();
        let asked = std::mem::take(&mut state.asked);
        for question in asked.into_iter().filter(|it| is_open(&it.request_id)) {
            let event = Event::InputRequired(question);
            state.event_bytes += event.encoded_len();
            state.events.push_front(event);
        }
        self.changes.send_replace(());
    }

    /// Cancels the run, or forgets its result, for a new one. Returns false if the new one has to give way instead. A gateway
    /// that saw its run end may run the operation again.
    pub(super) fn give_way(&self, epoch: u64) -> bool {
        self.cancel(|state| {
            let is_older = state.epoch < epoch || (state.epoch == epoch && state.end.is_some());
            if is_older {
                (state.epoch, state.listener) = (epoch, state.listener + 1);
            }
            is_older
        })
    }

    /// Cancels the run, or forgets its result, if `may` says so. Returns what it says.
    pub(super) fn cancel(&self, may: impl FnOnce(&mut RunState) -> bool) -> bool {
        let mut state = self.state.lock();
        let may = may(&mut state);
        if may {
            state.is_closed = true;
            self.cancelled.cancel();
            self.changes.send_replace(());
        }
        may
    }

    /// Runs until the end, or until `unheard` completes, or somebody cancels the run.
    pub(super) async fn run_to_end(
        &self,
        execution: impl Future<Output = Result<ExecuteResult, Status>>,
        events: mpsc::Receiver<Event>,
        unheard: impl Future<Output = ()>,
    ) -> Result<ExecuteResult, Status> {
        let panicked = |_| Err(Status::internal("the run panicked"));
        let execution = AssertUnwindSafe(execution).catch_unwind();
        let execution = async { execution.await.unwrap_or_else(panicked) };
        tokio::select! {
            biased;
            () = self.cancelled.cancelled() => Err(Status::cancelled("the run was cancelled")),
            () = unheard => Err(Status::cancelled("no gateway listened to the run")),
            ended = self.parts.track_future(self.follow(execution, events)) => ended,
        }
    }

    /// Keeps the events of the run until its end.
    async fn follow(
        &self,
        execution: impl Future<Output = Result<ExecuteResult, Status>>,
        mut events: mpsc::Receiver<Event>,
    ) -> Result<ExecuteResult, Status> {
        let mut execution = std::pin::pin!(execution);
        loop {
            tokio::select! {
                Some(event) = events.recv() => self.push(event),
                ended = &mut execution => {
                    while let Ok(event) = events.try_recv() {
                        self.push(event);
                    }
                    return ended;
                }
            }
        }
    }

    fn push(&self, event: Event) {
        let mut state = self.state.lock();
        state.event_bytes += event.encoded_len();
        state.events.push_back(event);
        while state.events.len() > MAX_EVENTS || state.event_bytes > MAX_EVENT_BYTES {
            state.pop();
        }
        self.changes.send_replace(());
    }

    pub(super) fn end(&self, result: Result<ExecuteResult, Status>) {
        let bytes = result.as_ref().map_or(0, ExecuteResult::encoded_len);
        self.state.lock().end = Some(RunEnd { result, bytes, at: Instant::now(), was_heard: false });
        self.changes.send_replace(());
    }

    /// None while it runs, and once its result is being forgotten.
    pub(super) fn result_value(&self) -> Option<ResultValue> {
        let state = self.state.lock();
        let end = state.end.as_ref().filter(|_| !state.is_closed)?;
        Some(ResultValue { was_heard: end.was_heard, at: end.at, bytes: end.bytes })
    }
}

impl RunState {
    fn pop(&mut self) -> Option<Event> {
        let event = self.events.pop_front()?;
        self.event_bytes -= event.encoded_len();
        Some(event)
    }

    fn note_asked(&mut self, event: &Event) {
        if let Event::InputRequired(question) = event {
            self.asked.truncate(4 * MAX_CALL_QUESTIONS);
            self.asked.push_front(question.clone());
        }
    }
}

impl RunListener {
    /// Streams the events and then the result. A status ends the stream, too.
    pub(crate) fn into_stream(self) -> impl Stream<Item = Result<ExecuteEvent, Status>> {
        stream::unfold(Some(self), |listener| async move {
            let mut listener = listener?;
            let event = listener.next().await;
            let is_last = matches!(event, Err(_) | Ok(Event::Result(_)));
            let event = event.map(|event| ExecuteEvent { event: Some(event) });
            Some((event, Some(listener).filter(|_| !is_last)))
        })
    }

    pub(super) async fn next(&mut self) -> Result<Event, Status> {
        loop {
            if let Some(next) = self.try_next() {
                return next;
            }
            // The run owns the sender.
            let _ = self.changes.changed().await;
        }
    }

    fn try_next(&self) -> Option<Result<Event, Status>> {
        let mut state = self.run.state.lock();
        if state.listener != self.number {
            return Some(Err(Status::aborted("another gateway has taken the run over")));
        }
        if let Some(event) = state.pop() {
            state.note_asked(&event);
            return Some(Ok(event));
        }
        let end = state.end.as_mut()?;
        end.was_heard = true;
        Some(end.result.clone().map(Event::Result))
    }
}

impl Drop for RunListener {
    fn drop(&mut self) {
        let mut state = self.run.state.lock();
        if state.listener == self.number {
            state.unheard_since = Some(Instant::now());
            self.run.changes.send_replace(());
        }
    }
}
