//! Exports skills as tool definitions for models: converts one stored schema to the format of each provider.
//!
//! Pure, like [`crate::arguments`]. What a provider's subset of JSON Schema can't express moves into descriptions,
//! where the model still reads it. A parameter that the subset can't represent at all becomes a string of JSON
//! text, which argument preparation decodes. Calls are always validated against the skill's own schema, not against
//! the exported one.
//!
//! ```text
//! skills (ranked by a task in words) -> names (each provider's pattern) -> lower (its subset) -> write (its format)
//!                                                                       \___ cached per tool: forms ___/
//! ```

use std::collections::BTreeMap;

mod dialect;
mod forms;
mod limits;
mod lower;
mod names;
mod subset;
mod tool;
mod write;

pub use dialect::Dialect;
pub(crate) use forms::Forms;
pub use tool::Tool;
pub(crate) use write::has_output;

/// Tools in one provider's format.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Exported {
    /// One JSON object per tool, as text, in the order of the input.
    pub tools: Vec<String>,
    /// The tools' own names, by exported name.
    pub names: BTreeMap<String, String>,
    /// What the provider's limits did not allow, in words for people.
    pub notes: Vec<String>,
}

/// Converts tools to definitions in the format of a provider.
///
/// `strict` requests the provider's strict mode, in which a model can write only valid calls. A tool is exported
/// without strict mode if the provider has no strict mode or the tool exceeds its limits. `notes` lists these tools and the
/// reasons.
///
/// ```
/// use openskill_gateway::export::{Dialect, Tool, export};
///
/// let schema = serde_json::json!({"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]});
/// let tool = Tool {
///     name: "echo",
///     title: "",
///     icons: &[],
///     description: "Returns the text.",
///     schema: Some(&schema),
///     output_schema_json: "",
///     destructive: false,
///     read_only: true,
///     idempotent: true,
///     refuses_repairs: false,
/// };
/// let exported = export(&[tool], Dialect::Anthropic, true);
/// assert!(exported.tools[0].contains(r#""strict":true"#));
/// assert_eq!(exported.names["echo"], "echo");
/// ```
pub fn export(tools: &[Tool<'_>], dialect: Dialect, strict: bool) -> Exported {
    let forms: Vec<Forms> = tools.iter().map(|_| Forms::default()).collect();
    let known: Vec<_> = tools.iter().copied().zip(&forms).collect();
    export_known(&known, dialect, strict)
}

/// Exports tools whose definitions may be cached in their [`Forms`].
pub(crate) fn export_known(tools: &[(Tool<'_>, &Forms)], dialect: Dialect, strict: bool) -> Exported {
    let mut exported = Exported::default();
    if strict && !dialect.has_strict() {
        exported.notes.push("this provider has no strict mode for tools: the definitions are not strict".to_owned());
    }
    let names = names::assign(tools.iter().map(|(tool, _)| tool.name), dialect);
    let mut budget = (strict && dialect.has_strict()).then(|| limits::StrictBudget::new(dialect));
    for ((tool, forms), name) in tools.iter().zip(names) {
        let (definition, notes) = define(tool, forms, &name, dialect, budget.as_mut());
        exported.notes.extend(notes.into_iter().map(|note| format!("{}: {note}", tool.name)));
        exported.tools.push(definition);
        exported.names.insert(name, tool.name.to_owned());
    }
    if let Some(max) = limits::max_tools(dialect).filter(|max| tools.len() > *max) {
        let advice = "select fewer tools with toolset, skill or query";
        exported.notes.push(format!("the provider accepts at most {max} tools per request: {advice}"));
    }
    exported
}

/// Exports one tool. It is strict if there is a budget for strict tools, its schema allows it, and the budget
/// suffices.
fn define(
    tool: &Tool<'_>,
    forms: &Forms,
    name: &str,
    dialect: Dialect,
    budget: Option<&mut limits::StrictBudget>,
) -> (String, Vec<String>) {
    let mut notes = Vec::new();
    if let Some(budget) = budget {
        let form = forms.get(tool, name, dialect, true);
        match form.usage.clone().and_then(|usage| budget.spend(&usage)) {
            Ok(()) => return (form.text.clone(), form.notes.clone()),
            Err(reason) => notes.push(format!("not strict: {reason}")),
        }
    }
    let form = forms.get(tool, name, dialect, false);
    notes.extend(form.notes.iter().cloned());
    (form.text.clone(), notes)
}

#[cfg(test)]
mod tests;
