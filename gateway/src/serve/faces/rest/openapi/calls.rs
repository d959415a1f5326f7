//! Describes the call operations: those of each skill, and those of a raw call, which names its skill.

use openskill_proto::v1::Skill;
use serde_json::{Map, Value, json};

use super::components::{either, id, reference, schema, success, type_schemas};
use super::description::{Description, json_of, text_of};
use super::references::moved;
use crate::arguments::{Definition, Policy};

/// The verb at the end of a path.
#[derive(Clone, Copy)]
enum Verb {
    Invoke,
    Stream,
    Prepare,
}

const VERBS: [(&str, Verb); 3] = [("invoke", Verb::Invoke), ("stream", Verb::Stream), ("prepare", Verb::Prepare)];

/// Returns the paths of a skill.
pub(super) fn skill_paths(skill: &Skill, definition: &Definition) -> Map<String, Value> {
    let may_be_absent = definition.prepare("{}", Policy::Strict).is_ok();
    let paths = VERBS.map(|(name, verb)| {
        let summary = match verb {
            Verb::Invoke => skill.id.clone(),
            Verb::Stream => format!("Call {} and stream its events", skill.id),
            Verb::Prepare => format!("Prepare arguments for {} without running it", skill.id),
        };
        let examples: Map<String, Value> = (1..)
            .zip(&skill.example_inputs_json)
            .map(|(number, text)| (format!("example-{number}"), json!({ "value": { "input": parse(text) } })))
            .collect();
        let input = schema(&format!("{}.input", skill.id));
        let mut content = json!({ "schema": skill_body(&input, may_be_absent) });
        if !examples.is_empty() {
            content["examples"] = examples.into();
        }
        let path = format!("/skills/{}:{name}", skill.id);
        let operation = describe_call(verb, &format!("{}_{name}", skill.id), &summary, &envelopes(&skill.id));
        let operation = operation.set("description", skill.description.as_str()).body(content).into_json(&path, false);
        (path, json!({ "post": operation }))
    });
    paths.into_iter().collect()
}

/// Returns the schemas that those paths refer to.
pub(super) fn skill_schemas(skill: &Skill) -> [(String, Value); 4] {
    let input = parse(&skill.input_schema_json);
    let input = if input == json!({}) { json!({ "type": "object" }) } else { input };
    let [input, output] = [("input", input), ("output", parse(&skill.output_schema_json))].map(|(which, schema)| {
        let name = format!("{}.{which}", skill.id);
        let schema = moved(schema, &format!("#/components/schemas/{name}"));
        (name, schema)
    });
    let [result, status] = envelopes(&skill.id);
    let [in_result, in_status] = success(&schema(&output.0));
    [input, output, (result, in_result), (status, in_status)]
}

/// Returns the names of a skill's result schemas, one per envelope.
fn envelopes(skill_id: &str) -> [String; 2] {
    ["result", "status"].map(|which| format!("{skill_id}.{which}"))
}

pub(crate) fn invoke() -> Description {
    raw(Verb::Invoke, "invoke_raw", "Run a model's raw call, which names its skill")
}

pub(crate) fn stream() -> Description {
    raw(Verb::Stream, "stream_raw", "Run a model's raw call and stream its events")
}

pub(crate) fn prepare() -> Description {
    raw(Verb::Prepare, "prepare_raw", "Prepare the arguments of a model's raw call without running it")
}

/// Describes a raw call.
fn raw(verb: Verb, id: &str, summary: &str) -> Description {
    let envelopes = ["SkillResult", "StatusResult"].map(str::to_owned);
    describe_call(verb, id, summary, &envelopes).body(json!({ "schema": raw_body() }))
}

fn parse(schema: &str) -> Value {
    serde_json::from_str(schema).unwrap_or_else(|_| json!({}))
}

/// Describes the request body of a skill's call: `input`, which may be absent if the skill accepts `{}`, or a
/// model's call.
fn skill_body(input: &Value, may_be_absent: bool) -> Value {
    let mut schema = body();
    schema["properties"]["input"] = input.clone();
    schema["description"] = json!("Give input or call, not both.");
    // Not `oneOf`, which code generators turn into separate types.
    schema["if"] = json!({ "required": ["call"] });
    schema["then"] = json!({ "not": { "required": ["input"] } });
    if !may_be_absent {
        schema["else"] = json!({ "required": ["input"] });
    }
    schema
}

/// Describes the request body of a call that names its skill.
fn raw_body() -> Value {
    let mut schema = body();
    schema["required"] = json!(["call"]);
    schema
}

fn body() -> Value {
    let call = json!({
        "description": "A model's call as it wrote it: text, or a tool-call object. It names its skill unless the path does.",
        "oneOf": type_schemas(&["string", "object"]),
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
            "interactive": { "type": "boolean", "default": false, "description": "Whether the caller answers questions (:stream only)." },
        },
    })
}

/// Describes a call without its body. `envelopes` are the schema names of a successful call.
fn describe_call(verb: Verb, id: &str, summary: &str, envelopes: &[String; 2]) -> Description {
    let headers = |names: &[&str]| names.iter().map(|name| reference("parameters", name)).collect::<Vec<_>>();
    let call = Description::new("skills", id, summary);
    match verb {
        Verb::Invoke => call
            .set("parameters", headers(&["TraceId", "TimeoutMs", "IdempotencyKey"]))
            .response(200, json_of("The skill's answer, in the envelope of the request.", &either(envelopes)))
            .failures(&[400, 404, 409, 429, 431, 500, 502, 503, 504]),
        Verb::Stream => {
            let description = "Server-sent events: accepted first, result last; progress, log, partial, artifact and \
                               input_required between. A failure of the call is its result.";
            call.set("parameters", headers(&["TraceId", "TimeoutMs", "IdempotencyKey"]))
                .response(200, text_of(description, &["text/event-stream"]))
                .failures(&[429, 431, 503])
        }
        Verb::Prepare => {
            let refused = either(&["PreparedCall", "FailedResult", "FailedStatus"]);
            [
                (400, "The arguments do not match the schema."),
                (404, "There is no such skill."),
                (500, "openskill failed."),
                (503, "The skill cannot run now."),
                (504, "The arguments were not read in time."),
            ]
            .into_iter()
            .fold(call, |call, (status, why)| call.response(status, json_of(why, &refused)))
            .set("parameters", headers(&["TraceId", "TimeoutMs"]))
            .response(200, json_of("The arguments after repairs. Nothing ran.", &schema("PreparedCall")))
            .failures(&[431])
        }
    }
}
