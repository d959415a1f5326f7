//! Leases: who holds one on a file holds up everybody who opens it.

use std::time::{Duration, Instant};

use openskill_proto::v1::InvokeRequest;
use openskill_tests::system::{PATIENCE, request};
use openskill_tests::wait::{until, until_true};
use serde_json::{Value, json};

use super::stage::{Gateway, Kind, Scene, Stage, Worker};

/// The skills' user owns script and manifest.
async fn stage(worker: Worker) -> Option<Stage> {
    let scene = Scene::new(worker).await?.skills("attack", "attacks.py", "");
    for name in
        ["skills/attacks.py", "skills/attack_process.yaml", "skills/attack_fork.yaml", "skills/attack_exec.yaml"]
    {
        scene.give(name);
    }
    scene.start().await
}

fn paths(stage: &Stage) -> Value {
    json!({"script": stage.path("skills/attacks.py"), "manifest": stage.path("skills/attack_fork.yaml")})
}

async fn leases_are_refused(worker: Worker) {
    let Some(stage) = stage(worker).await else { return };
    are_refused(stage.gateway(), paths(&stage)).await;
}

pub(super) async fn are_refused(gateway: Gateway, paths: Value) {
    let mut granted = Vec::new();
    for kind in Kind::ALL {
        let ends = gateway.value(&format!("attack_{}", kind.word()), json!({"do": "lease", "paths": paths})).await;
        let done = ends.as_object().unwrap().iter().filter(|(_, end)| *end == "done");
        granted.extend(done.map(|(name, _)| format!("{}: {name}", kind.word())));
    }
    assert!(granted.is_empty(), "{granted:#?}");
}

async fn a_lease_holds_up_neither_starts_nor_reloads(worker: Worker) {
    let Some(stage) = stage(worker).await else { return };
    for kind in Kind::ALL {
        stage.value(&format!("attack_{}", kind.word()), json!({"do": "works"})).await;
    }
    let input = json!({"do": "lease", "paths": paths(&stage), "seconds": 60, "tell": "has"});
    let call = InvokeRequest { timeout_ms: 60_000, ..request("attack_process", input) };
    let mut client = stage.system.skills().await;
    let holding = tokio::spawn(async move { drop(client.invoke(call).await) });
    until_true("it has them", PATIENCE, || stage.path("data/has").exists()).await;
    let begun = Instant::now();
    for kind in Kind::ALL {
        stage.value(&format!("attack_{}", kind.word()), json!({"do": "works"})).await;
    }
    // A changed manifest is read, and so is a new one.
    let manifest = std::fs::read_to_string(stage.path("skills/attack_exec.yaml")).unwrap();
    stage.folder.write("skills/late.yaml", manifest.replace("attack_exec", "late"));
    until("the new skill is there", PATIENCE, || async {
        let answer = stage.system.get("/skills/late").await;
        (answer.status == 200).then_some(())
    })
    .await;
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    holding.abort();
}

super::for_each_worker! { leases_are_refused a_lease_holds_up_neither_starts_nor_reloads }
