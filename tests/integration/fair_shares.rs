//! Slow calls of one caller leave the slots of a worker to others, whichever gateway they come by.

use openskill_proto::v1::InvokeRequest;
use openskill_tests::folder::Folder;
use openskill_tests::port::Port;
use openskill_tests::rest::{self, Answer};
use openskill_tests::system::{PATIENCE, Process, Setup, System, code, request};
use openskill_tests::wait::until;
use serde_json::json;
use tokio::task::JoinSet;

/// Longer than a test may take: a neighbour that waited for a slow call would miss its deadline.
const SLOW_MS: u32 = 60_000;

/// A worker and two gateways.
struct Stage {
    gateways: Vec<System>,
    /// Where the worker serves its metrics.
    metrics: Port,
    _ports: Vec<Port>,
    _worker: Process,
    _folder: Folder,
}

impl Stage {
    async fn start(concurrency: usize, reserve: usize) -> Self {
        let folder = Folder::new();
        let function = |entry: &str| format!("type: inproc\nentry: {entry}\n");
        for (id, text) in [
            ("slow", function("wait")),
            ("limited", function("wait") + "concurrency: 1\n"),
            ("quick", function("echo")),
        ] {
            folder.write(&format!("skills/{id}.yaml"), format!("id: {id}\n{text}"));
        }
        let socket = format!("unix:{}", folder.path().join("worker.sock").display());
        let metrics = Port::reserve();
        let worker = Setup::command(&["worker", "--listen", &socket])
            .flag("--skills-dir", folder.path().join("skills").display())
            .with("OPENSKILL_WORKER_CONCURRENCY", concurrency)
            .with("OPENSKILL_WORKER_RESERVE", reserve)
            .with("OPENSKILL_WORKER_METRICS_LISTEN", metrics.address())
            .spawn();
        worker.log.line(&["worker ready"]).await;
        let (mut gateways, mut ports) = (Vec::new(), Vec::new());
        for _ in 0..2 {
            let port = Port::reserve();
            let listen = port.address().to_string();
            let process = Setup::command(&["gateway", "--listen", &listen, "--workers", &socket]).spawn();
            process.log.line(&["gateway ready"]).await;
            let gateway = System { address: port.address(), process };
            gateway.has_skill("slow").await;
            gateways.push(gateway);
            ports.push(port);
        }
        Self { gateways, metrics, _ports: ports, _worker: worker, _folder: folder }
    }

    /// Keeps this many calls in flight, over the first gateway, and waits until it has sent them.
    async fn hold(&self, skill: &str, session: &str, count: usize) -> JoinSet<()> {
        let mut calls = JoinSet::new();
        let client = self.gateways[0].skills().await;
        for _ in 0..count {
            let (mut client, call) = (client.clone(), call(skill, session, SLOW_MS, 2 * SLOW_MS));
            calls.spawn(async move { drop(client.invoke(call).await) });
        }
        until("the gateway has sent all calls", PATIENCE, || async {
            (self.gateways[0].workers().await[0].in_flight as usize == count).then_some(())
        })
        .await;
        calls
    }

    /// One slow call runs, and two wait for its slot: the worker itself says so.
    async fn hold_one_and_queue_two(&self) -> JoinSet<()> {
        let calls = self.hold("slow", "slow", 3).await;
        until("the worker runs one call and has two more", PATIENCE, || async {
            rest::worker_has(self.metrics.address(), 1, 2).await.then_some(())
        })
        .await;
        calls
    }

    /// A quick call succeeds, long before a slow one ends.
    async fn has_room_for(&self, session: &str, gateway: usize) {
        let result = self.gateways[gateway].invoke(call("quick", session, 0, 20_000)).await;
        assert_eq!(code(&result), "", "{result:?}");
    }
}

fn call(skill: &str, session: &str, ms: u32, timeout_ms: u32) -> InvokeRequest {
    InvokeRequest { session_id: session.to_owned(), timeout_ms, ..request(skill, json!({ "ms": ms })) }
}

#[tokio::test]
async fn slow_calls_of_one_session_leave_a_neighbour_through_over_each_gateway() {
    let stage = Stage::start(4, 1).await;
    let slow = stage.hold("slow", "slow", 60).await;
    for number in 0..20 {
        stage.has_room_for("neighbour", number % 2).await;
    }
    drop(slow);
}

#[tokio::test]
async fn slow_calls_without_a_session_leave_a_neighbour_through() {
    let stage = Stage::start(4, 1).await;
    let slow = stage.hold("slow", "", 60).await;
    for number in 0..20 {
        stage.has_room_for("neighbour", number % 2).await;
    }
    drop(slow);
}

#[tokio::test]
async fn calls_that_wait_for_a_skills_own_limit_hold_no_slot_even_for_their_own_session() {
    let stage = Stage::start(2, 0).await;
    let slow = stage.hold("limited", "slow", 60).await;
    for number in 0..20 {
        stage.has_room_for("slow", number % 2).await;
    }
    drop(slow);
}

#[tokio::test]
async fn a_call_that_cannot_start_before_its_deadline_is_refused_with_the_time_to_wait() {
    let stage = Stage::start(1, 0).await;
    let gateway = &stage.gateways[0];
    // The worker learns how long the skill runs.
    assert_eq!(code(&gateway.invoke(call("slow", "slow", 3000, 20_000)).await), "");
    let slow = stage.hold_one_and_queue_two().await;
    let answer = hurried(gateway).await;
    assert_eq!((answer.status, answer.code().as_str()), (503, "OVERLOADED"));
    let error = &answer.json()["error"];
    assert!(error["message"].as_str().unwrap().contains("too many calls wait"), "{error}");
    let retry_after_ms = error["retry_after_ms"].as_u64().unwrap();
    assert!((5_000..=10_000).contains(&retry_after_ms), "{retry_after_ms}");
    let metrics = String::from_utf8(gateway.get("/metrics").await.body.to_vec()).unwrap();
    assert!(metrics.contains("openskill_refusals_total{bound=\"worker\"} 1"), "{metrics}");
    drop(slow);
}

#[tokio::test]
async fn a_caller_that_was_just_refused_is_refused_again_without_asking_the_worker() {
    let stage = Stage::start(1, 0).await;
    let gateway = &stage.gateways[0];
    assert_eq!(code(&gateway.invoke(call("slow", "slow", 3000, 20_000)).await), "");
    let slow = stage.hold_one_and_queue_two().await;
    // A refusal is remembered for a moment: on a busy machine the second call may come too late for it.
    until("the second of two calls is refused by the gateway itself", PATIENCE, || async {
        let mut asked = [0; 3];
        for count in &mut asked {
            *count = refused_attempts(gateway).await;
            let answer = hurried(gateway).await;
            assert_eq!((answer.status, answer.code().as_str()), (503, "OVERLOADED"));
            assert!(answer.json()["error"]["retry_after_ms"].as_u64().unwrap() > 0);
        }
        (asked[1] == asked[2]).then_some(())
    })
    .await;
    drop(slow);
}

/// A slow call that has little more time than it takes.
async fn hurried(gateway: &System) -> Answer {
    let headers = [("content-type", "application/json"), ("x-timeout-ms", "4000")];
    let body = json!({"input": {"ms": 3000}, "session_id": "slow"}).to_string();
    gateway.post("/skills/slow:invoke", &headers, body).await
}

/// How many calls the workers refused.
async fn refused_attempts(gateway: &System) -> u32 {
    let metrics = String::from_utf8(gateway.get("/metrics").await.body.to_vec()).unwrap();
    let line = metrics.lines().find_map(|line| line.strip_prefix("openskill_attempts_total{end=\"not_started\"} "));
    line.and_then(|count| count.parse().ok()).unwrap_or_default()
}
