//! Rates and circuits of gateways that share a database.

use std::time::{Duration, Instant};

use openskill_proto::v1::{CircuitState, ListCircuitsRequest, ResetCircuitsRequest, SkillResult};
use openskill_tests::postgres::{Postgres, Server};
use openskill_tests::system::{PATIENCE, System, code, request};
use openskill_tests::wait::until;
use serde_json::{Value, json};
use tonic::Code;

use super::stage::Stage;
use crate::identity::{Keys, from};

/// How soon a gateway follows another one on a machine with other work to do.
const SOON: Duration = Duration::from_secs(2);

const SIX_CALLS: (&str, &str) = ("OPENSKILL_CIRCUIT_MINIMUM_CALLS", "6");

async fn pair(stage: &Stage, url: &str, settings: &[(&str, &str)]) -> [System; 2] {
    let gateways = [stage.gateway_with(url, settings).await, stage.gateway_with(url, settings).await];
    for gateway in &gateways {
        gateway.has_skill("moody").await;
    }
    gateways
}

async fn call(gateway: &System, input: Value) -> SkillResult {
    gateway.invoke(request("moody", input)).await
}

async fn fail(gateway: &System, times: usize) {
    for _ in 0..times {
        assert_eq!(code(&call(gateway, json!({"fail": true})).await), "EXECUTION_ERROR");
    }
}

async fn state(gateway: &System) -> CircuitState {
    let request = ListCircuitsRequest { include_closed: true, ..ListCircuitsRequest::default() };
    let listed = gateway.admin().await.list_circuits(request).await.unwrap().into_inner().circuits;
    listed.iter().find(|it| it.skill_id == "moody").map_or(CircuitState::Closed, |it| it.state())
}

async fn follows(gateway: &System, wanted: CircuitState, patience: Duration) {
    let what = format!("the circuit is {wanted:?}");
    until(&what, patience, || async { (state(gateway).await == wanted).then_some(()) }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failures_at_both_gateways_open_a_circuit_and_one_probe_in_all_closes_it() {
    let Some(programs) = Postgres::or_skip() else { return };
    let server = Server::start(&programs).await;
    let (stage, url) = (Stage::start().await, server.url(&server.database()));
    let gateways = pair(&stage, &url, &[SIX_CALLS, ("OPENSKILL_CIRCUIT_SKILL_RECOVERY_S", "3")]).await;
    for gateway in &gateways {
        fail(gateway, 3).await;
    }
    let begun = Instant::now();
    for gateway in &gateways {
        follows(gateway, CircuitState::Open, SOON).await;
        assert_eq!(code(&call(gateway, json!({})).await), "CIRCUIT_OPEN");
    }
    println!("open at both after {:?}", begun.elapsed());

    // Both get many calls. The first one that passes takes a while.
    let mut calls = Vec::new();
    let probe = json!({"mark": stage.mark(), "seconds": 3});
    let mut call_both = async |probe: &Value| {
        for gateway in &gateways {
            let (mut skills, call) = (gateway.skills().await, request("moody", probe.clone()));
            calls.push(tokio::spawn(async move { skills.invoke(call).await.unwrap().into_inner() }));
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    let begun = Instant::now();
    while stage.starts() == 0 && begun.elapsed() < PATIENCE {
        call_both(&probe).await;
    }
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_millis(1500) {
        call_both(&probe).await;
    }
    assert_eq!(stage.starts(), 1, "one probe");
    let results = futures_util::future::join_all(calls).await;
    let passed = results.into_iter().filter(|it| it.as_ref().unwrap().success).count();
    assert_eq!(passed, 1);
    for gateway in &gateways {
        follows(gateway, CircuitState::Closed, SOON).await;
        assert!(call(gateway, json!({})).await.success);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reset_reaches_the_other_gateway_and_each_goes_on_without_the_database() {
    let Some(programs) = Postgres::or_skip() else { return };
    let mut server = Server::start(&programs).await;
    let (stage, url) = (Stage::start().await, server.url(&server.database()));
    let [one, other] = pair(&stage, &url, &[SIX_CALLS, ("OPENSKILL_CIRCUIT_SKILL_RECOVERY_S", "300")]).await;
    fail(&one, 6).await;
    follows(&other, CircuitState::Open, SOON).await;
    let reset = ResetCircuitsRequest::default();
    assert_eq!(other.admin().await.reset_circuits(reset).await.unwrap().into_inner().reset, 1);
    follows(&one, CircuitState::Closed, SOON).await;
    assert!(call(&one, json!({})).await.success);

    server.stop();
    // The success before counts, too.
    fail(&one, 5).await;
    assert_eq!(code(&call(&one, json!({})).await), "CIRCUIT_OPEN");
    assert!(call(&other, json!({})).await.success, "it can't know");
    server.start_again().await;
    follows(&other, CircuitState::Open, PATIENCE).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_principal_has_one_rate_at_both_gateways() {
    const SECONDS: u64 = 10;
    let Some(programs) = Postgres::or_skip() else { return };
    let server = Server::start(&programs).await;
    let (stage, url) = (Stage::start().await, server.url(&server.database()));
    let keys = Keys::new();
    let key = keys.create("a", &["--skills", "in_echo", "--rate", "100"]);
    let free = keys.create("free", &["--skills", "in_echo"]);
    let file = keys.path().display().to_string();
    let mut callers = Vec::new();
    let mut gateways = Vec::new();
    for _ in 0..2 {
        let gateway = stage.gateway_with(&url, &[("OPENSKILL_KEYS", &file)]).await;
        let channel = gateway.channel().await;
        let skills = openskill_proto::v1::skill_service_client::SkillServiceClient::new(channel);
        until("the skill is there", PATIENCE, || {
            let (mut skills, call) = (skills.clone(), from(&free, request("in_echo", json!({}))));
            async move { skills.invoke(call).await.is_ok_and(|it| it.into_inner().success).then_some(()) }
        })
        .await;
        gateways.push(gateway);
        callers.extend(std::iter::repeat_n(skills, 10));
    }
    let begun = Instant::now();
    let calls = callers.into_iter().map(|mut skills| {
        let key = key.clone();
        tokio::spawn(async move {
            let (mut passed, mut refused) = (0_u32, 0_u32);
            while begun.elapsed() < Duration::from_secs(SECONDS) {
                match skills.invoke(from(&key, request("in_echo", json!({})))).await {
                    Ok(_) => passed += 1,
                    Err(status) => {
                        assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
                        refused += 1;
                    }
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            (passed, refused)
        })
    });
    let counts: Vec<_> = futures_util::future::join_all(calls).await.into_iter().map(Result::unwrap).collect();
    let passed: u32 = counts.iter().map(|(passed, _)| passed).sum();
    let refused: u32 = counts.iter().map(|(_, refused)| refused).sum();
    let expected = 100.0 + 100.0 * begun.elapsed().as_secs_f64();
    println!("{passed} calls passed, {refused} were refused, {expected:.0} were expected to pass");
    assert!(f64::from(passed) <= expected * 1.05, "{passed} calls, not {expected:.0}");
    // On a loaded machine few calls are made.
    assert!(refused < passed || f64::from(passed) >= expected * 0.95, "{passed} calls, not {expected:.0}");
}
