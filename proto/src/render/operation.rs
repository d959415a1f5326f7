//! Renders operations and their events as JSON, and decodes what they carry.

use prost::Message;
use prost_types::Any;
use serde::Serialize;
use serde_json::value::RawValue;

use super::event::event;
use super::result::result;
use crate::json::to_text;
use crate::longrunning::operation::Result as Outcome;
use crate::longrunning::{ListOperationsResponse, Operation};
use crate::timestamp::Timestamp;
use crate::v1::{InputRequired, OperationEvent, OperationMetadata, SkillResult};

#[derive(Serialize)]
struct OperationJson<'a> {
    name: &'a str,
    done: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<MetadataJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<Box<RawValue>>,
}

#[derive(Serialize)]
struct MetadataJson {
    skill_id: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    session_id: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    principal: String,
    trace_id: String,
    state: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    create_time: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    start_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    start_time: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    end_time: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expire_time: Option<String>,
    runs: u32,
    cancel_requested: bool,
    #[serde(skip_serializing_if = "String::is_empty")]
    reason: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    questions: Vec<QuestionJson>,
    #[serde(skip_serializing_if = "String::is_empty")]
    webhook: String,
}

#[derive(Serialize)]
struct QuestionJson {
    request_id: String,
    message: String,
    schema: Option<Box<RawValue>>,
    timeout_ms: u64,
}

/// Renders an operation. `result` is the normalized envelope, present only if the operation is done and includes it.
pub fn operation(operation: &Operation) -> String {
    to_text(&operation_json(operation))
}

/// Renders a page of operations.
pub fn operations(page: &ListOperationsResponse) -> String {
    #[derive(Serialize)]
    struct PageJson<'a> {
        operations: Vec<OperationJson<'a>>,
        next_page_token: Option<&'a str>,
    }
    to_text(&PageJson {
        operations: page.operations.iter().map(operation_json).collect(),
        next_page_token: (!page.next_page_token.is_empty()).then_some(&page.next_page_token),
    })
}

/// Returns the name and the data of an event, for a server-sent event: those of [`event`], and the event's number as the
/// first field.
pub fn operation_event(it: &OperationEvent) -> (&'static str, String) {
    let number = it.number;
    let (name, data) = it.event.as_ref().map_or_else(|| ("unknown", "{}".to_owned()), event);
    let data = match data.trim_start().strip_prefix('{') {
        Some(rest) if rest.trim_start().starts_with('}') => format!("{{\"number\":{number}}}"),
        Some(rest) => format!("{{\"number\":{number},{rest}"),
        None => data,
    };
    (name, data)
}

/// Renders an event as one line of JSON: `{"event":NAME,"data":DATA}`.
pub fn operation_event_line(it: &OperationEvent) -> String {
    let (name, data) = operation_event(it);
    format!("{{\"event\":\"{name}\",\"data\":{data}}}\n")
}

/// Decodes the metadata of an operation. Returns `None` if it is missing, of another type or malformed.
pub fn operation_metadata(operation: &Operation) -> Option<OperationMetadata> {
    decode(operation.metadata.as_ref()?, "openskill.v1.OperationMetadata")
}

/// Decodes the result of an operation, successful or not. Returns `None` if it is missing, of another type or malformed.
pub fn operation_result(operation: &Operation) -> Option<SkillResult> {
    let carried = match operation.result.as_ref()? {
        Outcome::Response(response) => std::slice::from_ref(response),
        Outcome::Error(status) => &status.details,
    };
    carried.iter().find_map(|it| decode(it, "openskill.v1.SkillResult"))
}

/// Returns the state of an operation, such as `running`.
pub fn operation_state(metadata: &OperationMetadata) -> String {
    metadata.state().as_str_name().trim_start_matches("OPERATION_STATE_").to_ascii_lowercase()
}

/// Decodes a message that must have this type.
fn decode<M: Message + Default>(any: &Any, name: &str) -> Option<M> {
    let (_, carried) = any.type_url.rsplit_once('/')?;
    M::decode(any.value.as_slice()).ok().filter(|_| carried == name)
}

fn operation_json(operation: &Operation) -> OperationJson<'_> {
    let carried = operation_result(operation).filter(|_| operation.done);
    OperationJson {
        name: &operation.name,
        done: operation.done,
        metadata: operation_metadata(operation).map(metadata_json),
        result: carried.and_then(|it| RawValue::from_string(result(&it)).ok()),
    }
}

fn metadata_json(it: OperationMetadata) -> MetadataJson {
    let time = |time: Option<prost_types::Timestamp>| time.map(|it| Timestamp::from(it).to_string());
    MetadataJson {
        state: operation_state(&it),
        skill_id: it.skill_id,
        session_id: it.session_id,
        principal: it.principal,
        trace_id: it.trace_id,
        create_time: time(it.create_time),
        start_at: time(it.start_at),
        start_time: time(it.start_time),
        end_time: time(it.end_time),
        expire_time: time(it.expire_time),
        runs: it.runs,
        cancel_requested: it.cancel_requested,
        reason: it.reason,
        questions: it.questions.into_iter().map(question_json).collect(),
        webhook: it.webhook,
    }
}

fn question_json(it: InputRequired) -> QuestionJson {
    let schema = RawValue::from_string(it.schema_json).ok();
    QuestionJson { request_id: it.request_id, message: it.message, schema, timeout_ms: it.timeout_ms }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::rpc::Status;
    use crate::v1::invoke_event::Event;
    use crate::v1::{ErrorCode, InvokeEvent, OperationState, Progress, SkillError, skill_result};

    fn any(name: &str, message: &impl Message) -> Any {
        Any { type_url: format!("type.googleapis.com/openskill.v1.{name}"), value: message.encode_to_vec() }
    }

    fn example(result: Option<Outcome>) -> Operation {
        let metadata = OperationMetadata {
            skill_id: "report".to_owned(),
            trace_id: "t".to_owned(),
            state: OperationState::Succeeded.into(),
            create_time: Some(prost_types::Timestamp { seconds: 1, nanos: 500_000_000 }),
            runs: 1,
            ..OperationMetadata::default()
        };
        let metadata = Some(any("OperationMetadata", &metadata));
        Operation { name: "operations/1".to_owned(), metadata, done: true, result }
    }

    fn success() -> SkillResult {
        let data = r#"{"n":12345678901234567890123,"x":1.50}"#.to_owned();
        let output = Some(skill_result::Output::DataJson(data));
        SkillResult { success: true, output, ..SkillResult::default() }
    }

    #[test]
    fn an_operation_has_what_is_known_and_its_result_as_a_call_returns_it() {
        let text = operation(&example(Some(Outcome::Response(any("SkillResult", &success())))));
        assert!(text.ends_with(&format!(",\"result\":{}}}", result(&success()))), "{text}");
        let listed = serde_json::from_str::<Value>(&operation(&example(None))).unwrap();
        let metadata = json!({
            "skill_id": "report", "trace_id": "t", "state": "succeeded", "create_time": "1970-01-01T00:00:01.500000Z",
            "runs": 1, "cancel_requested": false,
        });
        assert_eq!(listed, json!({"name": "operations/1", "done": true, "metadata": metadata}));
        let page = ListOperationsResponse { operations: vec![example(None)], next_page_token: String::new() };
        let page = serde_json::from_str::<Value>(&operations(&page)).unwrap();
        assert_eq!((&page["operations"][0], &page["next_page_token"]), (&listed, &Value::Null));
    }

    #[test]
    fn a_failure_carries_its_result_and_what_has_another_type_is_not_decoded() {
        let failed = SkillResult { error: Some(SkillError::new(ErrorCode::Timeout, "late")), ..SkillResult::default() };
        let status = |details| Outcome::Error(Status { code: 4, message: "late".to_owned(), details });
        let details = vec![any("Skill", &success()), any("SkillResult", &failed)];
        assert_eq!(operation_result(&example(Some(status(details)))), Some(failed));
        let torn = Any { value: vec![0xff], ..any("SkillResult", &success()) };
        for result in [status(vec![]), Outcome::Response(any("Skill", &success())), Outcome::Response(torn)] {
            assert_eq!(operation_result(&example(Some(result))), None);
        }
        let mislabelled = Operation { metadata: Some(any("Skill", &success())), ..Operation::default() };
        assert_eq!(operation(&mislabelled), r#"{"name":"","done":false}"#);
    }

    #[test]
    fn an_event_has_its_number_first() {
        let numbered = |event| OperationEvent { number: 7, event };
        let progress = Progress { fraction: 0.5, message: "half".to_owned() };
        let event = InvokeEvent { call_id: "c".to_owned(), event: Some(Event::Progress(progress)) };
        let expected = r#"{"number":7,"call_id":"c","fraction":0.5,"message":"half"}"#.to_owned();
        assert_eq!(operation_event(&numbered(Some(event))), ("progress", expected));
        assert_eq!(operation_event_line(&numbered(None)), "{\"event\":\"unknown\",\"data\":{\"number\":7}}\n");
    }
}
