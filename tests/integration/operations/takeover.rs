//! A worker keeps the run of an operation whose gateway is killed, and the next gateway gets the result.

use std::path::PathBuf;
use std::time::Duration;

use openskill_proto::longrunning::operations_client::OperationsClient;
use openskill_proto::longrunning::{CancelOperationRequest, Operation, WaitOperationRequest, operation};
use openskill_proto::v1::operation_service_client::OperationServiceClient;
use openskill_proto::v1::{InvokeRequest, SkillResult, SubmitRequest};
use openskill_tests::fixtures;
use openskill_tests::folder::Folder;
use openskill_tests::port::Port;
use openskill_tests::processes;
use openskill_tests::system::{PATIENCE, Process, Setup, System, data, request};
use openskill_tests::wait::until_true;
use prost::Message as _;
use rustix::process::Signal;
use serde_json::{Value, json};

/// A worker, and a store for one gateway at a time.
struct Stage {
    folder: Folder,
    _worker: Process,
}

impl Stage {
    async fn start() -> Self {
        let folder = Folder::new();
        let worker = Setup::command(&["worker", "--listen", &socket(&folder)])
            .flag("--skills-dir", fixtures().display())
            .data(folder.path())
            .spawn();
        worker.log.line(&["worker ready"]).await;
        Self { folder, _worker: worker }
    }

    /// Starts a gateway, and waits until it serves.
    async fn gateway(&self) -> System {
        // Held until it listens.
        let port = Port::reserve();
        let listen = port.address().to_string();
        let process = Setup::command(&["gateway", "--listen", &listen, "--workers", &socket(&self.folder)])
            .with("OPENSKILL_STORE", self.folder.path().join("operations.sqlite").display())
            .spawn();
        process.log.line(&["gateway ready"]).await;
        let gateway = System { address: port.address(), process };
        gateway.has_skill("naps").await;
        gateway
    }

    /// A file that gets a line with each start of the skill.
    fn mark(&self) -> PathBuf {
        self.folder.path().join("mark")
    }

    fn starts(&self) -> usize {
        std::fs::read_to_string(self.mark()).unwrap_or_default().lines().count()
    }

    /// Submits a call, and waits until its skill runs. Returns the name of the operation.
    async fn submit(&self, gateway: &System, call_id: &str, input: Value) -> String {
        let call = InvokeRequest { call_id: call_id.to_owned(), ..request("naps", input) };
        let mut client = OperationServiceClient::new(gateway.channel().await);
        let submitted = client.submit(SubmitRequest { call: Some(call), ..SubmitRequest::default() }).await;
        until_true("the skill has started", PATIENCE, || self.starts() == 1).await;
        submitted.unwrap().into_inner().name
    }
}

fn socket(folder: &Folder) -> String {
    format!("unix:{}", folder.path().join("worker.sock").display())
}

async fn wait(gateway: &System, name: String) -> Operation {
    let timeout = prost_types::Duration { seconds: PATIENCE.as_secs() as i64, nanos: 0 };
    let request = WaitOperationRequest { name, timeout: Some(timeout) };
    OperationsClient::new(gateway.channel().await).wait_operation(request).await.unwrap().into_inner()
}

async fn kill(mut gateway: System) {
    processes::send(gateway.process.pid(), Signal::KILL);
    gateway.process.ended().await;
}

#[tokio::test]
async fn an_operation_that_may_run_only_once_survives_its_gateway() {
    let stage = Stage::start().await;
    let first = stage.gateway().await;
    let input = json!({"seconds": 3, "mark": stage.mark()});
    let name = stage.submit(&first, "survives", input).await;
    kill(first).await;
    let second = stage.gateway().await;
    let ended = wait(&second, name).await;
    let Some(operation::Result::Response(response)) = ended.result else { panic!("{ended:?}") };
    let result = SkillResult::decode(&*response.value).unwrap();
    assert_eq!((data(&result), stage.starts()), (json!({"slept": 3}), 1));
}

#[tokio::test]
async fn the_run_of_a_cancelled_operation_ends_at_once_after_a_takeover_too() {
    let stage = Stage::start().await;
    let call_id = format!("cancelled-{}", std::process::id());
    let first = stage.gateway().await;
    let input = json!({"seconds": 14, "mark": stage.mark()});
    let name = stage.submit(&first, &call_id, input).await;
    kill(first).await;
    let second = stage.gateway().await;
    assert!(!processes::of_call(&call_id).is_empty(), "the worker kept the run");
    let cancel = CancelOperationRequest { name: name.clone() };
    OperationsClient::new(second.channel().await).cancel_operation(cancel).await.unwrap();
    let ended = wait(&second, name).await;
    assert!(matches!(ended.result, Some(operation::Result::Error(_))), "{ended:?}");
    processes::gone(&call_id, Duration::from_secs(3)).await;
}
