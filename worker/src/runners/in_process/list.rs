//! The list in an answer, within its bounds: what is in it, whether there is more, and which files were left out.

use openskill_proto::v1::{ErrorCode, SkillError};
use serde::Serialize;
use serde::ser::{SerializeMap as _, Serializer as _};

use super::left::{Left, LeftOut};
use super::ordered::Weight;

/// Something that is listed.
pub(super) trait Item: Serialize {
    /// About how many bytes it has in the answer.
    fn size(&self) -> usize;
}

/// How much a list takes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    pub(super) items: usize,
    /// The argument that sets `items`.
    pub(super) argument: &'static str,
    /// About how many bytes all items may have.
    pub(super) bytes: usize,
}

/// A list that grows.
pub(super) struct List<T> {
    pub(super) items: Vec<T>,
    pub(super) left_out: LeftOut,
    bounds: Bounds,
    bytes: usize,
    /// Why there may be more than this. None: there is no more.
    truncated_by: Option<&'static str>,
}

impl<T: Item> List<T> {
    pub(super) fn new(bounds: Bounds) -> Self {
        Self { items: Vec::new(), left_out: LeftOut::default(), bounds, bytes: 0, truncated_by: None }
    }

    /// How much of a list these items take.
    pub(super) fn weigh(items: &[T]) -> Weight {
        Weight { items: items.len(), bytes: items.iter().map(T::size).sum() }
    }

    /// Marks the list as truncated. The first reason counts.
    pub(super) fn cut(&mut self, by: &'static str) {
        self.truncated_by.get_or_insert(by);
    }

    pub(super) fn is_cut(&self) -> bool {
        self.truncated_by.is_some()
    }

    /// Adds a file that is not in the list, or not in full.
    pub(super) fn leave_out(&mut self, left: Option<Left>) {
        self.left_out.add(left);
    }

    /// Adds items until a bound is met.
    pub(super) fn extend(&mut self, items: Vec<T>) {
        for it in items {
            self.bytes += it.size();
            if self.items.len() >= self.bounds.items {
                return self.cut(self.bounds.argument);
            }
            if self.bytes > self.bounds.bytes {
                return self.cut("answer_bytes");
            }
            self.items.push(it);
        }
    }

    /// Whether it would be full after this much more.
    pub(super) fn is_full_with(&self, more: Weight) -> bool {
        self.is_cut()
            || self.items.len() + more.items > self.bounds.items
            || self.bytes + more.bytes > self.bounds.bytes
    }

    /// The data of the answer: the items under `name`, and `stats`.
    ///
    /// # Errors
    /// It can't be written.
    pub(super) fn to_json(&self, name: &str, stats: &impl Serialize) -> Result<String, SkillError> {
        let mut out = Vec::new();
        let write = |out: &mut Vec<u8>| {
            let mut serializer = serde_json::Serializer::new(out);
            let mut map = serializer.serialize_map(None)?;
            map.serialize_entry(name, &self.items)?;
            map.serialize_entry("truncated", &self.is_cut())?;
            if let Some(by) = self.truncated_by {
                map.serialize_entry("truncated_by", by)?;
            }
            map.serialize_entry("left_out", &self.left_out.listed)?;
            map.serialize_entry("stats", stats)?;
            map.end()
        };
        let internal = |error: String| SkillError::new(ErrorCode::Internal, error);
        write(&mut out).map_err(|error| internal(error.to_string()))?;
        String::from_utf8(out).map_err(|error| internal(error.to_string()))
    }
}
