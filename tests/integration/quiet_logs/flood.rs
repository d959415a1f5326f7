//! Many refused calls: a few log lines a second, and the number of the others.

use std::time::Instant;

use openskill_proto::v1::InvokeRequest;
use openskill_tests::system::{PATIENCE, Setup, System, request};
use openskill_tests::wait::until;
use serde_json::{Value, json};

const CALLS: u64 = 400;

async fn refuse(system: &System, calls: u64) {
    let mut client = system.skills().await;
    for _ in 0..calls {
        let result = client.invoke(request("no_such_skill", json!({}))).await.unwrap().into_inner();
        assert!(!result.success);
    }
}

/// The lines of refused calls, and how many were left out.
fn counted(log: &str) -> (u64, u64) {
    let lines: Vec<Value> = log.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let is_refusal = |line: &&Value| line["target"] == "openskill::call" && line["error.code"] == "NOT_FOUND";
    let reports = lines.iter().filter(|line| line["target"] == "openskill::log" && line["kind"] == "NOT_FOUND");
    (lines.iter().filter(is_refusal).count() as u64, reports.filter_map(|line| line["left_out"].as_u64()).sum())
}

#[tokio::test]
async fn refused_calls_are_sampled_and_all_of_them_are_counted() {
    let system = Setup::up().with("OPENSKILL_LOG_FORMAT", "json").start().await;
    let begun = Instant::now();
    refuse(&system, CALLS).await;
    let seconds = begun.elapsed().as_secs() + 2;
    let (logged, left_out) = until("each call is logged or counted", PATIENCE, || async {
        let (logged, left_out) = counted(&system.process.log.text());
        (logged + left_out >= CALLS).then_some((logged, left_out))
    })
    .await;
    assert_eq!(logged + left_out, CALLS);
    assert!(logged <= 10 * seconds, "{logged} lines in {seconds} s");
    let metrics = system.get("/metrics").await;
    let metrics = String::from_utf8_lossy(&metrics.body);
    assert!(metrics.contains(&format!("openskill_calls_total{{code=\"NOT_FOUND\"}} {CALLS}\n")), "{metrics}");
}

#[tokio::test]
async fn a_flood_hides_no_call_that_ran() {
    let system = Setup::up().with("OPENSKILL_LOG_FORMAT", "json").start().await;
    refuse(&system, CALLS).await;
    for number in 0..30 {
        let call_id = format!("served-{number}-");
        let call = InvokeRequest { call_id, ..request("in_echo", json!({})) };
        assert!(system.invoke(call).await.success);
    }
    for number in 0..30 {
        system.process.log.line(&["openskill::call", &format!("served-{number}-")]).await;
    }
}

#[tokio::test]
async fn without_a_limit_every_call_is_logged() {
    let system = Setup::up().with("OPENSKILL_LOG_FORMAT", "json").with("OPENSKILL_LOG_REFUSALS", 0).start().await;
    refuse(&system, 60).await;
    let all_are_logged = || async { (counted(&system.process.log.text()) == (60, 0)).then_some(()) };
    until("every call is logged", PATIENCE, all_are_logged).await;
}
