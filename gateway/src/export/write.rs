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
    /// The definition, as a JSON object. Empty if strict mode was requested and the tool can't have it.
    pub(super) text: String,
    /// What was lost because of the provider's limits, in words for people.
    pub(super) notes: Vec<String>,
    /// What it uses of the provider's limits for strict tools, or why the tool can't be strict.
    pub(super) usage: Result<Usage, String>,
}

/// Writes the definition, in the provider's strict mode or as far as the provider's subset allows.
pub(super) fn form(tool: &Tool<'_>, name: &str, dialect: Dialect, strict: bool) -> Form {
    let mut form = Form { name: name.to_owned(), text: String::new(), notes: Vec::new(), usage: Ok(Usage::default()) };
    if dialect == Dialect::Mcp {
        form.text = mcp(tool, name).to_string();
        return form;
    }
    let lowered = lower::root(&schema(tool), &Subset::for_dialect(dialect, strict));
    if strict {
        form.usage = check_strict(tool, &lowered);
    } else if tool.refuses_repairs && lowered.needs_decoding {
        form.notes.push(
            "some parameters can only be given as JSON text, which its strict argument policy rejects".to_owned(),
        );
    }
    if form.usage.is_ok() {
        form.text = shape(tool, name, dialect, lowered, strict, &mut form.notes).to_string();
    }
    form
}

/// Returns what a strict definition uses of the provider's limits. The error explains why the tool can't be strict.
fn check_strict(tool: &Tool<'_>, lowered: &Lowered) -> Result<Usage, String> {
    if tool.refuses_repairs && (lowered.nulls_omit || lowered.needs_decoding) {
        return Err("its argument policy is strict, but a strict definition needs repairs: null for omitted parameters, or JSON text".to_owned());
    }
    lowered.check_lossless()?;
    Ok(Usage::from_schema(&lowered.schema))
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
    let mut definition = match dialect {
        Dialect::OpenAiResponses => json!({ "type": "function", "name": name, "description": description }),
        _ => json!({ "name": name, "description": description }),
    };
    let key = if dialect == Dialect::Anthropic { "input_schema" } else { "parameters" };
    // Gemini rejects an object without properties: a tool without parameters omits the key.
    if dialect != Dialect::Gemini || lowered.schema["properties"] != json!({}) {
        definition[key] = lowered.schema;
    }
    // The Responses API is strict by default.
    if strict || dialect == Dialect::OpenAiResponses {
        definition["strict"] = strict.into();
    }
    match dialect {
        Dialect::OpenAi | Dialect::DashScope => json!({ "type": "function", "function": definition }),
        _ => definition,
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
