//! What the paths of the document have in common.

use openskill_proto::error::TABLE;
use serde_json::{Map, Value, json};

/// What answers hold.
pub(super) fn schemas() -> Map<String, Value> {
    let codes: Vec<_> = TABLE.iter().map(|row| row.code.as_str_name()).collect();
    let schemas = json!({
        "SkillResult": {
            "type": "object",
            "required": ["success", "skill_id", "trace_id", "data", "error", "meta", "text"],
            "properties": {
                "success": { "type": "boolean" },
                "skill_id": { "type": "string" },
                "trace_id": { "type": "string" },
                "data": { "description": "Null if success is false." },
                "error": { "oneOf": [{ "type": "null" }, reference("schemas", "SkillError")] },
                "meta": reference("schemas", "Meta"),
                "text": { "type": "string", "description": "One line for a model." },
                "artifacts": { "type": "array", "items": { "type": "object" } },
            },
        },
        "SkillError": {
            "type": "object",
            "required": ["code", "message", "grade", "blame", "retryable", "may_have_run"],
            "properties": {
                "code": { "enum": codes },
                "message": { "type": "string" },
                "details": { "type": "object" },
                "grade": { "enum": ["param_error", "parse_error", "network_error", "execution_error"] },
                "blame": { "enum": ["caller", "skill", "worker", "gateway"] },
                "retryable": { "type": "boolean", "description": "The same call may succeed later, and a retry is safe." },
                "retry_after_ms": { "type": "integer", "minimum": 1 },
                "may_have_run": { "type": "boolean", "description": "Whether the skill may have had an effect." },
            },
        },
        "Skill": {
            "type": "object",
            "required": ["id", "version", "status", "idempotent", "destructive", "approval", "repeatable", "untrusted", "read_only"],
            "properties": {
                "id": { "type": "string" },
                "version": { "type": "string" },
                "description": { "type": "string" },
                "status": { "enum": ["available", "unavailable"] },
                "status_reason": { "type": "string" },
                "idempotent": { "type": "boolean" },
                "destructive": { "type": "boolean" },
                "approval": { "enum": ["ask", "never"], "description": "Whether an agent asks its user before each call." },
                "repeatable": { "type": "boolean", "description": "An identical call right after the first one is meant." },
                "untrusted": { "type": "boolean", "description": "Results hold text of strangers." },
                "read_only": { "type": "boolean", "description": "It changes nothing, and sends nothing to others." },
            },
        },
        "PreparedCall": {
            "type": "object",
            "required": ["success", "skill_id", "trace_id", "version", "arguments", "repairs", "error"],
            "properties": {
                "success": { "type": "boolean" },
                "skill_id": { "type": "string" },
                "trace_id": { "type": "string" },
                "version": { "type": "string" },
                "arguments": { "type": ["object", "null"], "description": "What the skill would get. Null if success is false." },
                "repairs": { "type": "array", "items": { "type": "object" } },
                "error": { "oneOf": [{ "type": "null" }, reference("schemas", "SkillError")] },
            },
        },
        "Meta": {
            "type": "object",
            "properties": {
                "latency_ms": { "type": "number", "minimum": 0 },
                "version": { "type": "string" },
                "truncated": { "type": "boolean" },
                "runner": { "type": "string" },
                "worker_id": { "type": "string" },
                "attempts": { "type": "integer", "minimum": 0 },
                "repairs": { "type": "array", "items": { "type": "object" } },
                "warnings": { "type": "array", "items": { "type": "string" } },
                "jail": { "type": "string", "enum": ["strict", "standard", "partial", "off"] },
            },
        },
    });
    schemas.as_object().cloned().unwrap_or_default()
}

/// Headers of requests.
pub(super) fn parameters() -> Value {
    json!({
        "TraceId": {
            "name": "X-Trace-Id",
            "in": "header",
            "description": "Your id of the trace: 1 to 128 visible ASCII characters. Comes back as given.",
            "schema": { "type": "string", "maxLength": 128 },
        },
        "TimeoutMs": {
            "name": "X-Timeout-Ms",
            "in": "header",
            "description": "The longest you wait, in milliseconds.",
            "schema": { "type": "integer", "minimum": 1 },
        },
    })
}

/// Headers of answers.
pub(super) fn headers() -> Value {
    json!({ "TraceId": { "description": "The trace's id.", "schema": { "type": "string" } } })
}

/// A reference to a component.
pub(super) fn reference(kind: &str, name: &str) -> Value {
    json!({ "$ref": format!("#/components/{kind}/{name}") })
}
