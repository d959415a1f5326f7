//! What a listing returns, within its bounds.

use std::sync::Arc;

use openskill_definitions::protocol::{Definition, MAX_TEXT_BYTES, Reply};
use openskill_proto::v1::SkillError;
use serde::{Serialize, Serializer};

use crate::runners::in_process::host::Report;
use crate::runners::in_process::left::Left;
use crate::runners::in_process::list::{Bounds, Item, List};
use crate::runners::in_process::ordered::{Grows, Weight};

/// The approximate maximum size of an answer, in bytes.
const MAX_ANSWER_BYTES: usize = 4 << 20;

/// A definition, and its file.
#[derive(Debug, Serialize)]
struct Listed {
    #[serde(serialize_with = "text")]
    file: Arc<str>,
    #[serde(flatten)]
    definition: Definition,
}

fn text<S: Serializer>(text: &Arc<str>, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(text)
}

impl Item for Listed {
    fn size(&self) -> usize {
        let Definition { name, qualified_name, signature, .. } = &self.definition;
        120 + self.file.len() + name.len() + qualified_name.len() + signature.len()
    }
}

/// The result for one file.
pub(super) struct Found {
    listed: Vec<Listed>,
    left: Option<Left>,
    syntax_errors: bool,
    truncated: bool,
}

impl Found {
    /// Takes a reply. Truncates its texts again, since the process is not trusted.
    pub(super) fn of(path: String, reply: Reply) -> Self {
        let file: Arc<str> = path.into();
        let listed = reply.definitions.into_iter().map(|mut definition| {
            for text in [&mut definition.name, &mut definition.qualified_name, &mut definition.signature] {
                text.truncate(text.floor_char_boundary(MAX_TEXT_BYTES));
            }
            Listed { file: Arc::clone(&file), definition }
        });
        let listed = listed.collect();
        Self { listed, left: None, syntax_errors: reply.syntax_errors, truncated: reply.truncated }
    }

    pub(super) fn left(left: Left) -> Self {
        Self { listed: Vec::new(), left: Some(left), syntax_errors: false, truncated: false }
    }
}

#[derive(Debug, Default, Serialize)]
struct Stats {
    files_parsed: usize,
    files_with_syntax_errors: usize,
    files_left_out: usize,
}

/// An answer that grows file by file.
pub(super) struct Answer {
    list: List<Listed>,
    stats: Stats,
}

impl Answer {
    /// `most`: how many definitions.
    pub(super) fn new(most: usize) -> Self {
        let bounds = Bounds { items: most, argument: "max_definitions", bytes: MAX_ANSWER_BYTES };
        Self { list: List::new(bounds), stats: Stats::default() }
    }

    /// Marks the answer as truncated.
    pub(super) fn cut(&mut self, by: &'static str) {
        self.list.cut(by);
    }

    /// Adds a file that is not in it.
    pub(super) fn leave_out(&mut self, left: Left) {
        self.list.leave_out(Some(left));
    }

    /// # Errors
    /// It can't be written.
    pub(super) fn report(mut self) -> Result<Report, SkillError> {
        self.stats.files_left_out = self.list.left_out.count;
        let data = self.list.to_json("definitions", &self.stats)?;
        let truncated = self.list.is_cut();
        let more = if truncated { "; there are more: name a smaller folder, or raise max_definitions" } else { "" };
        let left = match self.list.left_out.count {
            0 => String::new(),
            count => format!("; {count} files could not be read or parsed"),
        };
        let text = format!("{} definitions in {} files{more}{left}", self.list.items.len(), self.stats.files_parsed);
        Ok(Report { data, text, truncated })
    }
}

impl Grows for Answer {
    type Found = Found;

    fn weigh(found: &Found) -> Weight {
        List::weigh(&found.listed)
    }

    fn add(&mut self, found: Found) {
        if self.list.is_cut() {
            return;
        }
        self.stats.files_parsed += usize::from(found.left.is_none());
        self.stats.files_with_syntax_errors += usize::from(found.syntax_errors);
        self.list.leave_out(found.left);
        self.list.extend(found.listed);
        if found.truncated {
            self.list.cut("definitions_of_a_file");
        }
    }

    fn is_full_with(&self, more: Weight) -> bool {
        self.list.is_full_with(more)
    }
}
