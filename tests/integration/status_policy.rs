//! Which errors of a call are gRPC statuses, and which are results: see docs/errors.md.

use openskill_proto::v1::invoke_event::Event;
use openskill_proto::v1::{DrainRequest, SkillResult};
use openskill_tests::port::Port;
use openskill_tests::system::{PATIENCE, Setup, System, code, request};
use openskill_tests::wait::until;
use serde_json::json;
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

async fn invoke(system: &System, skill: &str) -> Result<SkillResult, Status> {
    system.skills().await.invoke(request(skill, json!({}))).await.map(tonic::Response::into_inner)
}

/// The result of a call of `InvokeMany`, which carries others too.
async fn one_of_many(system: &System) -> SkillResult {
    let calls = tokio_stream::iter([request("in_echo", json!({}))]);
    let mut events = system.skills().await.invoke_many(calls).await.unwrap().into_inner();
    loop {
        if let Some(Event::Result(result)) = events.message().await.unwrap().unwrap().event {
            return result;
        }
    }
}

/// What a gateway says that takes no calls, on each way to it.
async fn takes_no_calls(system: &System) {
    let status = invoke(system, "in_echo").await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable, "{status:?}");
    let details = status.get_error_details();
    let info = details.error_info().unwrap();
    assert_eq!((info.reason.as_str(), info.metadata["may_have_run"].as_str()), ("UNAVAILABLE", "false"));
    assert!(details.retry_info().is_some(), "{status:?}");
    assert_eq!(code(&one_of_many(system).await), "UNAVAILABLE");
    let answer = system.call("in_echo", json!({})).await;
    let error = &answer.json()["error"];
    assert_eq!((answer.status, &error["code"], &error["blame"]), (503, &json!("UNAVAILABLE"), &json!("gateway")));
    assert!(!answer.header("retry-after").is_empty());
}

#[tokio::test]
async fn a_drained_gateway_refuses_with_a_status() {
    let system = Setup::up().start().await;
    system.admin().await.drain(DrainRequest::default()).await.unwrap();
    takes_no_calls(&system).await;
}

#[tokio::test]
async fn a_gateway_without_workers_refuses_with_the_same_status() {
    let port = Port::reserve();
    let listen = port.address().to_string();
    let workers = "unix:/nonexistent/worker.sock";
    let process = Setup::command(&["gateway", "--listen", &listen, "--workers", workers]).spawn();
    process.log.line(&["gateway listening"]).await;
    let system = System { address: port.address(), process };
    let is_there = async || tokio::net::TcpStream::connect(system.address).await.ok();
    until("it listens", PATIENCE, is_there).await;
    takes_no_calls(&system).await;
}

#[tokio::test]
async fn what_a_model_can_act_on_is_a_result() {
    let system = Setup::up().start().await;
    for (skill, expected) in [("no_such_skill", "NOT_FOUND"), ("no_such_runner", "UNAVAILABLE")] {
        assert_eq!(code(&invoke(&system, skill).await.unwrap()), expected, "{skill}");
    }
}
