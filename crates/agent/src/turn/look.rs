//! Fetches the pictures that calls return, if the turn's model may see them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use openskill_model::Picture;
use openskill_proto::v1::artifact::Content;
use openskill_proto::v1::{Artifact, ReadArtifactRequest};

use super::Turn;
use super::pictures::{MAX_BYTES, MOST, is_picture};
use crate::skills::Unreachable;

impl Turn {
    /// Returns whether the model sees pictures.
    pub(super) fn sees_pictures(&self) -> bool {
        self.delegated.as_ref().is_some_and(|it| it.sees_pictures)
    }

    /// Fetches and keeps the pictures among a call's artifacts, if the model sees pictures.
    pub(super) async fn keep_pictures(&self, call_id: &str, artifacts: &[Artifact]) {
        if !self.sees_pictures() {
            return;
        }
        let pictures: Vec<&Artifact> = artifacts.iter().filter(|it| is_picture(it)).collect();
        for artifact in &pictures[pictures.len().saturating_sub(MOST)..] {
            match self.content_of(artifact).await {
                Ok(data) => {
                    let media_type = artifact.media_type.as_str().into();
                    self.pictures.lock().keep(call_id, Picture { media_type, base64: STANDARD.encode(data).into() });
                }
                Err(error) => {
                    tracing::warn!(conversation = self.conversation, %error, "a picture could not be shown to the model");
                }
            }
        }
    }

    /// Returns the content of a picture, either from the artifact itself or from the gateway.
    async fn content_of(&self, artifact: &Artifact) -> Result<Vec<u8>, Unreachable> {
        let handle = match &artifact.content {
            Some(Content::Data(data)) => return Ok(data.to_vec()),
            Some(Content::Handle(handle)) => handle,
            None => return Err(Unreachable("it has no content".to_owned())),
        };
        let mut data = Vec::new();
        loop {
            let range = ReadArtifactRequest { handle: handle.clone(), offset: data.len() as u64, length: 0 };
            let read = self.shared.skills.read_artifact(&self.caller, range).await?;
            data.extend_from_slice(&read.data);
            if data.len() as u64 > MAX_BYTES {
                return Err(Unreachable("it is larger than its declared size".to_owned()));
            }
            if data.len() as u64 >= read.size_bytes {
                return Ok(data);
            }
            if read.data.is_empty() {
                return Err(Unreachable("it has expired".to_owned()));
            }
        }
    }
}
