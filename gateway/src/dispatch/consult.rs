//! Asking a worker for the content of a prompt or a resource.

use std::time::Duration;

use openskill_proto::v1::{ConsultRequest, ErrorCode, SkillError};

use crate::catalog::shelf::Item;
use crate::gateway::Shard;

/// How long a worker may take to answer.
const TIMEOUT: Duration = Duration::from_secs(15);

/// Asks one of the workers that have an item; the next one if it can't be reached.
///
/// # Errors
/// `NOT_FOUND`, `INVALID_ARGUMENT`, or that no worker answers.
pub(crate) async fn consult(shard: &Shard, item: &Item, request: ConsultRequest) -> Result<String, SkillError> {
    let mut last = SkillError::unavailable("no worker has it now: try again");
    let mut workers: Vec<_> = item.workers.iter().filter(|it| it.is_serving()).collect();
    workers.sort_by_key(|it| it.in_flight());
    for worker in workers {
        let mut client = worker.client(shard.number);
        match tokio::time::timeout(TIMEOUT, client.consult(request.clone())).await {
            Err(_) => last = SkillError::unavailable("the worker did not answer in time"),
            Ok(Err(error)) if error.code() == ErrorCode::Unavailable => last = error,
            Ok(answer) => return answer,
        }
    }
    Err(last)
}

/// Asks every worker that has an item. An error of one is none: others may answer.
pub(crate) async fn tell_all(shard: &Shard, item: &Item, request: &ConsultRequest) {
    let told = item.workers.iter().filter(|it| it.is_serving()).map(|worker| async move {
        let mut client = worker.client(shard.number);
        let _ = tokio::time::timeout(TIMEOUT, client.consult(request.clone())).await;
    });
    futures_util::future::join_all(told).await;
}
