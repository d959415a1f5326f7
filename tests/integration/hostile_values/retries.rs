//! An error says whether its skill may have had an effect, and recommends a retry only where that can do no harm.

use std::path::Path;
use std::time::Duration;

use openskill_proto::v1::{InvokeRequest, SkillError};
use openskill_tests::alone::alone;
use openskill_tests::folder::Folder;
use openskill_tests::processes;
use openskill_tests::system::{PATIENCE, Setup, System, code, request};
use openskill_tests::wait::{until, until_true};
use rustix::process::Signal;
use serde_json::json;

/// A call of a skill that leaves a mark when it starts, and naps.
fn nap(skill: &str, mark: &Path, seconds: f64) -> InvokeRequest {
    request(skill, json!({"seconds": seconds, "mark": mark}))
}

fn keyed(key: &str, call: InvokeRequest) -> InvokeRequest {
    InvokeRequest { idempotency_key: key.to_owned(), ..call }
}

/// The advice of an error: whether the skill may have run, and whether to call again.
fn advice(error: &SkillError) -> (bool, bool) {
    assert!(error.retryable || error.retry_after_ms == 0, "{error:?}");
    (error.may_have_run, error.retryable)
}

async fn fails(system: &System, call: InvokeRequest) -> SkillError {
    let result = system.invoke(call).await;
    result.error.unwrap_or_else(|| panic!("it succeeded: {}", result.text))
}

#[tokio::test]
async fn a_timeout_recommends_a_retry_only_of_a_call_that_may_run_twice() {
    let folder = Folder::new();
    let system = Setup::up().data(folder.path()).start().await;
    let mark = folder.path().join("mark");
    for (skill, key, expected) in
        [("naps", "", (true, false)), ("naps_idempotent", "", (true, true)), ("naps", "a key", (true, true))]
    {
        let call = InvokeRequest { timeout_ms: 1000, ..keyed(key, nap(skill, &mark, 60.0)) };
        let error = fails(&system, call).await;
        assert_eq!((error.code().as_str_name(), advice(&error)), ("TIMEOUT", expected), "{skill} {key}");
    }
    // Replayed, the answer will not change.
    let again = InvokeRequest { timeout_ms: 1000, ..keyed("a key", nap("naps", &mark, 60.0)) };
    assert_eq!(advice(&fails(&system, again).await), (true, false));
    let body = json!({"input": {"seconds": 60}, "timeout_ms": 500}).to_string();
    let answer = system.post("/skills/naps:invoke", &[], body).await;
    let error = &answer.json()["error"];
    assert_eq!((&error["may_have_run"], &error["retryable"]), (&json!(true), &json!(false)), "{error}");
}

#[tokio::test]
async fn a_call_whose_deadline_passes_in_the_queue_did_not_run() {
    let folder = Folder::new();
    let system = Setup::up()
        .data(folder.path())
        .flag("--workers", 1)
        .with("OPENSKILL_WORKER_CONCURRENCY", 1)
        .with("OPENSKILL_ADAPTIVE_LIMIT", 0)
        .start()
        .await;
    let (first, second) = (folder.path().join("first"), folder.path().join("second"));
    let mut client = system.skills().await;
    let call = nap("naps", &first, 4.0);
    let running = tokio::spawn(async move { client.invoke(call).await });
    until_true("the first one runs", PATIENCE, || first.exists()).await;
    let error = fails(&system, InvokeRequest { timeout_ms: 500, ..nap("naps", &second, 0.0) }).await;
    assert_eq!((error.code().as_str_name(), advice(&error)), ("TIMEOUT", (false, true)), "{error:?}");
    assert!(!second.exists());
    assert!(running.await.unwrap().unwrap().into_inner().success);
}

/// Kills the worker of a call that runs, and returns the call's error.
async fn loses_its_worker(system: &System, call: InvokeRequest, mark: &Path, signal: Signal) -> SkillError {
    let mut client = system.skills().await;
    let running = tokio::spawn(async move { client.invoke(call).await });
    until_true("the skill has started", PATIENCE, || mark.exists()).await;
    let [worker] = system.worker_pids()[..] else { panic!("one worker") };
    processes::send(worker, signal);
    let result = running.await.unwrap().unwrap().into_inner();
    assert_eq!(code(&result), "UNAVAILABLE", "{result:?}");
    until("the worker is back", PATIENCE, || async {
        let up = system.worker_pids().first().is_some_and(|pid| *pid != worker);
        (up && system.call("in_echo", json!({})).await.status == 200).then_some(())
    })
    .await;
    result.error.unwrap()
}

#[tokio::test]
async fn a_lost_worker_recommends_no_retry_of_a_call_that_may_have_run() {
    let _alone = alone();
    let folder = Folder::new();
    let system = Setup::up().data(folder.path()).flag("--workers", 1).start().await;
    for (key, expected) in [("", (true, false)), ("a key", (true, true))] {
        let mark = folder.path().join(format!("mark {key}"));
        let error = loses_its_worker(&system, keyed(key, nap("naps", &mark, 60.0)), &mark, Signal::KILL).await;
        assert_eq!(advice(&error), expected, "{key}: {error:?}");
    }
}

#[tokio::test]
async fn a_worker_that_stops_recommends_no_retry_of_a_call_that_it_ended() {
    let _alone = alone();
    let folder = Folder::new();
    let up = Setup::up().data(folder.path()).flag("--workers", 1);
    let system = up.with("OPENSKILL_DRAIN_TIMEOUT_MS", 300).start().await;
    let mark = folder.path().join("mark");
    let call = InvokeRequest { timeout_ms: 14_000, ..nap("naps", &mark, 60.0) };
    let error = loses_its_worker(&system, call, &mark, Signal::TERM).await;
    assert_eq!(advice(&error), (true, false), "{error:?}");
}

#[tokio::test]
async fn a_refused_call_did_not_run_and_may_be_sent_again() {
    let system = Setup::up().with("OPENSKILL_MAX_IN_FLIGHT", 1).start().await;
    let mut client = system.skills().await;
    let call = request("in_wait", json!({"ms": 2000}));
    let running = tokio::spawn(async move { client.invoke(call).await });
    until("the gateway is full", PATIENCE, async || {
        (system.get("/readyz").await.json()["in_flight"].as_u64() == Some(1)).then_some(())
    })
    .await;
    let answer = system.call("in_echo", json!({})).await;
    let error = &answer.json()["error"];
    assert_eq!(answer.status, 503, "{error}");
    assert_eq!((&error["may_have_run"], &error["retryable"]), (&json!(false), &json!(true)), "{error}");
    assert!(tokio::time::timeout(Duration::from_secs(20), running).await.is_ok());
}
