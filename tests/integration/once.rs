//! Idempotency keys: a call with the same key runs once.

use std::time::Duration;

use openskill_proto::v1::InvokeRequest;
use openskill_tests::folder::Folder;
use openskill_tests::system::{PATIENCE, Setup, code, data, request};
use openskill_tests::wait::{until, until_true};
use serde_json::json;

fn keyed(key: &str, call: InvokeRequest) -> InvokeRequest {
    InvokeRequest { idempotency_key: key.to_owned(), ..call }
}

fn runs(mark: &std::path::Path) -> usize {
    std::fs::read_to_string(mark).map_or(0, |text| text.lines().count())
}

#[tokio::test]
async fn a_second_call_with_a_key_replays_the_first_result_or_waits_for_it() {
    let folder = Folder::new();
    let system = Setup::up().data(folder.path()).start().await;
    let mark = folder.path().join("mark");
    let call = keyed("k", request("moody", json!({"mark": mark, "seconds": 0.3})));
    let together = futures_util::future::join_all((0..5).map(|_| system.invoke(call.clone()))).await;
    assert!(together.iter().all(|result| data(result) == json!({"mood": "good"})), "{together:?}");
    let again = system.invoke(call.clone()).await;
    assert_eq!(data(&again), json!({"mood": "good"}));
    assert!(again.meta.unwrap().warnings.iter().any(|it| it.contains("idempotency_key")));
    assert_eq!(runs(&mark), 1);
    let other = system.invoke(keyed("k", request("moody", json!({"mark": mark})))).await;
    assert_eq!(code(&other), "INVALID_ARGUMENT");
    assert!(system.invoke(keyed("k2", request("moody", json!({"mark": mark})))).await.success);
    assert_eq!(runs(&mark), 2);
}

#[tokio::test]
async fn a_failure_is_replayed_and_a_shed_call_is_not() {
    let folder = Folder::new();
    let system = Setup::up().data(folder.path()).with("OPENSKILL_MAX_IN_FLIGHT", 1).start().await;
    let mark = folder.path().join("mark");
    let failing = keyed("f", request("moody", json!({"mark": mark, "fail": true})));
    for _ in 0..3 {
        assert_eq!(code(&system.invoke(failing.clone()).await), "EXECUTION_ERROR");
    }
    assert_eq!(runs(&mark), 1);
    let mut client = system.skills().await;
    let long = tokio::spawn(async move { client.invoke(request("in_wait", json!({"ms": 600}))).await });
    until("the gateway is overloaded", PATIENCE, async || {
        (system.get("/readyz").await.json()["in_flight"].as_u64() == Some(1)).then_some(())
    })
    .await;
    let call = keyed("r", request("moody", json!({"mark": mark})));
    let mut client = system.skills().await;
    // Shed while the gateway is overloaded, then run.
    let mut refused = 0;
    while let Err(status) = client.invoke(call.clone()).await {
        assert_eq!(status.code(), tonic::Code::ResourceExhausted);
        refused += 1;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(refused > 0 && runs(&mark) == 2, "{refused} refused, {} runs", runs(&mark));
    let _ = long.await;
}

#[tokio::test]
async fn a_call_with_a_key_continues_without_its_client() {
    let folder = Folder::new();
    let system = Setup::up().data(folder.path()).start().await;
    let mark = folder.path().join("mark");
    let call = keyed("k", request("moody", json!({"mark": mark, "seconds": 1})));
    let mut client = system.skills().await;
    let first = call.clone();
    let running = tokio::spawn(async move { client.invoke(first).await });
    until_true("it runs", PATIENCE, || runs(&mark) == 1).await;
    running.abort();
    assert!(running.await.unwrap_err().is_cancelled());
    assert_eq!(data(&system.invoke(call).await), json!({"mood": "good"}));
    assert_eq!(runs(&mark), 1);
}

#[tokio::test]
async fn over_rest_the_idempotency_key_may_be_a_header() {
    let folder = Folder::new();
    let system = Setup::up().data(folder.path()).start().await;
    let mark = folder.path().join("mark");
    let body = json!({"input": {"mark": mark}}).to_string();
    for _ in 0..3 {
        let answer = system.post("/skills/moody:invoke", &[("idempotency-key", "k")], body.clone()).await;
        assert_eq!(answer.status, 200, "{answer:?}");
    }
    assert_eq!(runs(&mark), 1);
    let answer = system.post("/skills/moody:invoke", &[("idempotency-key", &"k".repeat(200))], body).await;
    assert_eq!((answer.status, answer.code().as_str()), (400, "INVALID_ARGUMENT"));
}

#[tokio::test]
async fn a_drain_waits_for_calls_that_continue_without_their_clients() {
    let folder = Folder::new();
    let mut system = Setup::up().data(folder.path()).start().await;
    let mark = folder.path().join("mark");
    let call = keyed("k", request("naps", json!({"mark": mark, "seconds": 1})));
    let mut client = system.skills().await;
    let running = tokio::spawn(async move { client.invoke(call).await });
    until_true("it runs", PATIENCE, || runs(&mark) == 1).await;
    running.abort();
    let begun = std::time::Instant::now();
    system.process.terminate();
    assert_eq!(system.process.ended().await.code(), Some(0));
    assert!(begun.elapsed() > Duration::from_millis(400), "the call was not waited for: {:?}", begun.elapsed());
    let log = system.process.log.text();
    let line = log.lines().find(|line| line.contains("openskill::call") && line.contains("naps"));
    assert!(line.is_some_and(|line| line.contains("success=true")), "its end is in the log: {log}");
}
