//! Reads an artifact from the worker that has it. Results refer to artifacts by handle.

use std::sync::Arc;
use std::time::Duration;

use openskill_proto::v1::{ErrorCode, FetchArtifactRequest, ReadArtifactRequest, ReadArtifactResponse, SkillError};

use crate::call::principal::Principal;
use crate::gateway::Shard;
use crate::workers::worker::Worker;

/// The timeout for the worker's response.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Reads a range of an artifact that belongs to `principal`.
///
/// # Errors
/// `NOT_FOUND` if the artifact does not exist, has expired, or belongs to another principal, if its worker is gone,
/// or if `principal` may no longer see the skill that produced it.
pub(crate) async fn read(
    shard: &Shard,
    principal: &Principal,
    range: ReadArtifactRequest,
) -> Result<ReadArtifactResponse, SkillError> {
    let worker = find_worker(shard, &range)?;
    match fetch(shard, &worker, principal.name(), range).await {
        Ok(read) if !principal.sees_all() && !may_read(shard, principal, &worker, &read.skill_id) => Err(not_found()),
        fetched => fetched,
    }
}

/// Reads a range of an artifact for the operation whose call produced it: on behalf of its principal, whatever that may do now.
///
/// # Errors
/// `NOT_FOUND` if the artifact does not exist or has expired, or if its worker is gone.
pub(crate) async fn read_for_operation(
    shard: &Shard,
    principal: &str,
    range: ReadArtifactRequest,
) -> Result<ReadArtifactResponse, SkillError> {
    let worker = find_worker(shard, &range)?;
    fetch(shard, &worker, principal, range).await
}

fn find_worker(shard: &Shard, range: &ReadArtifactRequest) -> Result<Arc<Worker>, SkillError> {
    let worker = range.handle.split_once('/').and_then(|(instance, _)| shard.gateway.fleet.by_instance(instance));
    worker.ok_or_else(not_found)
}

async fn fetch(
    shard: &Shard,
    worker: &Worker,
    principal: &str,
    range: ReadArtifactRequest,
) -> Result<ReadArtifactResponse, SkillError> {
    let request = FetchArtifactRequest { range: Some(range), principal: principal.to_owned() };
    let mut client = worker.client(shard.number);
    let fetched = tokio::time::timeout(TIMEOUT, client.fetch_artifact(request)).await;
    match fetched.unwrap_or_else(|_| Err(SkillError::unavailable("the worker did not answer in time"))) {
        Err(error) if error.code() == ErrorCode::NotFound => Err(not_found()),
        fetched => fetched,
    }
}

/// Whether a principal may still call the skill of an artifact. A draining worker has artifacts of skills that are
/// no longer in the catalog.
fn may_read(shard: &Shard, principal: &Principal, worker: &Worker, skill_id: &str) -> bool {
    match shard.gateway.catalog.get(skill_id) {
        Some(entry) => principal.may_call(&entry.skill),
        None => worker.last_report().is_some_and(|it| {
            it.skills.iter().find(|skill| skill.id == skill_id).is_some_and(|skill| principal.may_call(skill))
        }),
    }
}

fn not_found() -> SkillError {
    SkillError::new(ErrorCode::NotFound, "there is no such artifact, or it has expired: call the skill again")
}
