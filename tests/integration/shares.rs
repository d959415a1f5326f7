//! One principal takes all it can of what a gateway keeps, and another one is served.

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2::SendRequest;
use openskill_proto::v1::artifact::Content;
use openskill_proto::v1::trace_service_client::TraceServiceClient;
use openskill_proto::v1::{FollowTracesRequest, InvokeRequest};
use openskill_tests::processes::resident_kib;
use openskill_tests::rest::Answer;
use openskill_tests::system::{PATIENCE, Setup, System, request};
use openskill_tests::wait::{until, until_true};
use openskill_tests::{fixtures, repository};
use serde_json::{Value, json};

use crate::identity::{Keys, from, get, post};
use crate::slow_clients::connection_without_windows;

const MIB: u64 = 1024;

/// The memory of the gateway, in KiB.
fn resident(system: &System) -> u64 {
    resident_kib(system.process.pid()).unwrap()
}

/// A gateway for a principal that is limited in all that a policy limits, one that is not, and an administrator.
async fn start(setup: impl FnOnce(Setup) -> Setup) -> (System, [String; 3]) {
    let keys = Keys::new();
    let limits = ["--rate", "1", "--burst", "4", "--in-flight", "1"];
    let greedy = keys.create("greedy", &[&["--skills", "*"], &limits[..]].concat());
    let (honest, admin) =
        (keys.create("honest", &["--skills", "*"]), keys.create("root", &["--admin", "--skills", "*"]));
    let skills = [fixtures(), repository().join("worker/skills")];
    let up =
        Setup::with_skills(&skills.each_ref().map(|it| it.as_path())).with("OPENSKILL_KEYS", keys.path().display());
    let system = setup(up.flag("--workers", 1)).start().await;
    until("the skill is there", PATIENCE, || async {
        (get(&system, &honest, "/skills/draws").await.status == 200).then_some(())
    })
    .await;
    (system, [greedy, honest, admin])
}

/// The handle of a new artifact of this principal.
async fn artifact(system: &System, key: &str, bytes: u64) -> String {
    let drawn = system.skills().await.invoke(from(key, request("draws", json!({"bytes": bytes})))).await.unwrap();
    let drawn = drawn.into_inner();
    match drawn.artifacts.first().and_then(|it| it.content.clone()) {
        Some(Content::Handle(handle)) => handle,
        _ => panic!("{drawn:?}"),
    }
}

fn reading(handle: &str, id: usize) -> Value {
    let params = json!({"uri": format!("openskill://artifacts/{handle}")});
    json!({"jsonrpc": "2.0", "id": id, "method": "resources/read", "params": params})
}

/// Sends a request to a gateway that may answer, but not send the answer.
async fn unread(
    sender: &mut SendRequest<Full<Bytes>>,
    system: &System,
    key: &str,
    (method, path): (&str, &str),
    body: Option<&Value>,
) -> http::Response<Incoming> {
    let request = http::Request::builder()
        .method(method)
        .uri(format!("http://{}{path}", system.address))
        .header("authorization", format!("Bearer {key}"))
        .header("content-type", "application/json")
        .header("accept", "application/json")
        .header("mcp-protocol-version", "2025-03-26");
    let body = body.map(Value::to_string).unwrap_or_default();
    sender.send_request(request.body(Full::new(body.into())).unwrap()).await.unwrap()
}

async fn mcp(system: &System, key: &str, body: &Value) -> Answer {
    let authorization = format!("Bearer {key}");
    let headers = [
        ("authorization", authorization.as_str()),
        ("content-type", "application/json"),
        ("accept", "application/json"),
        ("mcp-protocol-version", "2025-03-26"),
    ];
    system.post("/mcp", &headers, body.to_string()).await
}

#[tokio::test]
async fn a_principal_that_reads_none_of_its_artifacts_takes_no_memory_from_others() {
    let (system, [greedy, honest, _]) = start(|it| it).await;
    let before = resident(&system);
    let handle = artifact(&system, &greedy, 8 << 20).await;
    let own = artifact(&system, &honest, 300_000).await;
    let batch: Value = (0..64).map(|id| reading(&handle, id)).collect();
    let mut sender = connection_without_windows(&system).await;
    let mut kept = Vec::new();
    for _ in 0..3 {
        kept.push(unread(&mut sender, &system, &greedy, ("POST", "/mcp"), Some(&batch)).await);
    }
    for id in 0..6 {
        kept.push(unread(&mut sender, &system, &greedy, ("POST", "/mcp"), Some(&reading(&handle, id))).await);
    }
    let most = resident(&system);
    assert!(most < before + 600 * MIB, "{before} to {most} KiB");
    let read = mcp(&system, &honest, &reading(&own, 1)).await.json();
    assert!(read["result"]["contents"][0]["blob"].as_str().is_some_and(|it| it.len() == 400_000), "{read}");
    assert_eq!(post(&system, &honest, "/skills/in_echo:invoke", "{}").await.status, 200);
    // A client that reads gets an answer to each message: what was read, up to the bound of a batch, or an error.
    let answers = mcp(&system, &honest, &(0..3).map(|id| reading(&own, id)).collect()).await.json();
    assert_eq!(answers.as_array().unwrap().iter().filter(|it| it["result"].is_object()).count(), 3);
    drop((kept, sender));
    until_true("the memory goes back", PATIENCE, || resident(&system) < 250 * MIB).await;
}

#[tokio::test]
async fn a_principal_that_takes_all_places_of_readers_leaves_some_to_others() {
    let (system, [greedy, honest, admin]) = start(|it| it).await;
    let mut client = TraceServiceClient::new(system.channel().await);
    let mut followed = Vec::new();
    let refused = loop {
        match client.follow_traces(from(&greedy, FollowTracesRequest::default())).await {
            Ok(stream) => followed.push(stream),
            Err(refused) => break refused,
        }
    };
    assert_eq!(refused.code(), tonic::Code::ResourceExhausted, "{refused:?}");
    assert!((10..64).contains(&followed.len()), "{}", followed.len());
    for key in [&honest, &admin] {
        assert_eq!(get(&system, key, "/traces").await.status, 200);
        client.follow_traces(from(key, FollowTracesRequest::default())).await.unwrap();
    }
    let mut sender = connection_without_windows(&system).await;
    let mut kept = Vec::new();
    loop {
        let response = unread(&mut sender, &system, &greedy, ("GET", "/artifacts/none"), None).await;
        if response.status() == 503 {
            break;
        }
        assert!(kept.len() < 256);
        kept.push(response);
    }
    for key in [&honest, &admin] {
        assert_eq!(get(&system, key, "/skills").await.status, 200);
    }
}

#[tokio::test]
async fn a_principal_with_many_sessions_leaves_a_skill_to_others() {
    let (system, [_, honest, admin]) = start(|it| it.with("OPENSKILL_MAX_IN_FLIGHT_PER_SKILL", 20)).await;
    let call = |session: usize| {
        let waits = request("in_wait", json!({"ms": 60_000}));
        InvokeRequest { session_id: format!("s{session}"), timeout_ms: 60_000, ..waits }
    };
    let (mut skills, mut waiting) = (system.skills().await, Vec::new());
    let refused = loop {
        match skills.invoke_stream(from(&admin, call(waiting.len()))).await {
            Ok(events) => waiting.push(events),
            Err(refused) => break refused,
        }
    };
    assert!(refused.message().contains("principal") && waiting.len() < 20, "{} {refused:?}", waiting.len());
    let mut events = skills.invoke_stream(from(&honest, call(0))).await.unwrap().into_inner();
    assert!(events.message().await.unwrap().is_some());
}

/// What a client that reads slowly gets is whole.
#[tokio::test]
async fn an_answer_that_waited_for_its_client_is_whole() {
    let (system, [greedy, ..]) = start(|it| it).await;
    let handle = artifact(&system, &greedy, 2 << 20).await;
    let stream = tokio::net::TcpStream::connect(system.address).await.unwrap();
    let (executor, io) = (hyper_util::rt::TokioExecutor::new(), hyper_util::rt::TokioIo::new(stream));
    let (mut sender, connection) = hyper::client::conn::http2::handshake(executor, io).await.unwrap();
    tokio::spawn(connection);
    let batch: Value = (0..8).map(|id| reading(&handle, id)).collect();
    let response = unread(&mut sender, &system, &greedy, ("POST", "/mcp"), Some(&batch)).await;
    let answers: Value = serde_json::from_slice(&response.collect().await.unwrap().to_bytes()).unwrap();
    let ids: Vec<_> = answers.as_array().unwrap().iter().map(|it| it["id"].as_u64().unwrap()).collect();
    assert_eq!(ids, (0..8).collect::<Vec<_>>());
    assert!(answers.as_array().unwrap().iter().all(|it| it["result"].is_object()));
}
