//! Operations that run again by the rules of their skill.

use openskill_proto::longrunning::operations_client::OperationsClient;
use openskill_proto::longrunning::{GetOperationRequest, Operation};
use openskill_proto::v1::OperationMetadata;
use openskill_proto::v1::operation_service_client::OperationServiceClient;
use openskill_proto::v1::{OperationState, SubmitRequest};
use openskill_tests::folder::Folder;
use openskill_tests::system::{PATIENCE, Setup, System, request};
use openskill_tests::wait::until;
use prost::Message as _;
use serde_json::json;

use super::stage::wait;

const MANIFEST: &str = "
type: cli
runtime: python
entry: needs_file.py
idempotent: true
retry: {attempts: 3, after_ms: 300}
circuit: {failure_threshold: 0, minimum_calls: 0}
";

const SCRIPT: &str = r#"
import json, os, sys
given = json.load(sys.stdin)["input"]
if os.path.exists(given["file"]):
    print(json.dumps({"found": True}))
else:
    error = {"code": "NETWORK_ERROR", "message": "the file is not there yet"}
    print(json.dumps({"success": False, "error": error}))
"#;

async fn submit(system: &System, file: &str) -> String {
    let call = Some(request("needs_file", json!({ "file": file })));
    let mut client = OperationServiceClient::new(system.channel().await);
    client.submit(SubmitRequest { call, ..SubmitRequest::default() }).await.unwrap().into_inner().name
}

fn metadata(operation: &Operation) -> OperationMetadata {
    OperationMetadata::decode(&*operation.metadata.as_ref().unwrap().value).unwrap()
}

#[tokio::test]
async fn an_operation_runs_again_after_an_error_that_may_pass_and_says_meanwhile_why_it_waits() {
    let folder = Folder::new();
    folder.write("skills/needs_file.yaml", format!("id: needs_file{MANIFEST}"));
    folder.write("skills/needs_file.py", SCRIPT);
    let setup = Setup::with_skills(&[&folder.path().join("skills")]).data(folder.path());
    let system = setup.with("OPENSKILL_STORE", "memory").start().await;
    system.has_skill("needs_file").await;
    let file = folder.path().join("file");

    let given_up = wait(&system, submit(&system, "/nowhere").await).await;
    assert_eq!((metadata(&given_up).state(), metadata(&given_up).runs), (OperationState::Failed, 3), "{given_up:?}");

    let name = submit(&system, &file.display().to_string()).await;
    let client = OperationsClient::new(system.channel().await);
    let waiting = until("it waits", PATIENCE, async || {
        let request = GetOperationRequest { name: name.clone() };
        let found = metadata(&client.clone().get_operation(request).await.unwrap().into_inner());
        (found.state() == OperationState::Scheduled).then_some(found)
    });
    assert_eq!(waiting.await.reason, "the file is not there yet");
    std::fs::write(&file, "").unwrap();
    let ended = wait(&system, name).await;
    assert_eq!(metadata(&ended).state(), OperationState::Succeeded, "{ended:?}");
    assert!(metadata(&ended).runs > 1 && metadata(&ended).reason.is_empty(), "{ended:?}");
}
