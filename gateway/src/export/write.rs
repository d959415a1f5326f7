//! One tool in one provider's shape.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use super::forms::{Form, Strict};
use super::limits::{self, Taken};
use super::lower::{self, Lowered};
use super::subset::Subset;
use super::{Dialect, Tool};

/// Its definition, as far as the provider's subset goes.
pub(super) fn plain(tool: &Tool<'_>, name: &str, dialect: Dialect) -> Form {
    if dialect == Dialect::Mcp {
        return form(name, &mcp(tool, name), Vec::new(), Taken::default());
    }
    let lowered = lower::root(&schema(tool), &Subset::of(dialect, false));
    let mut notes = Vec::new();
    if tool.refuses_repairs && lowered.has_text {
        notes.push("some parameters can only be written as JSON text here, which its policy refuses".to_owned());
    }
    let definition = shape(tool, name, dialect, lowered, false, &mut notes);
    form(name, &definition, notes, Taken::default())
}

/// Its definition in the provider's strict mode, or why it can't have one.
pub(super) fn strict(tool: &Tool<'_>, name: &str, dialect: Dialect) -> Strict {
    let lowered = lower::root(&schema(tool), &Subset::of(dialect, true));
    if tool.refuses_repairs && (lowered.has_null_for_nothing || lowered.has_text) {
        return Err("its policy takes no null for what is left out".to_owned());
    }
    lowered.holds_all()?;
    let taken = Taken::of(&lowered.schema);
    let mut notes = Vec::new();
    let definition = shape(tool, name, dialect, lowered, true, &mut notes);
    Ok(form(name, &definition, notes, taken))
}

fn form(name: &str, definition: &Value, notes: Vec<String>, taken: Taken) -> Form {
    Form { name: name.to_owned(), text: definition.to_string(), notes, taken }
}

/// Its schema; a tool without one takes any object.
fn schema<'a>(tool: &Tool<'a>) -> Cow<'a, Value> {
    tool.schema.map_or_else(|| Cow::Owned(json!({ "type": "object" })), Cow::Borrowed)
}

/// A tool in the provider's shape.
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
        Dialect::Mcp => mcp(tool, name),
    }
}

/// MCP takes JSON Schema as it is.
fn mcp(tool: &Tool<'_>, name: &str) -> Value {
    let mut definition = Map::new();
    definition.insert("name".to_owned(), name.into());
    definition.insert("description".to_owned(), tool.description.into());
    let mut schema = schema(tool).into_owned();
    if let Some(object) = schema.as_object_mut() {
        object.entry("type").or_insert_with(|| "object".into());
    }
    definition.insert("inputSchema".to_owned(), schema);
    // The protocol asks for an object.
    let output = serde_json::from_str(tool.output_schema_json).ok();
    if let Some(output) = output.filter(|it: &Value| it.get("type").and_then(Value::as_str) == Some("object")) {
        definition.insert("outputSchema".to_owned(), output);
    }
    let hints = json!({ "destructiveHint": tool.destructive, "idempotentHint": tool.idempotent });
    definition.insert("annotations".to_owned(), hints);
    Value::Object(definition)
}
