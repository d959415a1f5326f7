//! A bounded list in an answer: its items, whether it is truncated, and which files were skipped.

use openskill_proto::v1::{ErrorCode, SkillError};
use serde::Serialize;
use serde::ser::{SerializeMap as _, Serializer as _};

use super::ordered::Weight;
use super::skipped::{SkippedFile, SkippedFiles};

/// A serializable item with a known size.
pub(super) trait ListItem: Serialize {
    /// Returns the approximate size of the item in the answer, in bytes.
    fn size(&self) -> usize;
}

/// The maximum number and size of a list's items.
#[derive(Debug, Clone, Copy)]
pub(super) struct ListLimits {
    pub(super) items: usize,
    /// The name of the argument that sets `items`, reported when that limit is reached.
    pub(super) argument: &'static str,
    /// The approximate maximum size of all items, in bytes.
    pub(super) bytes: usize,
}

/// A list that is filled up to its limits.
pub(super) struct List<T> {
    pub(super) items: Vec<T>,
    pub(super) skipped: SkippedFiles,
    bounds: ListLimits,
    bytes: usize,
    /// The limit that truncated the list. `None` means that the list is complete.
    truncated_by: Option<&'static str>,
}

impl<T: ListItem> List<T> {
    pub(super) fn new(bounds: ListLimits) -> Self {
        Self { items: Vec::new(), skipped: SkippedFiles::default(), bounds, bytes: 0, truncated_by: None }
    }

    /// Returns how much of the list's limits these items use.
    pub(super) fn weigh(items: &[T]) -> Weight {
        Weight { items: items.len(), bytes: items.iter().map(T::size).sum() }
    }

    /// Marks the list as truncated. Only the first reason is kept.
    pub(super) fn cut(&mut self, by: &'static str) {
        self.truncated_by.get_or_insert(by);
    }

    pub(super) fn is_cut(&self) -> bool {
        self.truncated_by.is_some()
    }

    /// Adds a file that was skipped, or included only in part.
    pub(super) fn add_skipped(&mut self, file: Option<SkippedFile>) {
        self.skipped.add(file);
    }

    /// Adds items until a limit is reached. Marks the list as truncated if items are left over.
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

    /// Returns whether the list would be full after adding this much.
    pub(super) fn is_full_with(&self, more: Weight) -> bool {
        self.is_cut()
            || self.items.len() + more.items > self.bounds.items
            || self.bytes + more.bytes > self.bounds.bytes
    }

    /// Serializes the list for the answer: the items under `name`, and `stats`.
    ///
    /// # Errors
    /// The answer can't be serialized.
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
            map.serialize_entry("left_out", &self.skipped.listed)?;
            map.serialize_entry("stats", stats)?;
            map.end()
        };
        let internal = |error: String| SkillError::new(ErrorCode::Internal, error);
        write(&mut out).map_err(|error| internal(error.to_string()))?;
        String::from_utf8(out).map_err(|error| internal(error.to_string()))
    }
}
