//! A call that starts as many processes as it can. It is the only one to suffer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use openskill_proto::v1::InvokeRequest;
use openskill_tests::alone::alone;
use openskill_tests::soak::count;
use openskill_tests::system::{code, request};
use serde_json::json;

use super::remains::Mark;
use super::stage::{Gateway, Kind, Scene, Stage, Worker};

/// What each call may start.
const LIMIT: u64 = 100;

/// The limits of the skills `bomb_KIND`.
pub(super) fn limits() -> String {
    format!("limits: {{processes: {LIMIT}}}")
}

async fn stage(worker: Worker) -> Option<Stage> {
    let scene = Scene::new(worker).await?.skills("bomb", "attacks.py", &limits());
    scene.skills("neighbour", "attacks.py", "").start().await
}

async fn every_bomb_is_as_large_as_the_first(worker: Worker) {
    let _alone = alone();
    let Some(stage) = stage(worker).await else { return };
    are_even(stage.gateway()).await;
}

pub(super) async fn are_even(gateway: Gateway) {
    let mut counts = Vec::new();
    for kind in Kind::ALL {
        let skill = format!("bomb_{}", kind.word());
        let mut of_kind = Vec::new();
        for _ in 0..count(3, 50) {
            let mark = Mark::new();
            of_kind.push(gateway.value(&skill, json!({"do": "bomb", "mark": mark.name()})).await.as_u64().unwrap());
            // The next one is not to be larger by what this one leaves.
            gateway.call(&skill, json!({"do": "wild_bomb", "mark": mark.name()}), 600).await;
        }
        counts.push((kind.word(), of_kind));
    }
    let is_even =
        |of_kind: &[u64]| of_kind.iter().all(|it| *it == of_kind[0]) && (LIMIT - 10..=LIMIT).contains(&of_kind[0]);
    assert!(counts.iter().all(|(_, of_kind)| is_even(of_kind)), "of {LIMIT} that each may have: {counts:?}");
}

async fn a_bomb_fails_no_neighbour(worker: Worker) {
    let _alone = alone();
    let Some(stage) = stage(worker).await else { return };
    fail_no_neighbour(stage.gateway()).await;
}

pub(super) async fn fail_no_neighbour(gateway: Gateway) {
    let stop = Arc::new(AtomicBool::new(false));
    let bombs: Vec<_> = Kind::ALL.map(|kind| tokio::spawn(keep_bombing(gateway, kind, &stop))).into();
    let (made, neighbours) = (Arc::new(AtomicUsize::new(0)), count(80, 2000));
    let mut lanes = tokio::task::JoinSet::new();
    for lane in 0..6 {
        let (mut client, made) = (gateway.skills().await, Arc::clone(&made));
        let skill = format!("neighbour_{}", Kind::ALL[lane % 3].word());
        lanes.spawn(async move {
            let mut failed = Vec::new();
            while made.fetch_add(1, Ordering::Relaxed) < neighbours {
                let call = InvokeRequest { timeout_ms: 60_000, ..request(&skill, json!({"do": "works"})) };
                let result = client.invoke(call).await.unwrap().into_inner();
                if !code(&result).is_empty() {
                    failed.push(format!("{skill}: {:?}", result.error));
                }
            }
            failed
        });
    }
    let failed: Vec<String> = lanes.join_all().await.into_iter().flatten().collect();
    stop.store(true, Ordering::Relaxed);
    let mut gone_off = 0;
    for bomb in bombs {
        gone_off += bomb.await.unwrap();
    }
    assert!(gone_off > 3, "{gone_off} bombs");
    let count = failed.len();
    assert!(count == 0, "{count} of {neighbours} neighbours failed beside {gone_off} bombs: {}", failed[0]);
}

/// One bomb after the other, until it is told to stop. How many.
fn keep_bombing(gateway: Gateway, kind: Kind, stop: &Arc<AtomicBool>) -> impl Future<Output = usize> + use<> {
    let stop = Arc::clone(stop);
    async move {
        let mut client = gateway.skills().await;
        let (mark, mut bombs) = (Mark::new(), 0);
        while !stop.load(Ordering::Relaxed) {
            let attack = if bombs % 2 == 0 { "wild_bomb" } else { "bomb" };
            let input = json!({"do": attack, "mark": mark.name(), "seconds": 0.5});
            let call = InvokeRequest { timeout_ms: 1000, ..request(&format!("bomb_{}", kind.word()), input) };
            let _ = client.invoke(call).await;
            bombs += 1;
        }
        bombs
    }
}

super::for_each_worker! { every_bomb_is_as_large_as_the_first a_bomb_fails_no_neighbour }
