//! Idempotency keys of calls, in the store of their gateways.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use futures_util::StreamExt as _;
use futures_util::stream;
use openskill_proto::v1::{InvokeRequest, SkillResult};
use openskill_tests::postgres::{Postgres, Server};
use openskill_tests::system::{PATIENCE, code, data, request};
use openskill_tests::wait::until_true;
use serde_json::{Value, json};

use super::stage::{Stage, kill};

fn keyed(key: &str, call: InvokeRequest) -> InvokeRequest {
    InvokeRequest { idempotency_key: key.to_owned(), ..call }
}

/// A call that leaves a line for its run, and returns the id of that run.
fn recorded(key: &str) -> InvokeRequest {
    keyed(key, request("records", json!({"key": key, "idempotent": false, "nap_ms": 0, "fails": false})))
}

/// The file that gets a line for each run of [`recorded`], and must be there.
fn history(stage: &Stage) -> PathBuf {
    stage.mark().with_file_name("history.jsonl")
}

fn nap(stage: &Stage) -> InvokeRequest {
    keyed("nap", request("naps", json!({"seconds": 8, "mark": stage.mark()})))
}

fn is_replay(result: &SkillResult) -> bool {
    result.meta.as_ref().unwrap().warnings.iter().any(|it| it.contains("earlier call"))
}

/// Whether a call was not run because an earlier one may have run.
fn may_have_run(result: &SkillResult) -> bool {
    let error = result.error.as_ref().unwrap();
    code(result) == "UNAVAILABLE" && error.may_have_run && !error.retryable
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gateways_that_share_a_database_run_each_key_once() {
    const KEYS: usize = 500;
    let Some(programs) = Postgres::or_skip() else { return };
    let server = Server::start(&programs).await;
    let (stage, url) = (Stage::start().await, server.url(&server.database()));
    std::fs::write(history(&stage), "").unwrap();
    let gateways = [stage.gateway_on(&url).await, stage.gateway_on(&url).await];
    let clients = [gateways[0].skills().await, gateways[1].skills().await];
    let calls = (0..4 * KEYS).map(|number| {
        let (key, mut client) = (format!("key-{}", number / 4), clients[number % 2].clone());
        async move {
            let result = client.invoke(recorded(&key)).await.unwrap().into_inner();
            (key, data(&result)["run"].as_str().unwrap().to_owned())
        }
    });
    let mut answers: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut running = stream::iter(calls).buffer_unordered(32);
    while let Some((key, run)) = running.next().await {
        answers.entry(key).or_default().insert(run);
    }
    let differing: Vec<_> = answers.iter().filter(|(_, runs)| runs.len() != 1).collect();
    assert!(differing.is_empty() && answers.len() == KEYS, "{differing:?}");
    let runs: BTreeSet<_> = answers.into_values().flatten().collect();
    let effects = std::fs::read_to_string(history(&stage)).unwrap();
    let effects: Vec<Value> = effects.lines().map(|it| serde_json::from_str(it).unwrap()).collect();
    assert_eq!(effects.len(), KEYS);
    assert!(effects.iter().all(|it| runs.contains(it["run"].as_str().unwrap())));
}

#[tokio::test]
async fn a_key_survives_its_gateway() {
    let stage = Stage::start().await;
    std::fs::write(history(&stage), "").unwrap();
    let first = stage.gateway().await;
    let answered = first.invoke(recorded("k")).await;
    let (mut client, call) = (first.skills().await, nap(&stage));
    let running = tokio::spawn(async move { client.invoke(call).await });
    until_true("it runs", PATIENCE, || stage.starts() == 1).await;
    kill(first).await;
    assert!(running.await.unwrap().is_err());

    let second = stage.gateway().await;
    let again = second.invoke(recorded("k")).await;
    assert!(is_replay(&again), "{again:?}");
    assert_eq!(data(&again), data(&answered));
    assert_eq!(code(&second.invoke(keyed("k", recorded("other"))).await), "INVALID_ARGUMENT");
    let lost = second.invoke(nap(&stage)).await;
    assert!(may_have_run(&lost), "{lost:?}");
    assert_eq!(stage.starts(), 1);
}

#[tokio::test]
async fn a_call_of_a_gateway_that_is_lost_may_have_run_and_does_not_run_at_another() {
    let Some(programs) = Postgres::or_skip() else { return };
    let server = Server::start(&programs).await;
    let (stage, url) = (Stage::start().await, server.url(&server.database()));
    let (first, second) = (stage.gateway_on(&url).await, stage.gateway_on(&url).await);
    let (mut client, call) = (first.skills().await, nap(&stage));
    let running = tokio::spawn(async move { client.invoke(call).await });
    until_true("it runs", PATIENCE, || stage.starts() == 1).await;
    kill(first).await;
    assert!(running.await.unwrap().is_err());
    let lost = second.invoke(nap(&stage)).await;
    assert!(may_have_run(&lost), "{lost:?}");
    assert_eq!(stage.starts(), 1);
}

#[tokio::test]
async fn without_its_store_a_gateway_runs_only_calls_without_a_key() {
    let stage = Stage::start().await;
    let gateway = stage.gateway_on("postgres://openskill@127.0.0.1:1/none").await;
    // A status, and not a result: the gateway did not accept the call.
    let refused = gateway.skills().await.invoke(recorded("k")).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::Unavailable);
    assert!(refused.message().contains("idempotency keys can't be used now"), "{refused:?}");
    assert!(gateway.invoke(request("in_echo", json!({"n": 1}))).await.success);
}
