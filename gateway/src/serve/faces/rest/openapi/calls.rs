//! Describes the calls of each skill. They are like those of a raw call, which names its skill.

use openskill_proto::v1::Skill;
use serde_json::{Map, Value, json};

use super::references::moved;
use super::template::{FRAME, describe};
use crate::arguments::{Definition, Policy};

/// Returns the paths of a skill.
pub(super) fn skill_paths(skill: &Skill, definition: &Definition) -> Map<String, Value> {
    let id = &skill.id;
    let may_be_absent = definition.prepare("{}", Policy::Strict).is_ok();
    let verbs = [
        ("invoke", id.clone()),
        ("stream", format!("Call {id} and stream its events")),
        ("prepare", format!("Prepare arguments for {id} without running it")),
    ];
    let paths = verbs.map(|(verb, summary)| {
        let mut call = describe(&format!("/skills:{verb}"), "post", false).unwrap_or_default();
        call["operationId"] = format!("{id}_{verb}").into();
        call["summary"] = summary.into();
        call["description"] = skill.description.as_str().into();
        if verb == "invoke" {
            let envelopes = ["result", "status"].map(|which| schema(&format!("{id}.{which}")));
            call["responses"]["200"]["content"]["application/json"]["schema"] = json!({ "oneOf": envelopes });
        }
        let content = &mut call["requestBody"]["content"]["application/json"];
        accept_input(&mut content["schema"], &schema(&format!("{id}.input")), may_be_absent);
        let examples: Map<String, Value> = (1..)
            .zip(&skill.example_inputs_json)
            .map(|(number, text)| (format!("example-{number}"), json!({ "value": { "input": parse(text) } })))
            .collect();
        if !examples.is_empty() {
            content["examples"] = examples.into();
        }
        (format!("/skills/{id}:{verb}"), json!({ "post": call }))
    });
    paths.into_iter().collect()
}

/// Changes the body of a raw call to that of a skill's call: `input`, which may be absent if the skill accepts `{}`,
/// or a model's call.
fn accept_input(body: &mut Value, input: &Value, may_be_absent: bool) {
    if let Some(fields) = body.as_object_mut() {
        fields.shift_remove("required");
    }
    body["properties"]["input"] = input.clone();
    body["description"] = json!("Give input or call, not both.");
    // Not `oneOf`, which code generators turn into separate types.
    body["if"] = json!({ "required": ["call"] });
    body["then"] = json!({ "not": { "required": ["input"] } });
    if !may_be_absent {
        body["else"] = json!({ "required": ["input"] });
    }
}

/// Returns the schemas that those paths refer to.
pub(super) fn skill_schemas(skill: &Skill) -> impl Iterator<Item = (String, Value)> + use<> {
    let name = |which: &str| format!("{}.{which}", skill.id);
    let input = parse(&skill.input_schema_json);
    let input = if input == json!({}) { json!({ "type": "object" }) } else { input };
    let own = [("input", input), ("output", parse(&skill.output_schema_json))].map(|(which, schema)| {
        let name = name(which);
        let schema = moved(schema, &format!("#/components/schemas/{name}"));
        (name, schema)
    });
    let envelopes = [("result", "SkillResult"), ("status", "StatusResult")].map(|(which, common)| {
        let mut envelope = FRAME["components"]["schemas"][common].clone();
        envelope["properties"]["data"] = schema(&name("output"));
        (name(which), envelope)
    });
    own.into_iter().chain(envelopes)
}

/// Builds a reference to a schema.
fn schema(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

fn parse(schema: &str) -> Value {
    serde_json::from_str(schema).unwrap_or_else(|_| json!({}))
}
