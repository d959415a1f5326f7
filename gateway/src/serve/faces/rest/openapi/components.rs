//! Schemas and other components that the paths of the document share.

use openskill_proto::error::TABLE;
use serde_json::{Map, Value, json};

/// Builds a reference to a component.
pub(super) fn reference(kind: &str, name: &str) -> Value {
    json!({ "$ref": format!("#/components/{kind}/{name}") })
}

/// Builds a reference to a schema.
pub(super) fn schema(name: &str) -> Value {
    reference("schemas", name)
}

/// Builds the schema of an object with exactly these fields.
pub(super) fn object(properties: Value, required: &[&str]) -> Value {
    let mut schema = json!({ "type": "object", "properties": properties, "additionalProperties": false });
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema
}

/// Builds the schema of an object with at least these fields. All are required except the optional ones.
pub(super) fn record(properties: Value, optional: &[&str]) -> Value {
    let names = properties.as_object().into_iter().flatten().map(|(name, _)| name.as_str());
    let required: Vec<_> = names.filter(|it| !optional.contains(it)).collect();
    json!({ "type": "object", "required": required, "properties": properties })
}

/// Returns the schemas of responses.
pub(super) fn schemas() -> Map<String, Value> {
    let ([result, status], [failed_result, failed_status]) = (success(&json!({})), failure());
    [
        ("SkillResult", result),
        ("StatusResult", status),
        ("FailedResult", failed_result),
        ("FailedStatus", failed_status),
        ("Failure", either(&["FailedResult", "FailedStatus"])),
        ("SkillError", error(false)),
        ("StatusError", error(true)),
        ("Meta", meta()),
        ("PreparedCall", prepared()),
        ("Repair", record(json!({ "path": text(), "kind": text(), "before": {}, "after": {} }), &["before", "after"])),
        ("Artifact", artifact()),
        ("Skill", skill()),
    ]
    .map(|(name, schema)| (name.to_owned(), schema))
    .into_iter()
    .collect()
}

pub(super) fn text() -> Value {
    json!({ "type": "string" })
}

pub(super) fn flag() -> Value {
    json!({ "type": "boolean" })
}

pub(super) fn count() -> Value {
    json!({ "type": "integer", "minimum": 0 })
}

fn nullable(schema: &Value) -> Value {
    json!({ "oneOf": [{ "type": "null" }, schema] })
}

/// The schema of a count that fits into 32 bits.
pub(super) fn small_count() -> Value {
    json!({ "type": "integer", "minimum": 0, "maximum": u32::MAX })
}

pub(super) fn list_of(items: &Value) -> Value {
    json!({ "type": "array", "items": items })
}

/// Builds a schema that exactly one of these components must match.
pub(super) fn either(names: &[impl AsRef<str>]) -> Value {
    let names = names.iter().map(|name| schema(name.as_ref()));
    json!({ "oneOf": names.collect::<Vec<_>>() })
}

/// Builds one schema per type. Client generators can't read a list of types, except one type and null.
pub(super) fn type_schemas(types: &[&str]) -> Vec<Value> {
    types.iter().map(|it| json!({ "type": it })).collect()
}

/// The schema of a value that is always null. Client generators can't read the type `null` alone.
fn nothing() -> Value {
    json!({ "const": null })
}

/// Builds the response schemas of a call that succeeded with `data`: for the `normalized` and for the `status`
/// envelope.
pub(super) fn success(data: &Value) -> [Value; 2] {
    [normalized(true, data, &nothing()), status(&json!({ "enum": ["success", "partial"] }), data, None)]
}

/// Builds the response schemas of a failed call, for both envelopes.
fn failure() -> [Value; 2] {
    let errors = ["SkillError", "StatusError"].map(schema);
    [normalized(false, &nothing(), &errors[0]), status(&json!({ "const": "error" }), &nothing(), Some(&errors[1]))]
}

fn normalized(success: bool, data: &Value, error: &Value) -> Value {
    record(
        json!({
            "success": { "const": success },
            "skill_id": text(),
            "trace_id": text(),
            "data": data,
            "error": error,
            "meta": schema("Meta"),
            "text": { "type": "string", "description": "One line for a model." },
            "artifacts": list_of(&schema("Artifact")),
        }),
        &["artifacts"],
    )
}

fn status(status: &Value, data: &Value, error: Option<&Value>) -> Value {
    let mut properties = json!({
        "status": status,
        "data": data,
        "text": { "type": "string", "description": "One line for a model." },
        "stats": record(json!({ "time_ms": { "type": "number", "minimum": 0 } }), &[]),
        "context": record(json!({ "cwd": text(), "params_input": { "description": "The arguments." } }), &[]),
        "artifacts": list_of(&schema("Artifact")),
    });
    if let Some(error) = error {
        properties["error"] = error.clone();
    }
    record(properties, &["artifacts"])
}

fn prepared() -> Value {
    let arguments = "What the skill would get. Null if success is false.";
    record(
        json!({
            "success": flag(),
            "skill_id": text(),
            "trace_id": text(),
            "version": text(),
            "arguments": { "type": ["object", "null"], "description": arguments },
            "repairs": list_of(&schema("Repair")),
            "error": nullable(&schema("SkillError")),
        }),
        &[],
    )
}

fn artifact() -> Value {
    record(
        json!({
            "id": text(),
            "name": text(),
            "media_type": text(),
            "size_bytes": count(),
            "data": { "type": "string", "contentEncoding": "base64" },
            "handle": { "type": "string", "description": "The handle for GET /artifacts/{handle}." },
        }),
        &["data", "handle"],
    )
}

fn grade() -> Value {
    json!({ "enum": ["param_error", "parse_error", "network_error", "execution_error"] })
}

/// Builds the schema of an error. `with_type`: as in the `status` envelope.
fn error(with_type: bool) -> Value {
    let codes: Vec<_> = TABLE.iter().map(|row| row.code.as_str_name()).collect();
    let mut properties = json!({
        "code": { "enum": codes },
        "message": { "type": "string" },
        "details": { "description": "More about the error. The fields depend on its code." },
        "grade": grade(),
        "blame": { "enum": ["caller", "skill", "worker", "gateway"] },
        "retryable": { "type": "boolean", "description": "The same call may succeed later, and a retry is safe." },
        "retry_after_ms": { "type": "integer", "minimum": 1 },
        "may_have_run": { "type": "boolean", "description": "Whether the skill may have had an effect." },
    });
    if with_type {
        properties["type"] = grade();
    }
    record(properties, &["details", "retry_after_ms"])
}

fn meta() -> Value {
    record(
        json!({
            "latency_ms": { "type": "number", "minimum": 0 },
            "version": text(),
            "truncated": { "type": "boolean" },
            "runner": text(),
            "worker_id": text(),
            "attempts": count(),
            "repairs": list_of(&schema("Repair")),
            "warnings": list_of(&text()),
            "jail": { "enum": ["strict", "standard", "partial", "off"] },
            "agent": { "type": "object", "description": "What the skill used, if it is an agent: tokens, requests, calls, cost." },
        }),
        &["jail", "agent"],
    )
}

fn skill() -> Value {
    let declared = json!({ "description": "A JSON Schema. Null if the skill declares none." });
    record(
        json!({
            "id": text(),
            "version": text(),
            "description": text(),
            "runner": text(),
            "toolset": text(),
            "status": { "enum": ["available", "unavailable"] },
            "status_reason": text(),
            "workers": { "type": "integer", "minimum": 0, "description": "How many workers can run it." },
            "timeout_ms": { "type": ["integer", "null"], "minimum": 1 },
            "idempotent": flag(),
            "destructive": flag(),
            "approval": { "enum": ["ask", "never"], "description": "Whether an agent asks its user before each call." },
            "repeatable": { "type": "boolean", "description": "Whether identical calls in a row are intended." },
            "untrusted": { "type": "boolean", "description": "Whether results contain text from strangers." },
            "read_only": { "type": "boolean", "description": "Whether the skill changes nothing and sends nothing to others." },
            "session_affinity": flag(),
            "caller_affinity": { "type": "boolean", "description": "Whether a caller's calls without a session also go to one worker." },
            "input_schema": declared,
            "output_schema": declared,
            "examples": list_of(&json!({ "description": "Arguments of a call." })),
            "agent": { "type": "object", "description": "Set if the skill is an agent: its tools, model and limits." },
        }),
        &["agent"],
    )
}

/// All refusals and failures: name, status, description.
pub(super) const FAILURES: [(&str, u16, &str); 16] = [
    ("BadRequest", 400, "The request is malformed, or the arguments do not match the schema."),
    ("Unauthorized", 401, "This gateway asks for API keys, and the request has none that is valid."),
    ("Forbidden", 403, "Not allowed for this caller, web page, host or path."),
    ("NotFound", 404, "Not found."),
    ("MethodNotAllowed", 405, "This path does not support this method: Allow lists its methods."),
    ("Conflict", 409, "The skill asked its user a question, and no user is available."),
    ("TooLarge", 413, "The body is over 4 MiB."),
    ("UnsupportedMediaType", 415, "The body is not JSON."),
    ("RangeNotSatisfiable", 416, "The range is outside the content: Content-Range has the size of the content."),
    ("RateLimited", 429, "The caller is at a limit of its policy. Retry-After says when to try again."),
    ("HeadersTooLarge", 431, "The headers are too large, or too many."),
    ("Internal", 500, "The skill or openskill failed."),
    ("BadGateway", 502, "The skill failed, could not be started, or could not reach a service."),
    (
        "Unavailable",
        503,
        "No worker accepts the request now, or the circuit is open. Retry-After says when to try again.",
    ),
    ("Timeout", 504, "The deadline passed."),
    ("Failure", 0, "Any other failure, with its code."),
];

/// Returns the responses of refusals and failures.
pub(super) fn responses() -> Map<String, Value> {
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
        let content = json!({ "application/json": { "schema": schema("Failure") } });
        let response = json!({ "description": description, "headers": headers, "content": content });
        ((*name).to_owned(), response)
    });
    failures.collect()
}

/// Describes request headers.
pub(super) fn parameters() -> Value {
    json!({
        "TraceId": {
            "name": "X-Trace-Id",
            "in": "header",
            "description": "Your trace id: 1 to 128 visible ASCII characters. Comes back as given; a malformed one is replaced.",
            "schema": { "type": "string", "minLength": 1, "maxLength": 128, "pattern": "^[!-~]*$" },
        },
        "TimeoutMs": {
            "name": "X-Timeout-Ms",
            "in": "header",
            "description": "The longest time that the caller waits, in milliseconds. A malformed value is ignored.",
            "schema": { "type": "integer", "minimum": 1, "maximum": 3_600_000 },
        },
        "IdempotencyKey": {
            "name": "Idempotency-Key",
            "in": "header",
            "description": "The same as idempotency_key in the body, which takes precedence.",
            "schema": id(),
        },
    })
}

/// The schema of an id that the caller chooses.
pub(super) fn id() -> Value {
    json!({ "type": "string", "maxLength": 128, "pattern": "^[ -~]*$", "description": "At most 128 bytes." })
}

/// Describes response headers.
pub(super) fn headers() -> Value {
    let header = |description: &str, kind: &str| json!({ "description": description, "schema": { "type": kind } });
    json!({
        "TraceId": header("The trace's id.", "string"),
        "RetryAfter": header("When to try again, in seconds. Absent if that would not help.", "integer"),
        "Allow": header("The methods that the path supports.", "string"),
        "ContentRange": header("The range of these bytes, and the size of the whole.", "string"),
        "ETag": header("The version of the document, for If-None-Match.", "string"),
    })
}
