//! The tools of a view that lists few of many: one that searches, and two that call what was found. Two, so that the consent of
//! a user to what only reads keeps its meaning.

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::jsonrpc::string;
use crate::call::principal::Principal;
use crate::gateway::Gateway;
use crate::mcp::views::{CALL_READ_ONLY_TOOL, CALL_TOOL, ListMode, SEARCH_TOOLS, View};
use crate::serve::tools;

/// How many tools a search returns: by default, and at most.
const LIMIT: usize = 5;
const MAX_LIMIT: usize = 20;

/// How much of a query counts.
const MAX_QUERY_BYTES: usize = 1024;

/// What a call of a tool asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    Search {
        task: String,
        limit: usize,
    },
    Call {
        name: String,
        /// JSON.
        arguments: String,
        by: By,
    },
}

/// How a tool is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum By {
    /// By its name: it has to be listed.
    Name,
    /// By a tool that calls all others.
    CallTool,
    /// By the tool that calls only what changes nothing.
    ReadOnly,
}

/// Reads what a call of `name` asks for in a view.
///
/// # Errors
/// Its arguments can't be read: why, for the model.
pub(super) fn read(view: &View, name: String, arguments: String) -> Result<Wanted, String> {
    let by = match name.as_str() {
        _ if view.list == ListMode::All => By::Name,
        SEARCH_TOOLS => return search(&arguments),
        CALL_TOOL if !view.is_read_only() => By::CallTool,
        CALL_READ_ONLY_TOOL => By::ReadOnly,
        _ => By::Name,
    };
    if by == By::Name {
        return Ok(Wanted::Call { name, arguments, by });
    }
    #[derive(Deserialize)]
    #[serde(expecting = "an object")]
    struct Raw {
        name: String,
        arguments: Option<Box<RawValue>>,
    }
    let raw: Raw = openskill_proto::json::read(arguments.as_bytes()).map_err(|error| {
        format!("{error}. Example: {{\"name\": \"a tool that {SEARCH_TOOLS} found\", \"arguments\": {{}}}}")
    })?;
    let arguments = raw.arguments.map_or_else(|| "{}".to_owned(), |it| Box::<str>::from(it).into());
    // Some models write arguments as text.
    let arguments = serde_json::from_str::<String>(&arguments).unwrap_or(arguments);
    Ok(Wanted::Call { name: raw.name, arguments, by })
}

fn search(arguments: &str) -> Result<Wanted, String> {
    #[derive(Deserialize)]
    #[serde(expecting = "an object")]
    struct Raw {
        query: String,
        limit: Option<usize>,
    }
    let raw: Raw = openskill_proto::json::read(arguments.as_bytes())
        .map_err(|error| format!("{error}. Example: {{\"query\": \"convert a picture to PDF\"}}"))?;
    let mut task = raw.query;
    task.truncate(task.floor_char_boundary(MAX_QUERY_BYTES));
    Ok(Wanted::Search { task, limit: raw.limit.unwrap_or(LIMIT).clamp(1, MAX_LIMIT) })
}

/// What a search found: JSON that fits the tool's output schema.
pub(super) fn found(gateway: &Gateway, principal: &Principal, view: &View, task: &str, limit: usize) -> String {
    let found = tools::search(gateway, principal, view, task, limit);
    let definitions: Vec<_> = found.into_iter().map(|(_, definition)| definition).collect();
    let hint = if definitions.is_empty() { "no tool fits: try other words" } else { hint(view) };
    format!("{{\"tools\":[{}],\"hint\":{}}}", definitions.join(","), string(hint))
}

fn hint(view: &View) -> &'static str {
    if view.is_read_only() {
        "call one with call_read_only_tool"
    } else {
        "call one with call_tool, or with call_read_only_tool if its annotations have readOnlyHint"
    }
}

/// The tools of a view that searches: name and definition.
pub(super) fn own(view: &View) -> Vec<(String, String)> {
    let call = json!({
        "type": "object",
        "properties": {
            "name": { "type": "string", "description": "The name of the tool, as search_tools returned it" },
            "arguments": { "type": "object", "description": "What the inputSchema of the tool asks for" },
        },
        "required": ["name"],
    });
    let search = json!({
        "type": "object",
        "properties": {
            "query": { "type": "string", "description": "What the tool should do, in English or Chinese" },
            "limit": { "type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": LIMIT },
        },
        "required": ["query"],
    });
    let output = json!({
        "type": "object",
        "properties": { "tools": { "type": "array", "items": { "type": "object" } }, "hint": { "type": "string" } },
        "required": ["tools"],
    });
    let reads = json!({ "readOnlyHint": true, "destructiveHint": false, "idempotentHint": true });
    let searches = json!({
        "name": SEARCH_TOOLS,
        "description": "Finds tools that are not listed here, by what they do. Returns their names, descriptions and schemas.",
        "inputSchema": search,
        "outputSchema": output,
        "annotations": reads,
    });
    let reader = json!({
        "name": CALL_READ_ONLY_TOOL,
        "description": "Calls a tool that search_tools found, if it changes nothing (readOnlyHint). Refuses all others.",
        "inputSchema": call,
        "annotations": { "readOnlyHint": true, "destructiveHint": false },
    });
    let caller = json!({
        "name": CALL_TOOL,
        "description": "Calls a tool that search_tools found, also if it changes something.",
        "inputSchema": call,
        "annotations": { "readOnlyHint": false, "destructiveHint": true },
    });
    let named = |name: &str, definition: &Value| (name.to_owned(), definition.to_string());
    let mut tools = vec![named(SEARCH_TOOLS, &searches), named(CALL_READ_ONLY_TOOL, &reader)];
    if !view.is_read_only() {
        tools.push(named(CALL_TOOL, &caller));
    }
    tools
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_in(list: ListMode, name: &str, arguments: &Value) -> Result<Wanted, String> {
        read(&View::listing(list), name.to_owned(), arguments.to_string())
    }

    #[test]
    fn a_call_names_what_it_calls() {
        let call = |name: &str, arguments: &str, by| {
            Ok(Wanted::Call { name: name.to_owned(), arguments: arguments.to_owned(), by })
        };
        let inner = json!({"name": "echo", "arguments": {"a":1}});
        assert_eq!(read_in(ListMode::Search, CALL_TOOL, &inner), call("echo", "{\"a\":1}", By::CallTool));
        assert_eq!(read_in(ListMode::Search, CALL_READ_ONLY_TOOL, &inner), call("echo", "{\"a\":1}", By::ReadOnly));
        let text = json!({"name": "echo", "arguments": "{\"a\":1}"});
        assert_eq!(read_in(ListMode::Search, CALL_TOOL, &text), call("echo", "{\"a\":1}", By::CallTool));
        assert_eq!(read_in(ListMode::Search, CALL_TOOL, &json!({"name": "echo"})), call("echo", "{}", By::CallTool));
        assert_eq!(read_in(ListMode::Search, "echo", &json!({})), call("echo", "{}", By::Name));
        // Elsewhere they are names like any others.
        assert_eq!(read_in(ListMode::All, CALL_TOOL, &json!({})), call(CALL_TOOL, "{}", By::Name));
        assert!(read_in(ListMode::Search, CALL_TOOL, &json!({})).unwrap_err().contains("`name`"));
    }

    #[test]
    fn a_search_is_bounded() {
        let limit = |arguments: Value| match read_in(ListMode::Search, SEARCH_TOOLS, &arguments) {
            Ok(Wanted::Search { limit, .. }) => limit,
            other => panic!("{other:?}"),
        };
        assert_eq!(limit(json!({"query": "x"})), LIMIT);
        assert_eq!(limit(json!({"query": "x", "limit": 1000})), MAX_LIMIT);
        assert!(read_in(ListMode::Search, SEARCH_TOOLS, &json!({})).unwrap_err().contains("Example"));
    }
}
