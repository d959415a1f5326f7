//! Misbehaving skills: a clear error in time, no process left, and the next call succeeds.

use std::time::{Duration, Instant};

use openskill_proto::v1::InvokeRequest;
use openskill_tests::alone::alone;
use openskill_tests::processes;
use openskill_tests::system::{Setup, System, code, data, request};
use serde_json::json;

/// The deadline of skills that hang, and how much later their end may come. Other skills end by themselves, so they run next to
/// other tests.
const DEADLINE_MS: u32 = 2000;
const PATIENT_MS: u32 = 15_000;
const SLACK: Duration = Duration::from_secs(1);
const SLACK_BESIDE_OTHERS: Duration = Duration::from_secs(3);

/// Calls a misbehaving skill and checks what must hold whatever it does.
async fn survives(skill: &str, expected: &str, word: &str) {
    let hangs = expected == "TIMEOUT";
    let _alone = hangs.then(alone);
    let (timeout_ms, slack) = if hangs { (DEADLINE_MS, SLACK) } else { (PATIENT_MS, SLACK_BESIDE_OTHERS) };
    let system = Setup::up().start().await;
    let call_id = format!("hostile-{skill}-{}", std::process::id());
    let call = InvokeRequest { call_id: call_id.clone(), timeout_ms, ..request(skill, json!({})) };
    let begun = Instant::now();
    let result = system.invoke(call).await;
    let took = begun.elapsed();
    let error = result.error.as_ref().unwrap_or_else(|| panic!("{skill} succeeded: {result:?}"));
    assert_eq!(error.code().as_str_name(), expected, "{error:?}");
    assert!(error.message.contains(word), "{error:?}");
    assert!(took < Duration::from_millis(timeout_ms.into()) + slack, "{skill} took {took:?}");
    processes::gone(&call_id, slack).await;
    next_call_is_fine(&system).await;
}

async fn next_call_is_fine(system: &System) {
    let result = system.invoke(request("gives_bare_value", json!({}))).await;
    assert!(result.success, "{result:?}");
}

#[tokio::test]
async fn a_skill_that_prints_nothing() {
    survives("prints_nothing", "EXECUTION_ERROR", "nothing").await;
}

#[tokio::test]
async fn a_skill_that_prints_two_documents() {
    survives("prints_twice", "EXECUTION_ERROR", "more than one").await;
}

#[tokio::test]
async fn a_skill_that_prints_fifty_megabytes() {
    survives("prints_much", "OUTPUT_TOO_LARGE", "bytes").await;
}

#[tokio::test]
async fn a_skill_that_exits_with_one_after_valid_json() {
    survives("exits_one", "EXECUTION_ERROR", "exit code was 1").await;
}

#[tokio::test]
async fn a_skill_that_is_killed_half_way() {
    survives("dies_half_way", "EXECUTION_ERROR", "SIGKILL").await;
}

#[tokio::test]
async fn a_skill_that_prints_invalid_utf8() {
    survives("writes_bytes", "EXECUTION_ERROR", "UTF-8").await;
}

#[tokio::test]
async fn a_skill_that_never_ends() {
    survives("never_ends", "TIMEOUT", "deadline").await;
}

#[tokio::test]
async fn a_skill_that_ignores_sigterm() {
    survives("ignores_sigterm", "TIMEOUT", "deadline").await;
}

#[tokio::test]
async fn a_skill_whose_daemon_holds_stdout_open() {
    survives("leaves_daemon", "EXECUTION_ERROR", "1 process").await;
}

#[tokio::test]
async fn a_skill_whose_daemons_keep_forking_while_it_hangs() {
    survives("daemon_then_hangs", "TIMEOUT", "deadline").await;
}

#[tokio::test]
async fn a_skill_that_kills_its_supervisor() {
    survives("kills_parent", "EXECUTION_ERROR", "supervised").await;
}

#[tokio::test]
async fn a_skill_whose_daemon_impersonates_the_sentinel() {
    survives("plays_sentinel", "EXECUTION_ERROR", "supervised").await;
}

#[tokio::test]
async fn a_skill_that_stops_its_supervisor() {
    survives("stops_parent", "TIMEOUT", "deadline").await;
}

/// A skill that attacks its own worker, which `up` must restart.
async fn is_survived_by_up(skill: &str) {
    let system = Setup::up().start().await;
    let call_id = format!("hostile-{skill}-{}", std::process::id());
    let call = InvokeRequest { call_id: call_id.clone(), timeout_ms: DEADLINE_MS, ..request(skill, json!({})) };
    let result = system.invoke(call).await;
    assert!(!result.success, "{result:?}");
    processes::gone(&call_id, Duration::from_secs(5)).await;
    openskill_tests::wait::until("both workers are up", openskill_tests::system::PATIENCE, || async {
        let up = |it: &&openskill_proto::v1::WorkerInfo| it.status() == openskill_proto::v1::WorkerStatus::Up;
        (system.workers().await.iter().filter(up).count() == 2).then_some(())
    })
    .await;
    next_call_is_fine(&system).await;
}

#[tokio::test]
async fn a_skill_that_kills_its_worker_and_supervisor() {
    is_survived_by_up("kills_worker_and_parent").await;
}

#[tokio::test]
async fn a_skill_that_stops_its_worker() {
    is_survived_by_up("stops_worker").await;
}

#[tokio::test]
async fn of_a_traceback_the_caller_gets_the_exception_without_secrets_and_folders() {
    survives("raises", "EXECUTION_ERROR", "nothing on stdout").await;
    let system = Setup::up().with("OPENSKILL_LOG_FORMAT", "json").start().await;
    let result = system.invoke(request("raises", json!({}))).await;
    let message = &result.error.as_ref().unwrap().message;
    assert!(message.ends_with("(exit code 1): RuntimeError: token=*** in place"), "{message}");
    assert!(!format!("{result:?}").contains("hunter2"));
    system.process.log.line(&["the skill wrote to stderr", "stderr_bytes"]).await;
    assert!(!system.process.log.text().contains("hunter2"), "the text is for level debug");
    let system = Setup::up().with("OPENSKILL_DEBUG", "1").start().await;
    let result = system.invoke(request("raises", json!({}))).await;
    assert!(format!("{result:?}").contains("RuntimeError"), "{result:?}");
    system.process.log.line(&["raises call-", " | RuntimeError", "token=***"]).await;
    assert!(!system.process.log.text().contains("hunter2"));
}

#[tokio::test]
async fn a_skill_sees_only_its_own_environment_and_descriptors() {
    let system = Setup::up().with("SECRET_OF_THE_HOST", "x").with("SHOWN_TO_SKILL", "yes").start().await;
    let call = InvokeRequest { session_id: "s1".to_owned(), ..request("reveals", json!({"a": 1})) };
    let result = system.invoke(call).await;
    assert_eq!(code(&result), "", "{result:?}");
    let seen = data(&result);
    let environment = seen["environment"].as_object().unwrap();
    let mut names: Vec<_> = environment.keys().map(String::as_str).filter(|name| *name != "LC_CTYPE").collect();
    names.sort_unstable();
    assert_eq!(
        names,
        [
            "BLIS_NUM_THREADS",
            "LANG",
            "MKL_NUM_THREADS",
            "NUMEXPR_NUM_THREADS",
            "OMP_NUM_THREADS",
            "OPENBLAS_NUM_THREADS",
            "OPENSKILL_ALLOWED_ROOT",
            "OPENSKILL_CALL_ID",
            "OPENSKILL_EVENTS_FD",
            "OPENSKILL_SESSION_ID",
            "OPENSKILL_SKILL_ID",
            "OPENSKILL_TIMEOUT_MS",
            "OPENSKILL_TRACE_ID",
            "PATH",
            "PYTHONPATH",
            "SHOWN_TO_SKILL",
            "TMPDIR",
            "TRACEPARENT",
            "VECLIB_MAXIMUM_THREADS",
        ]
    );
    assert_eq!(environment["OPENSKILL_SESSION_ID"], "s1");
    let events: i64 = environment["OPENSKILL_EVENTS_FD"].as_str().unwrap().parse().unwrap();
    assert_eq!(seen["descriptors"], json!([0, 1, 2, events]));
    assert_eq!(seen["leads_session"], true);
    assert_eq!(seen["no_new_privileges"], true);
    assert_eq!(seen["core_limit"], 0);
    assert_eq!(seen["open_files_limit"], 64);
    assert_eq!(seen["input"], json!({"a": 1}));
}

#[tokio::test]
async fn a_client_that_disconnects_cancels_the_skill() {
    let _alone = alone();
    let system = Setup::up().start().await;
    let call_id = format!("cancelled-{}", std::process::id());
    let call = InvokeRequest { call_id: call_id.clone(), ..request("daemon_then_hangs", json!({})) };
    let mut client = system.skills().await;
    let running = tokio::spawn(async move { client.invoke(call).await });
    openskill_tests::wait::until_true("the skill runs", openskill_tests::system::PATIENCE, || {
        processes::of_call(&call_id).len() >= 4
    })
    .await;
    running.abort();
    processes::gone(&call_id, Duration::from_secs(2)).await;
    system.process.log.line(&["CANCELLED", &call_id]).await;
    next_call_is_fine(&system).await;
}

#[tokio::test]
async fn hostile_skills_leak_no_descriptor_and_no_process() {
    // Warm processes end as soon as they may.
    let system = Setup::up().flag("--workers", 1).with("OPENSKILL_IDLE_MS", 100).start().await;
    let [worker] = system.worker_pids()[..] else { panic!("one worker") };
    next_call_is_fine(&system).await;
    let before = processes::descriptors(worker);
    for skill in ["prints_nothing", "prints_much", "dies_half_way", "leaves_daemon", "kills_parent", "refuses"] {
        for _ in 0..3 {
            system.invoke(InvokeRequest { timeout_ms: PATIENT_MS, ..request(skill, json!({})) }).await;
        }
    }
    openskill_tests::wait::until_true("the descriptors are closed", openskill_tests::system::PATIENCE, || {
        processes::descriptors(worker) <= before
    })
    .await;
    let children = || processes::descendants(worker);
    openskill_tests::wait::until_true("no process is left", openskill_tests::system::PATIENCE, || {
        children().is_empty()
    })
    .await;
}
