//! Large results of operations: they outlive the worker and the gateway that they come from.

use http::Method;
use openskill_proto::longrunning::operation;
use openskill_proto::v1::artifact::Content;
use openskill_proto::v1::operation_service_client::OperationServiceClient;
use openskill_proto::v1::{Artifact, ReadArtifactRequest, ReadOperationArtifactRequest, SkillResult, SubmitRequest};
use openskill_store::conformance::operation as new_operation;
use openskill_store::{Location, Store};
use openskill_tests::rest::{self, Answer};
use openskill_tests::system::{PATIENCE, System, data, request};
use openskill_tests::wait::until_true;
use prost::Message as _;
use serde_json::{Value, json};
use tonic::Code;

use super::stage::{Stage, kill, wait};
use crate::artifacts::picture;

const MIB: usize = 1024 * 1024;

/// Of the picture that has 2 MiB.
const SHA256: &str = "519ebae744e56250044ac7ea6dafe24dc822b50fe176c42862735521fb850e4f";

async fn submit(gateway: &System, skill: &str, input: Value) -> String {
    let call = Some(request(skill, input));
    let mut client = OperationServiceClient::new(gateway.channel().await);
    client.submit(SubmitRequest { call, ..SubmitRequest::default() }).await.unwrap().into_inner().name
}

async fn result(gateway: &System, name: &str) -> SkillResult {
    let ended = wait(gateway, name.to_owned()).await;
    let Some(operation::Result::Response(response)) = ended.result else { panic!("{ended:?}") };
    SkillResult::decode(&*response.value).unwrap()
}

/// Streams an artifact, in pieces that begin at `offset`.
async fn stream(gateway: &System, name: &str, offset: usize, length: usize) -> Result<Vec<u8>, tonic::Status> {
    let (offset, length) = (offset as u64, length as u64);
    let wanted = ReadOperationArtifactRequest { name: name.to_owned(), number: 0, offset, length };
    let mut client = OperationServiceClient::new(gateway.channel().await);
    let mut pieces = client.read_artifact(wanted).await?.into_inner();
    let mut read = Vec::new();
    while let Some(piece) = pieces.message().await? {
        assert_eq!(piece.size_bytes, 2 * MIB as u64);
        read.extend(piece.data);
    }
    Ok(read)
}

async fn send(gateway: &System, method: Method, path: &str, headers: &[(&str, &str)]) -> Answer {
    rest::send(gateway.address, method, path, headers, "").await
}

#[tokio::test]
async fn a_large_artifact_is_read_after_its_gateway_was_killed_until_its_operation_is_deleted() {
    let stage = Stage::start().await;
    let first = stage.gateway().await;
    let name = submit(&first, "draws", json!({"bytes": 2 * MIB})).await;
    result(&first, &name).await;
    kill(first).await;
    let gateway = stage.gateway().await;
    let result = result(&gateway, &name).await;
    let [Artifact { content: Some(Content::Handle(handle)), sha256, .. }] = &result.artifacts[..] else {
        panic!("{result:?}")
    };
    assert_eq!((handle.as_str(), sha256.as_str()), (format!("{name}/artifacts/0").as_str(), SHA256));

    let (path, whole) = (format!("/{name}/artifacts/0"), picture(2 * MIB));
    let mut read = Vec::new();
    for range in ["bytes=0-999999", "bytes=1000000-"] {
        let part = send(&gateway, Method::GET, &path, &[("range", range)]).await;
        let headers = ["content-type", "content-disposition", "etag"].map(|it| part.header(it).to_owned());
        assert_eq!(
            (part.status, headers),
            (206, ["image/png", "attachment", &format!("\"{SHA256}\"")].map(str::to_owned))
        );
        read.extend_from_slice(&part.body);
    }
    assert!(read == whole);
    let tag = format!("\"{SHA256}\"");
    for (name, value, status) in
        [("if-none-match", tag.as_str(), 304), ("if-range", "\"other\"", 200), ("if-range", tag.as_str(), 206)]
    {
        let answer = send(&gateway, Method::GET, &path, &[("range", "bytes=0-0"), (name, value)]).await;
        assert_eq!((answer.status, answer.header("etag")), (status, tag.as_str()), "{name}: {value}");
    }
    assert_eq!(send(&gateway, Method::GET, &path, &[("range", "bytes=2097152-")]).await.status, 416);
    assert_eq!(send(&gateway, Method::GET, &format!("/{name}/artifacts/1"), &[]).await.status, 404);

    assert!(stream(&gateway, &name, 0, 0).await.unwrap() == whole);
    assert!(stream(&gateway, &name, 7, MIB + 1).await.unwrap() == whole[7..MIB + 8]);
    // As any other handle.
    let range = ReadArtifactRequest { handle: handle.clone(), offset: 5, length: 3 };
    assert_eq!(gateway.skills().await.read_artifact(range).await.unwrap().into_inner().data, whole[5..8]);

    assert_eq!(stage.blobs().len(), 1);
    assert_eq!(send(&gateway, Method::DELETE, &format!("/{name}"), &[]).await.status, 204);
    until_true("its file is gone", PATIENCE, || stage.blobs().is_empty()).await;
    assert_eq!(stream(&gateway, &name, 0, 0).await.unwrap_err().code(), Code::NotFound);
}

#[tokio::test]
async fn large_data_is_in_the_result_as_ever_unless_its_file_is_lost() {
    let stage = Stage::start().await;
    let gateway = stage.gateway().await;
    let input = json!({"text": "x".repeat(300 * 1024)});
    let name = submit(&gateway, "in_echo", input.clone()).await;
    assert!(data(&result(&gateway, &name).await) == input);
    let [file] = &stage.blobs()[..] else { panic!() };
    std::fs::write(file, "short").unwrap();
    let operation = send(&gateway, Method::GET, &format!("/{name}"), &[]).await.json();
    let (state, error) = (&operation["metadata"]["state"], &operation["result"]["error"]["code"]);
    assert_eq!((state, error), (&json!("succeeded"), &json!("INTERNAL")), "{operation}");
}

#[tokio::test]
async fn a_gateway_that_is_killed_before_the_end_of_an_operation_leaves_no_file() {
    let stage = Stage::start().await;
    let store = Store::open(&Location::File(stage.store().into())).await.unwrap();
    store.submit(&new_operation("a", "A")).await.unwrap();
    let claim = store.claim("killed", 60_000, 1).await.unwrap().pop().unwrap();
    let mut writer = store.begin_blob(claim.fence()).await.unwrap().unwrap();
    writer.write(&[0; 300_000]).await.unwrap();
    writer.complete().await.unwrap().unwrap();
    assert_eq!(stage.blobs().len(), 1);
    drop(store);
    let _gateway = stage.gateway().await;
    until_true("its file is gone", PATIENCE, || stage.blobs().is_empty()).await;
}
