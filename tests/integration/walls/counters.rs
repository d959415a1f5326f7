//! What the kernel counts by user, or for the whole machine: a call takes little of it, and others have the rest.

use serde_json::json;

use super::stage::{Gateway, Kind, Scene, Worker};

async fn a_call_takes_few_of_what_the_machine_counts_by_user(worker: Worker) {
    let Some(scene) = Scene::new(worker).await else { return };
    let Some(stage) = scene.skills("attack", "attacks.py", "").start().await else { return };
    are_bounded(stage.gateway()).await;
}

pub(super) async fn are_bounded(gateway: Gateway) {
    let mut wrong = Vec::new();
    for kind in Kind::ALL {
        let taken = gateway.value(&format!("attack_{}", kind.word()), json!({"do": "counters"})).await;
        let is_little = |name: &str, most: u64| taken[name].as_u64().is_some_and(|it| it <= most);
        if !(is_little("inotify", 4) && is_little("timers", 128) && is_little("contexts", 0)) {
            wrong.push(format!("{}: {taken}", kind.word()));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

super::for_each_worker! { a_call_takes_few_of_what_the_machine_counts_by_user }
