//! Asks a worker for the content of a prompt or a resource. Each question holds a permit, as a call does.

use std::time::Duration;

use openskill_proto::v1::{ConsultRequest, ErrorCode, SkillError};

use crate::call::principal::Principal;
use crate::catalog::shelf::Item;
use crate::gateway::Shard;
use crate::state::limits::SharedLimit;

/// How long a worker may take to answer.
const TIMEOUT: Duration = Duration::from_secs(15);

/// The largest answer of a worker, in bytes. It counts before it is there.
const MAX_ANSWER_BYTES: usize = 12 * 1024 * 1024;

/// Who asks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asks<'a> {
    pub(crate) principal: &'a Principal,
    /// Empty if there is none.
    pub(crate) session_id: &'a str,
    pub(crate) trace_id: &'a str,
}

/// Asks one of the workers that have an item; the next one if it can't be reached.
///
/// # Errors
/// `NOT_FOUND`, `INVALID_ARGUMENT`, that no worker answers, or that there is no permit or no room for the answer.
pub(crate) async fn consult(
    shard: &Shard,
    asks: Asks<'_>,
    item: &Item,
    request: ConsultRequest,
) -> Result<String, SkillError> {
    let claim = (asks.session_id, request.owner.as_str(), request.params_json.len());
    let _permit = shard.gateway.admit_consult(asks.principal, claim, asks.trace_id)?;
    let answer =
        shard.gateway.limits.reserve(SharedLimit::Responses, &asks.principal.shared_name(), MAX_ANSWER_BYTES).await;
    let Some(_answer) = answer else {
        return Err(SkillError::overloaded("too many answers to this caller, or to all, are being made or not read"));
    };
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
///
/// # Errors
/// There is no permit.
pub(crate) async fn tell_all(
    shard: &Shard,
    asks: Asks<'_>,
    item: &Item,
    request: &ConsultRequest,
) -> Result<(), SkillError> {
    let claim = (asks.session_id, request.owner.as_str(), request.params_json.len());
    let _permit = shard.gateway.admit_consult(asks.principal, claim, asks.trace_id)?;
    let told = item.workers.iter().filter(|it| it.is_serving()).map(|worker| async move {
        let mut client = worker.client(shard.number);
        let _ = tokio::time::timeout(TIMEOUT, client.consult(request.clone())).await;
    });
    futures_util::future::join_all(told).await;
    Ok(())
}
