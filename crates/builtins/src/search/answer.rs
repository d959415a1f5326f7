//! The result of a search, within its limits.

use std::ops::AddAssign;

use openskill_proto::v1::SkillError;
use serde::Serialize;

use crate::host::FunctionOutput;
use crate::list::{FileItems, List, ListItem, ListLimits};

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
    type Stats = SearchStats;

    fn size(&self) -> usize {
        let around: usize = self.before.iter().chain(&self.after).map(|it| it.len() + 4).sum();
        80 + self.path.len() + self.matched.len() + self.text.len() + around
    }
}

#[derive(Debug, Default, Serialize)]
pub(super) struct SearchStats {
    pub(super) files_searched: usize,
    pub(super) files_with_matches: usize,
    pub(super) files_left_out: usize,
    pub(super) bytes_searched: u64,
}

impl AddAssign for SearchStats {
    fn add_assign(&mut self, other: Self) {
        self.files_searched += other.files_searched;
        self.files_with_matches += other.files_with_matches;
        self.bytes_searched += other.bytes_searched;
    }
}

/// The result for one file.
pub(super) type SearchedFile = FileItems<Match>;

/// Returns an empty answer for at most `most` matches.
pub(super) fn empty_answer(most: usize) -> List<Match> {
    List::new(ListLimits { items: most, argument: "max_matches", bytes: MAX_ANSWER_BYTES })
}

/// # Errors
/// The answer can't be serialized.
pub(super) fn report(mut found: List<Match>) -> Result<FunctionOutput, SkillError> {
    found.stats.files_left_out = found.skipped;
    let (count, SearchStats { files_searched, files_with_matches, .. }) = (found.items.len(), &found.stats);
    let more = if found.is_cut() { "; there are more: narrow the search, or raise max_matches" } else { "" };
    let text = format!("{count} matching lines in {files_with_matches} of {files_searched} files{more}");
    found.report("matches", text)
}
