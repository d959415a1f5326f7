//! Tokens that count: whose they are, and for how long.

use std::time::{Duration, Instant};

use openskill_proto::v1::agent_service_client::AgentServiceClient;
use openskill_proto::v1::{ChatRequest, InvokeRequest, ListSkillsRequest, WatchSkillsRequest};
use openskill_tests::system::{PATIENCE, Setup, request};
use openskill_tests::tokens::{Signer, claims, jwks, seconds};
use openskill_tests::wait::until;
use serde_json::json;
use tonic::{Code, Request};

use super::{Issuers, RULES, get, status};

fn from<T>(token: &str, message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.metadata_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
    request
}

#[tokio::test]
async fn a_token_of_each_algorithm_gives_its_claims_policy_over_grpc_and_rest() {
    let signers = [Signer::rsa("a"), Signer::p256("b"), Signer::ed25519("c")];
    let issuers = Issuers::with_keys(&jwks(&signers.each_ref()));
    let system = issuers.up().start().await;
    for signer in &signers {
        let token = signer.token(&claims(&json!({})));
        let listed = get(&system, &token, "/skills").await;
        assert_eq!(listed.status, 200, "{}: {listed:?}", signer.algorithm());
        let ids: Vec<_> = listed.json()["skills"].as_array().unwrap().iter().map(|it| it["id"].clone()).collect();
        assert_eq!(ids, ["in_echo", "in_wait"]);
        let mut skills = system.skills().await;
        let called = skills.invoke(from(&token, request("in_echo", json!({})))).await.unwrap().into_inner();
        assert!(called.success, "{called:?}");
        let mut admin = system.admin().await;
        let refused = admin.list_workers(from(&token, openskill_proto::v1::ListWorkersRequest {})).await.unwrap_err();
        assert_eq!(refused.code(), Code::PermissionDenied);
        let operator = signer.token(&claims(&json!({"sub": "bob", "groups": ["other", "operators"]})));
        assert!(admin.list_workers(from(&operator, openskill_proto::v1::ListWorkersRequest {})).await.is_ok());
    }
}

#[tokio::test]
async fn a_stream_ends_when_its_token_expires_and_new_requests_are_refused() {
    let signer = Signer::p256("a");
    let issuers = Issuers::with_keys(&jwks(&[&signer]));
    let system = issuers.up().start().await;
    let token = signer.token(&claims(&json!({"exp": seconds(4)})));
    let lasting = signer.token(&claims(&json!({})));
    let mut skills = system.skills().await;
    let mut watched = skills.watch_skills(from(&token, WatchSkillsRequest::default())).await.unwrap().into_inner();
    while !watched.message().await.unwrap().unwrap().snapshot_complete {}
    let call = InvokeRequest { timeout_ms: 60_000, ..request("in_wait", json!({"ms": 60_000})) };
    let mut events = skills.invoke_stream(from(&token, call)).await.unwrap().into_inner();
    assert!(events.message().await.unwrap().is_some());
    // One that has sent nothing yet ends too: what its client sends later is not read.
    let (messages, sent) = tokio::sync::mpsc::channel::<ChatRequest>(1);
    let mut agent = AgentServiceClient::new(system.channel().await);
    let chat = from(&token, tokio_stream::wrappers::ReceiverStream::new(sent));
    let chat = tokio::spawn(async move { agent.chat(chat).await.map(drop) });
    let mut other = skills.watch_skills(from(&lasting, WatchSkillsRequest::default())).await.unwrap().into_inner();
    while !other.message().await.unwrap().unwrap().snapshot_complete {}
    let begun = Instant::now();
    for ended in [watched.message().await.map(drop), events.message().await.map(drop)] {
        assert_eq!(ended.unwrap_err().code(), Code::Unauthenticated);
    }
    assert_eq!(chat.await.unwrap().unwrap_err().code(), Code::Unauthenticated);
    drop(messages);
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
    let refused = skills.list_skills(from(&token, ListSkillsRequest::default())).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unauthenticated);
    assert!(tokio::time::timeout(Duration::from_millis(300), other.message()).await.is_err(), "it goes on");
    assert_eq!(status(&system, &lasting).await, 200);
}

#[tokio::test]
async fn a_changed_rule_counts_at_once_and_ends_the_streams_of_its_issuer() {
    let signer = Signer::p256("a");
    let issuers = Issuers::with_keys(&jwks(&[&signer]));
    let system = issuers.up().start().await;
    let token = signer.token(&claims(&json!({})));
    let mut skills = system.skills().await;
    let mut watched = skills.watch_skills(from(&token, WatchSkillsRequest::default())).await.unwrap().into_inner();
    while !watched.message().await.unwrap().unwrap().snapshot_complete {}
    issuers.write("jwks = 'keys.json'", &RULES.replace("'in_echo', 'in_wait'", "'in_wait'"));
    let ended = tokio::time::timeout(PATIENCE, watched.message()).await.expect("it ends").unwrap_err();
    assert_eq!(ended.code(), Code::Unauthenticated);
    until("the new policy counts", PATIENCE, || async { (status(&system, &token).await == 404).then_some(()) }).await;
    // A file that cannot be used changes nothing.
    issuers.write("jwks = 'http://keys.example'", RULES);
    system.process.log.line(&["OPENSKILL_JWT", "https URL"]).await;
    assert_eq!(status(&system, &token).await, 404);
}

const SCOPES: &str = "
[[issuers.login.rules]]
claim = 'scope'
value = 'write'
policy = 'wide'

[[issuers.login.rules]]
claim = 'scope'
value = 'read'
policy = 'narrow'

[policies.wide]
skills = ['*']

[policies.narrow]
skills = ['echo']
";

#[tokio::test]
async fn the_agent_has_the_rights_of_the_token_that_began_the_turn_and_not_of_another_one_of_its_subject() {
    let signer = Signer::p256("a");
    let issuers = Issuers::with_keys(&jwks(&[&signer]));
    issuers.write("jwks = 'keys.json'", SCOPES);
    let system = Setup::shipped().with("OPENSKILL_JWT", issuers.0.path().join("jwt.toml").display()).start().await;
    let token = |scope: &str| signer.token(&claims(&json!({"scope": scope})));
    let (narrow, wide) = (token("read"), token("write"));
    let called = async |token: &str| {
        let authorization = format!("Bearer {token}");
        let headers = [("authorization", authorization.as_str()), ("content-type", "application/json")];
        let body = json!({"message": "mean and max of 10.5, 9.9, 11.2"}).to_string();
        let answer = system.post("/agent/chat", &headers, body).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()["events"].to_string().contains("\"skill_id\":\"calculator\"")
    };
    // In whichever order they are shown, and whichever was verified last.
    assert!(!called(&narrow).await, "alone");
    assert!(called(&wide).await && !called(&narrow).await && called(&wide).await && !called(&narrow).await);
}

#[tokio::test]
async fn keys_and_tokens_count_side_by_side_as_different_principals() {
    let signer = Signer::ed25519("a");
    let issuers = Issuers::with_keys(&jwks(&[&signer]));
    let keys = issuers.0.path().join("keys.toml");
    let made = std::process::Command::new(openskill_tests::binary())
        .args(["keys", "create", "--principal", "ada", "--skills", "in_wait", "--file"])
        .arg(&keys)
        .env_clear()
        .output()
        .unwrap();
    let key = String::from_utf8(made.stdout).unwrap().trim().to_owned();
    let system = issuers.up().with("OPENSKILL_KEYS", keys.display()).start().await;
    assert_eq!(status(&system, &signer.token(&claims(&json!({})))).await, 200);
    assert_eq!((status(&system, &key).await, get(&system, &key, "/skills/in_wait").await.status), (404, 200));
}
