//! `GET /openapi.json`: an OpenAPI 3.1 document of the current skills, each with its own schemas.
//!
//! `paths.json` describes the operations, and `document.json` and `agent_schemas.json` what they refer to. [`calls`]
//! derives the calls of each skill from those of raw calls, and [`references`] embeds its schemas. [`template`] reads
//! these files.

use axum::extract::Request;
use axum::http::HeaderValue;
use axum::response::Response;
use openskill_proto::v1::{Skill, SkillStatus};
use serde_json::{Map, Value};

use super::documents::{Derived, HttpDocument};
use crate::arguments::Definition;
use crate::catalog::snapshot::Snapshot;
use crate::gateway::Shard;
use crate::serve::layers::request_context;

mod calls;
mod references;
mod template;

pub(crate) use template::describe;

/// The cached document. If a process runs several gateways, only the last one that was requested.
static DOCUMENT: Derived<Snapshot> = Derived::new();

/// Responds with the document. `paths` returns the paths that don't belong to a skill, with or without the agent's.
pub(crate) fn document(shard: &Shard, request: &Request, paths: fn(bool) -> Map<String, Value>) -> Response {
    let with_agent = shard.gateway.config.agent.is_some();
    let principal = request_context(request.extensions()).principal;
    let snapshot = shard.gateway.catalog.snapshot_for(&principal);
    let make = |snapshot: &Snapshot| {
        let skills = snapshot.values().map(|entry| (&entry.skill, &*entry.definition));
        let text = build(skills, paths(with_agent), with_agent).to_string();
        HttpDocument::new(text.into(), HeaderValue::from_static("application/json"))
    };
    // Only the document with all skills is cached.
    let document = if principal.sees_all() { DOCUMENT.get(&snapshot, make) } else { make(&snapshot) };
    document.answer(request.headers())
}

fn build<'a>(
    skills: impl Iterator<Item = (&'a Skill, &'a Definition)>,
    mut paths: Map<String, Value>,
    with_agent: bool,
) -> Value {
    let mut document = template::FRAME.clone();
    let schemas = &mut document["components"]["schemas"];
    if with_agent && let Value::Object(own) = template::parse(include_str!("openapi/agent_schemas.json")) {
        own.into_iter().for_each(|(name, schema)| schemas[name] = schema);
    }
    for (skill, definition) in skills.filter(|(skill, _)| skill.status() == SkillStatus::Available) {
        paths.extend(calls::skill_paths(skill, definition));
        calls::skill_schemas(skill).for_each(|(name, schema)| schemas[name] = schema);
    }
    if let Some(tags) = document["tags"].as_array_mut() {
        tags.retain(|it| with_agent || it["name"] != "agent");
    }
    document["info"]["version"] = env!("CARGO_PKG_VERSION").into();
    document["paths"] = paths.into();
    document
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::template::PATHS;
    use super::*;
    use crate::arguments::Rules;
    use crate::serve::operations::paths;

    fn skill() -> Skill {
        let mut skill = Skill {
            id: "tree".to_owned(),
            input_schema_json:
                r##"{"$id": "urn:tree", "type": "object", "required": ["root"], "properties": {"root": {"$ref": "#/$defs/node"}},
                "$defs": {"node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}}}"##
                    .to_owned(),
            ..Skill::default()
        };
        skill.set_status(SkillStatus::Available);
        skill
    }

    fn document(with_agent: bool) -> Value {
        let skill = skill();
        let definition = Definition::compile(&skill.input_schema_json, Rules::default(), &[]).unwrap();
        build([(&skill, &definition)].into_iter(), paths(with_agent), with_agent)
    }

    /// Collects every reference in a value.
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
            let document = document(with_agent);
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
    fn the_document_has_all_that_it_describes_and_the_names_of_the_tables() {
        let document = document(true);
        for (path, item) in PATHS.as_object().unwrap() {
            for (method, _) in item.as_object().unwrap() {
                assert!(document["paths"][path][method].is_object(), "no operation has {method} {path}");
            }
        }
        let codes: Vec<_> = openskill_proto::error::TABLE.iter().map(|row| row.code.as_str_name()).collect();
        for name in ["SkillError", "StatusError"] {
            assert_eq!(document["components"]["schemas"][name]["properties"]["code"]["enum"], json!(codes));
        }
        let dialects = openskill_proto::v1::Dialect::NAMES.map(|(name, _)| name);
        let tools = &document["paths"]["/tools"]["get"];
        assert_eq!(tools["parameters"][0]["schema"]["enum"], json!(dialects));
        let listed = &tools["responses"]["200"]["content"]["application/json"]["schema"]["properties"];
        assert_eq!(listed["dialect"]["enum"], json!(dialects));
    }

    #[test]
    fn operations_have_ids_of_their_own_and_every_answer_has_a_description() {
        let document = document(true);
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

    /// Whether an operation accepts a body.
    fn takes(document: &Value, path: &str, body: &Value) -> bool {
        let schema = &document["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"];
        let schema = json!({ "allOf": [schema], "components": document["components"] });
        jsonschema::options().build(&schema).unwrap().is_valid(body)
    }

    #[test]
    fn a_call_takes_input_or_a_models_call_and_neither_where_nothing_is_required() {
        let mut document = document(false);
        for (body, expected) in [
            (json!({"input": {"root": {"next": {}}}}), true),
            (json!({"call": "<tree>{}</tree>", "envelope": "status"}), true),
            (json!({"call": {"name": "tree"}, "timeout_ms": 15000.0}), true),
            (json!({"input": {"root": {}}, "call": "x"}), false),
            (json!({"input": {"root": 1}}), false),
            (json!({"input": {}}), false),
            (json!({"inputs": {}}), false),
            (json!({}), false),
        ] {
            assert_eq!(takes(&document, "/skills/tree:invoke", &body), expected, "{body}");
            assert_eq!(takes(&document, "/skills/tree:prepare", &body), expected, "{body}");
        }
        let free = Definition::without_schema(Rules::default());
        document = build([(&skill(), &free)].into_iter(), paths(false), false);
        assert!(takes(&document, "/skills/tree:invoke", &json!({})));
    }

    #[test]
    fn only_a_message_begins_a_conversation() {
        let document = document(true);
        for (body, expected) in [
            (json!({"message": "hi"}), true),
            (json!({"conversation_id": "", "message": {"text": "hi", "limits": {"max_tokens": 5}}}), true),
            (json!({"conversation_id": "c", "cancel": {}}), true),
            (json!({"conversation_id": "c", "decision": {"request_id": "r", "decision": "deny"}}), true),
            (json!({"cancel": {}}), false),
            (json!({"answers": {"request_id": "r"}}), false),
            (json!({"decision": {"request_id": "r", "decision": "deny"}}), false),
            (json!({"conversation_id": "c", "message": "hi", "cancel": {}}), false),
            (json!({}), false),
        ] {
            assert_eq!(takes(&document, "/agent/chat", &body), expected, "{body}");
        }
    }

    /// Collects constructs with which client generators fail or omit a response: combined schemas, types that are
    /// only null or several types, and media types that are only patterns.
    fn hard_parts(value: &Value, path: &str, found: &mut Vec<String>) {
        if let Value::Object(fields) = value {
            let types = fields.get("type");
            let several =
                types.and_then(Value::as_array).is_some_and(|it| it.iter().filter(|it| *it != "null").count() > 1);
            let is_null_property =
                path.contains("/properties/") && !path.contains("/oneOf/") && types == Some(&json!("null"));
            let is_hard = fields.contains_key("allOf") || several || is_null_property;
            found.extend(is_hard.then(|| path.to_owned()));
            fields.iter().for_each(|(name, it)| hard_parts(it, &format!("{path}/{name}"), found));
        } else if let Value::Array(items) = value {
            items.iter().for_each(|it| hard_parts(it, &format!("{path}/"), found));
        }
    }

    #[test]
    fn the_document_has_only_what_generators_of_clients_can_read() {
        let mut found = Vec::new();
        hard_parts(&document(true), "", &mut found);
        assert!(found.is_empty(), "{found:?}");
    }
}
