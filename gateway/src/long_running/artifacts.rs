//! Reads the artifacts of operations that have ended.

use openskill_proto::trace::hex;
use openskill_proto::v1::artifact::Content;
use openskill_proto::v1::{ErrorCode, ReadArtifactRequest, ReadArtifactResponse, SkillError};
use openskill_store::blobs::PIECE_BYTES;
use openskill_store::engine::StoreError;
use sha2::{Digest as _, Sha256};

use super::end::read_result;
use super::stored_result::{BlobIds, damaged_error};
use super::{LongRunning, failure};
use crate::call::principal::Principal;

/// Whether a handle belongs to an artifact of an operation, not to one that a worker has.
pub(crate) fn is_stored(handle: &str) -> bool {
    handle.starts_with("operations/")
}

impl LongRunning {
    /// Reads a range of an artifact, at most 1 MiB of it.
    ///
    /// # Errors
    /// It does not exist for this principal, it is damaged, or the store failed.
    pub(crate) async fn read_artifact(
        &self,
        principal: &Principal,
        range: &ReadArtifactRequest,
    ) -> Result<ReadArtifactResponse, SkillError> {
        let name = range.handle.split_once("/artifacts/");
        let (name, position) = name.and_then(|(name, it)| Some((name, it.parse().ok()?))).ok_or_else(not_found)?;
        let (operation, stored) = self.find(principal, name).await?;
        let mut artifacts = if operation.state.is_done() { read_result(&stored).artifacts } else { Vec::new() };
        if artifacts.len() <= position as usize {
            return Err(not_found());
        }
        let artifact = artifacts.swap_remove(position as usize);
        let length = if range.length == 0 { PIECE_BYTES as u64 } else { range.length };
        let mut response = ReadArtifactResponse {
            size_bytes: artifact.size_bytes,
            media_type: artifact.media_type,
            name: artifact.name,
            skill_id: operation.skill_id,
            sha256: artifact.sha256,
            ..ReadArtifactResponse::default()
        };
        match (BlobIds::read(&stored).artifacts.remove(&position), artifact.content) {
            (Some(id), _) => {
                let store = self.store()?;
                let read = async { store.read_blob(&store.blob(&id).await?, range.offset, length).await };
                response.data = read.await.map_err(read_failure)?.into();
            }
            (None, Some(Content::Data(data))) => {
                let begin = usize::try_from(range.offset).map_or(data.len(), |it| it.min(data.len()));
                let length = usize::try_from(length).unwrap_or(usize::MAX).min(data.len() - begin);
                response.sha256 = hex(&Sha256::digest(&data));
                response.data = data.slice(begin..begin + length);
            }
            _ => return Err(not_found()),
        }
        Ok(response)
    }
}

fn read_failure(error: StoreError) -> SkillError {
    if matches!(error, StoreError::Damaged(_)) {
        tracing::error!(%error, "an artifact can't be read");
        return damaged_error();
    }
    failure(error)
}

fn not_found() -> SkillError {
    SkillError::new(
        ErrorCode::NotFound,
        "there is no such artifact: the operation has no result, or not so many artifacts",
    )
}
