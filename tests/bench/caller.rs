//! A caller makes one call after the other: by gRPC (unary, or a slot on an `InvokeMany` stream; all callers share one
//! connection) or by HTTP/1.1 (REST or MCP; a connection for each caller).

use std::net::SocketAddr;

use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use openskill_proto::limits::MAX_CALLS_PER_STREAM;
use openskill_proto::v1::invoke_event::Event;
use openskill_proto::v1::skill_service_client::SkillServiceClient;
use openskill_proto::v1::{ErrorCode, InvokeEvent, InvokeRequest, SkillResult};
use openskill_tests::certs::Client;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status, Streaming};

use crate::rows::TEXT;

const MAX_MESSAGE_BYTES: usize = 64 << 20;
/// The path of MCP over streamable HTTP.
pub(crate) const MCP: &str = "/mcp";
const MCP_VERSION: &str = "2025-06-18";
const MCP_SESSION: &str = "mcp-session-id";

/// Why a call did not succeed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// By load shedding: nothing was started, and the caller may come again.
    Shed,
    Broken(String),
}

impl From<String> for Failure {
    fn from(reason: String) -> Self {
        Self::Broken(reason)
    }
}

/// What is called, and how.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) address: SocketAddr,
    /// gRPC over TLS, trusting this.
    pub(crate) tls: Option<Client>,
    pub(crate) call: Call,
}

#[derive(Clone)]
pub(crate) enum Call {
    Invoke(InvokeRequest),
    InvokeMany(InvokeRequest),
    /// `POST` of a body to a path, within an MCP session if the path is [`MCP`]. The answer must contain [`TEXT`].
    Post(&'static str, String),
}

pub(crate) enum Caller {
    Invoke(SkillServiceClient<Channel>, InvokeRequest),
    InvokeMany(Slot),
    Http(Http, &'static str, String),
}

impl Caller {
    /// Makes one call, which has to succeed.
    pub(crate) async fn call(&mut self) -> Result<(), Failure> {
        match self {
            Self::Invoke(client, request) => {
                succeeded(client.invoke(request.clone()).await.map_err(failure)?.get_ref())
            }
            Self::InvokeMany(slot) => slot.call().await,
            Self::Http(http, path, body) => http.post(path, body.clone()).await?.contains(TEXT),
        }
    }
}

/// Connects the callers. To be called within a `LocalSet`.
pub(crate) async fn dial(target: &Target, callers: usize) -> Result<Vec<Caller>, String> {
    match &target.call {
        Call::Invoke(request) => {
            let client = connect(target).await?;
            Ok((0..callers).map(|_| Caller::Invoke(client.clone(), request.clone())).collect())
        }
        Call::InvokeMany(request) => {
            let client = connect(target).await?;
            let mut all = Vec::new();
            while all.len() < callers {
                let slots = MAX_CALLS_PER_STREAM.min(callers - all.len());
                all.extend(open(client.clone(), request, slots).await?.into_iter().map(Caller::InvokeMany));
            }
            Ok(all)
        }
        Call::Post(path, body) => {
            let connections = (0..callers).map(|_| Http::connect(target.address, *path == MCP));
            let connections = futures_util::future::try_join_all(connections).await?;
            Ok(connections.into_iter().map(|http| Caller::Http(http, path, body.clone())).collect())
        }
    }
}

async fn connect(target: &Target) -> Result<SkillServiceClient<Channel>, String> {
    let address = target.address;
    let channel = match &target.tls {
        Some(tls) => tls.channel(address).await,
        None => {
            let endpoint = Endpoint::from_shared(format!("http://{address}")).map_err(|error| error.to_string())?;
            endpoint.tcp_nodelay(true).connect().await
        }
    };
    let channel = channel.map_err(|error| error.to_string())?;
    let client = SkillServiceClient::new(channel);
    Ok(client.max_decoding_message_size(MAX_MESSAGE_BYTES).max_encoding_message_size(MAX_MESSAGE_BYTES))
}

fn failure(status: Status) -> Failure {
    match status.code() {
        Code::ResourceExhausted => Failure::Shed,
        _ => Failure::Broken(status.message().to_owned()),
    }
}

fn succeeded(result: &SkillResult) -> Result<(), Failure> {
    match &result.error {
        None => Ok(()),
        Some(error) if error.code() == ErrorCode::Overloaded => Err(Failure::Shed),
        Some(error) => Err(format!("{}: {}", error.code().as_str_name(), error.message).into()),
    }
}

/// The right to one call at a time on an `InvokeMany` stream.
pub(crate) struct Slot {
    request: InvokeRequest,
    requests: mpsc::Sender<InvokeRequest>,
    results: mpsc::Receiver<SkillResult>,
}

/// Opens one stream with this many slots.
async fn open(
    mut client: SkillServiceClient<Channel>,
    request: &InvokeRequest,
    slots: usize,
) -> Result<Vec<Slot>, String> {
    let (requests, outgoing) = mpsc::channel(slots);
    let events = client.invoke_many(ReceiverStream::new(outgoing)).await;
    let events = events.map_err(|status| status.message().to_owned())?.into_inner();
    let (senders, receivers): (Vec<_>, Vec<_>) = (0..slots).map(|_| mpsc::channel(1)).unzip();
    // Ends with the stream, which ends with its slots.
    tokio::task::spawn_local(hand_out(events, senders));
    let slot = |(number, results): (usize, _)| {
        let request = InvokeRequest { call_id: number.to_string(), ..request.clone() };
        Slot { request, requests: requests.clone(), results }
    };
    Ok(receivers.into_iter().enumerate().map(slot).collect())
}

/// Gives each result to the slot whose number is the call's id.
async fn hand_out(mut events: Streaming<InvokeEvent>, slots: Vec<mpsc::Sender<SkillResult>>) {
    while let Ok(Some(event)) = events.message().await {
        if let Some(Event::Result(result)) = event.event
            && let Some(slot) = event.call_id.parse().ok().and_then(|number: usize| slots.get(number))
        {
            let _ = slot.send(result).await;
        }
    }
}

impl Slot {
    async fn call(&mut self) -> Result<(), Failure> {
        let ended = || Failure::Broken("the stream ended".to_owned());
        self.requests.send(self.request.clone()).await.map_err(|_| ended())?;
        succeeded(&self.results.recv().await.ok_or_else(ended)?)
    }
}

/// A connection that is kept alive.
pub(crate) struct Http {
    sender: SendRequest<Full<Bytes>>,
    address: SocketAddr,
    /// What every request of an MCP session carries.
    headers: HeaderMap,
}

struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

impl Http {
    async fn connect(address: SocketAddr, mcp: bool) -> Result<Self, String> {
        let stream = tokio::net::TcpStream::connect(address).await.map_err(|error| error.to_string())?;
        stream.set_nodelay(true).map_err(|error| error.to_string())?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
        // Ends with its sender, whose requests report its errors.
        tokio::task::spawn_local(async move {
            let _ = connection.await;
        });
        let mut http = Self { sender, address, headers: HeaderMap::new() };
        if mcp {
            http.begin_session().await?;
        }
        Ok(http)
    }

    async fn begin_session(&mut self) -> Result<(), String> {
        let accept = header::HeaderValue::from_static("application/json, text/event-stream");
        self.headers.insert(header::ACCEPT, accept);
        self.headers.insert("mcp-protocol-version", header::HeaderValue::from_static(MCP_VERSION));
        let answer = self.post(MCP, initialize().to_string()).await?;
        if let Some(session) = answer.headers.get(MCP_SESSION) {
            self.headers.insert(MCP_SESSION, session.clone());
        }
        self.post(MCP, json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string()).await?;
        Ok(())
    }

    async fn post(&mut self, path: &str, body: String) -> Result<Answer, String> {
        let request = Request::post(path).header(header::HOST, self.address.to_string());
        let request = request.header(header::CONTENT_TYPE, "application/json");
        let mut request = request.body(Full::new(Bytes::from(body))).map_err(|error| error.to_string())?;
        request.headers_mut().extend(self.headers.clone());
        self.sender.ready().await.map_err(|error| error.to_string())?;
        let (parts, body) = self.sender.send_request(request).await.map_err(|error| error.to_string())?.into_parts();
        let body = body.collect().await.map_err(|error| error.to_string())?.to_bytes();
        Ok(Answer { status: parts.status, headers: parts.headers, body })
    }
}

/// The first message of a client of MCP.
pub(crate) fn initialize() -> Value {
    let client = json!({"name": "bench", "version": "1"});
    let params = json!({"protocolVersion": MCP_VERSION, "capabilities": {}, "clientInfo": client});
    json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})
}

impl Answer {
    fn contains(&self, text: &str) -> Result<(), Failure> {
        // From its end: in a long list, that is where it is.
        let found = self.body.windows(text.len()).rev().any(|part| part == text.as_bytes());
        match self.status {
            StatusCode::SERVICE_UNAVAILABLE => Err(Failure::Shed),
            status if status.is_success() && found => Ok(()),
            status => {
                let body: String = String::from_utf8_lossy(&self.body).chars().take(200).collect();
                Err(format!("{status}: {body}").into())
            }
        }
    }
}
