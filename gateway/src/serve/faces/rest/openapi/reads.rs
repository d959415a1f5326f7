//! The paths that are no calls: the catalog, artifacts, questions, traces, probes and metrics.

use openskill_proto::v1::Dialect;
use serde_json::{Map, Value, json};

use super::components::{record, reference};
use super::responses::{json_of, text_of, with};

/// The paths.
pub(super) fn paths() -> Map<String, Value> {
    let groups = [catalog(), artifacts(), questions(), traces(), operations()];
    groups.into_iter().flatten().map(|(path, item)| (path.to_owned(), item)).collect()
}

type Paths = Vec<(&'static str, Value)>;

fn get(id: &str, tag: &str, summary: &str, parameters: &[Value], responses: &Value) -> Value {
    json!({ "get": {
        "operationId": id,
        "tags": [tag],
        "summary": summary,
        "parameters": parameters,
        "responses": responses,
    } })
}

fn query(name: &str, schema: Value) -> Value {
    json!({ "name": name, "in": "query", "schema": schema })
}

fn in_path(name: &str, schema: Value, description: &str) -> Value {
    json!({ "name": name, "in": "path", "required": true, "schema": schema, "description": description })
}

fn text() -> Value {
    json!({ "type": "string" })
}

fn count() -> Value {
    json!({ "type": "integer", "minimum": 0, "maximum": u32::MAX })
}

fn catalog() -> Paths {
    let list = |schema: Value| json!({ "type": "array", "items": schema });
    let skills = record(json!({ "skills": list(reference("schemas", "Skill")) }), &[]);
    let ok = |schema: &Value| json!({ "200": json_of("OK", schema) });
    let id = in_path("id", json!({ "type": "string", "pattern": "^[a-z][a-z0-9_-]{0,63}$" }), "The skill's id.");
    let disabled =
        record(json!({ "skill_id": text(), "reason": text(), "retry_after_ms": { "type": ["integer", "null"] } }), &[]);
    let names = Dialect::NAMES.map(|(name, _)| name);
    let tools = record(
        json!({
            "dialect": { "enum": names },
            "tools": list(json!({ "type": "object" })),
            "skill_ids": { "type": "object", "additionalProperties": text(), "description": "Skills by the names of tools." },
            "disabled": list(disabled),
            "notes": list(text()),
        }),
        &[],
    );
    let parameters = [
        query("dialect", json!({ "enum": names, "default": "openai" })),
        query("strict", json!({ "type": "boolean" })),
        query("toolset", text()),
        query("skill", list(text())),
        query("query", text()),
        query("limit", count()),
        query("session_id", text()),
        query("include_unavailable", json!({ "type": "boolean" })),
    ];
    vec![
        (
            "/skills",
            get("list_skills", "catalog", "All skills", &[query("toolset", text())], &with(&ok(&skills), &[400, 503])),
        ),
        (
            "/skills/{id}",
            get(
                "get_skill",
                "catalog",
                "One skill, with its schemas",
                &[id],
                &with(&ok(&reference("schemas", "Skill")), &[404, 405, 503]),
            ),
        ),
        (
            "/tools",
            get(
                "export_tools",
                "catalog",
                "The skills as tools of a model",
                &parameters,
                &with(&ok(&tools), &[400, 404, 503]),
            ),
        ),
    ]
}

fn artifacts() -> Paths {
    let handle = in_path("handle", text(), "The handle in a result's artifacts, percent-encoded or as it is.");
    let range = json!({ "name": "Range", "in": "header", "schema": text(), "description": "One range of bytes.", "example": "bytes=0-1023" });
    // Any type; the first one is for generators of clients, which know no patterns.
    let content = json!({ "application/octet-stream": { "schema": { "type": "string", "format": "binary" } }, "*/*": { "schema": {} } });
    let bytes = |description: &str, headers: Value| json!({ "description": description, "headers": headers, "content": content });
    let own = json!({
        "200": bytes("The content.", json!({})),
        "206": bytes("The range.", json!({ "Content-Range": reference("headers", "ContentRange") })),
    });
    let responses = with(&own, &[404, 416, 502, 503]);
    vec![(
        "/artifacts/{handle}",
        get("read_artifact", "skills", "An artifact, or a range of it", &[handle, range], &responses),
    )]
}

fn questions() -> Paths {
    let content = json!({ "type": "object", "description": "accept: what the question asks for." });
    let mut body =
        record(json!({ "action": { "enum": ["accept", "decline", "cancel"] }, "content": content }), &["content"]);
    body["additionalProperties"] = false.into();
    let own = json!({ "200": json_of("The skill has the answer.", &json!({ "type": "object" })) });
    let answer = json!({
        "operationId": "answer_question",
        "tags": ["skills"],
        "summary": "Answer a question of a running call",
        "parameters": [in_path("request_id", text(), "The id of the question, in its input_required event.")],
        "requestBody": { "required": true, "content": { "application/json": { "schema": body } } },
        "responses": with(&own, &[400, 404, 413, 415, 503]),
    });
    vec![("/questions/{request_id}:answer", json!({ "post": answer }))]
}

fn traces() -> Paths {
    let (optional, time) = (json!({ "type": ["string", "null"] }), json!({ "type": "string", "format": "date-time" }));
    let call = record(
        json!({
            "trace_id": text(), "call_id": text(), "skill_id": text(), "principal": text(), "session_id": optional,
            "time": time, "duration_us": { "type": "integer", "minimum": 0 }, "code": text(), "attempts": count(),
            "repairs": count(), "worker_id": optional,
        }),
        &[],
    );
    let page =
        record(json!({ "gateway": text(), "calls": { "type": "array", "items": call }, "next_cursor": optional }), &[]);
    let events = json!({ "type": "array", "items": { "type": "object" } });
    let trace = record(json!({ "gateway": text(), "events": events, "left_out": count() }), &[]);
    let time = |example: &str| json!({ "type": "string", "description": "A time or an age.", "examples": [example] });
    let parameters = [
        query("skill", text()),
        query("code", json!({ "type": "string", "description": "An error code, or OK." })),
        query("principal", text()),
        query("session", text()),
        query(
            "min_duration",
            json!({ "type": "string", "pattern": "^[0-9]{1,9}([.][0-9]{1,9})?(us|ms|s|m|h|d)$", "examples": ["250ms"] }),
        ),
        query("since", time("15m")),
        query("until", time("2026-01-31T12:00:00Z")),
        query("limit", count()),
        query("cursor", json!({ "type": "string", "description": "next_cursor of the previous page." })),
    ];
    let id = in_path("id", text(), "The X-Trace-Id, or a call's id.");
    let ok = |schema: &Value| json!({ "200": json_of("OK", schema) });
    let (list, one) =
        ("Recorded calls, where AdminService is served", "The events of a trace, where AdminService is served");
    vec![
        ("/traces", get("list_traces", "traces", list, &parameters, &with(&ok(&page), &[400, 404, 503]))),
        ("/traces/{id}", get("get_trace", "traces", one, &[id], &with(&ok(&trace), &[404, 503]))),
    ]
}

fn operations() -> Paths {
    let status = |description: &str, schema: &Value| json_of(description, schema);
    let alive = record(json!({ "status": { "const": "ok" } }), &[]);
    let workers = record(json!({ "up": count(), "known": count() }), &[]);
    let ready = record(
        json!({
            "status": { "enum": ["ready", "draining", "no worker is up"] },
            "workers": workers,
            "skills": count(),
            "in_flight": count(),
        }),
        // A gateway that requires keys returns only the status.
        &["workers", "skills", "in_flight"],
    );
    let is_ready = json!({ "200": status("Calls are served.", &ready), "503": status("Calls are not served, or soon won't be.", &ready) });
    let metrics = json!({ "200": text_of("All metrics.", &["text/plain", "application/openmetrics-text"]) });
    let document = json!({
        "200": json_of("This document.", &json!({ "type": "object" })),
        "304": { "description": "The document has not changed." },
    });
    let summary = "All metrics, as text for Prometheus, or as OpenMetrics text if the client accepts it";
    vec![
        ("/openapi.json", get("openapi", "catalog", "This document", &[], &with(&document, &[503]))),
        ("/metrics", get("metrics", "health", summary, &[], &with(&metrics, &[503]))),
        (
            "/healthz",
            get(
                "live",
                "health",
                "Whether the process is alive",
                &[],
                &with(&json!({ "200": status("It is.", &alive) }), &[]),
            ),
        ),
        ("/readyz", get("ready", "health", "Whether the gateway serves calls", &[], &with(&is_ready, &[]))),
    ]
}
