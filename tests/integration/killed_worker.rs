//! A worker that is killed during calls of all kinds leaves no process and no container.

use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use openskill_proto::v1::InvokeRequest;
use openskill_tests::alone::alone;
use openskill_tests::backend::{Backend, Reply};
use openskill_tests::containers::{self, Image};
use openskill_tests::folder::Folder;
use openskill_tests::processes;
use openskill_tests::system::{PATIENCE, Setup, request};
use openskill_tests::wait::{until, until_none_is_left, until_true};
use rustix::process::Signal;
use serde_json::{Value, json};

/// The limit for leftovers.
const GONE: Duration = Duration::from_secs(2);

#[tokio::test]
async fn a_killed_worker_leaves_nothing_of_fifty_calls_after_two_seconds() {
    let _alone = alone();
    let folder = Folder::new();
    let server =
        Backend::start(|_| Reply::pieces("application/json", futures_util::stream::pending::<Bytes>().boxed())).await;
    let (url, host) = (server.url("/"), server.address);
    folder.write("hangs_http.yaml", format!("id: hangs_http\ntype: http\nentry: {url}\nhttp: {{allow: ['{host}']}}\n"));
    let slow = json!({"what": "slow"});
    // Fifty calls; without an engine the other kinds take the containers' share.
    let mut kinds: Vec<(&str, Value, usize)> = vec![
        ("conforms_fork", slow.clone(), 10),
        ("conforms_process", slow.clone(), 8),
        ("conforms_shared", slow.clone(), 2),
        ("conforms_exec", slow, 8),
        ("daemon_then_hangs", json!({}), 4),
        ("in_wait", json!({"ms": 60_000}), 6),
        ("hangs_http", json!({}), 6),
    ];
    let image = Image::or_skip();
    if let Some(image) = &image {
        folder.write("hangs_docker.yaml", image.skill("hangs_docker", "sleep 60; echo null", ""));
        kinds.push(("hangs_docker", json!({}), 6));
    } else {
        kinds[0].2 += 6;
    }
    let system = Setup::with_skills(&[&openskill_tests::fixtures(), folder.path()])
        .flag("--workers", 1)
        .with("OPENSKILL_WORKER_CONCURRENCY", 64)
        .start()
        .await;
    let [worker] = system.worker_pids()[..] else { panic!("one worker") };
    let client = system.skills().await;
    let mut calls = tokio::task::JoinSet::new();
    let prefix = format!("killed-{}-", std::process::id());
    for (kind, (skill, input, count)) in kinds.iter().enumerate() {
        for number in 0..*count {
            let mut client = client.clone();
            let call_id = format!("{prefix}{kind}-{number}");
            let call = InvokeRequest { call_id, timeout_ms: 60_000, ..request(skill, input.clone()) };
            calls.spawn(async move { client.invoke(call).await });
        }
    }
    assert_eq!(calls.len(), 50);
    // The calls with processes: 10 + 8 + 8 + 4. Containers come on top.
    let processes_wanted = 30;
    until_true("the processes run", PATIENCE, || processes::of_calls(&prefix).len() >= processes_wanted).await;
    if image.is_some() {
        until_true("the containers run", PATIENCE, || containers::of_skill("hangs_docker").len() == 6).await;
    }
    until("all calls are in flight", PATIENCE, || async { (system.workers().await[0].in_flight == 50).then_some(()) })
        .await;
    let before = processes::descendants(worker);
    assert!(before.len() > processes_wanted, "{before:?}");
    processes::send(worker, Signal::KILL);
    let killed = std::time::Instant::now();
    until_none_is_left("processes", GONE, || {
        let started: Vec<i32> = processes::of_calls(&prefix).into_iter().map(|(pid, _)| pid).collect();
        let left = started.iter().chain(&before).filter(|pid| processes::is_alive(**pid));
        left.map(|pid| (*pid, processes::command_line(*pid))).collect()
    })
    .await;
    if image.is_some() {
        let left = GONE.saturating_sub(killed.elapsed());
        containers::gone("hangs_docker", left).await;
    }
    while let Some(ended) = calls.join_next().await {
        let ended = ended.unwrap();
        assert!(ended.is_err() || !ended.unwrap().into_inner().success, "no call can have succeeded");
    }
}
