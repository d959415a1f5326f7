//! Describes the operations that are not calls: the catalog, artifacts, questions, traces, probes and metrics.

use openskill_proto::v1::Dialect;
use serde_json::{Value, json};

use super::components::{flag, list_of, object, record, reference, schema, small_count as count, text};
use super::description::{Description, in_path, json_of, query, text_of};

pub(crate) fn list_skills() -> Description {
    let skills = record(json!({ "skills": list_of(&schema("Skill")) }), &[]);
    Description::new("catalog", "list_skills", "List all skills")
        .set("parameters", [query("toolset", text())])
        .ok(&skills)
}

pub(crate) fn get_skill() -> Description {
    let id = json!({ "type": "string", "pattern": "^[a-z][a-z0-9_-]{0,63}$" });
    Description::new("catalog", "get_skill", "Get one skill with its schemas")
        .set("parameters", [in_path("id", id, "The skill's id.")])
        .ok(&schema("Skill"))
        .failures(&[405])
}

pub(crate) fn export_tools() -> Description {
    let disabled =
        record(json!({ "skill_id": text(), "reason": text(), "retry_after_ms": { "type": ["integer", "null"] } }), &[]);
    let names = Dialect::NAMES.map(|(name, _)| name);
    let tools = record(
        json!({
            "dialect": { "enum": names },
            "tools": list_of(&json!({ "type": "object" })),
            "skill_ids": { "type": "object", "additionalProperties": text(), "description": "Skill ids by tool name." },
            "disabled": list_of(&disabled),
            "notes": list_of(&text()),
        }),
        &[],
    );
    Description::new("catalog", "export_tools", "List skills as tools of a model")
        .set(
            "parameters",
            [
                query("dialect", json!({ "enum": names, "default": "openai" })),
                query("strict", flag()),
                query("toolset", text()),
                query("skill", list_of(&text())),
                query("query", text()),
                query("limit", count()),
                query("session_id", text()),
                query("include_unavailable", flag()),
            ],
        )
        .ok(&tools)
        .failures(&[404])
}

pub(crate) fn read_artifact() -> Description {
    let handle = in_path("handle", text(), "The handle in a result's artifacts, percent-encoded or as it is.");
    let range = json!({ "name": "Range", "in": "header", "schema": text(), "description": "One range of bytes.", "example": "bytes=0-1023" });
    // The media type may be anything. Client generators can't read patterns, so one type is named.
    let content = json!({ "application/octet-stream": { "schema": { "type": "string", "format": "binary" } }, "*/*": { "schema": {} } });
    let bytes = |description: &str, headers: Value| json!({ "description": description, "headers": headers, "content": content });
    let size = json!({ "Content-Range": reference("headers", "ContentRange") });
    Description::new("skills", "read_artifact", "Get an artifact or a range of it")
        .set("parameters", [handle, range])
        .response(200, bytes("The content.", json!({})))
        .response(206, bytes("The range.", size))
        .failures(&[416, 502])
}

pub(crate) fn answer_question() -> Description {
    let content = json!({ "type": "object", "description": "accept: the values that the question asks for." });
    let body = json!({ "action": { "enum": ["accept", "decline", "cancel"] }, "content": content });
    Description::new("skills", "answer_question", "Answer a question of a running call")
        .set("parameters", [in_path("request_id", text(), "The id of the question, in its input_required event.")])
        .body(json!({ "schema": object(body, &["action"]) }))
        .response(200, json_of("The skill received the answer.", &json!({ "type": "object" })))
        .failures(&[400, 503])
}

pub(crate) fn list_traces() -> Description {
    let (optional, time) = (json!({ "type": ["string", "null"] }), json!({ "type": "string", "format": "date-time" }));
    let call = record(
        json!({
            "trace_id": text(), "call_id": text(), "skill_id": text(), "principal": text(), "session_id": optional,
            "time": time, "duration_us": { "type": "integer", "minimum": 0 }, "code": text(), "attempts": count(),
            "repairs": count(), "worker_id": optional,
        }),
        &[],
    );
    let page = record(json!({ "gateway": text(), "calls": list_of(&call), "next_cursor": optional }), &[]);
    let time = |example: &str| json!({ "type": "string", "description": "A time or an age.", "examples": [example] });
    let duration =
        json!({ "type": "string", "pattern": "^[0-9]{1,9}([.][0-9]{1,9})?(us|ms|s|m|h|d)$", "examples": ["250ms"] });
    Description::new("traces", "list_traces", "List recorded calls, where AdminService is served")
        .set(
            "parameters",
            [
                query("skill", text()),
                query("code", json!({ "type": "string", "description": "An error code, or OK." })),
                query("principal", text()),
                query("session", text()),
                query("min_duration", duration),
                query("since", time("15m")),
                query("until", time("2026-01-31T12:00:00Z")),
                query("limit", count()),
                query("cursor", json!({ "type": "string", "description": "next_cursor of the previous page." })),
            ],
        )
        .ok(&page)
        .failures(&[404])
}

pub(crate) fn get_trace() -> Description {
    let events = list_of(&json!({ "type": "object" }));
    let trace = record(json!({ "gateway": text(), "events": events, "left_out": count() }), &[]);
    Description::new("traces", "get_trace", "Get the events of a trace, where AdminService is served")
        .set("parameters", [in_path("id", text(), "The X-Trace-Id, or a call's id.")])
        .ok(&trace)
}

pub(crate) fn openapi() -> Description {
    Description::new("catalog", "openapi", "Get this document")
        .response(200, json_of("This document.", &json!({ "type": "object" })))
        .response(304, json!({ "description": "The document has not changed." }))
}

pub(crate) fn metrics() -> Description {
    let summary = "Get all metrics, as text for Prometheus, or as OpenMetrics text if the client accepts it";
    let media_types = ["text/plain", "application/openmetrics-text"];
    Description::new("health", "metrics", summary).response(200, text_of("All metrics.", &media_types))
}

pub(crate) fn live() -> Description {
    let status = record(json!({ "status": { "const": "ok" } }), &[]);
    Description::new("health", "live", "Check whether the process is alive")
        .response(200, json_of("The process is alive.", &status))
}

pub(crate) fn version() -> Description {
    Description::new("health", "version", "Get the version of the gateway")
        .ok(&record(json!({ "version": text() }), &[]))
}

pub(crate) fn ready() -> Description {
    let status = record(
        json!({
            "status": { "enum": ["ready", "draining", "no worker is up"] },
            "workers": record(json!({ "up": count(), "known": count() }), &[]),
            "skills": count(),
            "in_flight": count(),
        }),
        // A gateway that requires keys returns only the status.
        &["workers", "skills", "in_flight"],
    );
    Description::new("health", "ready", "Check whether the gateway serves calls")
        .response(200, json_of("Calls are served.", &status))
        .response(503, json_of("Calls are not served, or soon won't be.", &status))
}
