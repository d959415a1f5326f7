//! What every runner must do, whatever it runs. A new runner gets a row in [`RUNNERS`] and passes the same checks.

use std::time::{Duration, Instant};

use openskill_proto::v1::{InvokeRequest, invoke_event::Event};
use openskill_tests::fixtures;
use openskill_tests::system::{Setup, System, code, data, request};
use serde_json::{Value, json};

/// A runner, and the skills that show its behaviour.
struct Runner {
    key: &'static str,
    /// Gives data that holds what it was given.
    echo: (&'static str, Value, Value),
    /// Fails with NOT_FOUND or INVALID_ARGUMENT, on purpose.
    refusal: (&'static str, Value, &'static str),
    /// Runs for ten seconds, and can be ended.
    slow: (&'static str, Value),
    /// The code of a call whose deadline passed.
    late: &'static str,
    /// Reports progress at least once.
    progress: (&'static str, Value),
}

fn runners() -> Vec<Runner> {
    vec![
        Runner {
            key: "cli:python",
            echo: ("hello", json!({"n": 1}), json!({"hello": {"n": 1}})),
            refusal: ("refuses", json!({}), "INVALID_ARGUMENT"),
            slow: ("naps", json!({"seconds": 10})),
            late: "TIMEOUT",
            progress: ("reports_progress", json!({})),
        },
        Runner {
            key: "inproc",
            echo: ("in_echo", json!({"n": 1}), json!({"n": 1})),
            refusal: ("in_fail", json!({"code": "NOT_FOUND", "message": "no"}), "NOT_FOUND"),
            slow: ("in_wait", json!({"ms": 10_000})),
            late: "TIMEOUT",
            progress: ("in_wait", json!({"ms": 10, "steps": 2})),
        },
        Runner {
            key: "mcp:stdio",
            echo: ("own__echo", json!({"n": 1}), json!({"n": 1})),
            refusal: ("own__refuses", json!({}), "MCP_PARAM_ERROR"),
            slow: ("own__slow", json!({"seconds": 10})),
            late: "MCP_TIMEOUT",
            progress: ("own__progress", json!({})),
        },
    ]
}

/// With the skills of all runners.
fn setup() -> Setup {
    let mcp = fixtures().with_file_name("mcp");
    let folders = format!("{}:{}", fixtures().display(), mcp.display());
    Setup::command(&["up", "--listen", "127.0.0.1:0", "--skills-dir", &folders])
}

/// Starts it and waits for what comes a moment later than the rest: the tools of servers.
async fn start(setup: Setup) -> System {
    let system = setup.start().await;
    system.has_skill("own__echo").await;
    system
}

async fn call(system: &System, (skill, input): (&str, &Value), timeout_ms: u32) -> openskill_proto::v1::SkillResult {
    system.invoke(InvokeRequest { timeout_ms, ..request(skill, input.clone()) }).await
}

#[tokio::test]
async fn a_success_has_its_data_and_says_who_ran_it() {
    let system = start(setup()).await;
    for Runner { key, echo: (skill, input, expected), .. } in runners() {
        let result = call(&system, (skill, &input), 0).await;
        assert_eq!(data(&result), expected, "{key}");
        let meta = result.meta.unwrap();
        assert_eq!((meta.runner.as_str(), meta.attempts), (key, 1));
        assert!(meta.worker_id.starts_with("worker-"), "{meta:?}");
        assert!(!result.text.is_empty());
    }
}

#[tokio::test]
async fn a_failure_keeps_its_code_and_its_blame() {
    let system = start(setup()).await;
    for Runner { key, refusal: (skill, input, expected), .. } in runners() {
        let result = call(&system, (skill, &input), 0).await;
        assert_eq!(code(&result), expected, "{key}");
        assert_eq!(result.error.unwrap().blame, openskill_proto::v1::Blame::Caller as i32, "{key}");
    }
}

#[tokio::test]
async fn a_deadline_ends_the_run_in_time_and_the_next_is_fine() {
    let system = start(setup().flag("--workers", 1).with("OPENSKILL_WORKER_CONCURRENCY", 1)).await;
    for Runner { key, slow: (skill, input), echo, late, .. } in runners() {
        let begun = Instant::now();
        let result = call(&system, (skill, &input), 500).await;
        assert_eq!(code(&result), late, "{key}");
        assert!(begun.elapsed() < Duration::from_millis(1500), "{key}: {:?}", begun.elapsed());
        // The one place is free again: what ran is gone.
        assert!(call(&system, (echo.0, &echo.1), 5000).await.success, "{key}");
    }
}

#[tokio::test]
async fn a_client_that_goes_away_frees_the_place() {
    let system = start(setup().flag("--workers", 1).with("OPENSKILL_WORKER_CONCURRENCY", 1)).await;
    for Runner { key, slow: (skill, input), echo, .. } in runners() {
        let mut events = system.skills().await.invoke_stream(request(skill, input)).await.unwrap().into_inner();
        assert!(matches!(events.message().await.unwrap().unwrap().event, Some(Event::Accepted(_))), "{key}");
        drop(events);
        let begun = Instant::now();
        assert!(call(&system, (echo.0, &echo.1), 8000).await.success, "{key}");
        assert!(begun.elapsed() < Duration::from_secs(8), "{key}");
    }
}

#[tokio::test]
async fn progress_comes_before_the_result() {
    let system = start(setup()).await;
    for Runner { key, progress: (skill, input), .. } in runners() {
        let mut events = system.skills().await.invoke_stream(request(skill, input)).await.unwrap().into_inner();
        let mut kinds = Vec::new();
        while let Some(event) = events.message().await.unwrap() {
            kinds.push(std::mem::discriminant(&event.event.unwrap()));
        }
        let progress = std::mem::discriminant(&Event::Progress(Default::default()));
        let result = std::mem::discriminant(&Event::Result(Default::default()));
        assert!(kinds.contains(&progress), "{key}");
        assert_eq!(kinds.last(), Some(&result), "{key}");
    }
}

#[tokio::test]
async fn calls_that_wait_for_a_place_end_at_their_deadline_too() {
    let system = start(setup().flag("--workers", 1).with("OPENSKILL_WORKER_CONCURRENCY", 1)).await;
    let mut client = system.skills().await;
    let first = tokio::spawn(async move { client.invoke(request("in_wait", json!({"ms": 3000}))).await });
    openskill_tests::wait::until("the place is taken", openskill_tests::system::PATIENCE, || async {
        (system.workers().await[0].in_flight == 1).then_some(())
    })
    .await;
    let result = call(&system, ("in_echo", &json!({})), 300).await;
    assert_eq!(code(&result), "TIMEOUT");
    assert!(result.error.unwrap().message.contains("waited"));
    assert!(first.await.unwrap().unwrap().into_inner().success);
}
