//! One request to the gateway, and the session that it belongs to.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use reqwest::{Client, Response};
use rustls::ClientConfig;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::events::{Events, MAX_MESSAGE};
use super::message::{Message, failure};
use super::parameters::{Known, repeat};
use crate::exit::Failure;

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");

/// How long a connection attempt may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// The pauses between attempts to listen for changes: the first and the longest.
const PAUSE: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));

/// An internal error of JSON-RPC.
const INTERNAL: i32 = -32603;

/// A header that is unlike the message.
const MISMATCH: i64 = -32020;

/// How many pages of tools are read.
const MAX_PAGES: usize = 64;

/// A gateway, and the session of a client of an older revision. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Gateway {
    client: Client,
    url: Arc<str>,
    session: Arc<Mutex<Session>>,
    tools: Known,
}

/// The session. A gateway that was restarted may not know it any more: then a new one begins.
#[derive(Debug, Default)]
struct Session {
    id: Option<HeaderValue>,
    version: Option<HeaderValue>,
    /// The message that began it.
    initialize: String,
}

/// Where messages to the client go. An error means that the client is gone.
pub(super) type Out = mpsc::Sender<String>;

impl Gateway {
    /// # Errors
    /// There is no HTTP client.
    pub(super) fn new(url: &str, headers: HeaderMap, tls: Option<ClientConfig>) -> Result<Self, Failure> {
        // Another thread may have installed it.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let builder = Client::builder().connect_timeout(CONNECT_TIMEOUT).no_proxy().default_headers(headers);
        let builder = match tls {
            Some(config) => builder.tls_backend_preconfigured(config),
            // Certificates are not needed, and loading them takes a while.
            None => builder.tls_certs_only([]),
        };
        let client = builder.build().map_err(|error| {
            let reason = format!("can't be asked: {}", error.without_url());
            Failure::Gateway { url: url.to_owned(), reason }
        })?;
        Ok(Self { client, url: url.into(), session: Arc::default(), tools: Known::default() })
    }

    fn lock(&self) -> MutexGuard<'_, Session> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the client speaks in a session.
    pub(super) fn has_session(&self) -> bool {
        self.lock().id.is_some()
    }

    /// Sends a message, and each message of the answer to `out`.
    pub(super) async fn exchange(&self, text: String, message: Message, out: Out) {
        if message.method == "initialize" {
            let mut session = self.lock();
            *session = Session { initialize: text.clone(), ..Session::default() };
        }
        let answered = self.answered(&text, &message, &out).await;
        if let Err(reason) = answered
            && message.is_request()
        {
            let _ = out.send(failure(message.id.as_deref(), INTERNAL, &reason)).await;
        }
    }

    async fn answered(&self, text: &str, message: &Message, out: &Out) -> Result<(), String> {
        self.learn(message).await?;
        let mut response = self.post(text, message).await?;
        if response.status() == StatusCode::BAD_REQUEST && message.call().is_some() {
            let refusal = whole(response).await?;
            if !is_mismatch(&refusal) {
                return self.say(&refusal, message, out).await;
            }
            // The tool may ask for other headers than before.
            self.tools.forget();
            self.learn(message).await?;
            response = self.post(text, message).await?;
        }
        let has_session = message.version.is_none() && self.lock().id.is_some();
        if response.status() == StatusCode::NOT_FOUND && has_session {
            self.begin_again().await?;
            response = self.post(text, message).await?;
        }
        if message.method == "initialize" {
            self.lock().id = response.headers().get(SESSION).cloned();
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

    /// Lists the tools, if a message calls one that was not listed before: some arguments are headers too.
    async fn learn(&self, message: &Message) -> Result<(), String> {
        let (Some(version), Some((tool, _))) = (&message.version, message.call()) else { return Ok(()) };
        let mut cursor = None;
        for _ in 0..MAX_PAGES {
            if self.tools.get(tool).is_some() {
                return Ok(());
            }
            let meta = json!({
                "io.modelcontextprotocol/protocolVersion": version,
                "io.modelcontextprotocol/clientCapabilities": {},
            });
            let params = match &cursor {
                Some(cursor) => json!({ "_meta": meta, "cursor": cursor }),
                None => json!({ "_meta": meta }),
            };
            let method = "tools/list".to_owned();
            let text = json!({ "jsonrpc": "2.0", "id": "tools", "method": method, "params": params }).to_string();
            let listing = Message { method, version: Some(version.clone()), ..Message::default() };
            cursor = self.tools.learn(&whole(self.post(&text, &listing).await?).await?);
            if cursor.is_none() {
                break;
            }
        }
        self.tools.note_unlisted(tool);
        Ok(())
    }

    /// `with_session`: for a client of a revision that has sessions.
    fn headers(&self, with_session: bool) -> HeaderMap {
        let mut headers = HeaderMap::new();
        if with_session {
            let session = self.lock();
            headers.extend(session.id.clone().map(|it| (SESSION, it)));
            headers.extend(session.version.clone().map(|it| (VERSION, it)));
        }
        headers
    }

    /// Begins a new session in place of one that is gone. The client need not know.
    async fn begin_again(&self) -> Result<(), String> {
        let initialize = std::mem::take(&mut *self.lock()).initialize;
        let message = Message { method: "initialize".to_owned(), ..Message::default() };
        let response = self.post(&initialize, &message).await?;
        let id = response.headers().get(SESSION).cloned();
        let text = whole(response).await?;
        let mut session = self.lock();
        *session = Session { id, initialize, version: version(&text) };
        Ok(())
    }

    /// Passes an answer on, message by message.
    async fn pass_on(&self, response: Response, message: &Message, out: &Out) -> Result<(), String> {
        if response.status() == StatusCode::ACCEPTED {
            return Ok(());
        }
        if is_stream(&response) {
            return stream(response, out).await;
        }
        let text = whole(response).await?;
        if message.method == "tools/list" {
            self.tools.learn(&text);
        }
        self.say(&text, message, out).await
    }

    /// Passes on an answer that is one message.
    async fn say(&self, text: &str, message: &Message, out: &Out) -> Result<(), String> {
        let body: Option<Value> = serde_json::from_str(text).ok();
        let is_message = |it: &Value| it.is_array() || it.get("jsonrpc").is_some();
        let Some(body) = body.filter(is_message) else {
            return Err(format!("the gateway refused the request: {}", refusal(text)));
        };
        if message.method == "initialize" {
            self.lock().version = version(text);
        }
        // An error that names no request belongs to this one.
        if !message.is_request() {
            return Ok(());
        }
        if body.is_object() && body.get("id").is_none_or(Value::is_null) && body.get("error").is_some() {
            let reason = body.pointer("/error/message").and_then(Value::as_str).unwrap_or_default();
            return Err(reason.to_owned());
        }
        let _ = out.send(text.to_owned()).await;
        Ok(())
    }

    /// Listens for changes, for a client that has a session. Never ends by itself.
    pub(super) async fn listen(self, out: Out) {
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

/// Whether an error says that headers and arguments differ.
fn is_mismatch(text: &str) -> bool {
    let body: Option<Value> = serde_json::from_str(text).ok();
    body.and_then(|it| it.pointer("/error/code").and_then(Value::as_i64)) == Some(MISMATCH)
}

fn is_stream(response: &Response) -> bool {
    let kind = response.headers().get(header::CONTENT_TYPE).map_or(&b""[..], HeaderValue::as_bytes);
    kind.starts_with(b"text/event-stream")
}

async fn stream(mut response: Response, out: &Out) -> Result<(), String> {
    let mut events = Events::default();
    while let Some(piece) = response.chunk().await.map_err(broken)? {
        for message in events.read(&piece).map_err(|_| "a message of the gateway is too long".to_owned())? {
            if out.send(message).await.is_err() {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// A body as one line.
async fn whole(mut response: Response) -> Result<String, String> {
    let mut body = Vec::new();
    while let Some(piece) = response.chunk().await.map_err(broken)? {
        if body.len() + piece.len() > MAX_MESSAGE {
            return Err("the answer of the gateway is too long".to_owned());
        }
        body.extend_from_slice(&piece);
    }
    // Line breaks stand only between the parts of JSON.
    Ok(String::from_utf8_lossy(&body).replace(['\n', '\r'], " "))
}

fn broken(error: reqwest::Error) -> String {
    format!("the answer of the gateway broke off: {}", error.without_url())
}

/// The revision that `initialize` agreed on.
fn version(answer: &str) -> Option<HeaderValue> {
    let answer: Value = serde_json::from_str(answer).ok()?;
    HeaderValue::from_str(answer.pointer("/result/protocolVersion")?.as_str()?).ok()
}

/// The message of a refusal whose body is not an MCP message.
fn refusal(text: &str) -> String {
    let body: Value = serde_json::from_str(text).unwrap_or_default();
    let message = body.pointer("/error/message").and_then(Value::as_str).unwrap_or(text);
    message.chars().take(512).collect()
}
