//! Reads artifacts by their handles: those of operations from the store, others from the workers that have them.

use openskill_proto::v1::{ReadArtifactRequest, ReadArtifactResponse, SkillError};

use crate::call::principal::Principal;
use crate::dispatch::artifacts;
use crate::gateway::Shard;
use crate::long_running::artifacts::is_stored;

/// Reads a range of an artifact that belongs to `principal`, at most 1 MiB of it.
///
/// # Errors
/// It does not exist for this principal, or it can't be read now.
pub(crate) async fn read(
    shard: &Shard,
    principal: &Principal,
    range: ReadArtifactRequest,
) -> Result<ReadArtifactResponse, SkillError> {
    if is_stored(&range.handle) {
        return shard.gateway.long_running.read_artifact(principal, &range).await;
    }
    artifacts::read(shard, principal, range).await
}
