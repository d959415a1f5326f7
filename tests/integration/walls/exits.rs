//! A call whose main thread exits alone, by exit(2) itself, while another thread runs on. Its process then looks like one that
//! has ended, and has not.

use openskill_proto::v1::InvokeRequest;
use openskill_tests::processes;
use openskill_tests::system::{PATIENCE, code, request};
use openskill_tests::wait::{until_none_is_left, until_true};
use rustix::process::Signal;
use serde_json::json;

use super::remains::{GONE, Mark};
use super::stage::{Gateway, Kind, Scene, Stage, Worker};

/// The deadline of calls that are answered when nothing of them runs any more: they never are.
const DEADLINE_MS: u32 = 1500;

async fn stage(worker: Worker) -> Option<Stage> {
    let scene = Scene::new(worker).await?.skills("attack", "attacks.py", "");
    scene.with("OPENSKILL_DRAIN_TIMEOUT_MS", 300).start().await
}

/// Calls of each kind that stay, each with its mark, with their threads running on.
async fn started(stage: &Stage, attack: &str) -> Vec<(Kind, Mark)> {
    let mut marks = Vec::new();
    for kind in Kind::ALL {
        let mark = Mark::new();
        let input = json!({"do": attack, "mark": mark.name(), "tell": "left"});
        let call = InvokeRequest { timeout_ms: 60_000, ..request(&format!("attack_{}", kind.word()), input) };
        let mut client = stage.system.skills().await;
        tokio::spawn(async move { drop(client.invoke(call).await) });
        let path = stage.path("data/left");
        until_true("the main thread has exited", PATIENCE, || path.exists()).await;
        std::fs::remove_file(path).unwrap();
        marks.push((kind, mark));
    }
    marks
}

/// Calls that stay, and calls that ended and left something behind.
async fn all(stage: &Stage) -> Vec<(Kind, Mark)> {
    let mut marks = Vec::new();
    for kind in Kind::ALL {
        let mark = Mark::new();
        let input = json!({"do": "leave_thread_behind", "mark": mark.name()});
        stage.call(&format!("attack_{}", kind.word()), input, 20_000).await;
        marks.push((kind, mark));
    }
    for attack in ["leave_thread", "leave_thread_behind"] {
        marks.extend(started(stage, attack).await);
    }
    marks
}

async fn all_are_gone(marks: &[(Kind, Mark)]) {
    let left = || -> Vec<_> {
        let threads =
            |(kind, mark): &(Kind, Mark)| mark.threads().into_iter().map(|it| (kind.word(), it)).collect::<Vec<_>>();
        marks.iter().flat_map(threads).collect()
    };
    until_none_is_left("threads", GONE, left).await;
}

/// A thread that a call has left two seconds after its end, if there is one.
async fn left_of(gateway: Gateway, attack: &str, kind: Kind, timeout_ms: u32) -> Option<String> {
    let mark = Mark::new();
    let input = json!({"do": attack, "mark": mark.name()});
    // Failures of one session do not keep calls of others from being made.
    let call = InvokeRequest {
        timeout_ms,
        session_id: attack.to_owned(),
        ..request(&format!("attack_{}", kind.word()), input)
    };
    let result = gateway.skills().await.invoke(call).await.unwrap().into_inner();
    assert_ne!(code(&result), "CIRCUIT_OPEN", "{attack} was not made");
    let ended = std::time::Instant::now();
    while ended.elapsed() < GONE && !mark.threads().is_empty() {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    mark.threads().first().map(|it| format!("{attack}, {}: {it:?}", kind.word()))
}

async fn nothing_outlives_a_call_whose_main_thread_exits_alone(worker: Worker) {
    let Some(stage) = stage(worker).await else { return };
    nothing_outlives_a_call(stage.gateway()).await;
}

pub(super) async fn nothing_outlives_a_call(gateway: Gateway) {
    let mut left = Vec::new();
    for (attack, timeout_ms) in [
        ("leave_thread", DEADLINE_MS),
        ("leave_forking_thread", DEADLINE_MS),
        ("leave_thread_behind", 20_000),
        ("daemon", 20_000),
        ("deaf", DEADLINE_MS),
    ] {
        let of_each = Kind::ALL.map(|kind| left_of(gateway, attack, kind, timeout_ms));
        left.extend(futures_util::future::join_all(of_each).await.into_iter().flatten());
    }
    assert!(left.is_empty(), "left two seconds after their calls: {left:#?}");
}

async fn a_call_that_leaves_a_daemon_fails_however_it_ends(worker: Worker) {
    let Some(stage) = stage(worker).await else { return };
    let mut unnoticed = Vec::new();
    for attack in ["daemon", "silent_daemon", "daemon_beside_a_thread", "daemon_and_exit"] {
        for kind in Kind::ALL {
            let mark = Mark::new();
            let input = json!({"do": attack, "mark": mark.name()});
            let result = stage.call(&format!("attack_{}", kind.word()), input, 20_000).await;
            let message = result.error.as_ref().map_or("", |it| &it.message);
            if code(&result) != "EXECUTION_ERROR" || !message.contains("left 1 process") {
                unnoticed.push(format!("{attack}, {}: {:?} {message}", kind.word(), result.success));
            }
        }
    }
    assert!(unnoticed.is_empty(), "{unnoticed:#?}");
    // What ends by itself, a moment after its call, is no daemon.
    for kind in Kind::ALL {
        let input = json!({"do": "helper_and_exit"});
        assert_eq!(stage.value(&format!("attack_{}", kind.word()), input).await, json!("left one"));
    }
}

async fn nothing_outlives_a_worker_that_is_killed(worker: Worker) {
    let Some(stage) = stage(worker).await else { return };
    let marks = all(&stage).await;
    processes::send(stage.worker(), Signal::KILL);
    all_are_gone(&marks).await;
}

async fn nothing_outlives_up(worker: Worker) {
    let Some(mut stage) = stage(worker).await else { return };
    let marks = all(&stage).await;
    stage.system.process.terminate();
    stage.system.process.ended().await;
    all_are_gone(&marks).await;
}

async fn nothing_outlives_up_that_is_killed(worker: Worker) {
    let Some(mut stage) = stage(worker).await else { return };
    let marks = all(&stage).await;
    processes::send(stage.system.process.pid(), Signal::KILL);
    stage.system.process.ended().await;
    all_are_gone(&marks).await;
}

super::for_each_worker! {
    a_call_that_leaves_a_daemon_fails_however_it_ends
    nothing_outlives_a_call_whose_main_thread_exits_alone
    nothing_outlives_a_worker_that_is_killed
    nothing_outlives_up
    nothing_outlives_up_that_is_killed
}
