//! Reading an artifact that came as a handle, from the worker that holds it.

use std::time::Duration;

use openskill_proto::v1::{ErrorCode, FetchArtifactRequest, ReadArtifactRequest, ReadArtifactResponse, SkillError};

use crate::call::principal::Principal;
use crate::gateway::Shard;

/// How long the worker may take to answer.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Reads a range of an artifact that belongs to `principal`.
///
/// # Errors
/// `NOT_FOUND` if there is no such artifact, it has expired, its worker is gone, it belongs to somebody else, or the skill that
/// produced it does not exist for `principal` any more.
pub(crate) async fn read(
    shard: &Shard,
    principal: &Principal,
    range: ReadArtifactRequest,
) -> Result<ReadArtifactResponse, SkillError> {
    let worker = range.handle.split_once('/').and_then(|(instance, _)| shard.gateway.fleet.by_instance(instance));
    let worker = worker.ok_or_else(not_found)?;
    let request = FetchArtifactRequest { range: Some(range), principal: principal.name().to_owned() };
    let (mut client, catalog) = (worker.client(shard.number), &shard.gateway.catalog);
    let fetched = tokio::time::timeout(TIMEOUT, client.fetch_artifact(request)).await;
    match fetched.unwrap_or_else(|_| Err(SkillError::unavailable("the worker did not answer in time"))) {
        Err(error) if error.code() == ErrorCode::NotFound => Err(not_found()),
        Ok(read) if !principal.sees_all() && catalog.get_for(&read.skill_id, principal).is_none() => Err(not_found()),
        fetched => fetched,
    }
}

fn not_found() -> SkillError {
    SkillError::new(ErrorCode::NotFound, "there is no such artifact, or it has expired: call the skill again")
}
