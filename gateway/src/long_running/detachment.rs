//! Moves the large parts of a result to blobs when its operation ends: data, and artifacts that a worker has.

use std::time::Duration;

use openskill_proto::trace::hex;
use openskill_proto::v1::artifact::Content;
use openskill_proto::v1::{Artifact, ErrorCode, ReadArtifactRequest, SkillError, SkillResult};
use openskill_store::Store;
use openskill_store::blobs::BlobWriter;
use openskill_store::engine::StoreError;
use openskill_store::operation::{Blob, Claim, End};
use prost::Message as _;

use super::end::{end, failure_result};
use super::stored_result::{BlobIds, handle};
use crate::dispatch::artifacts;
use crate::gateway::Shard;

/// Larger parts are blobs.
const MAX_INLINE_BYTES: usize = 256 * 1024;

/// The first and the last pause before a part is written again.
const TRY_AGAIN: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// How often an artifact is fetched again from a worker that does not answer.
const MAX_FETCHES: usize = 3;

/// Why a part did not become a blob.
enum PartError {
    /// Another gateway has the operation.
    ClaimLost,
    /// Its worker does not have it any more, or does not answer.
    Fetch(SkillError),
    Store(StoreError),
}

impl From<StoreError> for PartError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// Moves the parts of a result to blobs.
struct Detachment<'a> {
    shard: &'a Shard,
    store: &'a Store,
    claim: &'a Claim,
    ids: BlobIds,
    blobs: Vec<Blob>,
}

/// Writes the large parts of a result to the store, and returns how its operation ends. Tries until the store has them. None
/// if the claim is no longer valid.
pub(super) async fn detach(
    shard: &Shard,
    store: &Store,
    claim: &Claim,
    mut result: SkillResult,
    keep: Duration,
) -> Option<End> {
    let mut parts = Detachment { shard, store, claim, ids: BlobIds::default(), blobs: Vec::new() };
    match parts.detach(&mut result).await {
        Ok(()) => {}
        Err(PartError::Store(error)) => {
            let meta = result.meta.take();
            result = SkillResult { meta, ..failure_result(&claim.operation, too_large_error(&error)) };
            (parts.ids, parts.blobs) = (BlobIds::default(), Vec::new());
        }
        Err(_) => return None,
    }
    let mut end = end(&result, keep);
    end.result.extend(parts.ids.encode_to_vec());
    end.blobs = parts.blobs;
    Some(end)
}

impl Detachment<'_> {
    async fn detach(&mut self, result: &mut SkillResult) -> Result<(), PartError> {
        for (position, artifact) in (0..).zip(&mut result.artifacts) {
            let old = if let Some(Content::Handle(old)) = &artifact.content { old.clone() } else { String::new() };
            match self.detach_artifact(position, artifact).await {
                // The envelope that the caller asked for lists the artifacts, too.
                Ok(()) if !old.is_empty() && !result.rendered_json.is_empty() => {
                    let new = handle(&self.claim.operation.id, position);
                    result.rendered_json = result.rendered_json.replace(&old, &new);
                }
                Err(PartError::Fetch(error)) => {
                    tracing::warn!(error = error.message, operation = self.claim.operation.id, "an artifact is lost");
                    let warning =
                        format!("artifact {position} was lost with its worker: only a new call can produce it");
                    result.meta.get_or_insert_default().warnings.push(warning);
                }
                done => done?,
            }
        }
        let output = SkillResult {
            output: result.output.take(),
            rendered_json: std::mem::take(&mut result.rendered_json),
            content_json: std::mem::take(&mut result.content_json),
            ..SkillResult::default()
        };
        if output.encoded_len() > MAX_INLINE_BYTES {
            let blob = self.store_part(&Content::Data(output.encode_to_vec().into()), 0).await?;
            self.ids.output.clone_from(&blob.id);
            self.blobs.push(blob);
        } else {
            let SkillResult { output, rendered_json, content_json, .. } = output;
            (result.output, result.rendered_json, result.content_json) = (output, rendered_json, content_json);
        }
        Ok(())
    }

    /// Replaces large content, or the handle of a worker, with the handle of a blob.
    async fn detach_artifact(&mut self, position: u32, artifact: &mut Artifact) -> Result<(), PartError> {
        let content = match &artifact.content {
            Some(Content::Data(data)) if data.len() <= MAX_INLINE_BYTES => return Ok(()),
            Some(content) => content,
            None => return Ok(()),
        };
        let blob = self.store_part(content, artifact.size_bytes).await?;
        artifact.content = Some(Content::Handle(handle(&self.claim.operation.id, position)));
        artifact.sha256 = hex(&blob.sha256);
        self.ids.artifacts.insert(position, blob.id.clone());
        self.blobs.push(blob);
        Ok(())
    }

    /// Tries until the store has a part. `size_bytes`: of what a handle stands for.
    async fn store_part(&self, content: &Content, size_bytes: u64) -> Result<Blob, PartError> {
        let (mut fetches, mut pause) = (0, TRY_AGAIN.0);
        loop {
            match self.write(content, size_bytes).await {
                Err(PartError::Fetch(error)) if error.code() != ErrorCode::NotFound && fetches < MAX_FETCHES => {
                    fetches += 1;
                }
                Err(PartError::Store(error)) if !matches!(error, StoreError::TooLarge(_)) => {
                    let operation = &self.claim.operation.id;
                    tracing::error!(%error, operation, "a part of a result can't be stored yet");
                }
                done => return done,
            }
            tokio::time::sleep(pause).await;
            pause = (2 * pause).min(TRY_AGAIN.1);
        }
    }

    async fn write(&self, content: &Content, size_bytes: u64) -> Result<Blob, PartError> {
        let mut writer = self.store.begin_blob(self.claim.fence()).await?.ok_or(PartError::ClaimLost)?;
        if let Err(error) = self.fill(&mut writer, content, size_bytes).await {
            // The next try must not find the disk full of this one.
            if let Err(error) = writer.discard().await {
                tracing::warn!(%error, "a part of a result that can't be stored can't be removed either");
            }
            return Err(error);
        }
        writer.complete().await?.ok_or(PartError::ClaimLost)
    }

    async fn fill(&self, writer: &mut BlobWriter<'_>, content: &Content, size_bytes: u64) -> Result<(), PartError> {
        let handle = match content {
            Content::Data(data) => return Ok(writer.write(data).await?),
            Content::Handle(handle) => handle,
        };
        let mut offset = 0;
        while offset < size_bytes {
            let range = ReadArtifactRequest { handle: handle.clone(), offset, length: size_bytes - offset };
            let fetched = artifacts::read_for_operation(self.shard, &self.claim.operation.principal, range).await;
            let piece = fetched.map_err(PartError::Fetch)?.data;
            if piece.is_empty() {
                let message = "the artifact is shorter than its worker said";
                return Err(PartError::Fetch(SkillError::new(ErrorCode::NotFound, message)));
            }
            writer.write(&piece).await?;
            offset += piece.len() as u64;
        }
        Ok(())
    }
}

fn too_large_error(error: &StoreError) -> SkillError {
    let message = format!("the skill ran, but its result can't be stored: {error}");
    SkillError { may_have_run: true, ..SkillError::new(ErrorCode::OutputTooLarge, message) }
}
