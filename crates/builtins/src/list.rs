//! A bounded list in an answer, built file by file: its items, what it counts, whether it is truncated, and which
//! files were skipped.
//!
//! The results come from several threads or processes. They are added in file order, so the answer does not depend
//! on the degree of parallelism.

use std::collections::BTreeMap;
use std::ops::AddAssign;

use openskill_proto::v1::{ErrorCode, SkillError};
use serde::Serialize;
use serde::ser::{SerializeMap as _, Serializer as _};

use super::host::FunctionOutput;

/// The maximum number of skipped files that an answer lists. The others are only counted.
const MOST_LISTED: usize = 20;

/// A serializable item with a known size.
pub(super) trait ListItem: Serialize {
    /// What an answer counts.
    type Stats: Default + Serialize + AddAssign;

    /// Returns the approximate size of the item in the answer, in bytes.
    fn size(&self) -> usize;
}

/// A file that was skipped or read only in part, and the reason.
#[derive(Debug, Serialize)]
pub(super) struct SkippedFile {
    pub(super) path: String,
    /// A machine-readable reason.
    pub(super) reason: &'static str,
    pub(super) message: String,
}

/// What one file contributes to a list.
pub(super) struct FileItems<T: ListItem> {
    pub(super) items: Vec<T>,
    pub(super) skipped: Option<SkippedFile>,
    pub(super) stats: T::Stats,
    /// The limit that truncated the file's items, if one did.
    pub(super) cut_by: Option<&'static str>,
}

impl<T: ListItem> FileItems<T> {
    /// Returns the result for a file that was not read.
    pub(super) fn from_skipped(file: SkippedFile) -> Self {
        Self { items: Vec::new(), skipped: Some(file), stats: T::Stats::default(), cut_by: None }
    }
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

/// How much of a list's limits a result uses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Weight {
    items: usize,
    bytes: usize,
}

/// A list that is filled up to its limits.
pub(super) struct List<T: ListItem> {
    pub(super) items: Vec<T>,
    pub(super) stats: T::Stats,
    /// The number of skipped files.
    pub(super) skipped: usize,
    /// The first skipped files.
    listed: Vec<SkippedFile>,
    bounds: ListLimits,
    bytes: usize,
    /// The limit that truncated the list. `None` means that the list is complete.
    truncated_by: Option<&'static str>,
    /// The number of the file to add next.
    next: usize,
    /// Results of later files, which wait for their turn.
    waiting: BTreeMap<usize, FileItems<T>>,
    /// The weights of the non-empty results among them.
    weights: BTreeMap<usize, Weight>,
}

impl<T: ListItem> List<T> {
    pub(super) fn new(bounds: ListLimits) -> Self {
        Self {
            items: Vec::new(),
            stats: T::Stats::default(),
            skipped: 0,
            listed: Vec::new(),
            bounds,
            bytes: 0,
            truncated_by: None,
            next: 0,
            waiting: BTreeMap::new(),
            weights: BTreeMap::new(),
        }
    }

    /// Marks the list as truncated. Only the first reason is kept.
    pub(super) fn cut(&mut self, by: &'static str) {
        self.truncated_by.get_or_insert(by);
    }

    pub(super) fn is_cut(&self) -> bool {
        self.truncated_by.is_some()
    }

    /// Adds a file that was skipped, or included only in part.
    pub(super) fn add_skipped(&mut self, file: SkippedFile) {
        self.skipped += 1;
        if self.listed.len() < MOST_LISTED {
            self.listed.push(file);
        }
    }

    /// Returns whether the results of earlier files already fill the list. If so, results of this file can't be
    /// part of it and don't need to be kept in memory.
    pub(super) fn is_full_before(&self, number: usize) -> bool {
        let (mut items, mut bytes) = (self.items.len(), self.bytes);
        for weight in self.weights.range(..number).map(|(_, weight)| weight) {
            items += weight.items;
            bytes += weight.bytes;
        }
        self.is_cut() || items > self.bounds.items || bytes > self.bounds.bytes
    }

    /// Adds the result of a file, whatever the order in which they arrive. Must be called once for each number.
    pub(super) fn put(&mut self, number: usize, found: FileItems<T>) {
        let mut weight = Weight { items: found.items.len(), bytes: found.items.iter().map(T::size).sum() };
        if found.cut_by.is_some() {
            // Nothing is added after a truncated file.
            weight.bytes = weight.bytes.max(self.bounds.bytes + 1);
        }
        if weight != Weight::default() {
            self.weights.insert(number, weight);
        }
        self.waiting.insert(number, found);
        while let Some(found) = self.waiting.remove(&self.next) {
            self.weights.remove(&self.next);
            self.add(found);
            self.next += 1;
        }
    }

    /// Adds items until a limit is reached. Marks the list as truncated if items are left over.
    fn add(&mut self, found: FileItems<T>) {
        if self.is_cut() {
            return;
        }
        self.stats += found.stats;
        found.skipped.into_iter().for_each(|it| self.add_skipped(it));
        for it in found.items {
            self.bytes += it.size();
            if self.items.len() >= self.bounds.items {
                return self.cut(self.bounds.argument);
            }
            if self.bytes > self.bounds.bytes {
                return self.cut("answer_bytes");
            }
            self.items.push(it);
        }
        self.truncated_by = found.cut_by;
    }

    /// Returns the answer: the items under `name`, and the statistics.
    ///
    /// # Errors
    /// The answer can't be serialized.
    pub(super) fn report(self, name: &str, text: String) -> Result<FunctionOutput, SkillError> {
        let mut out = Vec::new();
        let write = |out: &mut Vec<u8>| {
            let mut serializer = serde_json::Serializer::new(out);
            let mut map = serializer.serialize_map(None)?;
            map.serialize_entry(name, &self.items)?;
            map.serialize_entry("truncated", &self.is_cut())?;
            if let Some(by) = self.truncated_by {
                map.serialize_entry("truncated_by", by)?;
            }
            map.serialize_entry("left_out", &self.listed)?;
            map.serialize_entry("stats", &self.stats)?;
            map.end()
        };
        let internal = |error: String| SkillError::new(ErrorCode::Internal, error);
        write(&mut out).map_err(|error| internal(error.to_string()))?;
        let data = String::from_utf8(out).map_err(|error| internal(error.to_string()))?;
        Ok(FunctionOutput { data, text, truncated: self.is_cut() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl ListItem for &'static str {
        type Stats = u64;

        fn size(&self) -> usize {
            0
        }
    }

    fn file(items: &[&'static str]) -> FileItems<&'static str> {
        FileItems { items: items.to_vec(), skipped: None, stats: 1, cut_by: None }
    }

    #[test]
    fn the_order_of_the_files_counts_and_not_that_of_the_threads() {
        let mut list = List::new(ListLimits { items: 3, argument: "most", bytes: 10 });
        list.put(2, file(&["e", "f", "g"]));
        assert!(!list.is_full_before(2), "an earlier file may have more");
        list.put(0, file(&["a"]));
        assert!(list.is_full_before(3));
        list.put(1, file(&[]));
        assert_eq!((&list.items[..], list.truncated_by, list.stats), (&["a", "e", "f"][..], Some("most"), 3));
        assert!(list.is_full_before(3));
    }
}
