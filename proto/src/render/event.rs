//! Renders events of a call as JSON.

use serde::Serialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::result::{ArtifactJson, result};
use crate::json::to_text;
use crate::v1::InvokeEvent;
use crate::v1::invoke_event::Event;

#[derive(Serialize)]
struct PartialJson<'a> {
    call_id: &'a str,
    data: Option<&'a RawValue>,
}

#[derive(Serialize)]
struct InputRequiredJson<'a> {
    call_id: &'a str,
    request_id: &'a str,
    message: &'a str,
    schema: Option<&'a RawValue>,
    timeout_ms: u64,
}

#[derive(Serialize)]
struct ArtifactEventJson<'a> {
    call_id: &'a str,
    #[serde(flatten)]
    artifact: ArtifactJson<'a>,
}

/// Returns the name and the data of an event, for a server-sent event. For an event that this version does not
/// know, the name is `unknown` and the data is an empty object.
pub fn event(event: &InvokeEvent) -> (&'static str, String) {
    let call_id = event.call_id.as_str();
    match &event.event {
        Some(Event::Accepted(it)) => {
            ("accepted", json!({"call_id": call_id, "trace_id": it.trace_id, "version": it.version}).to_string())
        }
        Some(Event::Progress(it)) => {
            let fraction = (it.fraction >= 0.0).then_some(it.fraction);
            ("progress", json!({"call_id": call_id, "fraction": fraction, "message": it.message}).to_string())
        }
        Some(Event::Log(it)) => {
            ("log", json!({"call_id": call_id, "level": it.level, "message": it.message}).to_string())
        }
        Some(Event::Partial(it)) => {
            ("partial", to_text(&PartialJson { call_id, data: serde_json::from_str(&it.data_json).ok() }))
        }
        Some(Event::InputRequired(it)) => {
            let schema = serde_json::from_str(&it.schema_json).ok();
            let (request_id, message) = (it.request_id.as_str(), it.message.as_str());
            let required = InputRequiredJson { call_id, request_id, message, schema, timeout_ms: it.timeout_ms };
            ("input_required", to_text(&required))
        }
        Some(Event::Artifact(it)) => ("artifact", to_text(&ArtifactEventJson { call_id, artifact: it.into() })),
        Some(Event::Result(it)) if !it.rendered_json.is_empty() => ("result", it.rendered_json.clone()),
        Some(Event::Result(it)) => ("result", result(it)),
        None => ("unknown", "{}".to_owned()),
    }
}

/// Renders an event as one line of JSON: `{"event":NAME,"data":DATA}`.
pub fn event_line(it: &InvokeEvent) -> String {
    let (name, data) = event(it);
    format!("{{\"event\":\"{name}\",\"data\":{data}}}\n")
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::v1::artifact::Content;
    use crate::v1::{Artifact, InputRequired};

    fn rendered(event: Event) -> (&'static str, Value) {
        let (name, data) = super::event(&InvokeEvent { call_id: "c".to_owned(), event: Some(event) });
        (name, serde_json::from_str(&data).unwrap())
    }

    #[test]
    fn a_question_carries_its_schema_as_json() {
        let question = |schema: &str| {
            let (request_id, message, schema_json) = ("r".to_owned(), "Go on?".to_owned(), schema.to_owned());
            let timeout_ms = 5;
            let question = InputRequired { request_id, message, schema_json, timeout_ms, ..InputRequired::default() };
            rendered(Event::InputRequired(question)).1
        };
        let expected = json!({"call_id": "c", "request_id": "r", "message": "Go on?", "schema": null, "timeout_ms": 5});
        assert_eq!(question(""), expected);
        assert_eq!(question("{\"type\":\"object\"}")["schema"], json!({"type": "object"}));
    }

    #[test]
    fn an_artifact_carries_its_content_or_its_handle() {
        let artifact = |content| {
            let (id, name) = ("1".to_owned(), "plot.png".to_owned());
            let artifact = Artifact {
                id,
                name,
                media_type: "image/png".to_owned(),
                size_bytes: 3,
                content,
                ..Artifact::default()
            };
            rendered(Event::Artifact(artifact)).1
        };
        let plain = json!({"call_id": "c", "id": "1", "name": "plot.png", "media_type": "image/png", "size_bytes": 3});
        let with = |key: &str, value: &str| {
            let mut expected = plain.clone();
            expected[key] = value.into();
            expected
        };
        assert_eq!(artifact(Some(Content::Data(vec![0xff, 0xfe, 0xfd].into()))), with("data", "//79"));
        assert_eq!(artifact(Some(Content::Handle("h".to_owned()))), with("handle", "h"));
        assert_eq!(artifact(None), plain);
    }
}
