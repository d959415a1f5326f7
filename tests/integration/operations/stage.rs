//! Gateways and a worker that are killed one by one.

use std::path::PathBuf;

use openskill_proto::longrunning::operations_client::OperationsClient;
use openskill_proto::longrunning::{Operation, WaitOperationRequest};
use openskill_proto::v1::operation_service_client::OperationServiceClient;
use openskill_proto::v1::{InvokeRequest, SubmitRequest};
use openskill_tests::folder::Folder;
use openskill_tests::port::Port;
use openskill_tests::system::{PATIENCE, Process, Setup, System, request};
use openskill_tests::wait::until_true;
use openskill_tests::{fixtures, processes};
use rustix::process::Signal;
use serde_json::Value;

/// A worker, and a folder for the files of gateways.
pub(crate) struct Stage {
    folder: Folder,
    _worker: Process,
}

impl Stage {
    pub(crate) async fn start() -> Self {
        let folder = Folder::new();
        let worker = Setup::command(&["worker", "--listen", &socket(&folder)])
            .flag("--skills-dir", fixtures().display())
            .data(folder.path())
            .spawn();
        worker.log.line(&["worker ready"]).await;
        Self { folder, _worker: worker }
    }

    /// Starts a gateway with a file, which one gateway at a time can use, and waits until it serves.
    pub(crate) async fn gateway(&self) -> System {
        self.gateway_on(&self.store()).await
    }

    /// The file of operations.
    pub(super) fn store(&self) -> String {
        self.folder.path().join("operations.sqlite").display().to_string()
    }

    /// The files of large parts of results.
    pub(super) fn blobs(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(format!("{}.blobs", self.store()));
        entries.into_iter().flatten().map(|it| it.unwrap().path()).collect()
    }

    /// Starts a gateway with this store, and waits until it serves.
    pub(crate) async fn gateway_on(&self, store: &str) -> System {
        let gateway = self.gateway_with(store, &[("OPENSKILL_MCP_TASK_AFTER_MS", "100")]).await;
        gateway.has_skill("naps").await;
        gateway
    }

    /// Starts a gateway with this store and other settings, and waits until it listens.
    pub(crate) async fn gateway_with(&self, store: &str, settings: &[(&str, &str)]) -> System {
        // Held until it listens.
        let port = Port::reserve();
        let listen = port.address().to_string();
        let setup = Setup::command(&["gateway", "--listen", &listen, "--workers", &socket(&self.folder)])
            .with("OPENSKILL_STORE", store);
        let process = settings.iter().fold(setup, |setup, (name, value)| setup.with(name, value)).spawn();
        process.log.line(&["gateway ready"]).await;
        System { address: port.address(), process }
    }

    /// A file that gets a line with each start of the skill.
    pub(crate) fn mark(&self) -> PathBuf {
        self.folder.path().join("mark")
    }

    pub(crate) fn starts(&self) -> usize {
        std::fs::read_to_string(self.mark()).unwrap_or_default().lines().count()
    }

    /// Submits a call, and waits until its skill runs. Returns the name of the operation.
    pub(crate) async fn submit(&self, gateway: &System, call_id: &str, input: Value) -> String {
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

pub(crate) async fn wait(gateway: &System, name: String) -> Operation {
    let timeout = prost_types::Duration { seconds: PATIENCE.as_secs() as i64, nanos: 0 };
    let request = WaitOperationRequest { name, timeout: Some(timeout) };
    OperationsClient::new(gateway.channel().await).wait_operation(request).await.unwrap().into_inner()
}

pub(crate) async fn kill(mut gateway: System) {
    processes::send(gateway.process.pid(), Signal::KILL);
    gateway.process.ended().await;
}
