//! Which answers a path may give, beside those that are its own.

use serde_json::{Map, Value, json};

use super::components::reference;

/// The refusals and failures that there are: name, status, description.
const FAILURES: [(&str, u16, &str); 16] = [
    ("BadRequest", 400, "The request is malformed, or the arguments do not fit."),
    ("Unauthorized", 401, "This gateway asks for API keys, and the request has none that is valid."),
    ("Forbidden", 403, "This may not be done: by this caller, from this web page, under this host or with this path."),
    ("NotFound", 404, "There is no such thing."),
    ("MethodNotAllowed", 405, "This path takes other methods: Allow lists them."),
    ("Conflict", 409, "The skill asked its user a question, and no user is available."),
    ("TooLarge", 413, "The body is over 4 MiB."),
    ("UnsupportedMediaType", 415, "The body is not JSON."),
    ("RangeNotSatisfiable", 416, "The range is outside of the content: Content-Range has its size."),
    ("RateLimited", 429, "The caller is at a limit of its policy. Retry-After says when to try again."),
    ("HeadersTooLarge", 431, "The headers are too large, or too many."),
    ("Internal", 500, "The skill failed, or openskill did."),
    ("BadGateway", 502, "The skill failed, could not be started, or could not reach a service."),
    ("Unavailable", 503, "Nobody takes the request now, or the circuit is open. Retry-After says when to try again."),
    ("Timeout", 504, "The deadline passed."),
    ("Failure", 0, "Any other failure, with its code."),
];

/// All of them, for the components of the document.
pub(super) fn all() -> Map<String, Value> {
    let failures = FAILURES.iter().map(|(name, status, description)| {
        let mut headers = json!({ "X-Trace-Id": reference("headers", "TraceId") });
        let more = match status {
            405 => Some(("Allow", "Allow")),
            416 => Some(("Content-Range", "ContentRange")),
            429 | 503 => Some(("Retry-After", "RetryAfter")),
            _ => None,
        };
        if let Some((name, component)) = more {
            headers[name] = reference("headers", component);
        }
        let schema = reference("schemas", "Failure");
        let content = json!({ "application/json": { "schema": schema } });
        let response = json!({ "description": description, "headers": headers, "content": content });
        ((*name).to_owned(), response)
    });
    failures.collect()
}

/// The answers of a path: its own, and failures by status. Each path may need a key, be forbidden, or fail in a way of its own.
pub(super) fn with(own: &Value, failures: &[u16]) -> Value {
    let mut responses = own.as_object().cloned().unwrap_or_default();
    for (name, status, _) in FAILURES {
        if failures.contains(&status) || [401, 403].contains(&status) {
            responses.insert(status.to_string(), reference("responses", name));
        }
    }
    responses.insert("default".to_owned(), reference("responses", "Failure"));
    responses.into()
}

/// An answer with JSON.
pub(super) fn json_of(description: &str, schema: &Value) -> Value {
    json!({
        "description": description,
        "headers": { "X-Trace-Id": reference("headers", "TraceId") },
        "content": { "application/json": { "schema": schema } },
    })
}

/// An answer with text of these media types.
pub(super) fn text_of(description: &str, media_types: &[&str]) -> Value {
    let content = media_types.iter().map(|media_type| {
        // No type: some readers take the schema for that of an event, some for that of all of them.
        let is_events = *media_type == "text/event-stream";
        let schema =
            if is_events { json!({ "description": "Named events with JSON." }) } else { json!({ "type": "string" }) };
        ((*media_type).to_owned(), json!({ "schema": schema }))
    });
    json!({
        "description": description,
        "headers": { "X-Trace-Id": reference("headers", "TraceId") },
        "content": content.collect::<Map<_, _>>(),
    })
}
