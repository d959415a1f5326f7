//! Forwards a skill's questions to the client's user.
//!
//! Before revision 2026-07-28, a question is a request on the call's stream, and the answer is a separate message.
//! Since then, the question is the result of the request, and the client repeats the request with the answer.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use openskill_proto::v1::{ErrorCode, InputKind, InputRequired, InputResponse};
use serde::Deserialize;
use serde::de::{Error as _, IgnoredAny};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::client::server_info;
use super::jsonrpc::{self, Code, Id, RpcError, invalid_params};
use crate::call::principal::Principal;
use crate::gateway::Shard;
use crate::long_running::answers::answer;
use crate::mcp::parked::{Fingerprint, FollowedCall, ParkedCall, Ticket};
use crate::mcp::seal::Purpose;
use crate::serve::faces::user_action::UserAction;
use crate::state::limits::SharedLimit;

/// The answers in a request, by question key.
pub(super) type Answers = HashMap<String, Box<RawValue>>;

/// How questions reach a client's user.
#[derive(Clone, Copy)]
pub(super) enum ElicitationMode {
    /// The client supports no questions.
    Never,
    /// As requests on the call's stream.
    OnStream,
    /// As a result with questions. The client repeats the request, which the fingerprint identifies, with the answers.
    ByResult(Fingerprint),
}

/// A user's answer in the client's format. Results of sampling and roots have no action.
#[derive(Deserialize)]
#[serde(expecting = "an object")]
struct Reaction {
    action: Option<UserAction>,
    content: Option<Box<RawValue>>,
    role: Option<IgnoredAny>,
    roots: Option<IgnoredAny>,
}

/// Dismisses a question that asks for a secret: a form would reveal it to the client, and to anything that records
/// the client. Returns whether it dismissed the question.
pub(super) async fn dismiss_secret(shard: &Shard, principal: &Principal, question: &InputRequired) -> bool {
    let schema: Value = serde_json::from_str(&question.schema_json).unwrap_or_default();
    if !marks_secret(&schema) {
        return false;
    }
    let cancel = response(&question.request_id, UserAction::Cancel, None);
    // Fails if the call has ended, which then needs no answer.
    let _ = answer(shard, principal, cancel).await;
    true
}

fn marks_secret(schema: &Value) -> bool {
    match schema {
        Value::Object(fields) => {
            let is = |key: &str| fields.get(key) == Some(&Value::Bool(true));
            let format = fields.get("format").and_then(Value::as_str);
            is("writeOnly") || is("x-secret") || format == Some("password") || fields.values().any(marks_secret)
        }
        Value::Array(items) => items.iter().any(marks_secret),
        _ => false,
    }
}

/// Converts a question to a request: the method and its parameters.
pub(super) fn method_and_params(question: &InputRequired) -> (&'static str, Value) {
    let given = || serde_json::from_str::<Map<String, Value>>(&question.params_json).unwrap_or_default();
    match question.kind() {
        InputKind::Form => ("elicitation/create", form(question)),
        InputKind::Url => {
            let mut params = given();
            params.insert("mode".to_owned(), "url".into());
            params.insert("message".to_owned(), question.message.as_str().into());
            // Clients before revision 2026-07-28 require an elicitation id.
            params.insert("elicitationId".to_owned(), question.request_id.as_str().into());
            ("elicitation/create", params.into())
        }
        InputKind::Sampling => ("sampling/createMessage", given().into()),
        InputKind::Roots => ("roots/list", json!({})),
    }
}

fn form(question: &InputRequired) -> Value {
    let schema: Map<String, Value> = serde_json::from_str(&question.schema_json).unwrap_or_default();
    let mut schema = Value::Object(schema);
    if let Some(fields) = schema.as_object_mut() {
        fields.entry("type").or_insert_with(|| "object".into());
        fields.entry("properties").or_insert_with(|| json!({}));
    }
    json!({ "message": question.message, "requestedSchema": schema })
}

/// Converts questions to the requests within a result, by question key.
pub(super) fn requests(questions: &[(String, InputRequired)]) -> Map<String, Value> {
    let request = |question: &InputRequired| {
        let (method, params) = method_and_params(question);
        json!({ "method": method, "params": params })
    };
    questions.iter().map(|(key, it)| (key.clone(), request(it))).collect()
}

/// Builds the request on the call's stream. Its id is the question's, which other clients can't guess.
pub(super) fn request(question: &InputRequired) -> String {
    let id = jsonrpc::string(&question.request_id);
    let (method, params) = method_and_params(question);
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{method}\",\"params\":{params}}}")
}

/// Forwards the answer to a request of the gateway. An unreadable or invalid answer cancels the question.
pub(super) async fn forward_answer(shard: &Shard, principal: &Principal, id: &Id, result: Option<&RawValue>) {
    let Ok(request_id) = serde_json::from_str::<String>(id.json()) else { return };
    let cancel = || response(&request_id, UserAction::Cancel, None);
    let read = result.and_then(|it| read(it, &request_id).ok()).unwrap_or_else(cancel);
    let delivered = answer(shard, principal, read).await;
    if delivered.is_err_and(|error| error.code() == ErrorCode::InvalidArgument) {
        // Otherwise the skill would wait for another answer that never comes.
        let _ = answer(shard, principal, cancel()).await;
    }
}

fn response(request_id: &str, action: UserAction, content: Option<&RawValue>) -> InputResponse {
    let content_json = content.map(|it| it.get().to_owned()).unwrap_or_default();
    InputResponse { request_id: request_id.to_owned(), action: action as i32, content_json }
}

/// Reads a client's answer: a user's action, or the result of sampling or of roots.
fn read(answer: &RawValue, request_id: &str) -> Result<InputResponse, serde_json::Error> {
    Ok(match openskill_proto::json::read::<Reaction>(answer.get().as_bytes())? {
        // Only an accepted form has content. Some clients omit it if it is empty.
        Reaction { action: Some(UserAction::Accept), content, .. } => {
            let content_json = content.map_or_else(|| "{}".to_owned(), |it| Box::<str>::from(it).into());
            InputResponse { content_json, ..response(request_id, UserAction::Accept, None) }
        }
        Reaction { action: Some(action), .. } => response(request_id, action, None),
        // The question's owner validates the content.
        Reaction { role: Some(_), .. } | Reaction { roots: Some(_), .. } => {
            response(request_id, UserAction::Accept, Some(answer))
        }
        Reaction { .. } => return Err(serde_json::Error::custom("action is missing")),
    })
}

/// Delivers an answer to the skill that is waiting for it. Returns whether the question is settled.
pub(super) async fn deliver(shard: &Shard, principal: &Principal, question: &InputRequired, given: &RawValue) -> bool {
    let Ok(read) = read(given, &question.request_id) else { return false };
    let delivered = answer(shard, principal, read).await;
    // A question is also settled if its call has ended.
    !delivered.is_err_and(|error| error.code() == ErrorCode::InvalidArgument)
}

/// Returns the key of a question: the name that the skill gave it, or one with `number` if another question has the
/// same name.
pub(super) fn key(question: &InputRequired, number: usize, others: &[(String, InputRequired)]) -> String {
    let is_free = |key: &str| others.iter().all(|(other, _)| other != key);
    match question.key.as_str() {
        "" => format!("question-{number}"),
        key if is_free(key) => key.to_owned(),
        key => format!("{key}-{number}"),
    }
}

/// Parks a call until its client repeats the request. Returns the result that contains the questions.
///
/// # Errors
/// Too many calls are parked.
pub(super) fn ask(
    shard: &Shard,
    principal: &Principal,
    fingerprint: Fingerprint,
    followed: FollowedCall,
    questions: Vec<(String, InputRequired)>,
) -> Result<String, RpcError> {
    let requests = requests(&questions);
    let (now, left) = (Instant::now(), questions.iter().map(|(_, it)| it.timeout_ms).max().unwrap_or_default());
    let (gateway, state) = (&shard.gateway, &shard.gateway.mcp);
    state.parking.expire(now);
    let Some(place) = gateway.limits.pool(SharedLimit::ParkedCalls).take(principal.shared_name(), 1) else {
        let message = "too many calls of this principal, or of all principals, are waiting for answers";
        return Err(RpcError::new(Code::Overloaded, message));
    };
    let until = now + Duration::from_millis(left);
    let ticket = state.parking.park(ParkedCall { followed, questions, fingerprint, until, _place: place });
    let result = json!({
        "resultType": "input_required",
        "inputRequests": requests,
        "requestState": state.key.seal(Purpose::State, principal.name(), &ticket),
        "_meta": { "io.modelcontextprotocol/serverInfo": server_info() },
    });
    Ok(result.to_string())
}

/// A call whose client repeated the request with answers.
pub(super) enum Resumed {
    /// All questions are answered: the call continues.
    Continues(FollowedCall),
    /// This result repeats the unanswered questions.
    AskAgain(String),
}

/// Delivers the answers in a repeated request to its call.
///
/// # Errors
/// The state does not belong to this client and request, or was used before, or the call has ended.
pub(super) async fn resume_with_answers(
    shard: &Shard,
    principal: &Principal,
    fingerprint: Fingerprint,
    request_state: &str,
    answers: &Answers,
) -> Result<Resumed, RpcError> {
    let state = &shard.gateway.mcp;
    let ticket = state.key.open(Purpose::State, principal.name(), request_state.as_bytes());
    let ticket = ticket.and_then(|it| Ticket::try_from(it).ok());
    let parked = ticket.and_then(|it| state.parking.take(&it, fingerprint, Instant::now()));
    let Some(ParkedCall { followed, questions, until, .. }) = parked else {
        let message =
            "requestState is not from this request, was used before, or its call has ended: call the tool again";
        return Err(invalid_params(message));
    };
    let mut missing = Vec::new();
    for (key, question) in questions {
        let is_settled = match answers.get(&key) {
            Some(answer) => deliver(shard, principal, &question, answer).await,
            None => false,
        };
        if !is_settled {
            missing.push((key, question));
        }
    }
    if missing.is_empty() {
        return Ok(Resumed::Continues(followed));
    }
    let left = until.saturating_duration_since(Instant::now()).as_millis() as u64;
    missing.iter_mut().for_each(|(_, it)| it.timeout_ms = left);
    ask(shard, principal, fingerprint, followed, missing).map(Resumed::AskAgain)
}

#[cfg(test)]
mod tests {
    use openskill_proto::v1::InputAction;

    use super::*;

    fn question(schema: &str) -> InputRequired {
        let (request_id, message) = ("q-1".to_owned(), "Who?".to_owned());
        let schema_json = schema.to_owned();
        InputRequired { request_id, message, schema_json, timeout_ms: 1000, ..InputRequired::default() }
    }

    #[test]
    fn a_question_always_has_a_form() {
        let request: Value = serde_json::from_str(&request(&question(""))).unwrap();
        assert_eq!((&request["id"], &request["method"]), (&json!("q-1"), &json!("elicitation/create")));
        let expected = json!({"message": "Who?", "requestedSchema": {"type": "object", "properties": {}}});
        assert_eq!(request["params"], expected);
        let schema = json!({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]});
        assert_eq!(method_and_params(&question(&schema.to_string())).1["requestedSchema"], schema);
    }

    #[test]
    fn each_kind_of_question_has_its_method() {
        let of = |kind: InputKind, params: &str| {
            method_and_params(&InputRequired { kind: kind.into(), params_json: params.to_owned(), ..question("") })
        };
        let sampling = json!({"messages": [], "maxTokens": 5});
        assert_eq!(of(InputKind::Sampling, &sampling.to_string()), ("sampling/createMessage", sampling));
        assert_eq!(of(InputKind::Roots, ""), ("roots/list", json!({})));
        let url = of(InputKind::Url, r#"{"url": "https://example.com/"}"#);
        assert_eq!((url.0, &url.1["mode"], &url.1["message"]), ("elicitation/create", &json!("url"), &json!("Who?")));
    }

    #[test]
    fn a_question_for_a_secret_is_told_from_others() {
        let marks = |field: Value| marks_secret(&json!({"type": "object", "properties": {"a": field}}));
        assert!(marks(json!({"type": "string", "writeOnly": true})) && marks(json!({"format": "password"})));
        assert!(!marks(json!({"type": "string", "description": "writeOnly"})) && !marks_secret(&Value::Null));
    }

    #[test]
    fn an_answer_is_an_action_with_or_without_content() {
        let read = |text: &str| read(&RawValue::from_string(text.to_owned()).unwrap(), "q");
        let accepted = read(r#"{"action": "accept", "content": {"name": "a"}}"#).unwrap();
        assert_eq!((accepted.action(), accepted.content_json.as_str()), (InputAction::Accept, r#"{"name": "a"}"#));
        assert_eq!(read(r#"{"action": "accept"}"#).unwrap().content_json, "{}");
        assert_eq!(read(r#"{"action": "decline", "content": {}}"#).unwrap().content_json, "");
        assert!(read("5").is_err() && read(r#"{"action": "maybe"}"#).is_err());
        let sampled = read(r#"{"role": "assistant", "content": {"type": "text"}, "model": "m"}"#).unwrap();
        assert_eq!(sampled.action(), InputAction::Accept);
        assert!(sampled.content_json.contains("assistant"), "{}", sampled.content_json);
    }
}
