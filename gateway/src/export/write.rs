//! Writes one tool in one provider's format.

use std::borrow::Cow;

use openskill_proto::v1::Icon;
use serde_json::{Map, Value, json};

use super::dialect::Dialect;
use super::limits::{self, Usage};
use super::lower::{self, Lowered};
use super::subset::Subset;
use super::tool::Tool;

/// A tool definition in one dialect, under one name.
#[derive(Debug, Clone)]
pub(super) struct Form {
    pub(super) name: String,
    /// The definition, as a JSON object.
    pub(super) text: String,
    /// What was lost because of the provider's limits, in words for people.
    pub(super) notes: Vec<String>,
    /// What it uses of the provider's limits for strict tools.
    pub(super) usage: Usage,
}

/// A strict definition, or why the tool can't be strict.
pub(super) type StrictForm = Result<Form, String>;

/// Writes the definition without strict mode, as far as the provider's subset allows.
pub(super) fn plain(tool: &Tool<'_>, name: &str, dialect: Dialect) -> Form {
    if dialect == Dialect::Mcp {
        return form(name, &mcp(tool, name), Vec::new(), Usage::default());
    }
    let lowered = lower::root(&schema(tool), &Subset::for_dialect(dialect, false));
    let mut notes = Vec::new();
    if tool.refuses_repairs && lowered.needs_decoding {
        notes.push(
            "some parameters can only be given as JSON text, which its strict argument policy rejects".to_owned(),
        );
    }
    let definition = shape(tool, name, dialect, lowered, false, &mut notes);
    form(name, &definition, notes, Usage::default())
}

/// Writes the definition in the provider's strict mode. The error explains why the tool can't be strict.
pub(super) fn strict(tool: &Tool<'_>, name: &str, dialect: Dialect) -> StrictForm {
    let lowered = lower::root(&schema(tool), &Subset::for_dialect(dialect, true));
    if tool.refuses_repairs && (lowered.nulls_omit || lowered.needs_decoding) {
        return Err("its argument policy is strict, but a strict definition needs repairs: null for omitted parameters, or JSON text".to_owned());
    }
    lowered.check_lossless()?;
    let usage = Usage::from_schema(&lowered.schema);
    let mut notes = Vec::new();
    let definition = shape(tool, name, dialect, lowered, true, &mut notes);
    Ok(form(name, &definition, notes, usage))
}

fn form(name: &str, definition: &Value, notes: Vec<String>, usage: Usage) -> Form {
    Form { name: name.to_owned(), text: definition.to_string(), notes, usage }
}

/// Returns the tool's schema. If it has none, one that accepts any object.
fn schema<'a>(tool: &Tool<'a>) -> Cow<'a, Value> {
    tool.schema.map_or_else(|| Cow::Owned(json!({ "type": "object" })), Cow::Borrowed)
}

/// Assembles the definition in the provider's format.
fn shape(
    tool: &Tool<'_>,
    name: &str,
    dialect: Dialect,
    lowered: Lowered,
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
        // The Responses API is strict by default.
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
        // Gemini rejects an object without properties: a tool without parameters omits the key.
        Dialect::Gemini if schema["properties"] == json!({}) => json!({ "name": name, "description": description }),
        Dialect::Gemini => json!({ "name": name, "description": description, "parameters": schema }),
        Dialect::DashScope => json!({
            "type": "function",
            "function": { "name": name, "description": description, "parameters": schema },
        }),
        Dialect::Mcp => mcp(tool, name),
    }
}

/// Writes a tool for MCP, which accepts JSON Schema unchanged.
fn mcp(tool: &Tool<'_>, name: &str) -> Value {
    let mut definition = Map::new();
    definition.insert("name".to_owned(), name.into());
    if !tool.title.is_empty() {
        definition.insert("title".to_owned(), tool.title.into());
    }
    definition.insert("description".to_owned(), tool.description.into());
    let mut schema = schema(tool).into_owned();
    if let Some(object) = schema.as_object_mut() {
        object.entry("type").or_insert_with(|| "object".into());
        // Some clients read `properties` without checking that it exists.
        object.entry("properties").or_insert_with(|| json!({}));
    }
    if !tool.icons.is_empty() {
        definition.insert("icons".to_owned(), tool.icons.iter().map(icon).collect());
    }
    definition.insert("inputSchema".to_owned(), schema);
    // The protocol requires an object schema.
    if let Some(output) = output(tool.output_schema_json) {
        definition.insert("outputSchema".to_owned(), output);
    }
    let hints = json!({
        "readOnlyHint": tool.read_only,
        "destructiveHint": tool.destructive,
        "idempotentHint": tool.idempotent,
    });
    definition.insert("annotations".to_owned(), hints);
    Value::Object(definition)
}

/// Parses an output schema. None if MCP does not accept it.
fn output(schema: &str) -> Option<Value> {
    serde_json::from_str(schema).ok().filter(|it: &Value| it.get("type").and_then(Value::as_str) == Some("object"))
}

/// Whether a tool with this output schema, as text, is exported to MCP with it.
pub(crate) fn has_output(schema: &str) -> bool {
    !schema.is_empty() && output(schema).is_some()
}

/// Writes an icon in MCP's format.
fn icon(icon: &Icon) -> Value {
    let mut fields = Map::new();
    fields.insert("src".to_owned(), icon.src.as_str().into());
    for (name, text) in [("mimeType", &icon.media_type), ("theme", &icon.theme)] {
        if !text.is_empty() {
            fields.insert(name.to_owned(), text.as_str().into());
        }
    }
    if !icon.sizes.is_empty() {
        fields.insert("sizes".to_owned(), icon.sizes.clone().into());
    }
    Value::Object(fields)
}
