//! The result of a search, within its limits.

use openskill_proto::v1::SkillError;
use serde::Serialize;

use crate::host::FunctionOutput;
use crate::list::{List, ListItem, ListLimits};
use crate::ordered::{BoundedAnswer, Weight};
use crate::skipped::SkippedFile;

/// The approximate maximum size of an answer, in bytes.
pub(super) const MAX_ANSWER_BYTES: usize = 256 * 1024;

/// A matching line in a file.
#[derive(Debug, Serialize)]
pub(super) struct Match {
    pub(super) path: String,
    pub(super) line: u64,
    /// The byte offset of the first match in the line, counted from 1 as in `rg --column`.
    pub(super) column: usize,
    #[serde(rename = "match")]
    pub(super) matched: String,
    pub(super) text: String,
    /// The column at which the text begins, if the text is only part of the line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) text_column: Option<usize>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) before: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) after: Vec<String>,
}

impl ListItem for Match {
    fn size(&self) -> usize {
        let around: usize = self.before.iter().chain(&self.after).map(|it| it.len() + 4).sum();
        80 + self.path.len() + self.matched.len() + self.text.len() + around
    }
}

/// The result for one file.
#[derive(Debug, Default)]
pub(super) struct SearchedFile {
    pub(super) matches: Vec<Match>,
    pub(super) skipped: Option<SkippedFile>,
    pub(super) bytes: u64,
    /// Whether the file could not be opened.
    pub(super) unopened: bool,
    /// Whether the file has more matches than an answer can contain.
    pub(super) is_cut: bool,
}

impl SearchedFile {
    /// Returns the result for a file that was not searched.
    pub(super) fn from_skipped(file: SkippedFile) -> Self {
        Self { skipped: Some(file), unopened: true, ..Self::default() }
    }
}

#[derive(Debug, Default, Serialize)]
struct Stats {
    files_searched: usize,
    files_with_matches: usize,
    files_left_out: usize,
    bytes_searched: u64,
}

/// An answer that is built file by file.
pub(super) struct SearchResults {
    list: List<Match>,
    stats: Stats,
}

impl SearchResults {
    /// `most` is the maximum number of matches.
    pub(super) fn new(most: usize) -> Self {
        let bounds = ListLimits { items: most, argument: "max_matches", bytes: MAX_ANSWER_BYTES };
        Self { list: List::new(bounds), stats: Stats::default() }
    }

    /// Marks the answer as truncated.
    pub(super) fn cut(&mut self, by: &'static str) {
        self.list.cut(by);
    }

    /// # Errors
    /// The answer can't be serialized.
    pub(super) fn report(mut self) -> Result<FunctionOutput, SkillError> {
        self.stats.files_left_out = self.list.skipped.count;
        let data = self.list.to_json("matches", &self.stats)?;
        let truncated = self.list.is_cut();
        let (count, files) = (self.list.items.len(), self.stats.files_with_matches);
        let more = if truncated { "; there are more: narrow the search, or raise max_matches" } else { "" };
        let text = format!("{count} matching lines in {files} of {} files{more}", self.stats.files_searched);
        Ok(FunctionOutput { data, text, truncated })
    }
}

impl BoundedAnswer for SearchResults {
    type FileResult = SearchedFile;

    fn weigh(found: &SearchedFile) -> Weight {
        let weight = List::weigh(&found.matches);
        if found.is_cut { Weight { bytes: weight.bytes.max(MAX_ANSWER_BYTES + 1), ..weight } } else { weight }
    }

    fn add(&mut self, found: SearchedFile) {
        if self.list.is_cut() {
            return;
        }
        self.stats.files_searched += usize::from(!found.unopened);
        self.stats.files_with_matches += usize::from(!found.matches.is_empty());
        self.stats.bytes_searched += found.bytes;
        self.list.add_skipped(found.skipped);
        self.list.extend(found.matches);
        if found.is_cut {
            self.list.cut("answer_bytes");
        }
    }

    fn is_full_with(&self, more: Weight) -> bool {
        self.list.is_full_with(more)
    }
}
