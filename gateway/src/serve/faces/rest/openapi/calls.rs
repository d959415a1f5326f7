//! The paths of calls: of each skill, and of a model's raw call, which names its skill.

use openskill_proto::v1::Skill;
use serde_json::{Map, Value, json};

use super::components::{either, id, one_of, reference, success};
use super::references::moved;
use super::responses::{json_of, text_of, with};
use crate::arguments::{Definition, Policy};

/// What a path does with a call.
#[derive(Clone, Copy)]
enum Verb {
    Invoke,
    Stream,
    Prepare,
}

const VERBS: [(&str, Verb); 3] = [("invoke", Verb::Invoke), ("stream", Verb::Stream), ("prepare", Verb::Prepare)];

/// The paths of a skill.
pub(super) fn of(skill: &Skill, definition: &Definition) -> Map<String, Value> {
    let may_be_absent = definition.prepare("{}", Policy::Strict).is_ok();
    let paths = VERBS.map(|(name, verb)| {
        let summary = match verb {
            Verb::Invoke => skill.id.clone(),
            Verb::Stream => format!("{} with events", skill.id),
            Verb::Prepare => format!("The arguments that {} would get; nothing runs", skill.id),
        };
        let examples: Map<String, Value> = (1..)
            .zip(&skill.example_inputs_json)
            .map(|(number, text)| (format!("example-{number}"), json!({ "value": { "input": parse(text) } })))
            .collect();
        let input = reference("schemas", &format!("{}.input", skill.id));
        let mut content = json!({ "schema": body_of(&input, may_be_absent) });
        if !examples.is_empty() {
            content["examples"] = examples.into();
        }
        let operation = json!({
            "tags": ["skills"],
            "operationId": format!("{}_{name}", skill.id),
            "summary": summary,
            "description": skill.description,
            "parameters": headers(verb),
            "requestBody": { "required": true, "content": { "application/json": content } },
            "responses": answers(verb, &envelopes(&skill.id)),
        });
        (format!("/skills/{}:{name}", skill.id), json!({ "post": operation }))
    });
    paths.into_iter().collect()
}

/// The schemas that those paths refer to.
pub(super) fn schemas_of(skill: &Skill) -> [(String, Value); 4] {
    let input = parse(&skill.input_schema_json);
    let input = if input == json!({}) { json!({ "type": "object" }) } else { input };
    let [input, output] = [("input", input), ("output", parse(&skill.output_schema_json))].map(|(which, schema)| {
        let name = format!("{}.{which}", skill.id);
        let schema = moved(schema, &format!("#/components/schemas/{name}"));
        (name, schema)
    });
    let [result, status] = envelopes(&skill.id);
    let [in_result, in_status] = success(&reference("schemas", &output.0));
    [input, output, (result, in_result), (status, in_status)]
}

/// The names of a skill's answers in both envelopes.
fn envelopes(skill_id: &str) -> [String; 2] {
    ["result", "status"].map(|which| format!("{skill_id}.{which}"))
}

/// The paths of raw calls.
pub(super) fn of_any_skill() -> Map<String, Value> {
    let paths = VERBS.map(|(name, verb)| {
        let summary = match verb {
            Verb::Invoke => "A model's raw call, which names its skill",
            Verb::Stream => "A model's raw call, with events",
            Verb::Prepare => "The arguments that a model's raw call would run with; nothing runs",
        };
        let operation = json!({
            "tags": ["skills"],
            "operationId": format!("{name}_raw"),
            "summary": summary,
            "parameters": headers(verb),
            "requestBody": { "required": true, "content": { "application/json": { "schema": raw_body() } } },
            "responses": answers(verb, &["SkillResult", "StatusResult"].map(str::to_owned)),
        });
        (format!("/skills:{name}"), json!({ "post": operation }))
    });
    paths.into_iter().collect()
}

fn parse(schema: &str) -> Value {
    serde_json::from_str(schema).unwrap_or_else(|_| json!({}))
}

fn headers(verb: Verb) -> Value {
    let own = |names: &[&str]| names.iter().map(|name| reference("parameters", name)).collect::<Vec<_>>();
    match verb {
        Verb::Invoke | Verb::Stream => own(&["TraceId", "TimeoutMs", "IdempotencyKey"]),
        Verb::Prepare => own(&["TraceId", "TimeoutMs"]),
    }
    .into()
}

/// What a call of a skill sends: `input`, which may be absent if the skill takes `{}`, or a model's call.
fn body_of(input: &Value, may_be_absent: bool) -> Value {
    let mut schema = body();
    schema["properties"]["input"] = input.clone();
    schema["description"] = json!("Give input or call, not both.");
    // Not oneOf: generators read that as types of their own.
    schema["if"] = json!({ "required": ["call"] });
    schema["then"] = json!({ "not": { "required": ["input"] } });
    if !may_be_absent {
        schema["else"] = json!({ "required": ["input"] });
    }
    schema
}

/// What a call sends that names its skill.
fn raw_body() -> Value {
    let mut schema = body();
    schema["required"] = json!(["call"]);
    schema
}

fn body() -> Value {
    let call = json!({
        "description": "A model's call as it wrote it: text, or a tool-call object. It names its skill unless the path does.",
        "oneOf": one_of(&["string", "object"]),
    });
    json!({
        "type": "object",
        "additionalProperties": false,
        "properties": {
            "call": call,
            "call_id": id(),
            "session_id": id(),
            "idempotency_key": {
                "type": "string",
                "maxLength": 128,
                "pattern": "^[ -~]*$",
                "description": "A second call with the same key and arguments gets the first one's result.",
            },
            "argument_policy": { "enum": ["repair", "strict"], "default": "repair" },
            "timeout_ms": { "type": "integer", "minimum": 0, "maximum": 3_600_000, "description": "0 means unset." },
            "envelope": { "enum": ["normalized", "status"], "default": "normalized" },
            "interactive": { "type": "boolean", "default": false, "description": "You answer questions (:stream only)." },
        },
    })
}

/// `envelopes`: the names of what a call returns that succeeded.
fn answers(verb: Verb, envelopes: &[String; 2]) -> Value {
    const FAILURES: [u16; 12] = [400, 403, 404, 409, 413, 415, 429, 431, 500, 502, 503, 504];
    match verb {
        Verb::Invoke => {
            let schema = either(envelopes);
            with(&json!({ "200": json_of("The skill's answer, in the envelope of the request.", &schema) }), &FAILURES)
        }
        Verb::Stream => {
            let description = "Server-sent events: accepted first, result last; progress, log, partial, artifact and \
                               input_required between. A failure of the call is its result.";
            with(&json!({ "200": text_of(description, &["text/event-stream"]) }), &[413, 415, 429, 431, 503])
        }
        Verb::Prepare => {
            let prepared = reference("schemas", "PreparedCall");
            let mut answers = with(&json!({}), &[413, 415, 431]);
            answers["200"] = json_of("The arguments after repairs. Nothing ran.", &prepared);
            let refused = either(&["PreparedCall", "FailedResult", "FailedStatus"]);
            for (status, why) in [
                ("400", "The arguments do not fit."),
                ("404", "There is no such skill."),
                ("500", "openskill failed."),
                ("503", "The skill cannot run now."),
                ("504", "The arguments were not read in time."),
            ] {
                answers[status] = json_of(why, &refused);
            }
            answers
        }
    }
}
