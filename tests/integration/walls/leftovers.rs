//! Temporary files: nobody else's are to be seen, and none stays.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use openskill_proto::v1::InvokeRequest;
use openskill_tests::system::{PATIENCE, request};
use openskill_tests::wait::{until_none_is_left, until_true};
use serde_json::{Value, json};

use super::remains::{GONE, Mark, temporary_files};
use super::stage::{Gateway, Kind, Scene, Stage, Worker};

async fn stage(worker: Worker) -> Option<Stage> {
    let scene = Scene::new(worker).await?.skills("attack", "attacks.py", "limits: {file_size_mb: 16}");
    scene.own_temp().start().await
}

/// A word that is nowhere else.
fn word(of: &str) -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    format!("{of}{}x{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed))
}

fn skill(kind: Kind) -> String {
    format!("attack_{}", kind.word())
}

async fn a_concurrent_calls_temporary_files_are_out_of_sight(worker: Worker) {
    let Some(stage) = stage(worker).await else { return };
    let mut seen = Vec::new();
    for kind in Kind::ALL {
        let (mark, word) = (Mark::new(), word("concurrent"));
        let input = json!({"do": "stay", "tell": "stays", "mark": mark.name(), "word": word});
        let call = InvokeRequest { timeout_ms: 60_000, session_id: "one".to_owned(), ..request(&skill(kind), input) };
        let mut client = stage.system.skills().await;
        let staying = tokio::spawn(async move { drop(client.invoke(call).await) });
        let told = stage.path("data/stays");
        until_true("it stays", PATIENCE, || told.exists()).await;
        let found = stage.value(&skill(kind), json!({"do": "search", "word": word})).await;
        if found != nothing() {
            seen.push(format!("{}: {found}", kind.word()));
        }
        staying.abort();
        std::fs::remove_file(told).unwrap();
    }
    assert!(seen.is_empty(), "of a call that runs: {seen:#?}");
}

fn nothing() -> Value {
    json!({"found": [], "beside": [], "in_environment": false})
}

async fn nothing_of_an_earlier_call_is_found(worker: Worker) {
    let Some(stage) = stage(worker).await else { return };
    are_out_of_sight(stage.gateway()).await;
}

pub(super) async fn are_out_of_sight(gateway: Gateway) {
    let mut seen = Vec::new();
    for kind in Kind::ALL {
        for attack in ["leave", "leave_files"] {
            let word = word("earlier");
            gateway.value(&skill(kind), json!({"do": attack, "word": word, "files": 20_000})).await;
            for _ in 0..3 {
                let found = gateway.value(&skill(kind), json!({"do": "search", "word": word})).await;
                if found["found"] != json!([]) || found["in_environment"] != json!(false) {
                    let found: String = found.to_string().chars().take(300).collect();
                    seen.push(format!("{attack}, {}: {found}", kind.word()));
                    break;
                }
            }
        }
    }
    assert!(seen.is_empty(), "of a call that has ended: {seen:#?}");
}

async fn twenty_thousand_files_and_three_thousand_nested_folders_are_gone_after_two_seconds(worker: Worker) {
    let Some(stage) = stage(worker).await else { return };
    let mut late = Vec::new();
    for kind in Kind::ALL {
        for attack in ["leave_files", "leave_folders"] {
            let input = json!({"do": attack, "word": word("many"), "files": 20_000, "folders": 3000});
            stage.value(&skill(kind), input).await;
            let ended = Instant::now();
            while ended.elapsed() < GONE && !temporary_files(&stage.path("tmp")).is_empty() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            let left = temporary_files(&stage.path("tmp"));
            if let Some(first) = left.first() {
                late.push(format!("{attack}, {}: {first:?} and {} more", kind.word(), left.len() - 1));
                until_none_is_left("temporary files", PATIENCE, || temporary_files(&stage.path("tmp"))).await;
            }
        }
    }
    assert!(late.is_empty(), "there two seconds later: {late:#?}");
}

super::for_each_worker! {
    a_concurrent_calls_temporary_files_are_out_of_sight
    nothing_of_an_earlier_call_is_found
    twenty_thousand_files_and_three_thousand_nested_folders_are_gone_after_two_seconds
}
