//! The runs of operations. They outlive the gateways that listen to them.
//!
//! A run is a task of the table, and not of the stream of its events. While nobody listens, its events wait here, as does its
//! result once it has ended. Another gateway can take the run over with a higher epoch. What an older gateway asks for after
//! that is refused. A run that nobody listens to for a while is cancelled.
//!
//! ```text
//! start ──> running ──ended──> ended ──after a while──> gone
//!              └──cancelled, or nobody listens──> processes end ──┘
//! ```
//!
//! - [`kept_run`]: one run

mod kept_run;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use openskill_proto::v1::execute_event::Event;
use openskill_proto::v1::{CancelRunRequest, ExecuteResult, OperationRun, ResumeRunRequest};
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::task_tracker::TaskTrackerToken;
use tonic::Status;

use kept_run::KeptRun;
pub(crate) use kept_run::RunListener;

/// How long a run continues while nobody listens, and how long its result is kept.
const KEEP: Duration = Duration::from_secs(30);

/// The number of events that the run may be ahead of this table.
const EVENT_BUFFER: usize = 32;

/// The number and the size of all results that are kept. Beyond it, those go first that a gateway has, then the oldest.
const MAX_ENDED: usize = 64;
const MAX_RESULT_BYTES: usize = 32 << 20;

/// How long a run waits for the processes of the one that it replaces.
const PATIENCE: Duration = Duration::from_secs(10);

/// The runs of operations on this worker, by the operation's id.
#[derive(Debug)]
pub(crate) struct KeptRuns {
    most_running: usize,
    keep: Duration,
    /// Cancelled when no gateway can resume a run any more.
    closed: CancellationToken,
    runs: Mutex<HashMap<String, Arc<KeptRun>>>,
}

/// Why a run is not started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum KeptRunError {
    /// A gateway with a later claim has the operation, or one with the same claim started it already.
    #[error("this worker has a run of the operation that is not older")]
    Superseded,
    /// The table is full.
    #[error("this worker keeps too many runs of operations")]
    Full,
    /// The run that it replaces has processes that do not end.
    #[error("the earlier run of the operation has not ended yet")]
    NotGone,
}

/// Whether a run may start.
enum Place {
    Taken(Arc<KeptRun>),
    /// This older run was cancelled, and must be gone first.
    After(Arc<KeptRun>),
}

impl KeptRuns {
    /// Creates an empty table for at most `most_running` runs that have not ended.
    pub(crate) fn new(most_running: usize) -> Arc<Self> {
        Self::with_keep(most_running, KEEP)
    }

    fn with_keep(most_running: usize, keep: Duration) -> Arc<Self> {
        Arc::new(Self { most_running, keep, closed: CancellationToken::new(), runs: Mutex::default() })
    }

    /// Starts a run. `execute` gets the sender for its events. An older run of the operation is cancelled, and its processes
    /// have ended before this one starts.
    ///
    /// # Errors
    /// Another gateway has the operation, or there is no room. The run is not started.
    pub(crate) async fn start<F>(
        self: &Arc<Self>,
        operation: OperationRun,
        principal: &str,
        execute: impl FnOnce(mpsc::Sender<Event>) -> F,
    ) -> Result<RunListener, KeptRunError>
    where
        F: Future<Output = Result<ExecuteResult, Status>> + Send + 'static,
    {
        let run = loop {
            match self.place(&operation, principal)? {
                Place::Taken(run) => break run,
                Place::After(earlier) => {
                    let gone = tokio::time::timeout(PATIENCE, earlier.gone.cancelled()).await;
                    gone.map_err(|_| KeptRunError::NotGone)?;
                }
            }
        };
        let (sender, events) = mpsc::channel(EVENT_BUFFER);
        let listener = run.listen(operation.epoch);
        // From now on, the task looks after the entry.
        tokio::spawn(Arc::clone(self).keep(operation.operation_id, run, Box::pin(execute(sender)), events));
        listener.ok_or(KeptRunError::Superseded)
    }

    /// Cancels the runs that nobody listens to, now and from now on: the worker accepts no more requests.
    pub(crate) fn close(&self) {
        self.closed.cancel();
    }

    /// Takes over a run, whose open questions are asked again. None if there is none of this principal, or a later gateway
    /// has it.
    pub(crate) fn resume(&self, request: &ResumeRunRequest, is_open: impl Fn(&str) -> bool) -> Option<RunListener> {
        let run = self.get(&request.operation_id).filter(|it| it.principal == request.principal)?;
        let listener = run.listen(request.epoch)?;
        run.repeat_questions(is_open);
        Some(listener)
    }

    /// Cancels a run, unless a later gateway has it.
    pub(crate) fn cancel(&self, request: &CancelRunRequest) {
        if let Some(run) = self.get(&request.operation_id) {
            run.cancel(|state| state.epoch <= request.epoch);
        }
    }

    /// Returns what a part of an operation's run holds until it has ended. A later run of the operation waits for it.
    pub(crate) fn part(&self, operation: &OperationRun) -> Option<TaskTrackerToken> {
        self.get(&operation.operation_id).map(|run| run.parts.token())
    }

    fn get(&self, id: &str) -> Option<Arc<KeptRun>> {
        self.runs.lock().get(id).cloned()
    }

    fn place(&self, operation: &OperationRun, principal: &str) -> Result<Place, KeptRunError> {
        let mut runs = self.runs.lock();
        if let Some(earlier) = runs.get(&operation.operation_id) {
            let is_older = earlier.give_way(operation.epoch);
            return is_older.then(|| Place::After(Arc::clone(earlier))).ok_or(KeptRunError::Superseded);
        }
        if runs.values().filter(|it| it.state.lock().end.is_none()).count() >= self.most_running {
            return Err(KeptRunError::Full);
        }
        let run = Arc::new(KeptRun::new(operation.epoch, principal));
        runs.insert(operation.operation_id.clone(), Arc::clone(&run));
        Ok(Place::Taken(run))
    }

    /// Runs to the end, keeps the result for a while, and forgets the run when nothing of it is left.
    async fn keep<F>(self: Arc<Self>, id: String, run: Arc<KeptRun>, execution: F, events: mpsc::Receiver<Event>)
    where
        F: Future<Output = Result<ExecuteResult, Status>> + Unpin,
    {
        let ended = run.run_to_end(execution, events, self.unheard(&run)).await;
        let has_result = ended.is_ok();
        run.end(ended);
        if has_result {
            self.make_room();
            let _ = tokio::time::timeout(self.keep, run.cancelled.cancelled()).await;
        }
        run.cancel(|_| true);
        run.parts.close();
        run.parts.wait().await;
        self.runs.lock().remove(&id);
        run.gone.cancel();
    }

    /// Completes when nobody has listened to a run for a while. Then nobody can listen any more.
    async fn unheard(&self, run: &KeptRun) {
        let mut changes = run.changes.subscribe();
        loop {
            let since = run.state.lock().unheard_since;
            let Some(since) = since else {
                let _ = changes.changed().await;
                continue;
            };
            tokio::select! {
                biased;
                _ = changes.changed() => continue,
                () = self.closed.cancelled() => {}
                () = tokio::time::sleep_until(since + self.keep) => {}
            }
            if run.cancel(|state| state.unheard_since == Some(since)) {
                return;
            }
        }
    }

    /// Forgets results, if there are too many.
    fn make_room(&self) {
        let runs = self.runs.lock();
        let mut kept: Vec<_> = runs.values().filter_map(|run| Some((run.result_value()?, run))).collect();
        kept.sort_by_key(|(value, _)| (!value.was_heard, value.at));
        let mut bytes: usize = kept.iter().map(|(value, _)| value.bytes).sum();
        let count = kept.len();
        for (number, (value, run)) in kept.into_iter().enumerate() {
            if count - number <= MAX_ENDED && bytes <= MAX_RESULT_BYTES {
                break;
            }
            run.cancel(|_| true);
            bytes -= value.bytes;
        }
    }
}

#[cfg(test)]
mod tests;
