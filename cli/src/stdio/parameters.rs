//! Headers that repeat arguments of a call, where the tool's schema asks for them (`x-mcp-header`), since 2026-07-28.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::{HeaderMap, HeaderName};
use serde_json::{Map, Value};

use super::message::encoded;

/// The word of a schema that names a parameter's header.
const KEYWORD: &str = "x-mcp-header";

/// How deep parameters with headers are looked for.
const MAX_DEPTH: usize = 8;

/// The parameters with headers of one tool: where they stand in the arguments, and the headers.
type Parameters = Vec<(Vec<String>, HeaderName)>;

/// What is known of tools. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(super) struct Known(Arc<Mutex<HashMap<String, Arc<Parameters>>>>);

impl Known {
    /// The parameters of a tool. None if it was never listed.
    pub(super) fn get(&self, tool: &str) -> Option<Arc<Parameters>> {
        self.lock().get(tool).cloned()
    }

    /// Takes the tools of the answer to `tools/list`. Returns where the next page begins.
    pub(super) fn learn(&self, answer: &str) -> Option<String> {
        let answer: Value = serde_json::from_str(answer).ok()?;
        let mut known = self.lock();
        for tool in answer.pointer("/result/tools").and_then(Value::as_array)? {
            let name = tool.get("name").and_then(Value::as_str).unwrap_or_default();
            let mut found = Vec::new();
            let properties = tool.pointer("/inputSchema/properties").and_then(Value::as_object);
            properties.inspect(|it| find(it, &mut Vec::new(), &mut found));
            known.insert(name.to_owned(), Arc::new(found));
        }
        answer.pointer("/result/nextCursor").and_then(Value::as_str).map(str::to_owned)
    }

    /// Notes that a tool is not listed, so that nobody asks again.
    pub(super) fn note_unlisted(&self, tool: &str) {
        self.lock().entry(tool.to_owned()).or_default();
    }

    /// Forgets all tools: they may have changed.
    pub(super) fn forget(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<Parameters>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
        headers.insert(header.clone(), encoded(&text));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn arguments_are_repeated_where_the_schema_of_a_tool_asks_for_it() {
        let known = Known::default();
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
