//! The pictures that a turn's model sees, which are the last ones that its calls returned. They are kept in memory
//! until the turn ends; the log only contains the data of the calls. Does no I/O.

use std::collections::VecDeque;

use openskill_model::{Message, Picture};
use openskill_proto::v1::Artifact;

/// The maximum number of pictures that the model sees. Each one costs tokens with every request, and older
/// pictures are rarely useful.
pub(super) const MOST: usize = 3;

/// The maximum size of a picture, in bytes. Providers accept 5 MB of base64.
pub(super) const MAX_BYTES: u64 = 3 << 20;

/// The media types that all providers accept.
const MEDIA_TYPES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// Returns whether the model can see an artifact.
pub(super) fn is_picture(artifact: &Artifact) -> bool {
    MEDIA_TYPES.contains(&artifact.media_type.as_str()) && artifact.size_bytes <= MAX_BYTES
}

/// The latest pictures, each with the id of its call, oldest first.
#[derive(Debug, Default)]
pub(super) struct Pictures(VecDeque<(String, Picture)>);

impl Pictures {
    /// Adds a picture. Drops the oldest picture if there are too many.
    pub(super) fn keep(&mut self, call_id: &str, picture: Picture) {
        if self.0.len() == MOST {
            self.0.pop_front();
        }
        self.0.push_back((call_id.to_owned(), picture));
    }

    /// Adds the pictures to the results of their calls.
    pub(super) fn add_to(&self, messages: &mut [Message]) {
        for result in messages.iter_mut().flat_map(Message::results_mut) {
            let own = self.0.iter().filter(|(id, _)| *id == result.call_id);
            result.pictures = own.map(|(_, picture)| picture.clone()).collect();
        }
    }
}
