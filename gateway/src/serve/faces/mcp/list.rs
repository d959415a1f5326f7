//! `tools/list`: all tools of the caller, on one page unless the list is very long.
//!
//! A view may instead list only built-in tools: one to search for tools, and two to call a tool that was found.
//! There are two, so that a user can approve only read-only calls.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::client::{cache_scope, server_info};
use super::jsonrpc::{Params, RpcError, invalid_params, string};
use crate::call::principal::Principal;
use crate::gateway::{Gateway, Shard};
use crate::mcp::pages::List;
use crate::mcp::revision::Revision;
use crate::mcp::seal::Purpose;
use crate::mcp::views::{CALL_READ_ONLY_TOOL, CALL_TOOL, ListMode, SEARCH_TOOLS, View};
use crate::serve::tools;

/// How long a client may cache a list, in milliseconds. A client that listens for changes is notified earlier.
const TTL_MS: u64 = 5_000;

/// Returns the current tools of a principal in a view.
pub(super) fn current(shard: &Shard, view: &Arc<View>, principal: &Principal) -> Arc<List> {
    let gateway = &shard.gateway;
    // Read the number first: if the list is newer than its number, it is only rendered once more.
    let change = gateway.catalog.change();
    gateway.mcp.pages.get(principal, view, change, || {
        let mut listed = tools::mcp_tools(gateway, principal, view);
        if view.list == ListMode::Search {
            listed.extend(builtin_tools(view));
            listed.sort();
        }
        List::new(listed)
    })
}

/// Returns the page of a list that `params` ask for, as a result. `field` is the list's name in it.
///
/// # Errors
/// The cursor does not belong to this list.
pub(super) fn page(
    shard: &Shard,
    list: &List,
    field: &str,
    params: &Params,
    principal: &Principal,
    revision: Revision,
) -> Result<String, RpcError> {
    let key = &shard.gateway.mcp.key;
    // The cursor of any other list contains the list's name.
    let prefix = if field == "tools" { String::new() } else { format!("{field} ") };
    let open = |cursor: &String| {
        let place = key.open(Purpose::Cursor, principal.name(), cursor.as_bytes());
        let name = place.and_then(|it| Some(String::from_utf8(it).ok()?.strip_prefix(&prefix)?.to_owned()));
        name.ok_or_else(|| invalid_params("the cursor is not from this list"))
    };
    let after = params.cursor.as_ref().map(open).transpose()?;
    let page = list.page(after.as_deref());
    let mut text = String::with_capacity(page.tools.len() + 512);
    for part in ["{\"", field, "\":[", std::str::from_utf8(page.tools).unwrap_or_default(), "]"] {
        text.push_str(part);
    }
    if let Some(last) = page.last {
        text.push_str(",\"nextCursor\":");
        text.push_str(&string(&key.seal(Purpose::Cursor, principal.name(), format!("{prefix}{last}").as_bytes())));
    }
    text.push_str(&cache_fields(revision, cache_scope(shard), TTL_MS));
    text.push('}');
    Ok(text)
}

/// Returns the fields of a cacheable result. Empty before revision 2026-07-28.
pub(super) fn cache_fields(revision: Revision, scope: &str, ttl_ms: u64) -> String {
    if !revision.is_stateless() {
        return String::new();
    }
    let server = server_info();
    format!(
        ",\"resultType\":\"complete\",\"ttlMs\":{ttl_ms},\"cacheScope\":\"{scope}\",\
         \"_meta\":{{\"io.modelcontextprotocol/serverInfo\":{server}}}"
    )
}

/// The number of tools that a search returns: by default, and at most.
const LIMIT: usize = 5;
const MAX_LIMIT: usize = 20;

/// The maximum length of a query, in bytes. The rest is ignored.
const MAX_QUERY_BYTES: usize = 1024;

/// What a tool call requests.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ToolRequest {
    Search {
        task: String,
        limit: usize,
    },
    Call {
        name: String,
        /// The arguments as JSON.
        arguments: String,
        via: CalledVia,
    },
}

/// How a tool is named in a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CalledVia {
    /// By its own name. The tool must be listed.
    Name,
    /// Through `call_tool`, which can call any tool.
    CallTool,
    /// Through `call_read_only_tool`, which can only call read-only tools.
    ReadOnly,
}

/// Reads a call of `name` in a view.
///
/// # Errors
/// Its arguments can't be read. The message is meant for the model.
pub(super) fn tool_request(view: &View, name: String, arguments: String) -> Result<ToolRequest, String> {
    let via = match name.as_str() {
        _ if view.list == ListMode::All => CalledVia::Name,
        SEARCH_TOOLS => return search(&arguments),
        CALL_TOOL if !view.is_read_only() => CalledVia::CallTool,
        CALL_READ_ONLY_TOOL => CalledVia::ReadOnly,
        _ => CalledVia::Name,
    };
    if via == CalledVia::Name {
        return Ok(ToolRequest::Call { name, arguments, via });
    }
    #[derive(Deserialize)]
    #[serde(expecting = "an object")]
    struct RawCall {
        name: String,
        arguments: Option<Box<RawValue>>,
    }
    let raw: RawCall = openskill_proto::json::read(arguments.as_bytes()).map_err(|error| {
        format!("{error}. Example: {{\"name\": \"a tool that {SEARCH_TOOLS} found\", \"arguments\": {{}}}}")
    })?;
    let arguments = raw.arguments.map_or_else(|| "{}".to_owned(), |it| Box::<str>::from(it).into());
    // Some models write arguments as a JSON string.
    let arguments = serde_json::from_str::<String>(&arguments).unwrap_or(arguments);
    Ok(ToolRequest::Call { name: raw.name, arguments, via })
}

fn search(arguments: &str) -> Result<ToolRequest, String> {
    #[derive(Deserialize)]
    #[serde(expecting = "an object")]
    struct RawSearch {
        query: String,
        limit: Option<usize>,
    }
    let raw: RawSearch = openskill_proto::json::read(arguments.as_bytes())
        .map_err(|error| format!("{error}. Example: {{\"query\": \"convert a picture to PDF\"}}"))?;
    let mut task = raw.query;
    task.truncate(task.floor_char_boundary(MAX_QUERY_BYTES));
    Ok(ToolRequest::Search { task, limit: raw.limit.unwrap_or(LIMIT).clamp(1, MAX_LIMIT) })
}

/// Searches for tools. Returns JSON that matches the tool's output schema.
pub(super) fn search_results(
    gateway: &Gateway,
    principal: &Principal,
    view: &View,
    task: &str,
    limit: usize,
) -> String {
    let found = tools::search(gateway, principal, view, task, limit);
    let definitions: Vec<_> = found.into_iter().map(|(_, definition)| definition).collect();
    let hint = if definitions.is_empty() { "no tool matches: try other words" } else { hint(view) };
    format!("{{\"tools\":[{}],\"hint\":{}}}", definitions.join(","), string(hint))
}

fn hint(view: &View) -> &'static str {
    if view.is_read_only() {
        "call one with call_read_only_tool"
    } else {
        "call one with call_tool, or with call_read_only_tool if its annotations have readOnlyHint"
    }
}

/// Returns the built-in tools of a view with search: name and definition.
fn builtin_tools(view: &View) -> impl Iterator<Item = (String, String)> {
    let tools = definitions(include_str!("search_tools.json"), "name");
    tools.filter(move |(name, _)| name != CALL_TOOL || !view.is_read_only())
}

/// Splits a JSON list of definitions. Returns each with its name, which the field `key` contains.
pub(super) fn definitions(list: &str, key: &str) -> impl Iterator<Item = (String, String)> {
    let list: Vec<Value> = serde_json::from_str(list).unwrap_or_default();
    list.into_iter().filter_map(move |it| Some((it[key].as_str()?.to_owned(), it.to_string())))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_definitions_of_the_built_in_tools_have_their_names_and_bounds() {
        let tools: Vec<Value> = serde_json::from_str(include_str!("search_tools.json")).unwrap();
        let names: Vec<_> = tools.iter().map(|it| it["name"].as_str().unwrap()).collect();
        assert_eq!(names, [SEARCH_TOOLS, CALL_READ_ONLY_TOOL, CALL_TOOL]);
        let limit = &tools[0]["inputSchema"]["properties"]["limit"];
        assert_eq!((&limit["maximum"], &limit["default"]), (&json!(MAX_LIMIT), &json!(LIMIT)));
    }

    fn read_in(list: ListMode, name: &str, arguments: &Value) -> Result<ToolRequest, String> {
        tool_request(&View::listing(list), name.to_owned(), arguments.to_string())
    }

    #[test]
    fn a_call_names_what_it_calls() {
        let call = |name: &str, arguments: &str, via| {
            Ok(ToolRequest::Call { name: name.to_owned(), arguments: arguments.to_owned(), via })
        };
        let inner = json!({"name": "echo", "arguments": {"a":1}});
        assert_eq!(read_in(ListMode::Search, CALL_TOOL, &inner), call("echo", "{\"a\":1}", CalledVia::CallTool));
        assert_eq!(
            read_in(ListMode::Search, CALL_READ_ONLY_TOOL, &inner),
            call("echo", "{\"a\":1}", CalledVia::ReadOnly)
        );
        let text = json!({"name": "echo", "arguments": "{\"a\":1}"});
        assert_eq!(read_in(ListMode::Search, CALL_TOOL, &text), call("echo", "{\"a\":1}", CalledVia::CallTool));
        assert_eq!(
            read_in(ListMode::Search, CALL_TOOL, &json!({"name": "echo"})),
            call("echo", "{}", CalledVia::CallTool)
        );
        assert_eq!(read_in(ListMode::Search, "echo", &json!({})), call("echo", "{}", CalledVia::Name));
        // In other views, these are ordinary tool names.
        assert_eq!(read_in(ListMode::All, CALL_TOOL, &json!({})), call(CALL_TOOL, "{}", CalledVia::Name));
        assert!(read_in(ListMode::Search, CALL_TOOL, &json!({})).unwrap_err().contains("`name`"));
    }

    #[test]
    fn a_search_is_bounded() {
        let limit = |arguments: Value| match read_in(ListMode::Search, SEARCH_TOOLS, &arguments) {
            Ok(ToolRequest::Search { limit, .. }) => limit,
            other => panic!("{other:?}"),
        };
        assert_eq!(limit(json!({"query": "x"})), LIMIT);
        assert_eq!(limit(json!({"query": "x", "limit": 1000})), MAX_LIMIT);
        assert!(read_in(ListMode::Search, SEARCH_TOOLS, &json!({})).unwrap_err().contains("Example"));
    }
}
