//! Headers that repeat call arguments if the tool's schema requests them (`x-mcp-header`), since revision
//! 2026-07-28.

use std::collections::HashMap;
use std::sync::Arc;

use http::{HeaderMap, HeaderName};
use parking_lot::Mutex;
use serde_json::{Map, Value};

use super::message::encode_header;

/// The schema keyword that names a parameter's header.
const KEYWORD: &str = "x-mcp-header";

/// The maximum depth to which a schema is searched for parameters with headers.
const MAX_DEPTH: usize = 8;

/// The parameters of one tool that have headers: their paths in the arguments, and the headers.
type Parameters = Vec<(Vec<String>, HeaderName)>;

/// The listed tools, with their parameters. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(super) struct KnownTools(Arc<Mutex<HashMap<String, Arc<Parameters>>>>);

impl KnownTools {
    /// Returns the parameters of a tool. `None` if the tool was never listed.
    pub(super) fn get(&self, tool: &str) -> Option<Arc<Parameters>> {
        self.0.lock().get(tool).cloned()
    }

    /// Adds the tools from a `tools/list` response. Returns the cursor of the next page.
    pub(super) fn learn(&self, answer: &str) -> Option<String> {
        let answer: Value = serde_json::from_str(answer).ok()?;
        let mut known = self.0.lock();
        for tool in answer.pointer("/result/tools").and_then(Value::as_array)? {
            let name = tool.get("name").and_then(Value::as_str).unwrap_or_default();
            let mut found = Vec::new();
            let properties = tool.pointer("/inputSchema/properties").and_then(Value::as_object);
            properties.inspect(|it| find(it, &mut Vec::new(), &mut found));
            known.insert(name.to_owned(), Arc::new(found));
        }
        answer.pointer("/result/nextCursor").and_then(Value::as_str).map(str::to_owned)
    }

    /// Records that a tool is unlisted, so that it is not looked up again.
    pub(super) fn note_unlisted(&self, tool: &str) {
        self.0.lock().entry(tool.to_owned()).or_default();
    }

    /// Forgets all tools, since they may have changed.
    pub(super) fn forget(&self) {
        self.0.lock().clear();
    }
}

fn find(properties: &Map<String, Value>, path: &mut Vec<String>, found: &mut Parameters) {
    for (name, schema) in properties {
        path.push(name.clone());
        let header = schema.get(KEYWORD).and_then(Value::as_str);
        let header = header.and_then(|it| HeaderName::try_from(format!("mcp-param-{}", it.to_ascii_lowercase())).ok());
        found.extend(header.map(|it| (path.clone(), it)));
        if let Some(inner) = schema.get("properties").and_then(Value::as_object)
            && path.len() < MAX_DEPTH
        {
            find(inner, path, found);
        }
        path.pop();
    }
}

/// Adds the headers of a call with these arguments.
pub(super) fn repeat(parameters: &Parameters, arguments: &Value, headers: &mut HeaderMap) {
    for (path, header) in parameters {
        let value = path.iter().try_fold(arguments, |value, name| value.get(name));
        let text = match value {
            Some(Value::String(text)) => text.clone(),
            Some(value @ (Value::Number(_) | Value::Bool(_))) => value.to_string(),
            _ => continue,
        };
        headers.insert(header.clone(), encode_header(&text));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn arguments_are_repeated_where_the_schema_of_a_tool_asks_for_it() {
        let known = KnownTools::default();
        let schema = json!({"properties": {
            "region": {"type": "string", "x-mcp-header": "Region"},
            "page": {"properties": {"size": {"x-mcp-header": "Size"}}},
            "text": {"type": "string"},
        }});
        let answer = json!({"result": {"tools": [{"name": "a", "inputSchema": schema}], "nextCursor": "c"}});
        assert_eq!(known.learn(&answer.to_string()).as_deref(), Some("c"));
        let mut headers = HeaderMap::new();
        let arguments = json!({"region": "ü", "page": {"size": 5}, "text": "x"});
        repeat(&known.get("a").unwrap(), &arguments, &mut headers);
        assert_eq!(headers.len(), 2);
        assert_eq!(headers["mcp-param-size"], "5");
        assert_eq!(headers["mcp-param-region"], "=?base64?w7w=?=");
        let mut none = HeaderMap::new();
        repeat(&known.get("a").unwrap(), &json!({"region": null}), &mut none);
        assert!(none.is_empty() && known.get("b").is_none());
        known.note_unlisted("b");
        assert!(known.get("b").unwrap().is_empty());
    }
}
