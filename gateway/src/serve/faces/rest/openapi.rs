//! `GET /openapi.json`: an OpenAPI 3.1 document of the skills there are now, each with its own schemas.
//!
//! - [`calls`]: the paths of calls, and what they take; [`reads`]: those of everything else; [`agent`]: those of the agent,
//!   where one is served
//! - [`responses`]: which answers a path may give; [`components`]: what they hold
//! - [`references`]: a skill's schema as part of the document

use axum::extract::{Request, State};
use axum::http::HeaderValue;
use axum::response::Response;
use openskill_proto::v1::{Skill, SkillStatus};
use serde_json::{Map, Value, json};

use super::documents::{Derived, Document};
use crate::catalog::snapshot::Snapshot;
use crate::gateway::Shard;
use crate::serve::layers::request_context;

mod agent;
mod calls;
mod components;
mod reads;
mod references;
mod responses;

/// The document of one gateway. A program with several has one of the last that was asked.
static DOCUMENT: Derived<Snapshot> = Derived::new();

pub(super) async fn document(State(shard): State<Shard>, request: Request) -> Response {
    let with_agent = shard.gateway.config.agent.is_some();
    let principal = request_context(request.extensions()).principal;
    let snapshot = shard.gateway.catalog.snapshot_for(&principal);
    let make = |snapshot: &Snapshot| {
        let text = build(snapshot.values().map(|entry| &entry.skill), with_agent).to_string();
        Document::new(text.into(), HeaderValue::from_static("application/json"))
    };
    // One that is made for some principal is no other's.
    let document = if principal.sees_all() { DOCUMENT.get(&snapshot, make) } else { make(&snapshot) };
    document.answer(request.headers())
}

fn build<'a>(skills: impl Iterator<Item = &'a Skill>, with_agent: bool) -> Value {
    let (mut paths, mut schemas) = (reads::paths(), components::schemas());
    paths.extend(calls::of_any_skill());
    if with_agent {
        paths.extend(agent::paths());
        schemas.extend(agent::schemas());
    }
    for skill in skills.filter(|skill| skill.status() == SkillStatus::Available) {
        paths.extend(calls::of(skill));
        schemas.extend(calls::schemas_of(skill));
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "openskill",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Skills for AI agents. Every answer to a call has one shape, also the failures.",
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "servers": [{ "url": "/" }],
        // Either: a gateway may ask for keys, and need not.
        "security": [{}, { "key": [] }],
        "tags": tags(with_agent),
        "paths": paths,
        "components": {
            "securitySchemes": { "key": { "type": "http", "scheme": "bearer" } },
            "schemas": schemas,
            "responses": responses::all(),
            "parameters": components::parameters(),
            "headers": components::headers(),
        },
    })
}

fn tags(with_agent: bool) -> Vec<Map<String, Value>> {
    let names = ["skills", "catalog", "agent", "traces", "health"];
    let served = names.into_iter().filter(|name| with_agent || *name != "agent");
    served.map(|name| Map::from_iter([("name".to_owned(), name.into())])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn skill() -> Skill {
        let mut skill = Skill {
            id: "tree".to_owned(),
            input_schema_json:
                r##"{"$id": "urn:tree", "type": "object", "properties": {"root": {"$ref": "#/$defs/node"}},
                "$defs": {"node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}}}"##
                    .to_owned(),
            ..Skill::default()
        };
        skill.set_status(SkillStatus::Available);
        skill
    }

    /// Every reference in a value.
    fn references<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
        match value {
            Value::Object(fields) => {
                found.extend(fields.get("$ref").and_then(Value::as_str));
                fields.values().for_each(|it| references(it, found));
            }
            Value::Array(items) => items.iter().for_each(|it| references(it, found)),
            _ => {}
        }
    }

    #[test]
    fn every_reference_leads_to_something_in_the_document() {
        for with_agent in [false, true] {
            let document = build([skill()].iter(), with_agent);
            let mut found = Vec::new();
            references(&document, &mut found);
            assert!(found.contains(&"#/components/schemas/tree.input/$defs/node"), "{found:?}");
            for reference in found {
                let target = reference.strip_prefix('#').and_then(|it| document.pointer(it));
                assert!(target.is_some(), "{reference}");
            }
        }
    }

    #[test]
    fn operations_have_ids_of_their_own_and_every_answer_has_a_description() {
        let document = build([skill()].iter(), true);
        let mut ids = std::collections::BTreeSet::new();
        for (path, item) in document["paths"].as_object().unwrap() {
            for (method, operation) in item.as_object().unwrap() {
                let id = operation["operationId"].as_str().unwrap();
                assert!(ids.insert(id), "{id}");
                for name in path.split(['{', '}']).skip(1).step_by(2) {
                    let parameters = operation["parameters"].as_array().unwrap();
                    assert!(parameters.iter().any(|it| it["name"] == name), "{method} {path} has no {name}");
                }
                for (status, response) in operation["responses"].as_object().unwrap() {
                    let is_described = response["description"].is_string() || response["$ref"].is_string();
                    assert!(is_described, "{method} {path} {status}");
                }
            }
        }
    }

    #[test]
    fn a_call_takes_input_or_a_models_call_and_answers_in_either_envelope() {
        let document = build([skill()].iter(), false);
        let call = &document["paths"]["/skills/tree:invoke"]["post"];
        let body = &call["requestBody"]["content"]["application/json"]["schema"];
        let validator = jsonschema::options().build(&json!({
            "$ref": "#/it", "it": body, "components": document["components"]
        }));
        let validator = validator.unwrap();
        for (body, expected) in [
            (json!({"input": {"root": {"next": {}}}}), true),
            (json!({"call": "<tree>{}</tree>", "envelope": "status"}), true),
            (json!({"input": {}, "call": "x"}), false),
            (json!({"input": {"root": 1}}), false),
            (json!({"inputs": {}}), false),
        ] {
            assert_eq!(validator.is_valid(&body), expected, "{body}");
        }
    }
}
