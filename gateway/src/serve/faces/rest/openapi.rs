//! `GET /openapi.json`: an OpenAPI 3.1 document of the skills there are now, each with its own schemas.
//! `agent`: the paths of the agent, where one is served.

use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue};
use axum::response::Response;
use openskill_proto::v1::{Dialect, Skill, SkillStatus};
use serde_json::{Map, Value, json};

use self::components::{headers, parameters, reference, schemas};
use super::documents::{Derived, Document};
use crate::catalog::snapshot::Snapshot;
use crate::gateway::Shard;

mod agent;
mod components;

/// The document of one gateway. A program with several has one of the last that was asked.
static DOCUMENT: Derived<Snapshot> = Derived::new();

pub(super) async fn document(State(shard): State<Shard>, headers: HeaderMap) -> Response {
    let with_agent = shard.gateway.config.agent.is_some();
    let document = DOCUMENT.get(&shard.gateway.catalog.snapshot(), |snapshot| {
        let text = build(snapshot.values().map(|entry| &entry.skill), with_agent).to_string();
        Document::new(text.into(), HeaderValue::from_static("application/json"))
    });
    document.answer(&headers)
}

fn build<'a>(skills: impl Iterator<Item = &'a Skill>, with_agent: bool) -> Value {
    let (mut paths, mut schemas) = (fixed_paths(), schemas());
    if with_agent {
        paths.extend(agent::paths());
        schemas.extend(agent::schemas());
    }
    for skill in skills.filter(|skill| skill.status() == SkillStatus::Available) {
        for (verb, streamed) in [("invoke", false), ("stream", true)] {
            paths.insert(format!("/skills/{}:{verb}", skill.id), json!({ "post": call(skill, verb, streamed) }));
        }
        paths.insert(format!("/skills/{}:prepare", skill.id), json!({ "post": preparation(skill) }));
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "openskill",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Skills for AI agents. Every answer to a call has one shape, also the failures.",
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "jsonSchemaDialect": "https://json-schema.org/draft/2020-12/schema",
        "tags": [{ "name": "skills" }, { "name": "catalog" }, { "name": "agent" }, { "name": "traces" }, { "name": "health" }],
        "paths": paths,
        "components": { "schemas": schemas, "parameters": parameters(), "headers": headers() },
    })
}

fn call(skill: &Skill, verb: &str, streamed: bool) -> Value {
    let schema = |text: &str| serde_json::from_str::<Value>(text).unwrap_or_else(|_| json!({}));
    let mut input = schema(&skill.input_schema_json);
    if input == json!({}) {
        input = json!({ "type": "object" });
    }
    let mut output = schema(&skill.output_schema_json);
    for (schema, which) in [(&mut input, "input"), (&mut output, "output")] {
        // References in a skill's schema are relative to that schema, not to this document.
        if let Some(schema) = schema.as_object_mut() {
            schema.entry("$id").or_insert_with(|| format!("/skills/{}/{verb}/{which}", skill.id).into());
        }
    }
    let examples: Map<String, Value> = skill
        .example_inputs_json
        .iter()
        .enumerate()
        .map(|(number, text)| (format!("example-{}", number + 1), json!({ "value": { "input": schema(text) } })))
        .collect();
    json!({
        "tags": ["skills"],
        "operationId": format!("{}_{verb}", skill.id),
        "summary": if streamed { format!("{} with events", skill.id) } else { skill.id.clone() },
        "description": skill.description,
        "parameters": [reference("parameters", "TraceId"), reference("parameters", "TimeoutMs")],
        "requestBody": {
            "required": true,
            "content": { "application/json": { "schema": request(&input), "examples": examples } },
        },
        "responses": responses(&output, streamed),
    })
}

/// What a call of the skill would run with.
fn preparation(skill: &Skill) -> Value {
    let mut call = call(skill, "prepare", false);
    call["summary"] = format!("The arguments that {} would get; nothing runs", skill.id).into();
    call["responses"] = prepared();
    call
}

fn prepared() -> Value {
    let content = json!({ "application/json": { "schema": reference("schemas", "PreparedCall") } });
    json!({
        "200": { "description": "The arguments after repairs. Nothing ran.", "content": content },
        "default": { "description": "Why the call would be refused, with its code.", "content": content },
    })
}

fn request(input: &Value) -> Value {
    json!({
        "type": "object",
        "properties": {
            "input": input,
            "call": { "description": "In place of input: a model's call as it wrote it, as text or as an object." },
            "call_id": { "type": "string", "maxLength": 128 },
            "session_id": { "type": "string", "maxLength": 128 },
            "idempotency_key": {
                "type": "string",
                "maxLength": 128,
                "description": "A second call with the same key and arguments gets the first one's result. \
                                Also as the header Idempotency-Key.",
            },
            "argument_policy": { "enum": ["repair", "strict"], "default": "repair" },
            "timeout_ms": { "type": "integer", "minimum": 0 },
            "envelope": { "enum": ["normalized", "status"], "default": "normalized" },
            "interactive": { "type": "boolean", "default": false, "description": "You answer questions (:stream only)." },
        },
        "additionalProperties": false,
    })
}

fn responses(data: &Value, streamed: bool) -> Value {
    let headers = json!({ "X-Trace-Id": reference("headers", "TraceId") });
    let success = if streamed {
        let description = "Server-sent events: accepted first, result last; progress, log, partial, artifact and input_required between.";
        json!({ "description": description, "headers": headers, "content": { "text/event-stream": {} } })
    } else {
        let schema = json!({ "allOf": [reference("schemas", "SkillResult"), { "properties": { "data": data } }] });
        json!({ "description": "The skill's answer.", "headers": headers, "content": { "application/json": { "schema": schema } } })
    };
    let failure = json!({
        "description": "A failure, with its code.",
        "headers": headers,
        "content": { "application/json": { "schema": reference("schemas", "SkillResult") } },
    });
    json!({ "200": success, "default": failure })
}

fn fixed_paths() -> Map<String, Value> {
    let get = |id: &str, tag: &str, summary: &str, parameters: Value| {
        json!({ "get": {
            "operationId": id,
            "tags": [tag],
            "summary": summary,
            "parameters": parameters,
            "responses": { "200": { "description": "OK", "content": { "application/json": {} } } },
        } })
    };
    let toolset = json!([{ "name": "toolset", "in": "query", "schema": { "type": "string" } }]);
    let parameter = |name: &str, schema: Value| json!({ "name": name, "in": "query", "schema": schema });
    let tools = json!([
        parameter("dialect", json!({ "enum": Dialect::NAMES.map(|(name, _)| name), "default": "openai" })),
        parameter("strict", json!({ "type": "boolean" })),
        parameter("toolset", json!({ "type": "string" })),
        parameter("skill", json!({ "type": "array", "items": { "type": "string" } })),
        parameter("query", json!({ "type": "string" })),
        parameter("limit", json!({ "type": "integer", "minimum": 0 })),
        parameter("include_unavailable", json!({ "type": "boolean" })),
    ]);
    let id = json!([{ "name": "id", "in": "path", "required": true, "schema": { "type": "string" } }]);
    let handle = json!([{ "name": "handle", "in": "path", "required": true, "schema": { "type": "string" } }]);
    let trace = json!([{ "name": "id", "in": "path", "required": true, "schema": { "type": "string" },
        "description": "The X-Trace-Id, or a call's id." }]);
    let traces = json!([
        parameter("skill", json!({ "type": "string" })),
        parameter("code", json!({ "type": "string", "description": "An error code, or OK." })),
        parameter("principal", json!({ "type": "string" })),
        parameter("session", json!({ "type": "string" })),
        parameter("min_duration", json!({ "type": "string", "examples": ["250ms"] })),
        parameter("since", json!({ "type": "string", "description": "A time or an age.", "examples": ["15m"] })),
        parameter("until", json!({ "type": "string", "examples": ["2026-01-31T12:00:00Z"] })),
        parameter("limit", json!({ "type": "integer", "minimum": 0, "maximum": 1000, "default": 50 })),
        parameter("cursor", json!({ "type": "string", "description": "next_cursor of the previous page." })),
    ]);
    let mut one_skill = get("get_skill", "catalog", "One skill, with its schemas", id);
    one_skill["get"]["responses"]["200"]["content"]["application/json"]["schema"] = reference("schemas", "Skill");
    [
        ("/skills", get("list_skills", "catalog", "All skills", toolset)),
        ("/skills/{id}", one_skill),
        ("/tools", get("export_tools", "catalog", "The skills as tools of a model", tools)),
        ("/artifacts/{handle}", get("read_artifact", "skills", "An artifact, or a range of it", handle)),
        ("/traces", get("list_traces", "traces", "Recorded calls, where AdminService is served", traces)),
        ("/traces/{id}", get("get_trace", "traces", "The events of a trace, where AdminService is served", trace)),
        (
            "/metrics",
            get(
                "metrics",
                "health",
                "All metrics, as text for Prometheus, or as OpenMetrics text if the client accepts it",
                json!([]),
            ),
        ),
        ("/healthz", get("live", "health", "Whether the process is alive", json!([]))),
        ("/readyz", get("ready", "health", "Whether the gateway serves calls (503 if not)", json!([]))),
    ]
    .map(|(path, item)| (path.to_owned(), item))
    .into_iter()
    .chain([
        ("/skills:invoke".to_owned(), json!({ "post": raw_call() })),
        ("/skills:prepare".to_owned(), json!({ "post": raw_preparation() })),
        ("/questions/{request_id}:answer".to_owned(), json!({ "post": answer() })),
    ])
    .collect()
}

/// A call that names its skill itself.
fn raw_call() -> Value {
    let body = json!({
        "type": "object",
        "properties": { "call": { "description": "A model's call as it wrote it, as text or as an object." } },
        "required": ["call"],
    });
    json!({
        "tags": ["skills"],
        "operationId": "invoke_raw",
        "summary": "A model's raw call, which names its skill",
        "parameters": [reference("parameters", "TraceId"), reference("parameters", "TimeoutMs")],
        "requestBody": { "required": true, "content": { "application/json": { "schema": body } } },
        "responses": responses(&json!({}), false),
    })
}

/// What such a call would run with.
fn raw_preparation() -> Value {
    let mut call = raw_call();
    call["operationId"] = "prepare_raw".into();
    call["summary"] = "The arguments that a model's raw call would run with; nothing runs".into();
    call["responses"] = prepared();
    call
}

/// The answer to a question of a call that runs.
fn answer() -> Value {
    let body = json!({
        "type": "object",
        "properties": { "action": { "enum": ["accept", "decline", "cancel"] }, "content": { "type": "object" } },
        "required": ["action"],
        "additionalProperties": false,
    });
    let id = json!({ "name": "request_id", "in": "path", "required": true, "schema": { "type": "string" } });
    json!({
        "tags": ["skills"],
        "operationId": "answer_question",
        "summary": "Answer a question of a running call",
        "parameters": [id],
        "requestBody": { "required": true, "content": { "application/json": { "schema": body } } },
        "responses": { "200": { "description": "The skill has the answer." }, "default": { "description": "It was refused." } },
    })
}
