//! Tool definitions for models: one stored schema, as each provider takes it. Pure, like [`crate::arguments`].
//!
//! What a provider's subset of JSON Schema can't say moves into descriptions, so that the model still reads it; what it
//! can't hold at all becomes a string of JSON text, which a call's preparation reads back. Calls are always held to the
//! skill's own schema, whatever was exported.
//!
//! ```text
//! skills -> rank (a task in words) -> names (each provider's pattern) -> lower (its subset) -> its shape
//! ```

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

mod limits;
mod lower;
mod names;
pub(crate) mod rank;
mod subset;

use subset::Subset;

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
    /// JSON Schema of its answer.
    pub output_schema: Option<&'a Value>,
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
    /// One JSON object a tool, in the order they came.
    pub tools: Vec<Value>,
    /// From the exported name back to the tool's own.
    pub names: BTreeMap<String, String>,
    /// What the provider's rules left no place for.
    pub notes: Vec<String>,
}

/// Exports tools. `strict` asks for the provider's strict mode, in which a model can only write calls that fit; it is a
/// wish where a provider has none or has no place left, and `notes` says so.
pub fn export(tools: &[Tool<'_>], dialect: Dialect, strict: bool) -> Exported {
    let mut exported = Exported::default();
    if strict && !dialect.has_strict() {
        exported.notes.push("this provider has no strict mode for tools: the definitions are as without it".to_owned());
    }
    let names = names::assign(tools.iter().map(|tool| tool.name), dialect);
    let mut left = limits::Left::of(dialect, strict);
    for (tool, name) in tools.iter().zip(names) {
        let (definition, notes) = define(tool, &name, dialect, &mut left);
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
fn define(tool: &Tool<'_>, name: &str, dialect: Dialect, left: &mut limits::Left) -> (Value, Vec<String>) {
    let anything = json!({ "type": "object" });
    let schema = tool.schema.unwrap_or(&anything);
    if dialect == Dialect::Mcp {
        return (mcp(tool, name, schema), Vec::new());
    }
    let mut notes = Vec::new();
    if left.is_strict() {
        let lowered = lower::root(schema, &Subset::of(dialect, true));
        let meant = match tool.refuses_repairs && (lowered.has_null_for_nothing || lowered.has_text) {
            true => Err("its policy takes no null for what is left out".to_owned()),
            false => lowered.holds_all(),
        };
        match meant.and_then(|()| left.take(&lowered.schema)) {
            Ok(()) => return (shape(tool, name, dialect, lowered, true, &mut notes), notes),
            Err(reason) => notes.push(format!("not strict: {reason}")),
        }
    }
    let lowered = lower::root(schema, &Subset::of(dialect, false));
    if tool.refuses_repairs && lowered.has_text {
        notes.push("some parameters can only be written as JSON text here, which its policy refuses".to_owned());
    }
    (shape(tool, name, dialect, lowered, false, &mut notes), notes)
}

/// A tool in the provider's shape.
fn shape(
    tool: &Tool<'_>,
    name: &str,
    dialect: Dialect,
    lowered: lower::Lowered,
    strict: bool,
    notes: &mut Vec<String>,
) -> Value {
    notes.extend(lowered.notes);
    let description = limits::description(tool.description, &lowered.remarks, dialect, notes);
    let schema = lowered.schema;
    match dialect {
        Dialect::OpenAi => {
            let mut function = json!({ "name": name, "description": description, "parameters": schema });
            if strict {
                function["strict"] = Value::Bool(true);
            }
            json!({ "type": "function", "function": function })
        }
        // This one is strict unless told otherwise.
        Dialect::OpenAiResponses => json!({
            "type": "function",
            "name": name,
            "description": description,
            "parameters": schema,
            "strict": strict,
        }),
        Dialect::Anthropic => {
            let mut tool = json!({ "name": name, "description": description, "input_schema": schema });
            if strict {
                tool["strict"] = Value::Bool(true);
            }
            tool
        }
        // An object without properties is refused there: no parameters are said by saying nothing.
        Dialect::Gemini if schema["properties"] == json!({}) => json!({ "name": name, "description": description }),
        Dialect::Gemini => json!({ "name": name, "description": description, "parameters": schema }),
        Dialect::DashScope => json!({
            "type": "function",
            "function": { "name": name, "description": description, "parameters": schema },
        }),
        Dialect::Mcp => mcp(tool, name, &schema),
    }
}

/// MCP takes JSON Schema as it is.
fn mcp(tool: &Tool<'_>, name: &str, schema: &Value) -> Value {
    let mut definition = Map::new();
    definition.insert("name".to_owned(), name.into());
    definition.insert("description".to_owned(), tool.description.into());
    let mut schema = schema.clone();
    if let Some(object) = schema.as_object_mut() {
        object.entry("type").or_insert_with(|| "object".into());
    }
    definition.insert("inputSchema".to_owned(), schema);
    // The protocol asks for an object.
    if let Some(output) = tool.output_schema.filter(|it| it.get("type").and_then(Value::as_str) == Some("object")) {
        definition.insert("outputSchema".to_owned(), output.clone());
    }
    let hints = json!({ "destructiveHint": tool.destructive, "idempotentHint": tool.idempotent });
    definition.insert("annotations".to_owned(), hints);
    Value::Object(definition)
}

#[cfg(test)]
mod tests;
