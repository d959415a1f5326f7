//! The result of listing definitions, within its limits.

use std::sync::Arc;

use openskill_definitions::protocol::{Definition, MAX_TEXT_BYTES, Reply};
use openskill_proto::v1::SkillError;
use serde::{Serialize, Serializer};

use crate::host::FunctionOutput;
use crate::list::{List, ListItem, ListLimits};
use crate::ordered::{BoundedAnswer, Weight};
use crate::skipped::SkippedFile;

/// The approximate maximum size of an answer, in bytes.
const MAX_ANSWER_BYTES: usize = 4 << 20;

/// A definition with the file that contains it.
#[derive(Debug, Serialize)]
struct FileDefinition {
    #[serde(serialize_with = "text")]
    file: Arc<str>,
    #[serde(flatten)]
    definition: Definition,
}

fn text<S: Serializer>(text: &Arc<str>, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(text)
}

impl ListItem for FileDefinition {
    fn size(&self) -> usize {
        let Definition { name, qualified_name, signature, .. } = &self.definition;
        120 + self.file.len() + name.len() + qualified_name.len() + signature.len()
    }
}

/// The definitions found in one file, or the reason why it was skipped.
pub(super) struct ParsedFile {
    definitions: Vec<FileDefinition>,
    skipped: Option<SkippedFile>,
    syntax_errors: bool,
    truncated: bool,
}

impl ParsedFile {
    /// Converts a parser's reply. Truncates its texts again, because the parser process is untrusted.
    pub(super) fn from_reply(path: String, reply: Reply) -> Self {
        let file: Arc<str> = path.into();
        let definitions = reply.definitions.into_iter().map(|mut definition| {
            for text in [&mut definition.name, &mut definition.qualified_name, &mut definition.signature] {
                text.truncate(text.floor_char_boundary(MAX_TEXT_BYTES));
            }
            FileDefinition { file: Arc::clone(&file), definition }
        });
        let definitions = definitions.collect();
        Self { definitions, skipped: None, syntax_errors: reply.syntax_errors, truncated: reply.truncated }
    }

    /// Returns the result for a file that was not parsed.
    pub(super) fn from_skipped(file: SkippedFile) -> Self {
        Self { definitions: Vec::new(), skipped: Some(file), syntax_errors: false, truncated: false }
    }
}

#[derive(Debug, Default, Serialize)]
struct Stats {
    files_parsed: usize,
    files_with_syntax_errors: usize,
    files_left_out: usize,
}

/// An answer that is built file by file.
pub(super) struct DefinitionsAnswer {
    list: List<FileDefinition>,
    stats: Stats,
}

impl DefinitionsAnswer {
    /// `most` is the maximum number of definitions.
    pub(super) fn new(most: usize) -> Self {
        let bounds = ListLimits { items: most, argument: "max_definitions", bytes: MAX_ANSWER_BYTES };
        Self { list: List::new(bounds), stats: Stats::default() }
    }

    /// Marks the answer as truncated.
    pub(super) fn cut(&mut self, by: &'static str) {
        self.list.cut(by);
    }

    /// Adds a file that was not parsed.
    pub(super) fn add_skipped(&mut self, file: SkippedFile) {
        self.list.add_skipped(Some(file));
    }

    /// # Errors
    /// The answer can't be serialized.
    pub(super) fn report(mut self) -> Result<FunctionOutput, SkillError> {
        self.stats.files_left_out = self.list.skipped.count;
        let data = self.list.to_json("definitions", &self.stats)?;
        let truncated = self.list.is_cut();
        let more = if truncated { "; there are more: name a smaller folder, or raise max_definitions" } else { "" };
        let left = match self.list.skipped.count {
            0 => String::new(),
            count => format!("; {count} files could not be read or parsed"),
        };
        let text = format!("{} definitions in {} files{more}{left}", self.list.items.len(), self.stats.files_parsed);
        Ok(FunctionOutput { data, text, truncated })
    }
}

impl BoundedAnswer for DefinitionsAnswer {
    type FileResult = ParsedFile;

    fn weigh(found: &ParsedFile) -> Weight {
        List::weigh(&found.definitions)
    }

    fn add(&mut self, found: ParsedFile) {
        if self.list.is_cut() {
            return;
        }
        self.stats.files_parsed += usize::from(found.skipped.is_none());
        self.stats.files_with_syntax_errors += usize::from(found.syntax_errors);
        self.list.add_skipped(found.skipped);
        self.list.extend(found.definitions);
        if found.truncated {
            self.list.cut("definitions_of_a_file");
        }
    }

    fn is_full_with(&self, more: Weight) -> bool {
        self.list.is_full_with(more)
    }
}
