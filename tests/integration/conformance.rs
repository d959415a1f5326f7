//! What every runner must do, whatever it runs. A new runner gets a row in [`RUNNERS`] and passes the same checks.

use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::StreamExt as _;
use openskill_proto::v1::{InvokeRequest, invoke_event::Event};
use openskill_tests::backend::{Backend, Reply};
use openskill_tests::fixtures;
use openskill_tests::folder::Folder;
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
            progress: ("reports_progress", json!({})),
        },
        Runner {
            key: "inproc",
            echo: ("in_echo", json!({"n": 1}), json!({"n": 1})),
            refusal: ("in_fail", json!({"code": "NOT_FOUND", "message": "no"}), "NOT_FOUND"),
            slow: ("in_wait", json!({"ms": 10_000})),
            progress: ("in_wait", json!({"ms": 10, "steps": 2})),
        },
        Runner {
            key: "http",
            echo: ("http_echo", json!({"n": 1}), json!({"n": 1})),
            refusal: ("http_missing", json!({}), "NOT_FOUND"),
            slow: ("http_slow", json!({})),
            progress: ("http_progress", json!({})),
        },
    ]
}

/// What the skills need that are not whole in their files.
struct Surroundings {
    skills: Folder,
    _server: Backend,
}

impl Surroundings {
    async fn new() -> Self {
        let server = Backend::start(|seen| match seen.path() {
            "/echo" => Reply::new(200, "application/json", seen.body.clone()),
            "/progress" => {
                Reply::new(200, "text/event-stream", "event: progress\ndata: {\"fraction\": 0.5}\n\ndata: 1\n\n")
            }
            "/slow" => Reply::pieces("application/json", futures_util::stream::pending::<Bytes>().boxed()),
            _ => Reply::new(404, "text/plain", "no"),
        })
        .await;
        let skills = Folder::new();
        for path in ["echo", "progress", "slow", "missing"] {
            let (url, host) = (server.url(&format!("/{path}")), server.address);
            let manifest = format!("id: http_{path}\ntype: http\nentry: {url}\nhttp: {{allow: ['{host}']}}\n");
            skills.write(&format!("http_{path}.yaml"), manifest);
        }
        Self { skills, _server: server }
    }

    fn up(&self) -> Setup {
        let skills = format!("{}:{}", fixtures().display(), self.skills.path().display());
        Setup::command(&["up", "--listen", "127.0.0.1:0", "--skills-dir", &skills])
    }
}

async fn call(system: &System, (skill, input): (&str, &Value), timeout_ms: u32) -> openskill_proto::v1::SkillResult {
    system.invoke(InvokeRequest { timeout_ms, ..request(skill, input.clone()) }).await
}

#[tokio::test]
async fn a_success_has_its_data_and_says_who_ran_it() {
    let surroundings = Surroundings::new().await;
    let system = surroundings.up().start().await;
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
    let surroundings = Surroundings::new().await;
    let system = surroundings.up().start().await;
    for Runner { key, refusal: (skill, input, expected), .. } in runners() {
        let result = call(&system, (skill, &input), 0).await;
        assert_eq!(code(&result), expected, "{key}");
        assert_eq!(result.error.unwrap().blame, openskill_proto::v1::Blame::Caller as i32, "{key}");
    }
}

#[tokio::test]
async fn a_deadline_ends_the_run_in_time_and_the_next_is_fine() {
    let surroundings = Surroundings::new().await;
    let system = surroundings.up().flag("--workers", 1).with("OPENSKILL_WORKER_CONCURRENCY", 1).start().await;
    for Runner { key, slow: (skill, input), echo, .. } in runners() {
        let begun = Instant::now();
        let result = call(&system, (skill, &input), 500).await;
        assert_eq!(code(&result), "TIMEOUT", "{key}");
        assert!(begun.elapsed() < Duration::from_millis(1500), "{key}: {:?}", begun.elapsed());
        // The one place is free again: what ran is gone.
        assert!(call(&system, (echo.0, &echo.1), 5000).await.success, "{key}");
    }
}

#[tokio::test]
async fn a_client_that_goes_away_frees_the_place() {
    let surroundings = Surroundings::new().await;
    let system = surroundings.up().flag("--workers", 1).with("OPENSKILL_WORKER_CONCURRENCY", 1).start().await;
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
    let surroundings = Surroundings::new().await;
    let system = surroundings.up().start().await;
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
    let system = Setup::up().flag("--workers", 1).with("OPENSKILL_WORKER_CONCURRENCY", 1).start().await;
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
