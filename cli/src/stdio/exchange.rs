//! Sends one request to the gateway within its session.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use openskill_net::tls::install_provider;
use openskill_text::sse::SseDecoder;
use parking_lot::Mutex;
use reqwest::{Client, Response};
use rustls::ClientConfig;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::message::{Message, failure};
use super::parameters::{KnownTools, repeat};
use crate::exit::Failure;

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");

/// The maximum length of a gateway's message, in bytes. A result contains its data twice: as structured content
/// and as text.
const MAX_MESSAGE: usize = 64 * 1024 * 1024;

/// The timeout of a connection attempt.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// The initial and the maximum pause between attempts to listen for changes.
const PAUSE: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));

/// JSON-RPC's code for an internal error.
const INTERNAL: i32 = -32603;

/// The error code for a header that does not match the message.
const MISMATCH: i64 = -32020;

/// The maximum number of tool pages that are read.
const MAX_PAGES: usize = 64;

/// A gateway, with a session if the client speaks an older revision of MCP. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Gateway {
    client: Client,
    url: Arc<str>,
    session: Arc<Mutex<McpSession>>,
    tools: KnownTools,
}

/// A session. If a restarted gateway has lost it, a new session replaces it.
#[derive(Debug, Default)]
struct McpSession {
    id: Option<HeaderValue>,
    version: Option<HeaderValue>,
    /// The `initialize` message of the client, which began the session.
    initialize: String,
}

/// The channel to the client. A send error means that the client is gone.
pub(super) type MessageSender = mpsc::Sender<String>;

impl Gateway {
    /// Creates a gateway client without connecting.
    ///
    /// # Errors
    /// The HTTP client cannot be built.
    pub(super) fn new(url: &str, headers: HeaderMap, tls: Option<ClientConfig>) -> Result<Self, Failure> {
        install_provider();
        let builder = Client::builder().connect_timeout(CONNECT_TIMEOUT).no_proxy().default_headers(headers);
        let builder = match tls {
            Some(config) => builder.tls_backend_preconfigured(config),
            // Plain HTTP needs no certificates, and loading them takes a while.
            None => builder.tls_certs_only([]),
        };
        let failed =
            |error: reqwest::Error| Failure::gateway(url, format!("can't be reached: {}", error.without_url()));
        let client = builder.build().map_err(failed)?;
        Ok(Self { client, url: url.into(), session: Arc::default(), tools: KnownTools::default() })
    }

    /// Whether the client uses a session.
    pub(super) fn has_session(&self) -> bool {
        self.session.lock().id.is_some()
    }

    /// Sends a message and forwards each message of the response to `out`.
    pub(super) async fn exchange(&self, text: String, message: Message, out: MessageSender) {
        if message.method == "initialize" {
            let mut session = self.session.lock();
            *session = McpSession { initialize: text.clone(), ..McpSession::default() };
        }
        let answered = self.try_exchange(&text, &message, &out).await;
        if let Err(reason) = answered
            && message.is_request()
        {
            let _ = out.send(failure(message.id.as_deref(), INTERNAL, &reason)).await;
        }
    }

    async fn try_exchange(&self, text: &str, message: &Message, out: &MessageSender) -> Result<(), String> {
        self.learn(message).await?;
        let mut response = self.post(text, message).await?;
        if response.status() == StatusCode::BAD_REQUEST && message.call().is_some() {
            let refusal = read_as_line(response).await?;
            if !is_mismatch(&refusal) {
                return self.say(&refusal, message, out).await;
            }
            // The tool may require other headers now.
            self.tools.forget();
            self.learn(message).await?;
            response = self.post(text, message).await?;
        }
        let has_session = message.version.is_none() && self.session.lock().id.is_some();
        if response.status() == StatusCode::NOT_FOUND && has_session {
            self.begin_again().await?;
            response = self.post(text, message).await?;
        }
        if message.method == "initialize" {
            self.session.lock().id = response.headers().get(SESSION).cloned();
        }
        self.pass_on(response, message, out).await
    }

    async fn post(&self, text: &str, message: &Message) -> Result<Response, String> {
        let mut headers = self.headers(message.version.is_none());
        message.repeat(&mut headers);
        if let Some((tool, arguments)) = message.call()
            && let Some(parameters) = self.tools.get(tool)
        {
            repeat(&parameters, arguments, &mut headers);
        }
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        let sent = self.client.post(&*self.url).headers(headers).body(text.to_owned()).send().await;
        sent.map_err(|error| format!("the gateway can't be reached: {}", error.without_url()))
    }

    /// If a message calls an unknown tool, lists the tools to learn which arguments become headers.
    async fn learn(&self, message: &Message) -> Result<(), String> {
        let (Some(version), Some((tool, _))) = (&message.version, message.call()) else { return Ok(()) };
        let mut cursor = None;
        for _ in 0..MAX_PAGES {
            if self.tools.get(tool).is_some() {
                return Ok(());
            }
            let mut params = json!({ "_meta": {
                "io.modelcontextprotocol/protocolVersion": version,
                "io.modelcontextprotocol/clientCapabilities": {},
            } });
            if let Some(cursor) = cursor {
                params["cursor"] = Value::String(cursor);
            }
            let method = "tools/list".to_owned();
            let text = json!({ "jsonrpc": "2.0", "id": "tools", "method": method, "params": params }).to_string();
            let listing = Message { method, version: Some(version.clone()), ..Message::default() };
            cursor = self.tools.learn(&read_as_line(self.post(&text, &listing).await?).await?);
            if cursor.is_none() {
                break;
            }
        }
        self.tools.note_unlisted(tool);
        Ok(())
    }

    /// Returns the headers of a request. `with_session` includes the session, for clients of older revisions.
    fn headers(&self, with_session: bool) -> HeaderMap {
        let mut headers = HeaderMap::new();
        if with_session {
            let session = self.session.lock();
            headers.extend(session.id.clone().map(|it| (SESSION, it)));
            headers.extend(session.version.clone().map(|it| (VERSION, it)));
        }
        headers
    }

    /// Replaces a lost session with a new one, transparently for the client.
    async fn begin_again(&self) -> Result<(), String> {
        let initialize = std::mem::take(&mut *self.session.lock()).initialize;
        let message = Message { method: "initialize".to_owned(), ..Message::default() };
        let response = self.post(&initialize, &message).await?;
        let id = response.headers().get(SESSION).cloned();
        let text = read_as_line(response).await?;
        let mut session = self.session.lock();
        *session = McpSession { id, initialize, version: version(&text) };
        Ok(())
    }

    /// Forwards a response, message by message.
    async fn pass_on(&self, response: Response, message: &Message, out: &MessageSender) -> Result<(), String> {
        if response.status() == StatusCode::ACCEPTED {
            return Ok(());
        }
        if is_stream(&response) {
            return stream(response, out).await;
        }
        let text = read_as_line(response).await?;
        if message.method == "tools/list" {
            self.tools.learn(&text);
        }
        self.say(&text, message, out).await
    }

    /// Forwards a response that is a single message.
    async fn say(&self, text: &str, message: &Message, out: &MessageSender) -> Result<(), String> {
        let body: Option<Value> = serde_json::from_str(text).ok();
        let is_message = |it: &Value| it.is_array() || it.get("jsonrpc").is_some();
        let Some(body) = body.filter(is_message) else {
            return Err(format!("the gateway refused the request: {}", refusal(text)));
        };
        if message.method == "initialize" {
            self.session.lock().version = version(text);
        }
        if !message.is_request() {
            return Ok(());
        }
        // An error without an id belongs to this request.
        if body.is_object() && body.get("id").is_none_or(Value::is_null) && body.get("error").is_some() {
            let reason = body.pointer("/error/message").and_then(Value::as_str).unwrap_or_default();
            return Err(reason.to_owned());
        }
        let _ = out.send(text.to_owned()).await;
        Ok(())
    }

    /// Listens for changes on behalf of a client with a session. Never returns.
    pub(super) async fn listen(self, out: MessageSender) {
        let mut pause = PAUSE.0;
        loop {
            let mut headers = self.headers(true);
            headers.insert(header::ACCEPT, HeaderValue::from_static("text/event-stream"));
            let response = self.client.get(&*self.url).headers(headers).send().await;
            if let Ok(response) = response
                && response.status().is_success()
                && is_stream(&response)
            {
                pause = PAUSE.0;
                let _ = stream(response, &out).await;
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSE.1);
        }
    }
}

/// Whether an error reports a mismatch between headers and arguments.
fn is_mismatch(text: &str) -> bool {
    let body: Option<Value> = serde_json::from_str(text).ok();
    body.and_then(|it| it.pointer("/error/code").and_then(Value::as_i64)) == Some(MISMATCH)
}

fn is_stream(response: &Response) -> bool {
    let kind = response.headers().get(header::CONTENT_TYPE).map_or(&b""[..], HeaderValue::as_bytes);
    kind.starts_with(b"text/event-stream")
}

async fn stream(mut response: Response, out: &MessageSender) -> Result<(), String> {
    let mut decoder = SseDecoder::new(MAX_MESSAGE);
    while let Some(piece) = response.chunk().await.map_err(read_error)? {
        let events = decoder.take(&piece).map_err(|error| format!("the gateway's answer can't be read: {error}"))?;
        for message in events.into_iter().filter_map(|it| it.data).filter(|it| !it.is_empty()) {
            if out.send(in_one_line(&message)).await.is_err() {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Reads a response body as a single line.
async fn read_as_line(mut response: Response) -> Result<String, String> {
    let mut body = Vec::new();
    while let Some(piece) = response.chunk().await.map_err(read_error)? {
        if body.len() + piece.len() > MAX_MESSAGE {
            return Err("the gateway's answer is too long".to_owned());
        }
        body.extend_from_slice(&piece);
    }
    Ok(in_one_line(&String::from_utf8_lossy(&body)))
}

/// Replaces line breaks with spaces. In JSON they occur only between tokens.
fn in_one_line(json: &str) -> String {
    json.replace(['\n', '\r'], " ")
}

fn read_error(error: reqwest::Error) -> String {
    format!("the gateway's answer was cut off: {}", error.without_url())
}

/// Returns the protocol revision in the response to `initialize`.
fn version(answer: &str) -> Option<HeaderValue> {
    let answer: Value = serde_json::from_str(answer).ok()?;
    HeaderValue::from_str(answer.pointer("/result/protocolVersion")?.as_str()?).ok()
}

/// Returns the error message of a response whose body is not an MCP message.
fn refusal(text: &str) -> String {
    let body: Value = serde_json::from_str(text).unwrap_or_default();
    let message = body.pointer("/error/message").and_then(Value::as_str).unwrap_or(text);
    message.chars().take(512).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_of_several_lines_is_one_line() {
        assert_eq!(in_one_line("{\"a\":\n1}\r\n"), "{\"a\": 1}  ");
    }
}
