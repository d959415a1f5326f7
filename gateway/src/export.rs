//! Tool definitions for models: one stored schema, as each provider takes it. Pure, like [`crate::arguments`].
//!
//! What a provider's subset of JSON Schema can't say moves into descriptions, so that the model still reads it; what it
//! can't hold at all becomes a string of JSON text, which a call's preparation reads back. Calls are always held to the
//! skill's own schema, whatever was exported.
//!
//! ```text
//! skills -> rank (a task in words) -> names (each provider's pattern) -> lower (its subset) -> write (its shape)
//!                                                                        \___ once a tool: forms ___/
//! ```

use std::collections::BTreeMap;

use serde_json::Value;

mod forms;
mod limits;
mod lower;
mod names;
pub(crate) mod rank;
mod subset;
mod write;

pub(crate) use forms::Forms;

/// Model providers' shapes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// OpenAI chat completions: `{"type": "function", "function": {...}}`.
    OpenAi,
    /// OpenAI Responses: the same, flat.
    OpenAiResponses,
    /// Anthropic Messages: `input_schema`.
    Anthropic,
    /// A Google Gemini function declaration: `parameters` in its OpenAPI subset.
    Gemini,
    /// Alibaba DashScope (Qwen): OpenAI's chat shape.
    DashScope,
    /// Model Context Protocol: a tool of `tools/list`.
    Mcp,
}

impl Dialect {
    /// Every dialect.
    pub const ALL: [Self; 6] =
        [Self::OpenAi, Self::OpenAiResponses, Self::Anthropic, Self::Gemini, Self::DashScope, Self::Mcp];

    fn has_strict(self) -> bool {
        matches!(self, Self::OpenAi | Self::OpenAiResponses | Self::Anthropic)
    }
}

/// A tool as it is stored.
#[derive(Debug, Clone, Copy)]
pub struct Tool<'a> {
    /// Its name here.
    pub name: &'a str,
    /// For the model that chooses.
    pub description: &'a str,
    /// JSON Schema of its arguments; none if it takes anything.
    pub schema: Option<&'a Value>,
    /// JSON Schema of its answer, as text; empty if it has none.
    pub output_schema_json: &'a str,
    /// It may delete or overwrite things.
    pub destructive: bool,
    /// A second identical call does no harm.
    pub idempotent: bool,
    /// Calls that deviate from its schema are refused, not repaired.
    pub refuses_repairs: bool,
}

/// Tools in one provider's shape.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Exported {
    /// One JSON object a tool, as text, in the order they came.
    pub tools: Vec<String>,
    /// From the exported name back to the tool's own.
    pub names: BTreeMap<String, String>,
    /// What the provider's rules left no place for.
    pub notes: Vec<String>,
}

/// Exports tools. `strict` asks for the provider's strict mode, in which a model can only write calls that fit; it is a
/// wish where a provider has none or has no place left, and `notes` says so.
pub fn export(tools: &[Tool<'_>], dialect: Dialect, strict: bool) -> Exported {
    let forms: Vec<Forms> = tools.iter().map(|_| Forms::default()).collect();
    let known: Vec<_> = tools.iter().copied().zip(&forms).collect();
    export_known(&known, dialect, strict)
}

/// The same for tools of which something may have been written before.
pub(crate) fn export_known(tools: &[(Tool<'_>, &Forms)], dialect: Dialect, strict: bool) -> Exported {
    let mut exported = Exported::default();
    if strict && !dialect.has_strict() {
        exported.notes.push("this provider has no strict mode for tools: the definitions are as without it".to_owned());
    }
    let names = names::assign(tools.iter().map(|(tool, _)| tool.name), dialect);
    let mut left = limits::Left::of(dialect, strict);
    for ((tool, forms), name) in tools.iter().zip(names) {
        let (definition, notes) = define(tool, forms, &name, dialect, &mut left);
        exported.notes.extend(notes.into_iter().map(|note| format!("{}: {note}", tool.name)));
        exported.tools.push(definition);
        exported.names.insert(name, tool.name.to_owned());
    }
    if let Some(most) = limits::most_tools(dialect).filter(|most| tools.len() > *most) {
        let note = format!("the provider takes at most {most} tools in one request: choose by toolset, skill or query");
        exported.notes.push(note);
    }
    exported
}

/// One tool. It is strict only if strictness was asked for, its schema keeps the limits, and there is place left.
fn define(
    tool: &Tool<'_>,
    forms: &Forms,
    name: &str,
    dialect: Dialect,
    left: &mut limits::Left,
) -> (String, Vec<String>) {
    let mut notes = Vec::new();
    if left.is_strict() {
        let strict = forms.strict(tool, name, dialect);
        let granted = match &*strict {
            Ok(form) => left.take(&form.taken).map(|()| form),
            Err(reason) => Err(reason.clone()),
        };
        match granted {
            Ok(form) => return (form.text.clone(), form.notes.clone()),
            Err(reason) => notes.push(format!("not strict: {reason}")),
        }
    }
    let form = forms.plain(tool, name, dialect);
    notes.extend(form.notes.iter().cloned());
    (form.text.clone(), notes)
}

#[cfg(test)]
mod tests;
