//! Requests the content of a prompt or a resource from a worker. Each request needs a permit, like a call.

use std::time::Duration;

use openskill_proto::v1::{ConsultRequest, ErrorCode, SkillError};

use crate::call::principal::Principal;
use crate::catalog::offerings::MergedOffering;
use crate::gateway::Shard;
use crate::state::limits::SharedLimit;

/// The timeout for the worker's response.
const TIMEOUT: Duration = Duration::from_secs(15);

/// The maximum size of a worker's response, in bytes. Its memory is reserved before it arrives.
const MAX_ANSWER_BYTES: usize = 12 * 1024 * 1024;

/// On whose behalf a worker is consulted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ConsultScope<'a> {
    pub(crate) principal: &'a Principal,
    /// Empty if the caller has no session.
    pub(crate) session_id: &'a str,
    pub(crate) trace_id: &'a str,
}

/// Requests an item from a worker that has it. Tries the next one if that worker can't be reached.
///
/// # Errors
/// `NOT_FOUND`, `INVALID_ARGUMENT`, no worker responded, or no permit or no memory was available.
pub(crate) async fn consult(
    shard: &Shard,
    scope: ConsultScope<'_>,
    item: &MergedOffering,
    request: ConsultRequest,
) -> Result<String, SkillError> {
    let (owner, bytes) = (request.owner.as_str(), request.params_json.len());
    let _permit = shard.gateway.admit_consult(scope.principal, scope.session_id, owner, bytes, scope.trace_id)?;
    let answer =
        shard.gateway.limits.reserve(SharedLimit::Responses, &scope.principal.shared_name(), MAX_ANSWER_BYTES).await;
    let Some(_answer) = answer else {
        return Err(SkillError::overloaded(
            "too many answers to this caller, or to all callers, are in progress or unread",
        ));
    };
    let mut last = SkillError::unavailable("no worker offers it now: try again");
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

/// Sends the request to every worker that has the item. Ignores errors, because another worker may succeed.
///
/// # Errors
/// No permit was available.
pub(crate) async fn tell_all(
    shard: &Shard,
    scope: ConsultScope<'_>,
    item: &MergedOffering,
    request: &ConsultRequest,
) -> Result<(), SkillError> {
    let (owner, bytes) = (request.owner.as_str(), request.params_json.len());
    let _permit = shard.gateway.admit_consult(scope.principal, scope.session_id, owner, bytes, scope.trace_id)?;
    let told = item.workers.iter().filter(|it| it.is_serving()).map(|worker| async move {
        let mut client = worker.client(shard.number);
        let _ = tokio::time::timeout(TIMEOUT, client.consult(request.clone())).await;
    });
    futures_util::future::join_all(told).await;
    Ok(())
}
