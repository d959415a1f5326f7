//! Calls skills from another service with tonic, over TLS, with an API key.
//!
//! ```sh
//! client localhost:8000 --ca ca.pem --token-file reports.key
//! ```
//!
//! Needs `openskill-proto` with the feature `grpc`, `tonic` with `channel` and `tls-ring`, `tonic-types`, `tokio`, `tokio-stream`,
//! `rand` and `serde_json`.

#![allow(clippy::print_stdout, reason = "it says what it did")]

use std::collections::HashMap;
use std::error::Error;
use std::time::{Duration, Instant};

use openskill_proto::v1::invoke_event::Event;
use openskill_proto::v1::invoke_request::Arguments;
use openskill_proto::v1::skill_result::Output;
use openskill_proto::v1::skill_service_client::SkillServiceClient;
use openskill_proto::v1::{InvokeRequest, SkillResult};
use serde_json::{Value, json};
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint};
use tonic::{Code, Request, Status};
use tonic_types::StatusExt as _;

type Client = SkillServiceClient<InterceptedService<Channel, Credentials>>;

/// Puts the API key into each request.
#[derive(Clone)]
struct Credentials(MetadataValue<Ascii>);

impl Interceptor for Credentials {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        request.metadata_mut().insert("authorization", self.0.clone());
        Ok(request)
    }
}

/// One client for the whole program: clones share the connection, which is made again when it is lost.
fn connect(arguments: &CommandLine) -> Result<Client, Box<dyn Error>> {
    let ca = Certificate::from_pem(std::fs::read(&arguments.ca)?);
    let channel = Endpoint::from_shared(format!("https://{}", arguments.address))?
        .tls_config(ClientTlsConfig::new().ca_certificate(ca))?
        .connect_timeout(Duration::from_secs(5))
        // Finds out that a connection is dead, also while a call waits for its result.
        .http2_keep_alive_interval(Duration::from_secs(30))
        .connect_lazy();
    let token = std::fs::read_to_string(&arguments.token_file)?;
    let mut bearer: MetadataValue<Ascii> = format!("Bearer {}", token.trim()).parse()?;
    bearer.set_sensitive(true);
    Ok(SkillServiceClient::with_interceptor(channel, Credentials(bearer)))
}

/// A request with a deadline, which the gateway gets too, and the trace that it belongs to. A service has a trace already: pass
/// on that of the request it is working for.
fn within<T>(message: T, timeout: Duration) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(timeout);
    let trace = format!("00-{:032x}-{:016x}-01", rand::random::<u128>(), rand::random::<u64>());
    if let Ok(trace) = trace.parse() {
        request.metadata_mut().insert("traceparent", trace);
    }
    request
}

/// How long to wait before the same call again. None if it must not be repeated. tonic reads no service configuration, so this is
/// what `service-config.json` says.
fn wait_before_retry(status: &Status, attempt: u32, has_key: bool) -> Option<Duration> {
    let backoff = Duration::from_millis(200) * 2_u32.pow(attempt.min(5));
    let backoff = backoff.min(Duration::from_secs(5)).mul_f64(rand::random());
    let details = status.get_error_details();
    if let Some(retry) = details.retry_info() {
        // The gateway says that it is safe, and when.
        return Some(retry.retry_delay.unwrap_or_default() + backoff);
    }
    // No word from the gateway: the connection was lost, and the skill may have run. With a key, the gateway runs it once.
    (details.error_info().is_none() && status.code() == Code::Unavailable && has_key).then_some(backoff)
}

/// Calls until there is a result, or no time left.
async fn call(client: &Client, message: InvokeRequest, timeout: Duration) -> Result<SkillResult, Status> {
    let (deadline, has_key) = (Instant::now() + timeout, !message.idempotency_key.is_empty());
    for attempt in 0.. {
        let left = deadline.saturating_duration_since(Instant::now());
        let status = match client.clone().invoke(within(message.clone(), left)).await {
            Ok(answer) => return Ok(answer.into_inner()),
            Err(status) => status,
        };
        match wait_before_retry(&status, attempt, has_key) {
            Some(wait) if Instant::now() + wait < deadline => tokio::time::sleep(wait).await,
            _ => return Err(status),
        }
    }
    unreachable!("the loop has no end but these")
}

fn request(skill: &str, input: &Value) -> InvokeRequest {
    let arguments = Some(Arguments::InputJson(input.to_string()));
    InvokeRequest { skill_id: skill.to_owned(), arguments, ..InvokeRequest::default() }
}

/// The data of a result. Errors of skills are results, and not statuses: a model can act on them.
fn data(result: SkillResult) -> Result<Value, Box<dyn Error>> {
    match (result.error, result.output) {
        (Some(error), _) => Err(format!("{}: {}", error.code, error.message).into()),
        (None, Some(Output::DataJson(text))) => Ok(serde_json::from_str(&text)?),
        (None, _) => Ok(Value::Null),
    }
}

/// Several calls at once on one stream. Their results come as they end, in any order.
async fn call_many(client: &Client) -> Result<(), Box<dyn Error>> {
    let mut texts: HashMap<_, _> = (0..3).map(|it| (format!("call-{it}"), format!("text {it}"))).collect();
    let requests: Vec<_> = texts
        .iter()
        .map(|(id, text)| InvokeRequest { call_id: id.clone(), ..request("echo", &json!({ "text": text })) })
        .collect();
    let stream = within(tokio_stream::iter(requests), Duration::from_secs(20));
    let mut events = client.clone().invoke_many(stream).await?.into_inner();
    while let Some(event) = events.message().await? {
        if let Some(Event::Result(result)) = event.event {
            let echoed = data(result)?["echoed"].clone();
            assert_eq!(texts.remove(&event.call_id).map(Value::from), Some(echoed.clone()));
            println!("one of many: {}", echoed.as_str().unwrap_or_default());
        }
    }
    assert!(texts.is_empty(), "without a result: {texts:?}");
    Ok(())
}

/// A call that nobody waits for any more: dropping its stream cancels it, and the gateway ends the skill's process too.
async fn cancel(client: &Client, skill: &str) -> Result<(), Box<dyn Error>> {
    let mut events =
        client.clone().invoke_stream(within(request(skill, &json!({})), Duration::from_secs(20))).await?.into_inner();
    while let Some(event) = events.message().await? {
        if matches!(event.event, Some(Event::Accepted(_))) {
            drop(events);
            println!("cancelled: {skill}");
            return Ok(());
        }
    }
    Err("it ended before it was cancelled".into())
}

/// What the command line says.
struct CommandLine {
    address: String,
    ca: String,
    token_file: String,
    /// A skill that takes long.
    slow: Option<String>,
}

impl CommandLine {
    fn read() -> Result<Self, Box<dyn Error>> {
        let (mut address, mut flags) = (None, HashMap::new());
        let mut words = std::env::args().skip(1);
        while let Some(word) = words.next() {
            match word.strip_prefix("--") {
                Some(flag) => drop(flags.insert(flag.to_owned(), words.next().ok_or("a flag without its value")?)),
                None => address = Some(word),
            }
        }
        let mut take = |name: &str| flags.remove(name);
        Ok(Self {
            address: address.ok_or("usage: client ADDRESS --ca FILE --token-file FILE [--slow SKILL]")?,
            ca: take("ca").ok_or("--ca is missing")?,
            token_file: take("token-file").ok_or("--token-file is missing")?,
            slow: take("slow"),
        })
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments = CommandLine::read()?;
    let client = connect(&arguments)?;
    let idempotency_key = format!("{:032x}", rand::random::<u128>());
    let message = InvokeRequest { idempotency_key, ..request("echo", &json!({"text": "hello"})) };
    let result = call(&client, message, Duration::from_secs(20)).await?;
    let trace = result.trace_id.clone();
    println!("called: {} in trace {trace}", data(result)?["echoed"].as_str().unwrap_or_default());
    call_many(&client).await?;
    if let Some(skill) = &arguments.slow {
        cancel(&client, skill).await?;
    }
    Ok(())
}
