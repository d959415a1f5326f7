//! Children that a call makes its parent's (`CLONE_PARENT`), outside of the tree that is counted and ended with it.

use openskill_tests::system::data;
use openskill_tests::wait::until_none_is_left;
use serde_json::json;

use super::remains::{GONE, Mark};
use super::stage::{Gateway, Scene, Stage, Worker};

pub(super) const ISOLATIONS: [&str; 3] = ["process", "fork", "shared"];

pub(super) fn manifest(isolation: &str, jail: &str) -> String {
    format!(
        "id: {isolation}_{jail}\ntype: cli\nruntime: python\nentry: attacks.py\nisolation: {isolation}\n\
         jail: {jail}\ntimeout_ms: 60000\n"
    )
}

/// A worker with a skill of each isolation and jail, such as `fork_off`.
async fn stage(scene: Option<Scene>, jails: &[&str]) -> Option<Stage> {
    let scene = scene?;
    for (isolation, jail) in ISOLATIONS.iter().flat_map(|it| jails.iter().map(move |jail| (it, jail))) {
        scene.write(&format!("skills/{isolation}_{jail}.yaml"), &manifest(isolation, jail));
    }
    scene.start().await
}

async fn they_are_refused(worker: Worker) {
    let Some(stage) = stage(Scene::new(worker).await, &["auto"]).await else { return };
    are_refused(stage.gateway()).await;
}

pub(super) async fn are_refused(gateway: Gateway) {
    for isolation in ISOLATIONS {
        let made = gateway.value(&format!("{isolation}_auto"), json!({"do": "siblings"})).await;
        assert_eq!(made, json!(0), "{isolation}");
    }
}

async fn they_end_with_their_call_where_no_filter_refuses_them(worker: Worker) {
    let scene = Scene::new(worker).await.map(Scene::without_filters);
    let Some(stage) = stage(scene, &["auto", "off"]).await else { return };
    for (isolation, jail) in ISOLATIONS.iter().flat_map(|it| ["auto", "off"].map(|jail| (it, jail))) {
        let (skill, mark) = (format!("{isolation}_{jail}"), Mark::new());
        let works = || stage.value(&skill, json!({"do": "works"}));
        works().await;
        let attack = stage.call(&skill, json!({"do": "siblings", "mark": mark.name()}), 60_000);
        let (result, ..) = tokio::join!(attack, works(), works());
        assert!(!result.success || data(&result).as_u64() > Some(0), "{skill}: {result:?}");
        until_none_is_left("siblings", GONE, || mark.threads()).await;
        // No fork server waits for them.
        works().await;
    }
}

super::for_each_worker! { they_are_refused they_end_with_their_call_where_no_filter_refuses_them }
