//! Gateways that share a database.

use openskill_proto::longrunning::operations_client::OperationsClient;
use openskill_proto::longrunning::{CancelOperationRequest, ListOperationsRequest, operation};
use openskill_proto::v1::operation_service_client::OperationServiceClient;
use openskill_proto::v1::{InvokeRequest, SkillResult, SubmitRequest};
use openskill_tests::postgres::{Postgres, Server};
use openskill_tests::processes;
use openskill_tests::system::{PATIENCE, System, data, request};
use openskill_tests::wait::{until, until_true};
use prost::Message as _;
use serde_json::json;

use super::stage::{Stage, kill, wait};

pub(super) async fn submit(gateway: &System, call: InvokeRequest) -> String {
    let mut client = OperationServiceClient::new(gateway.channel().await);
    let request = SubmitRequest { call: Some(call), ..SubmitRequest::default() };
    client.submit(request).await.unwrap().into_inner().name
}

/// Waits until one of two gateways runs an operation, and sorts it to the front.
pub(super) async fn runner_first([one, other]: [System; 2]) -> [System; 2] {
    let runs = async |gateway: &System| {
        let metrics = gateway.get("/metrics").await;
        String::from_utf8_lossy(&metrics.body).contains("\nopenskill_operations_running 1\n")
    };
    let is_one = until("one of them runs it", PATIENCE, || async {
        let found = (runs(&one).await, runs(&other).await);
        (found.0 || found.1).then_some(found.0)
    })
    .await;
    if is_one { [one, other] } else { [other, one] }
}

#[tokio::test]
async fn any_gateway_answers_for_an_operation_and_takes_it_over_from_one_that_is_killed() {
    let Some(programs) = Postgres::or_skip() else { return };
    let server = Server::start(&programs).await;
    let (stage, url) = (Stage::start().await, server.url(&server.database()));
    let (first, second) = (stage.gateway_on(&url).await, stage.gateway_on(&url).await);
    // One operation for a key, whichever gateway gets the call.
    let keyed = || InvokeRequest { idempotency_key: "once".to_owned(), ..request("in_echo", json!({"n": 1})) };
    let name = submit(&first, keyed()).await;
    assert_eq!(submit(&second, keyed()).await, name);
    assert!(wait(&second, name).await.done);
    // The owner of this one is killed. The other gateway gets the result of the only run.
    let name = stage.submit(&first, "taken-over", json!({"seconds": 12, "mark": stage.mark()})).await;
    let [killed, left] = runner_first([first, second]).await;
    kill(killed).await;
    let ended = wait(&left, name).await;
    let Some(operation::Result::Response(response)) = ended.result else { panic!("{ended:?}") };
    let result = SkillResult::decode(&*response.value).unwrap();
    assert_eq!((data(&result), stage.starts()), (json!({"slept": 12}), 1));
}

#[tokio::test]
async fn an_operation_is_cancelled_through_a_gateway_that_does_not_run_it() {
    let Some(programs) = Postgres::or_skip() else { return };
    let server = Server::start(&programs).await;
    let (stage, url) = (Stage::start().await, server.url(&server.database()));
    let gateways = [stage.gateway_on(&url).await, stage.gateway_on(&url).await];
    let call_id = format!("shared-{}", std::process::id());
    let name = stage.submit(&gateways[0], &call_id, json!({"seconds": 14, "mark": stage.mark()})).await;
    for gateway in &gateways {
        let mut client = OperationsClient::new(gateway.channel().await);
        let listed = client.list_operations(ListOperationsRequest::default()).await.unwrap().into_inner();
        assert_eq!(listed.operations[0].name, name);
    }
    let [_runner, other] = runner_first(gateways).await;
    let cancel = CancelOperationRequest { name: name.clone() };
    OperationsClient::new(other.channel().await).cancel_operation(cancel).await.unwrap();
    let ended = wait(&other, name).await;
    assert!(matches!(ended.result, Some(operation::Result::Error(_))), "{ended:?}");
    until_true("its processes have ended", PATIENCE, || processes::of_call(&call_id).is_empty()).await;
}
