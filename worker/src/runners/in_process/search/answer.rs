//! What a search returns, within its bounds.

use openskill_proto::v1::SkillError;
use serde::Serialize;

use crate::runners::in_process::host::Report;
use crate::runners::in_process::left::Left;
use crate::runners::in_process::list::{Bounds, Item, List};
use crate::runners::in_process::ordered::{Grows, Weight};

/// The approximate maximum size of an answer, in bytes.
pub(super) const MAX_ANSWER_BYTES: usize = 256 * 1024;

/// A line that matches.
#[derive(Debug, Serialize)]
pub(super) struct Match {
    pub(super) path: String,
    pub(super) line: u64,
    /// Of the first match in the line: bytes, from one, as `rg --column` counts.
    pub(super) column: usize,
    #[serde(rename = "match")]
    pub(super) matched: String,
    pub(super) text: String,
    /// The column that the text begins with, if it is a part of the line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) text_column: Option<usize>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) before: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) after: Vec<String>,
}

impl Item for Match {
    fn size(&self) -> usize {
        let around: usize = self.before.iter().chain(&self.after).map(|it| it.len() + 4).sum();
        80 + self.path.len() + self.matched.len() + self.text.len() + around
    }
}

/// The result for one file.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) matches: Vec<Match>,
    pub(super) left: Option<Left>,
    pub(super) bytes: u64,
    /// It was not opened.
    pub(super) unopened: bool,
    /// It has more than an answer can hold.
    pub(super) is_cut: bool,
}

impl Found {
    /// A file that was not searched at all.
    pub(super) fn unopened(left: Left) -> Self {
        Self { left: Some(left), unopened: true, ..Self::default() }
    }
}

#[derive(Debug, Default, Serialize)]
struct Stats {
    files_searched: usize,
    files_with_matches: usize,
    files_left_out: usize,
    bytes_searched: u64,
}

/// An answer that grows file by file.
pub(super) struct Answer {
    list: List<Match>,
    stats: Stats,
}

impl Answer {
    /// `most`: how many matches.
    pub(super) fn new(most: usize) -> Self {
        let bounds = Bounds { items: most, argument: "max_matches", bytes: MAX_ANSWER_BYTES };
        Self { list: List::new(bounds), stats: Stats::default() }
    }

    /// Marks the answer as truncated.
    pub(super) fn cut(&mut self, by: &'static str) {
        self.list.cut(by);
    }

    /// # Errors
    /// It can't be written.
    pub(super) fn report(mut self) -> Result<Report, SkillError> {
        self.stats.files_left_out = self.list.left_out.count;
        let data = self.list.to_json("matches", &self.stats)?;
        let truncated = self.list.is_cut();
        let (count, files) = (self.list.items.len(), self.stats.files_with_matches);
        let more = if truncated { "; there are more: narrow the search, or raise max_matches" } else { "" };
        let text = format!("{count} matching lines in {files} of {} files{more}", self.stats.files_searched);
        Ok(Report { data, text, truncated })
    }
}

impl Grows for Answer {
    type Found = Found;

    fn weigh(found: &Found) -> Weight {
        let weight = List::weigh(&found.matches);
        if found.is_cut { Weight { bytes: weight.bytes.max(MAX_ANSWER_BYTES + 1), ..weight } } else { weight }
    }

    fn add(&mut self, found: Found) {
        if self.list.is_cut() {
            return;
        }
        self.stats.files_searched += usize::from(!found.unopened);
        self.stats.files_with_matches += usize::from(!found.matches.is_empty());
        self.stats.bytes_searched += found.bytes;
        self.list.leave_out(found.left);
        self.list.extend(found.matches);
        if found.is_cut {
            self.list.cut("answer_bytes");
        }
    }

    fn is_full_with(&self, more: Weight) -> bool {
        self.list.is_full_with(more)
    }
}
