//! The pictures that a turn's model looks at: the last ones that its calls returned. They are in memory alone, and gone with
//! the turn; what the log keeps of a call is its data. Pure.

use std::collections::VecDeque;

use openskill_proto::v1::Artifact;

use crate::message::{Message, Picture};

/// Pictures that the model sees at a time. Each costs tokens with every request, and a page of some steps ago says little.
pub(super) const MOST: usize = 3;

/// The largest picture: providers take 5 MB of base64.
pub(super) const MAX_BYTES: u64 = 3 << 20;

/// What all providers take.
const MEDIA_TYPES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// Whether the model can look at an artifact.
pub(super) fn is_picture(artifact: &Artifact) -> bool {
    MEDIA_TYPES.contains(&artifact.media_type.as_str()) && artifact.size_bytes <= MAX_BYTES
}

/// The last pictures, each with the id of its call, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Pictures(VecDeque<(String, Picture)>);

impl Pictures {
    /// Keeps one more, and drops the oldest if there are too many.
    pub(super) fn keep(&mut self, call_id: &str, picture: Picture) {
        if self.0.len() == MOST {
            self.0.pop_front();
        }
        self.0.push_back((call_id.to_owned(), picture));
    }

    /// Adds them to the results that they came with.
    pub(super) fn add_to(&self, messages: &mut [Message]) {
        let results = messages.iter_mut().filter_map(|it| match it {
            Message::Results(results) => Some(results),
            _ => None,
        });
        for result in results.flatten() {
            let own = self.0.iter().filter(|(id, _)| *id == result.call_id);
            result.pictures = own.map(|(_, picture)| picture.clone()).collect();
        }
    }
}
