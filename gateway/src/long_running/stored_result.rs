//! The stored form of a result. Its large parts are blobs, which outlive the worker that has them.
//!
//! A stored result is an encoded [`SkillResult`] without its large parts, and the ids of their blobs. The blob of the
//! output is an encoded [`SkillResult`] with nothing else: appended, it completes the result.

use std::collections::BTreeMap;

use openskill_proto::v1::{Blame, ErrorCode, SkillError, SkillResult};
use openskill_store::Store;
use openskill_store::blobs::PIECE_BYTES;
use openskill_store::engine::StoreError;
use prost::Message;
use sha2::{Digest as _, Sha256};

use super::end::read_result;

/// Follows the fields of a `SkillResult` in a stored result, whose numbers these must not have. They never change, because
/// stores outlive programs.
#[derive(Clone, PartialEq, Message)]
pub(super) struct BlobIds {
    /// The blob of the output in all its forms. Empty if the output is small.
    #[prost(string, tag = "1000")]
    pub(super) output: String,
    /// The blobs of artifacts, by their positions.
    #[prost(btree_map = "uint32, string", tag = "1001")]
    pub(super) artifacts: BTreeMap<u32, String>,
}

impl BlobIds {
    /// Reads the ids in a stored result.
    pub(super) fn read(stored: &[u8]) -> Self {
        Self::decode(stored).unwrap_or_default()
    }
}

/// Returns the handle of an artifact. It is also the path of the artifact over REST.
pub(super) fn handle(id: &str, position: u32) -> String {
    format!("operations/{id}/artifacts/{position}")
}

/// Reads a stored result, with its output.
///
/// # Errors
/// The store failed. A result whose output is damaged or missing is a result with an error.
pub(super) async fn load(store: &Store, mut stored: Vec<u8>) -> Result<SkillResult, StoreError> {
    let BlobIds { output, .. } = BlobIds::read(&stored);
    if !output.is_empty() {
        match read_whole(store, &output).await {
            Ok(output) => stored.extend(output),
            Err(error @ StoreError::Damaged(_)) => {
                tracing::error!(%error, "a result can't be read");
                return Ok(SkillResult { success: false, error: Some(damaged_error()), ..read_result(&stored) });
            }
            Err(error) => return Err(error),
        }
    }
    Ok(read_result(&stored))
}

async fn read_whole(store: &Store, id: &str) -> Result<Vec<u8>, StoreError> {
    let blob = store.blob(id).await?;
    let mut bytes = Vec::new();
    let mut digest = Sha256::new();
    while (bytes.len() as u64) < blob.size_bytes {
        let piece = store.read_blob(&blob, bytes.len() as u64, PIECE_BYTES as u64).await?;
        digest.update(&piece);
        bytes.extend(piece);
    }
    if digest.finalize().as_slice() == blob.sha256 {
        Ok(bytes)
    } else {
        Err(StoreError::Damaged(format!("the blob {id} has another SHA-256")))
    }
}

/// The error of a reader that needs a blob that is damaged or missing.
pub(super) fn damaged_error() -> SkillError {
    let message = "a part of this result is damaged or missing in the store: submit the call again";
    SkillError::new(ErrorCode::Internal, message).with_blame(Blame::Gateway)
}
