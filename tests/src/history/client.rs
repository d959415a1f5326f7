//! A client of operations, which writes down what it sees. It tries again while a gateway is away.

use std::net::SocketAddr;
use std::time::Duration;

use openskill_proto::longrunning::operations_client::OperationsClient;
use openskill_proto::longrunning::{
    CancelOperationRequest, GetOperationRequest, ListOperationsRequest, Operation, WaitOperationRequest, operation,
};
use openskill_proto::v1::invoke_event;
use openskill_proto::v1::operation_service_client::OperationServiceClient;
use openskill_proto::v1::{
    InvokeRequest, OperationMetadata, OperationState, SkillResult, SubmitRequest, WatchOperationRequest, skill_result,
};
use prost::Message as _;
use prost_types::Timestamp;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status};
use tonic_types::StatusExt as _;

use super::journal::{Journal, now_ms};
use super::plan::{PlannedCall, Start};
use super::{Event, Outcome};
use crate::system::request;

/// The pause before a client tries again.
const PAUSE: Duration = Duration::from_millis(20);

/// The limit of one request.
const LIMIT: Duration = Duration::from_secs(10);

/// When a call starts that must not start.
const NEVER: Duration = Duration::from_secs(3600);

/// Uses one gateway until it fails, and then the next one.
#[derive(Debug, Clone)]
pub struct Client {
    gateways: Vec<Connection>,
    current: usize,
    journal: Journal,
}

/// A connection to a gateway, made when it is needed.
#[derive(Debug, Clone)]
struct Connection {
    address: SocketAddr,
    submits: OperationServiceClient<Channel>,
    operations: OperationsClient<Channel>,
}

impl Connection {
    fn new(address: SocketAddr) -> Self {
        let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
        let channel = endpoint.connect_timeout(LIMIT).timeout(LIMIT).connect_lazy();
        let submits = OperationServiceClient::new(channel.clone());
        Self { address, submits, operations: OperationsClient::new(channel) }
    }
}

/// How a submit ended.
enum Submitted {
    Stored(String),
    Refused,
    Unknown,
}

impl Client {
    /// `first` is the position of the gateway to begin with.
    pub fn new(addresses: &[SocketAddr], first: usize, journal: &Journal) -> Self {
        let gateways = addresses.iter().copied().map(Connection::new).collect();
        Self { gateways, current: first, journal: journal.clone() }
    }

    fn gateway(&mut self) -> &mut Connection {
        let number = self.current % self.gateways.len();
        &mut self.gateways[number]
    }

    /// Continues with the next gateway, after a pause.
    async fn try_next(&mut self) {
        self.current += 1;
        tokio::time::sleep(PAUSE).await;
    }

    /// Submits a call, again and again if that is safe. Returns the name of the operation. None if there is none, or nobody
    /// knows.
    pub async fn submit(&mut self, call: &PlannedCall) -> Option<String> {
        let start_at_ms = match call.start {
            Start::AtOnce => 0,
            Start::After(delay) => now_ms() + delay.as_millis() as u64,
            Start::Never => now_ms() + NEVER.as_millis() as u64,
        };
        loop {
            // What is not sent, need not be unknown.
            while TcpStream::connect(self.gateway().address).await.is_err() {
                self.try_next().await;
            }
            match self.try_submit(call, start_at_ms).await {
                Submitted::Stored(name) => return Some(name),
                Submitted::Refused if call.is_invalid => return None,
                Submitted::Unknown if !call.has_idempotency_key => return None,
                Submitted::Refused | Submitted::Unknown => self.try_next().await,
            }
        }
    }

    async fn try_submit(&mut self, call: &PlannedCall, start_at_ms: u64) -> Submitted {
        let key = || call.key.clone();
        let has_idempotency_key = call.has_idempotency_key;
        self.journal.add(&Event::Submitted { key: key(), has_idempotency_key, start_at_ms, time_ms: now_ms() });
        let mut request = Request::new(submit_request(call, start_at_ms));
        request.metadata_mut().insert("x-trace-id", call.key.parse().unwrap());
        match self.gateway().submits.submit(request).await {
            Ok(answer) => {
                let operation = answer.into_inner();
                self.journal.add(&Event::Acknowledged { key: key(), operation: operation.name.clone() });
                self.note_result(&call.key, &operation);
                Submitted::Stored(operation.name)
            }
            Err(status) if is_refusal(&status) => {
                self.journal.add(&Event::Refused { key: key(), reason: status.message().to_owned() });
                Submitted::Refused
            }
            Err(status) => {
                let reason = format!("{:?}: {}", status.code(), status.message());
                self.journal.add(&Event::Unknown { key: key(), reason });
                Submitted::Unknown
            }
        }
    }

    /// Cancels an operation, and looks whether it had started.
    pub async fn cancel(&mut self, key: &str, name: &str) {
        let request = CancelOperationRequest { name: name.to_owned() };
        while let Err(status) = self.gateway().operations.cancel_operation(request.clone()).await {
            assert_ne!(status.code(), Code::InvalidArgument, "{status}");
            self.try_next().await;
        }
        let operation = self.get(name).await.ok();
        let never_started = |it: &Operation| {
            let metadata = metadata(it);
            metadata.state() == OperationState::Cancelled && metadata.start_time.is_none()
        };
        let may_have_started = !operation.as_ref().is_some_and(never_started);
        let (key, operation_name) = (key.to_owned(), name.to_owned());
        self.journal.add(&Event::Cancelled { key: key.clone(), operation: operation_name, may_have_started });
        if let Some(operation) = operation {
            self.note_result(&key, &operation);
        }
    }

    pub async fn get(&mut self, name: &str) -> Result<Operation, Status> {
        let request = GetOperationRequest { name: name.to_owned() };
        Ok(self.gateway().operations.get_operation(request).await?.into_inner())
    }

    /// Lists all operations that match, page by page.
    pub async fn list(&mut self, filter: &str) -> Result<Vec<Operation>, Status> {
        let (mut found, mut page_token) = (Vec::new(), String::new());
        loop {
            let filter = filter.to_owned();
            let request = ListOperationsRequest { filter, page_token, page_size: 40, ..Default::default() };
            let page = self.gateway().operations.list_operations(request).await?.into_inner();
            found.extend(page.operations);
            page_token = page.next_page_token;
            if page_token.is_empty() {
                return Ok(found);
            }
        }
    }

    /// Polls until the operation has ended.
    pub async fn poll(&mut self, key: &str, name: &str) {
        loop {
            match self.get(name).await {
                Ok(operation) if self.note_result(key, &operation) => return,
                Ok(_) => tokio::time::sleep(PAUSE * 5).await,
                Err(_) => self.try_next().await,
            }
        }
    }

    /// Waits until the operation has ended.
    pub async fn wait(&mut self, key: &str, name: &str) {
        let timeout = Some(prost_types::Duration { seconds: 5, nanos: 0 });
        loop {
            let request = WaitOperationRequest { name: name.to_owned(), timeout };
            match self.gateway().operations.wait_operation(request).await {
                Ok(answer) if self.note_result(key, answer.get_ref()) => return,
                Ok(_) => {}
                Err(_) => self.try_next().await,
            }
        }
    }

    /// Watches until the operation has ended. Resumes when the stream breaks.
    pub async fn watch(&mut self, key: &str, name: &str) {
        let (mut after, mut has_ended) = (0, false);
        while !has_ended {
            let request = WatchOperationRequest { name: name.to_owned(), after };
            let Ok(answer) = self.gateway().submits.watch_operation(request).await else {
                self.try_next().await;
                continue;
            };
            let mut events = answer.into_inner();
            while let Ok(Some(event)) = events.message().await {
                after = event.number;
                let (key, operation) = (key.to_owned(), name.to_owned());
                self.journal.add(&Event::Watched { key: key.clone(), operation: operation.clone(), number: after });
                if let Some(invoke_event::Event::Result(result)) = event.event.and_then(|it| it.event) {
                    self.journal.add(&Event::Result { key, operation, outcome: outcome_from(&result) });
                    has_ended = true;
                }
            }
        }
    }

    /// Writes down how an operation ended. Returns whether it has.
    fn note_result(&self, key: &str, operation: &Operation) -> bool {
        let Some(outcome) = outcome(operation) else { return false };
        let (key, operation) = (key.to_owned(), operation.name.clone());
        self.journal.add(&Event::Result { key, operation, outcome });
        true
    }
}

fn submit_request(call: &PlannedCall, start_at_ms: u64) -> SubmitRequest {
    let skill = if call.idempotent { "records_idempotent" } else { "records" };
    let nap_ms = if call.is_invalid { json!("soon") } else { json!(call.nap_ms) };
    let input = json!({"key": call.key, "idempotent": call.idempotent, "nap_ms": nap_ms, "fails": call.fails});
    let idempotency_key = if call.has_idempotency_key { call.key.clone() } else { String::new() };
    let time = |ms: u64| Timestamp { seconds: (ms / 1000) as i64, nanos: (ms % 1000 * 1_000_000) as i32 };
    SubmitRequest {
        call: Some(InvokeRequest { idempotency_key, ..request(skill, input) }),
        start_at: (start_at_ms > 0).then(|| time(start_at_ms)),
        ..SubmitRequest::default()
    }
}

/// Whether the gateway says that it did not store the call.
fn is_refusal(status: &Status) -> bool {
    let details = status.get_error_details();
    details.error_info().and_then(|it| it.metadata.get("may_have_run")).is_some_and(|it| it == "false")
}

/// What a gateway says about an operation besides its result.
pub fn metadata(operation: &Operation) -> OperationMetadata {
    let packed = operation.metadata.as_ref().expect("an operation has metadata");
    OperationMetadata::decode(packed.value.as_slice()).expect("metadata can be decoded")
}

/// How an operation ended. None if it has not.
pub fn outcome(operation: &Operation) -> Option<Outcome> {
    assert_eq!(operation.done, operation.result.is_some(), "{operation:?}");
    let packed = match operation.result.as_ref()? {
        operation::Result::Response(packed) => packed,
        operation::Result::Error(status) => status.details.first().expect("an error has the result as a detail"),
    };
    Some(outcome_from(&SkillResult::decode(packed.value.as_slice()).expect("a result can be decoded")))
}

fn outcome_from(result: &SkillResult) -> Outcome {
    let data = match &result.output {
        Some(skill_result::Output::DataJson(text)) => serde_json::from_str(text).expect("data is JSON"),
        _ => Value::Null,
    };
    let error = result.error.as_ref();
    Outcome {
        success: error.is_none(),
        code: error.map_or(String::new(), |it| it.code().as_str_name().to_owned()),
        may_have_run: error.is_none_or(|it| it.may_have_run),
        run: data["run"].as_str().unwrap_or_default().to_owned(),
        message: error.map_or(String::new(), |it| it.message.clone()),
    }
}
