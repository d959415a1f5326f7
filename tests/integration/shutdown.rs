//! SIGTERM: calls under way finish, then it ends with 0.

use std::time::Duration;

use openskill_proto::v1::InvokeRequest;
use openskill_tests::processes;
use openskill_tests::system::{PATIENCE, Setup, data, request};
use openskill_tests::wait::until_true;
use serde_json::json;

#[tokio::test]
async fn calls_under_way_finish_and_then_it_ends_with_zero() {
    let mut system = Setup::up().start().await;
    let id = |number: i32| format!("inflight-{number}-{}", std::process::id());
    let mut running = Vec::new();
    for number in 0..6 {
        let call = InvokeRequest { call_id: id(number), ..request("naps", json!({"seconds": 1.5})) };
        let mut client = system.skills().await;
        running.push(tokio::spawn(async move { client.invoke(call).await.unwrap().into_inner() }));
    }
    until_true("all skills run", PATIENCE, || (0..6).all(|number| !processes::of_call(&id(number)).is_empty())).await;
    system.process.terminate();
    for call in running {
        assert_eq!(data(&call.await.unwrap()), json!({"slept": 1.5}));
    }
    assert_eq!(system.process.ended().await.code(), Some(0), "{}", system.process.log.text());
    assert!(tokio::net::TcpStream::connect(system.address).await.is_err());
}

#[tokio::test]
async fn a_watcher_and_an_idle_stream_do_not_hold_it_up() {
    let mut system = Setup::up().start().await;
    let mut client = system.skills().await;
    let watch = client.watch_skills(openskill_proto::v1::WatchSkillsRequest {}).await.unwrap();
    let (_open, calls) = tokio::sync::mpsc::channel::<InvokeRequest>(1);
    let stream = tokio_stream::wrappers::ReceiverStream::new(calls);
    let many = client.invoke_many(stream).await.unwrap();
    let begun = std::time::Instant::now();
    system.process.terminate();
    assert_eq!(system.process.ended().await.code(), Some(0));
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
    drop((watch, many));
}

#[tokio::test]
async fn a_call_longer_than_the_drain_is_ended_and_so_is_its_skill() {
    let mut system = Setup::up().with("OPENSKILL_DRAIN_TIMEOUT_MS", 500).start().await;
    let call_id = format!("longer-{}", std::process::id());
    let call = InvokeRequest { call_id: call_id.clone(), ..request("never_ends", json!({})) };
    let mut client = system.skills().await;
    let running = tokio::spawn(async move { client.invoke(call).await });
    until_true("the skill runs", PATIENCE, || !processes::of_call(&call_id).is_empty()).await;
    system.process.terminate();
    assert_eq!(system.process.ended().await.code(), Some(0));
    processes::gone(&call_id, Duration::from_secs(1)).await;
    let _ = running.await;
}

#[tokio::test]
async fn a_second_signal_stops_at_once() {
    let mut system = Setup::up().start().await;
    let call_id = format!("impatient-{}", std::process::id());
    let call = InvokeRequest { call_id: call_id.clone(), ..request("never_ends", json!({})) };
    let mut client = system.skills().await;
    let running = tokio::spawn(async move { client.invoke(call).await });
    until_true("the skill runs", PATIENCE, || !processes::of_call(&call_id).is_empty()).await;
    system.process.terminate();
    system.process.log.line(&["shutting down"]).await;
    system.process.terminate();
    assert_eq!(system.process.ended().await.code(), Some(130));
    let _ = running.await;
}
