//! Runs one tool call.
//!
//! A request that was certainly not sent is retried on another connection, within the deadline. A request that was
//! sent but not answered is not retried here, because it may have run. Its error says so.

use std::sync::Arc;
use std::time::{Duration, Instant};

use openskill_proto::v1::ErrorCode;
use openskill_proto::v1::execute_event::Event;
use openskill_sandbox::untrusted_json::{LIGHT_BYTES, off_shard};
use openskill_telemetry::trace::KeyValue;
use parking_lot::Mutex;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CancelledNotification, CancelledNotificationParam, ClientNotification,
    ClientRequest, CustomResult, JsonObject, RequestId, RequestMetaObject, ServerResult,
};
use rmcp::service::{PeerRequestOptions, RequestHandle};
use rmcp::transport::streamable_http_client::StreamableHttpError;
use rmcp::{RoleClient, ServiceError};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::connection::Connection;
use super::errors::{CallFault, REFUSED, classify};
use super::http_post::Unanswered;
use super::message::RawArguments;
use super::server::{Reservation, Server};
use super::tap::Tap;
use super::tool_result::{self, ToolResult};
use crate::events::EventSink;
use crate::runner::{Invocation, RawOutput};
use crate::runners::http::secrets::Secrets;
use crate::schedule::Slot;

/// A call times out here this long before its deadline, so that its error names the server.
const MARGIN: Duration = Duration::from_millis(15);

/// How long a cancelled call keeps its reservation if the server does not answer.
const PATIENCE: Duration = Duration::from_secs(1);

/// How long an abandoned request is tracked.
const MEMORY: Duration = Duration::from_secs(60);

/// The pause before trying another connection.
const STEP: Duration = Duration::from_millis(5);

/// The maximum length of an error's details, in bytes.
const MAX_DETAILS_BYTES: usize = 4096;

/// A request to send, and the receiver of its events.
struct Outgoing {
    request: CallToolRequest,
    headers: Vec<(&'static str, String)>,
    sink: EventSink,
    has_secrets: bool,
    /// The tap of the most recent attempt.
    tap: Mutex<Option<Tap>>,
}

/// Calls the tool, and converts its answer or failure to the skill's output.
pub(super) async fn run(server: Arc<Server>, tool: &str, mut invocation: Invocation) -> RawOutput {
    // The attributes follow the semantic conventions for MCP clients. Only the gateway's span sets
    // `gen_ai.operation.name`, so that each call counts once.
    let attributes =
        vec![KeyValue::new("mcp.method.name", "tools/call"), KeyValue::new("gen_ai.tool.name", tool.to_owned())];
    let span = invocation.trace.request(format!("tools/call {tool}"), attributes, invocation.deadline);
    if let Some(span) = &span {
        invocation.traceparent = span.context().to_traceparent();
    }
    let output = call(server, tool, invocation).await;
    if let Some(span) = span {
        let failure = match &output {
            RawOutput::Failed(error) | RawOutput::NotStarted(error) => Some(error.code().as_str_name().into()),
            _ => None,
        };
        span.end([], failure);
    }
    output
}

async fn call(server: Arc<Server>, tool: &str, invocation: Invocation) -> RawOutput {
    let until = invocation.deadline.checked_sub(MARGIN).unwrap_or(invocation.deadline);
    let Ok(arguments) = serde_json::from_slice::<JsonObject>(&invocation.input) else {
        return fail(CallFault::Rpc { code: -32602, message: "the arguments are not a JSON object" });
    };
    // The protocol library derives headers from some arguments, so it needs them parsed.
    let params = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
    let mut request = CallToolRequest::new(params);
    request.extensions.insert(meta(&invocation));
    request.extensions.insert(RawArguments::new(&invocation.input));
    let (headers, has_secrets) = (headers(&invocation), invocation.has_secrets);
    let outgoing = Outgoing { request, headers, sink: invocation.events, has_secrets, tap: Mutex::default() };
    let attempts = attempts(&server, tool, &outgoing, until, invocation.slot);
    match tokio::time::timeout_at(until.into(), attempts).await {
        Ok(output) => output,
        Err(_) if outgoing.tap.lock().as_ref().is_some_and(Tap::is_sent) => fail(CallFault::Late),
        Err(_) => match server.away() {
            Some(reason) => fail(CallFault::Away { reason: &reason }),
            None => fail(CallFault::Late),
        },
    }
}

fn fail(fault: CallFault<'_>) -> RawOutput {
    let output = if matches!(fault, CallFault::Away { .. }) { RawOutput::NotStarted } else { RawOutput::Failed };
    output(classify(fault, false))
}

async fn attempts(server: &Arc<Server>, tool: &str, outgoing: &Outgoing, until: Instant, slot: Slot) -> RawOutput {
    let mut slot = Some(slot);
    loop {
        let reserved = match server.reserve(until).await {
            Ok(reserved) => reserved,
            Err(reason) => return fail(CallFault::Away { reason: &reason }),
        };
        let (tap, events) = Tap::new(&outgoing.sink, outgoing.headers.clone(), Arc::clone(&server.secrets));
        *outgoing.tap.lock() = Some(tap.clone());
        let mut request = outgoing.request.clone();
        request.extensions.insert(tap.clone());
        let connection = Arc::clone(&reserved.connection);
        connection.signs.given_secrets.note(outgoing.has_secrets);
        let peer = connection.peer.clone();
        let options = PeerRequestOptions::no_options();
        let sent = peer.send_request_with_option(ClientRequest::CallToolRequest(request), options).await;
        let ended = match sent {
            Ok(handle) => {
                let owed = OwedAnswer { id: handle.id.clone(), tap: tap.clone(), held: Some((reserved, slot.take())) };
                let ended = answer(handle, events, &outgoing.sink).await;
                slot = owed.settle();
                ended
            }
            Err(error) => Err(error),
        };
        match ended {
            Ok(result) => {
                let output = judge(result, tool, tap.lacks_input(), &outgoing.sink, &server.secrets).await;
                return naming(output, &tap);
            }
            Err(ServiceError::McpError(error)) => {
                let message = server.secrets.scrub_text(error.message.into_owned());
                let fault = CallFault::Rpc { code: error.code.0, message: &message };
                let mut failure = classify(fault, tap.lacks_input());
                if let Some(details) = error.data.and_then(|data| details(&data, &server.secrets)) {
                    failure = failure.with_details(details);
                }
                return naming(RawOutput::Failed(failure), &tap);
            }
            Err(error) => {
                if let Some(unanswered) = http_error(&error).and_then(Unanswered::from_error) {
                    connection.needs_ping.notify_one();
                    let said = server.secrets.scrub_text(unanswered.said.clone());
                    return fail(match unanswered.status {
                        status @ 500.. => CallFault::Status(status),
                        _ => CallFault::Rpc { code: REFUSED, message: &said },
                    });
                }
                if let Some(fault) = http_error(&error).and_then(http_fault) {
                    return fail(fault);
                }
                // Only this request failed: each other call has a separate connection.
                if connection.over_http && tap.is_sent() && !connection.peer.is_transport_closed() {
                    return fail(CallFault::Lost);
                }
                connection.leave();
                connection.lost.notify_one();
                // Withdrawing the request ensures that it is not sent later.
                if !tap.withdraw() {
                    return fail(CallFault::Lost);
                }
                tokio::time::sleep(STEP).await;
            }
        }
    }
}

/// Waits for the answer. Forwards the events that the server sends before it.
async fn answer(
    handle: RequestHandle<RoleClient>,
    mut events: mpsc::Receiver<Event>,
    sink: &EventSink,
) -> Result<ServerResult, ServiceError> {
    let mut answer = handle.rx;
    let ended = loop {
        tokio::select! {
            biased;
            ended = &mut answer => break ended.unwrap_or(Err(ServiceError::TransportClosed)),
            Some(event) = events.recv() => sink.send(event).await,
        }
    };
    while let Ok(event) = events.try_recv() {
        sink.send(event).await;
    }
    ended
}

/// Returns the data of a server's error, redacted, as details of the skill's error.
fn details(data: &Value, secrets: &Secrets) -> Option<String> {
    let details = secrets.scrub_json(json!({ "data": data }).to_string());
    (!data.is_null() && details.len() <= MAX_DETAILS_BYTES).then_some(details)
}

/// Stores the media of a result or failure as artifacts, and returns the output.
async fn judge(result: ServerResult, tool: &str, asked: bool, sink: &EventSink, secrets: &Arc<Secrets>) -> RawOutput {
    let json = match result {
        ServerResult::CustomResult(CustomResult(Value::String(json))) => json,
        // Only the library can parse this result, for example because it has no content.
        ServerResult::CallToolResult(result) => serde_json::to_string(&result).unwrap_or_default(),
        // The server wants the call repeated with input from the user.
        ServerResult::InputRequiredResult(_) => {
            return RawOutput::Failed(classify(CallFault::Tool { text: "the tool asks the user a question" }, true));
        }
        _ => return fail(CallFault::NoResult),
    };
    let (tool, kept, secrets) = (tool.to_owned(), sink.clone(), Arc::clone(secrets));
    let judged = off_shard(json.len() > LIGHT_BYTES, move || {
        let Some(result) = ToolResult::read(&json) else { return (Vec::new(), fail(CallFault::NoResult)) };
        kept.keep_content(|| tool_result::as_sent(&json, &secrets));
        (tool_result::media(&result, &secrets), tool_result::output(&result, &tool, asked, &secrets))
    });
    let (media, output) = judged.await;
    for media in media {
        match media {
            Some(it) => sink.artifact(&it.name, &it.media_type, it.data).await,
            None => sink.drop_one(),
        }
    }
    output
}

/// Adds to a failure the capability that the caller lacks.
fn naming(output: RawOutput, tap: &Tap) -> RawOutput {
    match (output, tap.missing_capability()) {
        (RawOutput::Failed(error), Some(capability)) if error.code() == ErrorCode::AskUserUnavailable => {
            RawOutput::Failed(error.with_details(format!("{{\"capability\":\"{capability}\"}}")))
        }
        (output, _) => output,
    }
}

fn http_error(error: &ServiceError) -> Option<&StreamableHttpError<reqwest::Error>> {
    let ServiceError::TransportSend(error) = error else { return None };
    error.error.downcast_ref()
}

/// Converts an HTTP error response to a fault. Returns `None` if the server was unreachable.
fn http_fault(error: &StreamableHttpError<reqwest::Error>) -> Option<CallFault<'static>> {
    match error {
        StreamableHttpError::HttpStatus(error) => Some(CallFault::Status(error.status)),
        StreamableHttpError::AuthRequired(_) => Some(CallFault::Status(401)),
        StreamableHttpError::InsufficientScope(_) => Some(CallFault::Status(403)),
        StreamableHttpError::UnexpectedServerResponse(_)
        | StreamableHttpError::UnexpectedContentType(_)
        | StreamableHttpError::ResponseBodyTooLarge { .. } => Some(CallFault::NoResult),
        _ => None,
    }
}

/// Returns the trace context, the session and the principal, for servers that use them.
fn meta(invocation: &Invocation) -> RequestMetaObject {
    let mut meta = RequestMetaObject::new();
    for (name, value) in [
        ("traceparent", &invocation.traceparent),
        ("tracestate", &invocation.tracestate),
        ("openskill/trace_id", &invocation.trace_id),
        ("openskill.dev/session_id", &invocation.session_id),
        ("openskill.dev/principal", &invocation.principal),
    ] {
        if !value.is_empty() {
            meta.insert(name.to_owned(), value.as_str().into());
        }
    }
    meta
}

fn headers(invocation: &Invocation) -> Vec<(&'static str, String)> {
    let all = [
        ("traceparent", &invocation.traceparent),
        ("tracestate", &invocation.tracestate),
        ("x-trace-id", &invocation.trace_id),
    ];
    all.into_iter().filter(|(_, value)| !value.is_empty()).map(|(name, value)| (name, value.clone())).collect()
}

/// A request that the server has not answered. Dropping this before `settle` cancels the request at the server,
/// and keeps the call's capacity reserved until the server answers or [`PATIENCE`] has passed.
struct OwedAnswer {
    id: RequestId,
    tap: Tap,
    held: Option<(Reservation, Option<Slot>)>,
}

impl OwedAnswer {
    /// Records that the call was answered.
    fn settle(mut self) -> Option<Slot> {
        self.held.take().and_then(|(reserved, slot)| {
            reserved.connection.signs.taps.forget(&self.id);
            slot
        })
    }
}

impl Drop for OwedAnswer {
    fn drop(&mut self) {
        let Some((reserved, slot)) = self.held.take() else { return };
        let connection = Arc::clone(&reserved.connection);
        if self.tap.withdraw() || self.tap.answered.is_cancelled() {
            return connection.signs.taps.forget(&self.id);
        }
        let (id, tap) = (self.id.clone(), self.tap.clone());
        let runtime = reserved.server.runtime.clone();
        runtime.spawn(async move {
            let held = (reserved, slot);
            abandon(&connection, &id, &tap).await;
            drop(held);
            let _ = tokio::time::timeout(MEMORY, tap.answered.cancelled()).await;
            connection.signs.taps.forget(&id);
        });
    }
}

/// Cancels the request at the server, and briefly waits for it to stop.
async fn abandon(connection: &Connection, id: &RequestId, tap: &Tap) {
    if connection.signs.taps.abandon(id) > connection.calls {
        connection.needs_ping.notify_one();
    }
    let params = CancelledNotificationParam::new(Some(id.clone()), Some("the caller no longer waits".to_owned()));
    let notification = ClientNotification::CancelledNotification(CancelledNotification::new(params));
    let told = async {
        let _ = connection.peer.send_notification(notification).await;
        tap.answered.cancelled().await;
    };
    let _ = tokio::time::timeout(PATIENCE, told).await;
}
