//! The pictures that a turn's model looks at: the last ones that its calls returned. They are in memory alone, and gone with
//! the turn; what the log keeps of a call is its data.

use std::collections::VecDeque;
use std::sync::{MutexGuard, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use openskill_proto::v1::artifact::Content;
use openskill_proto::v1::{Artifact, ReadArtifactRequest};

use super::Turn;
use crate::message::{Message, Picture};
use crate::skills::Unreachable;

/// Pictures that the model sees at a time. Each costs tokens with every request, and a page of some steps ago says little.
const MOST: usize = 3;

/// The largest picture: providers take 5 MB of base64.
const MAX_BYTES: u64 = 3 << 20;

/// What all providers take.
const MEDIA_TYPES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// The last pictures, each with the id of its call, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Pictures(VecDeque<(String, Picture)>);

impl Pictures {
    fn keep(&mut self, call_id: &str, picture: Picture) {
        if self.0.len() == MOST {
            self.0.pop_front();
        }
        self.0.push_back((call_id.to_owned(), picture));
    }

    fn of(&self, call_id: &str) -> Vec<Picture> {
        self.0.iter().filter(|(id, _)| id == call_id).map(|(_, picture)| picture.clone()).collect()
    }
}

impl Turn {
    /// Whether the model sees pictures.
    pub(super) fn sees_pictures(&self) -> bool {
        self.delegated.as_ref().is_some_and(|it| it.sees_pictures)
    }

    /// Keeps the pictures among what a call returned, if the model sees any.
    pub(super) async fn keep_pictures(&self, call_id: &str, artifacts: &[Artifact]) {
        if !self.sees_pictures() {
            return;
        }
        let fits = |it: &&Artifact| MEDIA_TYPES.contains(&it.media_type.as_str()) && it.size_bytes <= MAX_BYTES;
        let pictures: Vec<&Artifact> = artifacts.iter().filter(fits).collect();
        for artifact in &pictures[pictures.len().saturating_sub(MOST)..] {
            match self.content_of(artifact).await {
                Ok(data) => {
                    let media_type = artifact.media_type.as_str().into();
                    self.pictures().keep(call_id, Picture { media_type, base64: STANDARD.encode(data).into() });
                }
                Err(error) => {
                    tracing::warn!(conversation = self.conversation, %error, "the model does not see a picture");
                }
            }
        }
    }

    /// The content of a picture, which the artifact has or names.
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
                return Err(Unreachable("it is larger than it was said to be".to_owned()));
            }
            if data.len() as u64 >= read.size_bytes {
                return Ok(data);
            }
            if read.data.is_empty() {
                return Err(Unreachable("it has expired".to_owned()));
            }
        }
    }

    /// Adds the pictures to the results that they came with.
    pub(super) fn show_pictures(&self, messages: &mut [Message]) {
        let pictures = self.pictures();
        let results = messages.iter_mut().filter_map(|it| match it {
            Message::Results(results) => Some(results),
            _ => None,
        });
        for result in results.flatten() {
            result.pictures = pictures.of(&result.call_id);
        }
    }

    fn pictures(&self) -> MutexGuard<'_, Pictures> {
        self.pictures.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
