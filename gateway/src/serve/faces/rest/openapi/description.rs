//! The description of an operation in the document. Adds the refusals that follow from the operation's row in the
//! table.

use serde_json::{Map, Value, json};

use super::components::{FAILURES, reference};

/// Describes an operation, except what follows from its row.
pub(crate) struct Description {
    operation: Value,
    failures: &'static [u16],
}

impl Description {
    pub(super) fn new(tag: &str, id: &str, summary: &str) -> Self {
        let operation =
            json!({ "tags": [tag], "operationId": id, "summary": summary, "parameters": [], "responses": {} });
        Self { operation, failures: &[] }
    }

    /// Sets a field, such as `parameters`.
    pub(super) fn set(mut self, field: &str, value: impl Into<Value>) -> Self {
        self.operation[field] = value.into();
        self
    }

    /// Sets the content of the JSON body.
    pub(super) fn body(self, content: Value) -> Self {
        self.set("requestBody", json!({ "required": true, "content": { "application/json": content } }))
    }

    pub(super) fn response(mut self, status: u16, response: Value) -> Self {
        self.operation["responses"][status.to_string()] = response;
        self
    }

    /// Sets a successful response with this schema.
    pub(super) fn ok(self, schema: &Value) -> Self {
        self.response(200, json_of("OK", schema))
    }

    /// Adds refusals and failures that do not follow from the row.
    pub(super) fn failures(self, failures: &'static [u16]) -> Self {
        Self { failures, ..self }
    }

    /// Builds the operation at `path`, a template. `is_limited`: its requests count towards a pool, which may be
    /// full.
    pub(crate) fn into_json(mut self, path: &str, is_limited: bool) -> Value {
        let parameters = self.operation["parameters"].as_array();
        let has_query = parameters.into_iter().flatten().any(|it| it["in"] == "query");
        let has_body = self.operation["requestBody"].is_object();
        for (name, status, _) in FAILURES {
            let is_implied = match status {
                400 => has_query,
                // Every operation may require a key, or be forbidden.
                401 | 403 => true,
                404 => path.contains('{'),
                413 | 415 => has_body,
                503 => is_limited,
                _ => false,
            };
            let status_text = status.to_string();
            let is_stated = self.operation["responses"].get(&status_text).is_some();
            if !is_stated && (is_implied || self.failures.contains(&status)) {
                self.operation["responses"][status_text] = reference("responses", name);
            }
        }
        self.operation["responses"]["default"] = reference("responses", "Failure");
        self.operation
    }
}

/// Describes a path parameter.
pub(super) fn in_path(name: &str, schema: Value, description: &str) -> Value {
    json!({ "name": name, "in": "path", "required": true, "schema": schema, "description": description })
}

/// Describes a query parameter.
pub(super) fn query(name: &str, schema: Value) -> Value {
    json!({ "name": name, "in": "query", "schema": schema })
}

/// Describes a JSON response.
pub(super) fn json_of(description: &str, schema: &Value) -> Value {
    response(description, json!({ "application/json": { "schema": schema } }))
}

/// Describes a text response with these media types.
pub(super) fn text_of(description: &str, media_types: &[&str]) -> Value {
    let content = media_types.iter().map(|media_type| {
        // Omit the type: some tools apply the schema to one event, others to the whole stream.
        let is_events = *media_type == "text/event-stream";
        let schema =
            if is_events { json!({ "description": "Named events with JSON." }) } else { json!({ "type": "string" }) };
        ((*media_type).to_owned(), json!({ "schema": schema }))
    });
    response(description, content.collect::<Map<_, _>>().into())
}

fn response(description: &str, content: Value) -> Value {
    let headers = json!({ "X-Trace-Id": reference("headers", "TraceId") });
    json!({ "description": description, "headers": headers, "content": content })
}
