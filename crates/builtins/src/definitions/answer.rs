//! The result of listing definitions, within its limits.

use std::ops::AddAssign;
use std::sync::Arc;

use openskill_proto::v1::SkillError;
use openskill_readers_protocol::definitions::protocol::{Definition, MAX_TEXT_BYTES, Reply};
use serde::{Serialize, Serializer};

use crate::host::FunctionOutput;
use crate::list::{FileItems, List, ListItem, ListLimits};

/// The approximate maximum size of an answer, in bytes.
const MAX_ANSWER_BYTES: usize = 4 << 20;

/// A definition with the file that contains it.
#[derive(Debug, Serialize)]
pub(super) struct FileDefinition {
    #[serde(serialize_with = "text")]
    file: Arc<str>,
    #[serde(flatten)]
    definition: Definition,
}

fn text<S: Serializer>(text: &Arc<str>, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(text)
}

impl ListItem for FileDefinition {
    type Stats = DefinitionStats;

    fn size(&self) -> usize {
        let Definition { name, qualified_name, signature, .. } = &self.definition;
        120 + self.file.len() + name.len() + qualified_name.len() + signature.len()
    }
}

#[derive(Debug, Default, Serialize)]
pub(super) struct DefinitionStats {
    files_parsed: usize,
    files_with_syntax_errors: usize,
    files_left_out: usize,
}

impl AddAssign for DefinitionStats {
    fn add_assign(&mut self, other: Self) {
        self.files_parsed += other.files_parsed;
        self.files_with_syntax_errors += other.files_with_syntax_errors;
    }
}

/// Returns an empty answer for at most `most` definitions.
pub(super) fn empty_answer(most: usize) -> List<FileDefinition> {
    List::new(ListLimits { items: most, argument: "max_definitions", bytes: MAX_ANSWER_BYTES })
}

/// Converts a parser's reply. Truncates its texts again, because the parser process is untrusted.
pub(super) fn file_items(path: String, reply: Reply) -> FileItems<FileDefinition> {
    let file: Arc<str> = path.into();
    let items = reply.definitions.into_iter().map(|mut definition| {
        for text in [&mut definition.name, &mut definition.qualified_name, &mut definition.signature] {
            text.truncate(text.floor_char_boundary(MAX_TEXT_BYTES));
        }
        FileDefinition { file: Arc::clone(&file), definition }
    });
    let files_with_syntax_errors = usize::from(reply.syntax_errors);
    let stats = DefinitionStats { files_parsed: 1, files_with_syntax_errors, files_left_out: 0 };
    let cut_by = reply.truncated.then_some("definitions_of_a_file");
    FileItems { items: items.collect(), skipped: None, stats, cut_by }
}

/// # Errors
/// The answer can't be serialized.
pub(super) fn report(mut found: List<FileDefinition>) -> Result<FunctionOutput, SkillError> {
    found.stats.files_left_out = found.skipped;
    let more = if found.is_cut() { "; there are more: name a smaller folder, or raise max_definitions" } else { "" };
    let left = match found.skipped {
        0 => String::new(),
        count => format!("; {count} files could not be read or parsed"),
    };
    let text = format!("{} definitions in {} files{more}{left}", found.items.len(), found.stats.files_parsed);
    found.report("definitions", text)
}
