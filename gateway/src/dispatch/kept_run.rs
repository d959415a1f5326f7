//! Runs of operations, which workers keep when their gateway is gone.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, StreamExt as _};
use openskill_proto::v1::{CancelRunRequest, OperationRun, ResumeRunRequest};
use tokio::runtime::Handle;

use super::attempt_end::AttemptEnd;
use crate::call::claim::CallClaim;
use crate::call::request::Call;
use crate::gateway::Shard;
use crate::workers::client::Events;
use crate::workers::worker::Worker;

/// How long a worker may take to say whether it has a run, or to cancel it.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// How many workers are asked at once.
const ASKED: usize = 16;

/// The run of an operation's call at a worker, whose result this gateway waits for. Dropping it cancels the run. If another
/// gateway, or this one after a restart, can continue the operation, the run is left to it.
pub(crate) struct KeptRun {
    shard: Shard,
    worker: Arc<Worker>,
    call: Arc<Call>,
    has_ended: bool,
}

/// A run that another gateway started, and this one continues.
pub(crate) struct ResumedRun {
    pub(crate) run: KeptRun,
    pub(crate) events: Events,
}

impl KeptRun {
    /// None if the call does not belong to an operation.
    pub(super) fn begin(shard: &Shard, worker: &Arc<Worker>, call: &Arc<Call>) -> Option<Self> {
        call.claim.as_ref()?;
        let (shard, worker, call) = (shard.clone(), Arc::clone(worker), Arc::clone(call));
        Some(Self { shard, worker, call, has_ended: false })
    }

    /// Cancels the run, unless it has ended or did not start.
    pub(super) fn settle(mut self, end: &AttemptEnd) {
        self.has_ended = matches!(end, AttemptEnd::Answered(_)) || end.refusal().is_some();
    }

    /// The run has ended, so there is nothing to cancel.
    pub(crate) fn end(mut self) {
        self.has_ended = true;
    }

    /// Its worker.
    pub(crate) fn worker(&self) -> &Arc<Worker> {
        &self.worker
    }
}

impl Drop for KeptRun {
    fn drop(&mut self) {
        let gateway = &self.shard.gateway;
        let claim = self.call.claim.as_ref().filter(|it| !it.is_lost());
        let is_left = gateway.shutdown.is_cancelled() && claim.is_some_and(CallClaim::is_stored);
        if self.has_ended || is_left {
            return;
        }
        if let (Some(claim), Ok(runtime)) = (claim, Handle::try_current()) {
            gateway.tasks.spawn_on(cancel(Arc::clone(&self.worker), self.shard.number, claim.run.clone()), &runtime);
        }
    }
}

/// What workers say of a run.
pub(crate) enum Search {
    Found(Box<ResumedRun>),
    /// No worker has it.
    Absent,
    /// A worker that may have it did not answer.
    Unsure,
}

/// Finds the run of a call's operation, and takes it over.
pub(crate) async fn resume(shard: &Shard, call: &Arc<Call>) -> Search {
    let asked = shard.gateway.fleet.all().into_iter().map(|worker| ask(shard, call, worker));
    let mut answers = pin!(stream::iter(asked).buffer_unordered(ASKED));
    let mut outcome = Search::Absent;
    while let Some(answer) = answers.next().await {
        match answer {
            Search::Found(run) => return Search::Found(run),
            Search::Unsure => outcome = Search::Unsure,
            Search::Absent => {}
        }
    }
    outcome
}

async fn ask(shard: &Shard, call: &Arc<Call>, worker: Arc<Worker>) -> Search {
    let Some(OperationRun { operation_id, epoch }) = call.claim.as_ref().map(|it| it.run.clone()) else {
        return Search::Absent;
    };
    let request = ResumeRunRequest { operation_id, epoch, principal: call.principal.name().to_owned() };
    let mut client = worker.client(shard.number);
    match tokio::time::timeout(ANSWER_TIMEOUT, client.resume_run(request)).await {
        Ok(Ok(events)) => match events.zip(KeptRun::begin(shard, &worker, call)) {
            Some((events, run)) => Search::Found(Box::new(ResumedRun { run, events })),
            None => Search::Absent,
        },
        Ok(Err(_)) | Err(_) => Search::Unsure,
    }
}

/// Cancels the run of an operation, whichever worker has it. Returns at once.
pub(crate) fn cancel_everywhere(shard: &Shard, run: &OperationRun) {
    let (workers, number, run) = (shard.gateway.fleet.all(), shard.number, run.clone());
    shard.gateway.tasks.spawn(async move {
        let asked = workers.into_iter().map(|worker| cancel(worker, number, run.clone()));
        stream::iter(asked).buffer_unordered(ASKED).collect::<()>().await;
    });
}

async fn cancel(worker: Arc<Worker>, shard: usize, OperationRun { operation_id, epoch }: OperationRun) {
    let mut client = worker.client(shard);
    let asked = client.cancel_run(CancelRunRequest { operation_id, epoch });
    // A worker that does not answer cancels the run by itself, because nobody listens to it.
    let _ = tokio::time::timeout(ANSWER_TIMEOUT, asked).await;
}
