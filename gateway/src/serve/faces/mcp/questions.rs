//! Questions of skills to the users of clients that can ask them.
//!
//! Before 2026-07-28 a question is a request on the stream of the call, and the answer is a message of its own. Since then the
//! question is the result of the request, and the answer comes with the same request once more.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use openskill_proto::v1::{ErrorCode, InputAction, InputRequired, InputResponse};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::hello::server_info;
use super::jsonrpc::{self, Code, Fault, Id};
use crate::call::principal::Principal;
use crate::gateway::Shard;
use crate::mcp::parked::{Events, Fingerprint, Parked, Ticket};
use crate::mcp::seal::Purpose;
use crate::serve::faces::user_action::UserAction;

/// The answers that a request brings, by the keys of the questions.
pub(super) type Answers = HashMap<String, Box<RawValue>>;

/// How a client asks its user.
pub(super) enum Asks {
    /// It does not.
    Never,
    /// It takes requests on the stream of a call.
    OnStream(Way),
    /// It takes results that ask, and comes back.
    ByResult(Way),
}

/// The call that asks.
pub(super) struct Way {
    pub(super) shard: Shard,
    pub(super) principal: Principal,
    pub(super) fingerprint: Fingerprint,
}

/// A user's answer, as clients write it.
#[derive(Deserialize)]
struct Elicited {
    action: UserAction,
    content: Option<Box<RawValue>>,
}

impl Asks {
    /// Whether skills may ask.
    pub(super) fn can_ask(&self) -> bool {
        !matches!(self, Self::Never)
    }
}

/// Dismisses a question that asks for a secret: a form would show it to the client, and to everything that records what it does.
/// Returns whether it was one.
pub(super) async fn dismiss_secret(way: &Way, question: &InputRequired) -> bool {
    let schema: Value = serde_json::from_str(&question.schema_json).unwrap_or_default();
    if !marks_secret(&schema) {
        return false;
    }
    let cancel = InputResponse { request_id: question.request_id.clone(), ..response(InputAction::Cancel, None) };
    // A call that ended meanwhile needs no answer.
    let _ = way.shard.gateway.questions.answer(&way.principal, cancel, way.shard.number).await;
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

/// A question, as parameters of `elicitation/create`.
fn params(question: &InputRequired) -> Value {
    let schema: Map<String, Value> = serde_json::from_str(&question.schema_json).unwrap_or_default();
    let mut schema = Value::Object(schema);
    if let Some(fields) = schema.as_object_mut() {
        fields.entry("type").or_insert_with(|| "object".into());
        fields.entry("properties").or_insert_with(|| json!({}));
    }
    json!({ "message": question.message, "requestedSchema": schema })
}

/// The request on the stream of a call. Its id names the question, and nobody else can guess it.
pub(super) fn request(question: &InputRequired) -> String {
    let id = jsonrpc::string(&question.request_id);
    let params = params(question);
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"elicitation/create\",\"params\":{params}}}")
}

/// Passes the answer to a request of the gateway on. One that can't be read, or does not fit, counts as none.
pub(super) async fn answered(shard: &Shard, principal: &Principal, id: &Id, result: Option<&RawValue>) {
    let Ok(request_id) = serde_json::from_str::<String>(id.json()) else { return };
    let cancel = || InputResponse { request_id: request_id.clone(), ..response(InputAction::Cancel, None) };
    let read = result.and_then(|it| read(it, &request_id).ok()).unwrap_or_else(cancel);
    let delivered = shard.gateway.questions.answer(principal, read, shard.number).await;
    if delivered.is_err_and(|error| error.code() == ErrorCode::InvalidArgument) {
        // The skill would wait for another one, which nobody sends.
        let _ = shard.gateway.questions.answer(principal, cancel(), shard.number).await;
    }
}

fn response(action: InputAction, content: Option<Box<RawValue>>) -> InputResponse {
    let content_json = content.map(|it| it.get().to_owned()).unwrap_or_default();
    InputResponse { request_id: String::new(), action: action.into(), content_json }
}

fn read(answer: &RawValue, request_id: &str) -> Result<InputResponse, serde_json::Error> {
    let Elicited { action, content } = serde_json::from_str(answer.get())?;
    // Only an accepted form has content, and some clients leave an empty one out.
    let content = match action {
        UserAction::Accept => content.or_else(|| RawValue::from_string("{}".to_owned()).ok()),
        UserAction::Decline | UserAction::Cancel => None,
    };
    let read = response(action.into(), content);
    Ok(InputResponse { request_id: request_id.to_owned(), ..read })
}

/// Parks a call until its client comes back. Returns the result that asks.
///
/// # Errors
/// Too many calls wait.
pub(super) fn ask(way: &Way, events: Events, questions: Vec<(String, InputRequired)>) -> Result<String, Fault> {
    let requests: Map<String, Value> = questions
        .iter()
        .map(|(key, it)| (key.clone(), json!({ "method": "elicitation/create", "params": params(it) })))
        .collect();
    let (now, left) = (Instant::now(), questions.iter().map(|(_, it)| it.timeout_ms).max().unwrap_or_default());
    let parked = Parked { events, questions, fingerprint: way.fingerprint, until: now + Duration::from_millis(left) };
    let state = &way.shard.gateway.mcp;
    let ticket = state.parking.park(parked, now).map_err(|_| Fault::new(Code::Overloaded, "too many calls wait"))?;
    let result = json!({
        "resultType": "input_required",
        "inputRequests": requests,
        "requestState": state.key.seal(Purpose::State, way.principal.name(), &ticket),
        "_meta": { "io.modelcontextprotocol/serverInfo": server_info() },
    });
    Ok(result.to_string())
}

/// What becomes of a call whose client came back.
pub(super) enum Back {
    /// It goes on.
    On(Events),
    /// This result asks again for what is missing.
    Asked(String),
}

/// Hands the answers of a client that came back to its call.
///
/// # Errors
/// The state is not one of this client and this request, was used before, or its call has ended. Or an answer can't be read:
/// the state is used up all the same.
pub(super) async fn come_back(way: &Way, request_state: &str, answers: &Answers) -> Result<Back, Fault> {
    let state = &way.shard.gateway.mcp;
    let ticket = state.key.open(Purpose::State, way.principal.name(), request_state.as_bytes());
    let ticket = ticket.and_then(|it| Ticket::try_from(it).ok());
    let parked = ticket.and_then(|it| state.parking.take(&it, way.fingerprint, Instant::now()));
    let Some(Parked { events, questions, until, .. }) = parked else {
        let message =
            "requestState is not one of this request, was used before, or its call has ended: call the tool again";
        return Err(Fault::new(Code::InvalidParams, message));
    };
    let mut missing = Vec::new();
    for (key, question) in questions {
        let Some(answer) = answers.get(&key) else {
            missing.push((key, question));
            continue;
        };
        let read = read(answer, &question.request_id).map_err(|error| {
            Fault::new(Code::InvalidParams, format!("params.inputResponses[\"{key}\"] can't be read: {error}"))
        })?;
        let delivered = way.shard.gateway.questions.answer(&way.principal, read, way.shard.number).await;
        if delivered.is_err_and(|error| error.code() == ErrorCode::InvalidArgument) {
            missing.push((key, question));
        }
    }
    if missing.is_empty() {
        return Ok(Back::On(events));
    }
    let left = until.saturating_duration_since(Instant::now()).as_millis() as u64;
    missing.iter_mut().for_each(|(_, it)| it.timeout_ms = left);
    ask(way, events, missing).map(Back::Asked)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(schema: &str) -> InputRequired {
        let (request_id, message) = ("q-1".to_owned(), "Who?".to_owned());
        InputRequired { request_id, message, schema_json: schema.to_owned(), timeout_ms: 1000 }
    }

    #[test]
    fn a_question_always_has_a_form() {
        let request: Value = serde_json::from_str(&request(&question(""))).unwrap();
        assert_eq!((&request["id"], &request["method"]), (&json!("q-1"), &json!("elicitation/create")));
        let expected = json!({"message": "Who?", "requestedSchema": {"type": "object", "properties": {}}});
        assert_eq!(request["params"], expected);
        let schema = json!({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]});
        assert_eq!(params(&question(&schema.to_string()))["requestedSchema"], schema);
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
    }
}
