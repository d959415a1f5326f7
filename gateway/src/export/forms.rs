//! A tool as a provider takes it, written once: agents ask for their tools again and again, and tools seldom change.

use std::borrow::Cow;
use std::sync::OnceLock;

use super::limits::Taken;
use super::{Dialect, Tool, write};

/// What is written of one version of a tool, for each dialect, when it is first asked for. Whoever keeps it forgets it
/// when anything of the tool changes.
#[derive(Debug, Default)]
pub struct Forms {
    plain: [OnceLock<Box<Form>>; Dialect::ALL.len()],
    strict: [OnceLock<Strict>; Dialect::ALL.len()],
}

/// A definition, under one name.
#[derive(Debug, Clone)]
pub(super) struct Form {
    pub(super) name: String,
    /// A JSON object.
    pub(super) text: String,
    /// What the provider's rules left no place for.
    pub(super) notes: Vec<String>,
    /// What it takes of the provider's limits for strict tools.
    pub(super) taken: Taken,
}

/// A strict definition, or why it can't be one.
pub(super) type Strict = Result<Box<Form>, String>;

impl Forms {
    /// The definition that leaves it to the model to write what fits.
    pub(super) fn plain(&self, tool: &Tool<'_>, name: &str, dialect: Dialect) -> Cow<'_, Box<Form>> {
        let kept = self.plain[dialect as usize].get_or_init(|| write::plain(tool, name, dialect));
        // Another tool of this export has the usual name.
        if kept.name == name { Cow::Borrowed(kept) } else { Cow::Owned(write::plain(tool, name, dialect)) }
    }

    /// The definition by which a model can only write what fits.
    pub(super) fn strict(&self, tool: &Tool<'_>, name: &str, dialect: Dialect) -> Cow<'_, Strict> {
        let kept = self.strict[dialect as usize].get_or_init(|| write::strict(tool, name, dialect));
        let fits = kept.as_ref().map_or(true, |form| form.name == name);
        if fits { Cow::Borrowed(kept) } else { Cow::Owned(write::strict(tool, name, dialect)) }
    }
}
