//! `POST /skills/{id}:invoke`, `:stream` and `:prepare`. Without the id, they accept raw calls, which name their
//! skill.
//!
//! With `Prefer: respond-async`, `:invoke` stores the call instead, in `operations.rs`.
//!
//! `:stream` responds with server-sent events, whose names and JSON come from `render::event`.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::http::HeaderMap;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use futures_util::stream::{Stream, StreamExt as _};
use openskill_proto::json::{self, Survey};
use openskill_proto::limits::{MAX_JSON_DEPTH, MAX_JSON_VALUES};
use openskill_proto::metadata::{IDEMPOTENCY_KEY, WEBHOOK_URL};
use openskill_proto::render;
use openskill_proto::v1::invoke_request::Arguments;
use openskill_proto::v1::{ArgumentPolicy, Envelope, ErrorCode, InvokeEvent, InvokeRequest, SkillError};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::prefer::Preferences;
use super::{body, operations};
use crate::arguments::too_many_values;
use crate::call::blocking_pool::HEAVY_BYTES;
use crate::call::reading;
use crate::call::request::{Call, RequestContext};
use crate::gateway::Shard;
use crate::invoke::{invoke as run, refuse};
use crate::observe::call_record::CallRecord;
use crate::prepare::prepare as prepare_call;
use crate::serve::layers::request_context;
use crate::streams;

/// The body of a call: the arguments, and the other fields of `InvokeRequest`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
struct CallBody<'a> {
    #[serde(borrow)]
    input: Option<&'a RawValue>,
    /// A model's raw call: text, or a tool-call object.
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
    #[serde(default)]
    interactive: bool,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Policy {
    #[default]
    Repair = ArgumentPolicy::Repair as isize,
    Strict = ArgumentPolicy::Strict as isize,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Shape {
    #[default]
    Normalized = Envelope::Normalized as isize,
    Status = Envelope::Status as isize,
}

/// The path after `/skills/`. It may not be UTF-8.
type Target = Result<Path<String>, PathRejection>;

enum Verb {
    Invoke,
    Stream,
    /// Previews the repaired arguments. Runs nothing.
    Prepare,
}

/// Handles `POST /skills/{id}:invoke`, `:stream` and `:prepare`.
pub(crate) async fn post(State(shard): State<Shard>, target: Target, request: Request) -> Response {
    // A path that is not UTF-8 contains no valid verb.
    let target = target.as_ref().map_or(":", |Path(target)| target.as_str());
    let (skill_id, verb) = match target.rsplit_once(':') {
        Some((id, "invoke")) => (id, Verb::Invoke),
        Some((id, "stream")) => (id, Verb::Stream),
        Some((id, "prepare")) => (id, Verb::Prepare),
        None => return body::not_allowed(&request, "GET,HEAD"),
        Some(_) => {
            let message = "POST to /skills/{id}:invoke, /skills/{id}:stream or /skills/{id}:prepare";
            return body::refuse(ErrorCode::NotFound, message, &request);
        }
    };
    answer(shard, skill_id, verb, request).await
}

/// `POST /skills:invoke`.
pub(crate) async fn invoke(State(shard): State<Shard>, request: Request) -> Response {
    answer(shard, "", Verb::Invoke, request).await
}

/// `POST /skills:stream`.
pub(crate) async fn stream(State(shard): State<Shard>, request: Request) -> Response {
    answer(shard, "", Verb::Stream, request).await
}

/// `POST /skills:prepare`.
pub(crate) async fn prepare(State(shard): State<Shard>, request: Request) -> Response {
    answer(shard, "", Verb::Prepare, request).await
}

async fn answer(shard: Shard, skill_id: &str, verb: Verb, request: Request) -> Response {
    let context = request_context(request.extensions());
    let [key, webhook] = [IDEMPOTENCY_KEY, WEBHOOK_URL].map(|name| header_text(request.headers(), name));
    let preferences = Preferences::read(request.headers());
    let is_stored = matches!(verb, Verb::Invoke) && preferences.respond_async;
    if webhook.is_some() && !is_stored {
        let message = "Webhook-Url needs :invoke and Prefer: respond-async, because only operations have webhooks";
        return body::refuse(ErrorCode::InvalidArgument, message, &request);
    }
    let bytes = match body::read(request, &context.trace.id).await {
        Ok(bytes) => bytes,
        Err(refusal) => return *refusal,
    };
    if is_stored {
        // Boxed, so that the future of other calls stays small.
        return Box::pin(submit(&shard, skill_id, bytes, key, webhook.unwrap_or_default(), preferences.wait, context))
            .await;
    }
    let call = Arc::new(read(&shard, skill_id, bytes, key, context).await);
    if matches!(verb, Verb::Prepare) {
        return body::prepared_call(&prepare_call(&shard, &call).await, &call.trace.id);
    }
    let permit = match shard.gateway.admit(&call) {
        Ok(permit) => permit,
        Err(refusal) => return body::result(&refuse(&shard, &call, refusal.into())),
    };
    if matches!(verb, Verb::Stream) {
        let trace_id = call.trace.id.clone();
        let events = as_sse(streams::one(shard, call, permit), trace_id);
        return Sse::new(events).keep_alive(KeepAlive::new().interval(Duration::from_secs(15))).into_response();
    }
    let record = CallRecord::begin(&shard.gateway.observer, &call);
    body::result(&run(&shard, call, permit, None, record).await)
}

fn header_text(headers: &HeaderMap, name: &str) -> Option<String> {
    headers.get(name).map(|it| String::from_utf8_lossy(it.as_bytes()).into_owned())
}

/// Stores the call of a body.
async fn submit(
    shard: &Shard,
    skill_id: &str,
    bytes: Bytes,
    key: Option<String>,
    webhook: String,
    wait: Option<Duration>,
    context: RequestContext,
) -> Response {
    match read_request(shard, skill_id, bytes, key, &context).await {
        Ok(call) => operations::submit(shard, call, webhook, wait, context).await,
        Err(error) => operations::refuse(nameless(skill_id), context, error),
    }
}

/// Reads the request in a body, off the shard's thread if it is large.
async fn read_request(
    shard: &Shard,
    skill_id: &str,
    bytes: Bytes,
    key: Option<String>,
    context: &RequestContext,
) -> Result<InvokeRequest, SkillError> {
    if bytes.len() <= HEAVY_BYTES {
        return parse_request(skill_id, &bytes, key);
    }
    let (pool, default) = (&shard.gateway.blocking_pool, shard.gateway.config.default_timeout);
    let (until, held, skill_id) = (reading::deadline(default, context), 2 * bytes.len(), skill_id.to_owned());
    pool.run_until(until, &context.principal, held, move || parse_request(&skill_id, &bytes, key)).await?
}

/// Reads the call from a body, off the shard's thread if it is large. `key` is the idempotency key in the headers.
async fn read(shard: &Shard, skill_id: &str, bytes: Bytes, key: Option<String>, context: RequestContext) -> Call {
    let (pool, default) = (&shard.gateway.blocking_pool, shard.gateway.config.default_timeout);
    if bytes.len() <= HEAVY_BYTES {
        return match parse_request(skill_id, &bytes, key) {
            Ok(request) => reading::read(pool, default, request, context).await,
            Err(fault) => Call::unread(nameless(skill_id), context, fault),
        };
    }
    // Count the bytes twice: for the body, and for the arguments in it.
    let (until, held) = (reading::deadline(default, &context), 2 * bytes.len());
    let (named, heard) = (nameless(skill_id), context.clone());
    let read =
        pool.run_until(until, &heard.principal, held, move || match parse_request(&named.skill_id, &bytes, key) {
            Ok(request) => Call::new(request, context),
            Err(fault) => Call::unread(named, context, fault),
        });
    Box::pin(read).await.unwrap_or_else(|error| Call::unread(nameless(skill_id), heard, error))
}

/// Builds a request that contains only the skill id.
fn nameless(skill_id: &str) -> InvokeRequest {
    InvokeRequest { skill_id: skill_id.to_owned(), ..InvokeRequest::default() }
}

fn parse(bytes: &[u8]) -> Result<CallBody<'_>, SkillError> {
    let form = r#"send {"input": {...}} or {"call": ...}"#;
    // A margin for the values of the body around the arguments.
    if bytes.len() > HEAVY_BYTES && Survey::scan(bytes, MAX_JSON_VALUES + 16).values > MAX_JSON_VALUES + 16 {
        return Err(SkillError::new(ErrorCode::InvalidArgument, too_many_values()));
    }
    if openskill_proto::json::depth(bytes) > MAX_JSON_DEPTH + 1 {
        let message = format!("the arguments are nested too deeply: at most {MAX_JSON_DEPTH} levels");
        return Err(SkillError::new(ErrorCode::InvalidJson, message));
    }
    let body: CallBody<'_> = json::read(bytes).map_err(|error| {
        let code = if error.is_data() { ErrorCode::InvalidArgument } else { ErrorCode::InvalidJson };
        SkillError::new(code, format!("the body can't be read: {error}; {form}"))
    })?;
    if body.input.is_some() && body.call.is_some() {
        return Err(SkillError::new(ErrorCode::InvalidArgument, "give input or call, not both"));
    }
    Ok(body)
}

fn parse_request(skill_id: &str, bytes: &[u8], key: Option<String>) -> Result<InvokeRequest, SkillError> {
    let body = parse(bytes)?;
    let own_key = Some(body.idempotency_key).filter(|it| !it.is_empty());
    Ok(InvokeRequest {
        skill_id: skill_id.to_owned(),
        arguments: Some(match body.call {
            Some(call) => Arguments::Call(text_of(call)),
            None => Arguments::InputJson(body.input.map_or("{}", RawValue::get).to_owned()),
        }),
        call_id: body.call_id,
        session_id: body.session_id,
        idempotency_key: own_key.or(key).unwrap_or_default(),
        argument_policy: body.argument_policy as i32,
        timeout_ms: body.timeout_ms,
        envelope: body.envelope as i32,
        interactive: body.interactive,
        ..InvokeRequest::default()
    })
}

/// Returns a string's content, or other JSON as text.
fn text_of(call: &RawValue) -> String {
    serde_json::from_str(call.get()).unwrap_or_else(|_| call.get().to_owned())
}

fn as_sse(
    events: impl Stream<Item = Result<InvokeEvent, SkillError>>,
    trace_id: String,
) -> impl Stream<Item = Result<Event, Infallible>> {
    events.map(move |event| {
        let (name, data) = match &event {
            Ok(event) => render::event(event),
            Err(error) => ("error", render::refusal(error, &trace_id)),
        };
        Ok(Event::default().event(name).data(data))
    })
}
