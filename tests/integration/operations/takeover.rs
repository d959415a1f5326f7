//! A worker keeps the run of an operation whose gateway is killed, and the next gateway gets the result.

use std::time::Duration;

use openskill_proto::longrunning::operations_client::OperationsClient;
use openskill_proto::longrunning::{CancelOperationRequest, operation};
use openskill_proto::v1::SkillResult;
use openskill_tests::processes;
use openskill_tests::system::data;
use prost::Message as _;
use serde_json::json;

use super::stage::{Stage, kill, wait};

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
