//! CPU time of processes that each use little: a call that uses more than its share with all of them ends, and says why.

use openskill_proto::v1::InvokeRequest;
use openskill_tests::system::{code, request};
use serde_json::{Value, json};

use super::remains::Mark;
use super::stage::{Kind, Scene, Stage, Worker};

/// `cpu_seconds` of the skills. Each attack wants many times as much; what is no attack uses a fourth.
const LIMIT: u64 = 1;

/// How long a call may take, on a machine with much else to do.
const TIMEOUT_MS: u32 = 300_000;

/// How an attack ends.
const REASON: &str = "the skill exceeded its cpu_seconds limit: 1 s of CPU time";

async fn stage(worker: Worker) -> Option<Stage> {
    let limits = format!("limits: {{cpu_seconds: {LIMIT}}}");
    Scene::new(worker).await?.skills("attack", "attacks.py", &limits).start().await
}

/// A quarter of a second of CPU time, in five processes.
fn within(attack: &str) -> Value {
    json!({"do": attack, "count": 5, "each": 0.05})
}

/// Each kind of call makes the attack. It is ended for its CPU time, and its neighbour of the same kind is not.
async fn is_bounded(worker: Worker, attack: Value) {
    let Some(stage) = stage(worker).await else { return };
    let mut wrong = Vec::new();
    for kind in Kind::ALL {
        let (skill, mark) = (format!("attack_{}", kind.word()), Mark::new());
        let mut input = attack.clone();
        input["mark"] = mark.name().into();
        let mut client = stage.system.skills().await;
        let call = InvokeRequest { timeout_ms: TIMEOUT_MS, ..request(&skill, within("forks_on")) };
        let neighbour = tokio::spawn(async move { client.invoke(call).await.unwrap().into_inner() });
        let result = stage.call(&skill, input, TIMEOUT_MS).await;
        let message = result.error.as_ref().map_or("", |it| it.message.as_str());
        if (code(&result), message) != ("EXECUTION_ERROR", REASON) {
            wrong.push(format!("{skill}: {result:?}"));
        }
        let neighbour = neighbour.await.unwrap();
        if !neighbour.success {
            wrong.push(format!("the neighbour of {skill}: {neighbour:?}"));
        }
        let left = mark.processes();
        if !left.is_empty() {
            wrong.push(format!("{skill} left {left:?}"));
        }
    }
    assert!(wrong.is_empty(), "{attack} where {LIMIT} s are allowed: {wrong:#?}");
}

async fn many_short_children_are_bounded(worker: Worker) {
    is_bounded(worker, json!({"do": "forks_on", "count": 100, "each": 0.1})).await;
}

async fn many_short_orphans_are_bounded(worker: Worker) {
    is_bounded(worker, json!({"do": "forks_orphans", "count": 100, "each": 0.1})).await;
}

/// Where somebody looks from time to time, as far as that has seen them.
async fn children_that_nobody_waits_for_are_bounded(worker: Worker) {
    is_bounded(worker, json!({"do": "forks_unawaited", "count": 60, "each": 0.25})).await;
}

async fn one_process_is_bounded(worker: Worker) {
    is_bounded(worker, json!({"do": "spins"})).await;
    is_bounded(worker, json!({"do": "spins", "ignores_signals": true})).await;
}

async fn what_stays_within_its_cpu_time_is_not_ended(worker: Worker) {
    let Some(stage) = stage(worker).await else { return };
    for kind in Kind::ALL {
        for attack in ["forks_on", "forks_unawaited"] {
            let skill = format!("attack_{}", kind.word());
            let result = stage.call(&skill, within(attack), TIMEOUT_MS).await;
            assert!(result.success, "{skill}: {result:?}");
        }
    }
}

super::for_each_worker! {
    many_short_children_are_bounded
    many_short_orphans_are_bounded
    children_that_nobody_waits_for_are_bounded
    one_process_is_bounded
    what_stays_within_its_cpu_time_is_not_ended
}
