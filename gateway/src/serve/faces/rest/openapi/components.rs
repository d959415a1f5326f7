//! What the paths of the document have in common.

use openskill_proto::error::TABLE;
use serde_json::{Map, Value, json};

/// A reference to a component.
pub(super) fn reference(kind: &str, name: &str) -> Value {
    json!({ "$ref": format!("#/components/{kind}/{name}") })
}

/// An object with these fields and no others, all of them there but the optional ones.
pub(super) fn record(properties: Value, optional: &[&str]) -> Value {
    let names = properties.as_object().into_iter().flatten().map(|(name, _)| name.as_str());
    let required: Vec<_> = names.filter(|it| !optional.contains(it)).collect();
    json!({ "type": "object", "required": required, "properties": properties })
}

/// What answers hold.
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

fn text() -> Value {
    json!({ "type": "string" })
}

fn flag() -> Value {
    json!({ "type": "boolean" })
}

fn count() -> Value {
    json!({ "type": "integer", "minimum": 0 })
}

fn nullable(schema: &Value) -> Value {
    json!({ "oneOf": [{ "type": "null" }, schema] })
}

fn list_of(name: &str) -> Value {
    json!({ "type": "array", "items": reference("schemas", name) })
}

/// Any of these components.
pub(super) fn either(names: &[impl AsRef<str>]) -> Value {
    let names = names.iter().map(|name| reference("schemas", name.as_ref()));
    json!({ "oneOf": names.collect::<Vec<_>>() })
}

/// Schemas of these types. Generators of clients know no list of types, but null beside another.
pub(super) fn one_of(types: &[&str]) -> Vec<Value> {
    types.iter().map(|it| json!({ "type": it })).collect()
}

/// Always null. Generators of clients know no type that is null alone.
fn nothing() -> Value {
    json!({ "const": null })
}

/// The answer to a call that succeeded with `data`, in the normalized envelope and in `status`.
pub(super) fn success(data: &Value) -> [Value; 2] {
    [normalized(true, data, &nothing()), status(&json!({ "enum": ["success", "partial"] }), data, None)]
}

/// The same of a call that failed.
fn failure() -> [Value; 2] {
    let errors = ["SkillError", "StatusError"].map(|name| reference("schemas", name));
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
            "meta": reference("schemas", "Meta"),
            "text": { "type": "string", "description": "One line for a model." },
            "artifacts": list_of("Artifact"),
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
        "artifacts": list_of("Artifact"),
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
            "repairs": list_of("Repair"),
            "error": nullable(&reference("schemas", "SkillError")),
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
            "handle": { "type": "string", "description": "What GET /artifacts/{handle} takes." },
        }),
        &["data", "handle"],
    )
}

fn grade() -> Value {
    json!({ "enum": ["param_error", "parse_error", "network_error", "execution_error"] })
}

/// `with_type`: as the envelope `status` has it.
fn error(with_type: bool) -> Value {
    let codes: Vec<_> = TABLE.iter().map(|row| row.code.as_str_name()).collect();
    let mut properties = json!({
        "code": { "enum": codes },
        "message": { "type": "string" },
        "details": { "description": "More about the error, by its code." },
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
            "repairs": { "type": "array", "items": reference("schemas", "Repair") },
            "warnings": { "type": "array", "items": text() },
            "jail": { "enum": ["strict", "standard", "partial", "off"] },
            "agent": { "type": "object", "description": "What the skill used, if it is an agent: tokens, requests, calls, cost." },
        }),
        &["jail", "agent"],
    )
}

fn skill() -> Value {
    let schema = json!({ "description": "A JSON Schema. Null if the skill declares none." });
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
            "repeatable": { "type": "boolean", "description": "An identical call right after the first one is meant." },
            "untrusted": { "type": "boolean", "description": "Results hold text of strangers." },
            "read_only": { "type": "boolean", "description": "It changes nothing, and sends nothing to others." },
            "session_affinity": flag(),
            "caller_affinity": { "type": "boolean", "description": "Calls of a caller without a session go to one worker too." },
            "input_schema": schema,
            "output_schema": schema,
            "examples": { "type": "array", "items": { "description": "Arguments of a call." } },
            "agent": { "type": "object", "description": "Set if the skill is an agent: its tools, model and limits." },
        }),
        &["agent"],
    )
}

/// Headers of requests.
pub(super) fn parameters() -> Value {
    json!({
        "TraceId": {
            "name": "X-Trace-Id",
            "in": "header",
            "description": "Your id of the trace: 1 to 128 visible ASCII characters. Comes back as given; a malformed one is replaced.",
            "schema": { "type": "string", "minLength": 1, "maxLength": 128, "pattern": "^[!-~]*$" },
        },
        "TimeoutMs": {
            "name": "X-Timeout-Ms",
            "in": "header",
            "description": "The longest you wait, in milliseconds. A malformed one counts as none.",
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

/// An id that the caller chooses.
pub(super) fn id() -> Value {
    json!({ "type": "string", "maxLength": 128, "pattern": "^[ -~]*$", "description": "At most 128 bytes." })
}

/// Headers of answers.
pub(super) fn headers() -> Value {
    let header = |description: &str, kind: &str| json!({ "description": description, "schema": { "type": kind } });
    json!({
        "TraceId": header("The trace's id.", "string"),
        "RetryAfter": header("When to try again, in seconds. Absent if that would not help.", "integer"),
        "Allow": header("The methods that the path takes.", "string"),
        "ContentRange": header("Which bytes these are, and how many there are.", "string"),
        "ETag": header("The version of the document, for If-None-Match.", "string"),
    })
}
