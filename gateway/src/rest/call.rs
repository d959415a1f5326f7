//! `POST /skills/{id}:invoke` and `POST /skills/{id}:stream`; without the id for raw calls, which name their skill.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use futures_util::stream::{Stream, StreamExt as _};
use openskill_proto::metadata::IDEMPOTENCY_KEY;
use openskill_proto::trace::Trace;
use openskill_proto::v1::invoke_request::Arguments;
use openskill_proto::v1::{ArgumentPolicy, Envelope, ErrorCode, InvokeRequest, SkillError};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Rest, body};
use crate::call::Call;
use crate::invoke::{invoke as run, turn_away};
use crate::recorder::Record;
use crate::{layers, stream as events};
use openskill_proto::render;

/// The body of a call: the arguments, and what `InvokeRequest` has beside them.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CallBody<'a> {
    #[serde(borrow)]
    input: Option<&'a RawValue>,
    /// A model's raw call: text, or a tool-call object as it stands.
    #[serde(borrow)]
    call: Option<&'a RawValue>,
    #[serde(default)]
    call_id: String,
    #[serde(default)]
    session_id: String,
    #[serde(default)]
    idempotency_key: String,
    #[serde(default)]
    argument_policy: Policy,
    #[serde(default)]
    timeout_ms: u32,
    #[serde(default)]
    envelope: Shape,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Policy {
    #[default]
    Repair,
    Strict,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Shape {
    #[default]
    Normalized,
    Status,
}

/// What stands behind `/skills/`; it may be no UTF-8.
type Target = Result<Path<String>, PathRejection>;

enum Verb {
    Invoke,
    Stream,
}

/// Tells the two apart by what stands behind the last colon.
pub(super) async fn post(State(rest): State<Rest>, target: Target, request: Request) -> Response {
    let (trace, _) = layers::context(request.extensions());
    let target = target.as_ref().map_or("", |Path(target)| target.as_str());
    let (skill_id, verb) = match target.rsplit_once(':') {
        Some((id, "invoke")) => (id, Verb::Invoke),
        Some((id, "stream")) => (id, Verb::Stream),
        _ => {
            let message = "POST to /skills/{id}:invoke or /skills/{id}:stream";
            return body::refuse(StatusCode::NOT_FOUND, ErrorCode::NotFound, message, &trace.id).into_response();
        }
    };
    answer(rest, skill_id, verb, request).await
}

/// `POST /skills:invoke`.
pub(super) async fn invoke(State(rest): State<Rest>, request: Request) -> Response {
    answer(rest, "", Verb::Invoke, request).await
}

/// `POST /skills:stream`.
pub(super) async fn stream(State(rest): State<Rest>, request: Request) -> Response {
    answer(rest, "", Verb::Stream, request).await
}

async fn answer(rest: Rest, skill_id: &str, verb: Verb, request: Request) -> Response {
    let (trace, allowed) = layers::context(request.extensions());
    let key = request.headers().get(IDEMPOTENCY_KEY).map(|it| String::from_utf8_lossy(it.as_bytes()).into_owned());
    let call = match body::read(request, &trace.id).await {
        Ok(bytes) => Arc::new(read_call(skill_id, &bytes, key, trace, allowed)),
        Err(refusal) => return refusal.into_response(),
    };
    let permit = match rest.gateway.enter(&call) {
        Ok(permit) => permit,
        Err(error) => return body::result(&turn_away(&rest.gateway, &call, error)),
    };
    match verb {
        Verb::Invoke => body::result(&run(&rest.gateway, rest.shard, &call, None, permit, Record::begin(&call)).await),
        Verb::Stream => {
            let events = events::one(Arc::clone(&rest.gateway), rest.shard, call, permit);
            Sse::new(as_sse(events)).keep_alive(KeepAlive::new().interval(Duration::from_secs(15))).into_response()
        }
    }
}

fn read_call(skill_id: &str, bytes: &[u8], key: Option<String>, trace: Trace, allowed: Option<Duration>) -> Call {
    let read = parse(bytes);
    let (mut request, fault) = match read {
        Ok(body) => (to_request(skill_id, body), None),
        Err(fault) => (InvokeRequest { skill_id: skill_id.to_owned(), ..InvokeRequest::default() }, Some(fault)),
    };
    if request.idempotency_key.is_empty() {
        request.idempotency_key = key.unwrap_or_default();
    }
    let mut call = Call::new(request, trace, allowed);
    call.fault = fault.or(call.fault);
    call
}

fn parse(bytes: &[u8]) -> Result<CallBody<'_>, SkillError> {
    let form = r#"send {"input": {...}} or {"call": ...}"#;
    if openskill_proto::json::depth(bytes) > openskill_proto::limits::MAX_JSON_DEPTH + 1 {
        return Err(SkillError::new(ErrorCode::InvalidJson, "the body nests too deep"));
    }
    let body: CallBody<'_> = serde_json::from_slice(bytes).map_err(|error| {
        let code = if error.is_data() { ErrorCode::InvalidArgument } else { ErrorCode::InvalidJson };
        SkillError::new(code, format!("the body can't be read: {error}; {form}"))
    })?;
    if body.input.is_some() && body.call.is_some() {
        return Err(SkillError::new(ErrorCode::InvalidArgument, "give input or call, not both"));
    }
    Ok(body)
}

fn to_request(skill_id: &str, body: CallBody<'_>) -> InvokeRequest {
    let policy = match body.argument_policy {
        Policy::Repair => ArgumentPolicy::Repair,
        Policy::Strict => ArgumentPolicy::Strict,
    };
    let envelope = match body.envelope {
        Shape::Normalized => Envelope::Normalized,
        Shape::Status => Envelope::Status,
    };
    InvokeRequest {
        skill_id: skill_id.to_owned(),
        arguments: Some(match body.call {
            Some(call) => Arguments::Call(text_of(call)),
            None => Arguments::InputJson(body.input.map_or("{}", RawValue::get).to_owned()),
        }),
        call_id: body.call_id,
        session_id: body.session_id,
        idempotency_key: body.idempotency_key,
        argument_policy: policy.into(),
        timeout_ms: body.timeout_ms,
        envelope: envelope.into(),
        ..InvokeRequest::default()
    }
}

/// A string's content, or the JSON itself.
fn text_of(call: &RawValue) -> String {
    serde_json::from_str(call.get()).unwrap_or_else(|_| call.get().to_owned())
}

fn as_sse(
    events: impl Stream<Item = Result<openskill_proto::v1::InvokeEvent, tonic::Status>>,
) -> impl Stream<Item = Result<Event, Infallible>> {
    events.filter_map(|event| async {
        let event = event.ok()?;
        let (name, data) = render::event(&event);
        Some(Ok(Event::default().event(name).data(data)))
    })
}
