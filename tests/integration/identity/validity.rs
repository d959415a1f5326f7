//! Which keys count, and for how long.

use std::time::{Duration, Instant};

use http::Method;
use http_body_util::BodyExt as _;
use openskill_proto::v1::{InvokeRequest, ListSkillsRequest, WatchSkillsRequest};
use openskill_tests::rest;
use openskill_tests::system::{PATIENCE, System, request};
use openskill_tests::wait::until;
use serde_json::json;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status};

use super::{Keys, from, get, post};

/// The file is read again every 400 ms. The rest is for a loaded machine.
const SOON: Duration = Duration::from_secs(5);

async fn list(system: &System, authorization: Option<&str>) -> Result<(), Status> {
    let mut request = tonic::Request::new(ListSkillsRequest::default());
    if let Some(authorization) = authorization {
        request.metadata_mut().insert("authorization", authorization.parse().unwrap());
    }
    system.skills().await.list_skills(request).await.map(drop)
}

#[tokio::test]
async fn a_request_without_a_valid_key_learns_nothing_but_that() {
    let keys = Keys::new();
    let key = keys.create("a", &["--skills", "in_echo"]);
    let revoked = keys.create("a", &[]);
    let expired = keys.create("b", &["--skills", "in_echo", "--expires", "1h"]);
    keys.revoke(&revoked);
    let text = keys.text();
    let (before, after) = text.split_once("expires = \"").unwrap();
    keys.write(&format!("{before}expires = \"2001-{}", after.split_once('-').unwrap().1));
    let system = keys.up().start().await;
    list(&system, Some(&format!("Bearer {key}"))).await.unwrap();
    let wrong_secret = format!("Bearer {}{}", &key[..key.len() - 1], if key.ends_with('0') { '1' } else { '0' });
    let unknown = format!("Bearer osk_0123456789abcdef_{}", "ab".repeat(32));
    let (revoked, expired) = (format!("Bearer {revoked}"), format!("Bearer {expired}"));
    let basic = format!("Basic {key}");
    let mut bodies = Vec::new();
    for authorization in
        [None, Some(""), Some(&*wrong_secret), Some(&*unknown), Some(&*revoked), Some(&*expired), Some(&*basic)]
    {
        let status = list(&system, authorization).await.unwrap_err();
        assert_eq!(status.code(), Code::Unauthenticated, "{authorization:?}");
        bodies.push(status.message().to_owned());
        for path in
            ["/", "/docs/", "/openapi.json", "/skills", "/skills/in_echo", "/nothing", "/tools", "/metrics", "/traces"]
        {
            let headers: Vec<_> = authorization.iter().map(|it| ("authorization", *it)).collect();
            let headers = [&headers[..], &[("x-trace-id", "t")]].concat();
            let answer = rest::send(system.address, Method::GET, path, &headers, "").await;
            assert_eq!((answer.status, answer.header("www-authenticate")), (401, "Bearer"), "{path}");
            assert_eq!(answer.code(), "UNAUTHENTICATED");
            bodies.push(answer.json()["error"]["message"].as_str().unwrap().to_owned());
        }
    }
    bodies.dedup();
    assert_eq!(bodies.len(), 1, "{bodies:?}");
    // Two headers: a proxy may have read the other one.
    let bearer = format!("Bearer {key}");
    let twice = [("authorization", bearer.as_str()), ("authorization", bearer.as_str())];
    assert_eq!(rest::send(system.address, Method::GET, "/skills", &twice, "").await.status, 401);
    let log = system.process.log.line(&["decision=\"unauthenticated\""]).await;
    assert!(log.contains("openskill::audit"), "{log}");
    let whole = system.process.log.text();
    for key in [&key, &wrong_secret, &revoked, &expired] {
        assert!(!whole.contains(&key[key.len() - 32..]), "a key is in the log");
    }
}

#[tokio::test]
async fn probes_need_no_key_and_say_nothing_of_skills() {
    let keys = Keys::new();
    let system = keys.up().start().await;
    for path in ["/healthz", "/readyz"] {
        let answer = system.get(path).await;
        assert_eq!(answer.status, 200, "{path}");
        assert_eq!(answer.json().as_object().unwrap().len(), 1, "{answer:?}");
    }
    let mut health = tonic_health::pb::health_client::HealthClient::new(system.channel().await);
    let checked = health.check(tonic_health::pb::HealthCheckRequest::default()).await.unwrap();
    assert_eq!(checked.into_inner().status, 1);
}

#[tokio::test]
async fn both_keys_of_a_principal_count_at_once_and_one_may_be_exchanged() {
    let keys = Keys::new();
    let (one, two) = (keys.create("a", &["--skills", "in_echo"]), keys.create("a", &[]));
    assert!(!keys.run(&["create", "--principal", "a"]).status.success(), "a third key");
    let system = keys.up().start().await;
    let call = r#"{"input": {"n": 1}, "idempotency_key": "k"}"#;
    let first = post(&system, &one, "/skills/in_echo:invoke", call).await;
    let second = post(&system, &two, "/skills/in_echo:invoke", call).await;
    assert_eq!((first.status, second.status), (200, 200));
    keys.revoke(&one);
    let three = keys.create("a", &[]);
    until("the file is read", PATIENCE, || async { (get(&system, &one, "/skills").await.status == 401).then_some(()) })
        .await;
    for key in [&two, &three] {
        assert_eq!(get(&system, key, "/skills").await.status, 200);
    }
}

#[tokio::test]
async fn a_revoked_key_ends_its_streams_and_no_others() {
    let keys = Keys::new();
    let key = keys.create("a", &["--skills", "in_wait"]);
    let other = keys.create("a", &[]);
    let system = keys.up().start().await;
    let mut skills = system.skills().await;
    let call = || InvokeRequest { timeout_ms: 60_000, ..request("in_wait", json!({"ms": 60_000})) };
    let (requests, sent) = mpsc::channel(1);
    requests.send(call()).await.unwrap();
    let mut many = skills.invoke_many(from(&key, ReceiverStream::new(sent))).await.unwrap().into_inner();
    assert!(many.message().await.unwrap().is_some(), "it runs");
    let mut one = skills.invoke_stream(from(&key, call())).await.unwrap().into_inner();
    assert!(one.message().await.unwrap().is_some());
    let mut watched = skills.watch_skills(from(&key, WatchSkillsRequest::default())).await.unwrap().into_inner();
    assert!(watched.message().await.unwrap().is_some());
    let mut untouched = skills.watch_skills(from(&other, WatchSkillsRequest::default())).await.unwrap().into_inner();
    while !untouched.message().await.unwrap().unwrap().snapshot_complete {}
    let (sse, first) = server_sent_events(&system, &key).await;
    assert!(first.contains("event: accepted"), "{first}");

    let revoked = Instant::now();
    keys.revoke(&key);
    let ended = async {
        let ends = [many.message().await.map(drop), one.message().await.map(drop), watched.message().await.map(drop)];
        // A message that was under way may come before the end.
        for (end, name) in ends.into_iter().zip(["InvokeMany", "InvokeStream", "WatchSkills"]) {
            let status = end.expect_err(name);
            assert_eq!(status.code(), Code::Unauthenticated, "{name}: {status:?}");
        }
        String::from_utf8(sse.collect().await.unwrap().to_bytes().to_vec()).unwrap()
    };
    let rest_of_sse = tokio::time::timeout(SOON, ended).await.expect("the streams end soon");
    assert!(rest_of_sse.contains("event: error") && rest_of_sse.contains("UNAUTHENTICATED"), "{rest_of_sse}");
    assert!(rest_of_sse.contains("\"may_have_run\":true"), "{rest_of_sse}");
    assert_eq!(get(&system, &key, "/skills").await.status, 401);
    println!("all streams ended after {:?}", revoked.elapsed());
    let quiet = tokio::time::timeout(Duration::from_millis(500), untouched.message()).await;
    assert!(quiet.is_err(), "a stream of another key goes on: {quiet:?}");
    // What the streams ran has ended too.
    until("no call is in flight", PATIENCE, || async {
        let metrics = keys_metric(&system, &keys).await;
        metrics.then_some(())
    })
    .await;
}

/// The events of a call that waits, and the first of them.
async fn server_sent_events(system: &System, key: &str) -> (hyper::body::Incoming, String) {
    let stream = tokio::net::TcpStream::connect(system.address).await.unwrap();
    let io = hyper_util::rt::TokioIo::new(stream);
    let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await.unwrap();
    tokio::spawn(connection);
    let request = http::Request::post("/skills/in_wait:stream")
        .header("host", system.address.to_string())
        .header("authorization", format!("Bearer {key}"))
        .body(http_body_util::Full::new(bytes::Bytes::from(r#"{"input": {"ms": 60000}, "timeout_ms": 60000}"#)))
        .unwrap();
    let mut body = sender.send_request(request).await.unwrap().into_body();
    let first = body.frame().await.unwrap().unwrap().into_data().unwrap();
    (body, String::from_utf8(first.to_vec()).unwrap())
}

/// Whether no call is in flight, as an administrator sees it.
async fn keys_metric(system: &System, keys: &Keys) -> bool {
    let ran = keys.run(&["list", "--json"]);
    if !String::from_utf8_lossy(&ran.stdout).contains("operator") {
        let key = keys.create("operator", &["--admin"]);
        keys.0.write("operator.key", key);
    }
    let key = std::fs::read_to_string(keys.0.path().join("operator.key")).unwrap();
    let metrics = get(system, key.trim(), "/metrics").await;
    String::from_utf8_lossy(&metrics.body).lines().any(|line| line == "openskill_calls_in_flight 0")
}

#[tokio::test]
async fn a_stream_ends_when_its_policy_changes_and_a_new_one_has_the_new_policy() {
    let keys = Keys::new();
    let key = keys.create("a", &["--skills", "in_echo"]);
    let system = keys.up().start().await;
    let mut skills = system.skills().await;
    let mut watched = skills.watch_skills(from(&key, WatchSkillsRequest::default())).await.unwrap().into_inner();
    while !watched.message().await.unwrap().unwrap().snapshot_complete {}
    keys.write(&keys.text().replace("\"in_echo\"", "\"in_wait\""));
    let status = tokio::time::timeout(SOON, watched.message()).await.expect("it ends soon").unwrap_err();
    assert_eq!(status.code(), Code::Unauthenticated, "{status:?}");
    let listed = get(&system, &key, "/skills").await.json();
    assert_eq!(listed["skills"][0]["id"], "in_wait");
}

#[tokio::test]
async fn a_key_that_expires_ends_its_streams() {
    let keys = Keys::new();
    let key = keys.create("a", &["--skills", "in_echo", "--expires", "5s"]);
    let system = keys.up().start().await;
    let mut skills = system.skills().await;
    let watched = skills.watch_skills(from(&key, WatchSkillsRequest::default())).await;
    // On a machine that took longer to start, it has expired already.
    if let Ok(watched) = watched {
        let mut watched = watched.into_inner();
        let end = loop {
            match tokio::time::timeout(PATIENCE, watched.message()).await.expect("it ends") {
                Ok(Some(_)) => {}
                other => break other,
            }
        };
        assert_eq!(end.unwrap_err().code(), Code::Unauthenticated);
    }
    assert_eq!(get(&system, &key, "/skills").await.status, 401);
}

#[tokio::test]
async fn a_broken_file_changes_nothing_and_is_reported_once() {
    let keys = Keys::new();
    let key = keys.create("a", &["--skills", "in_echo"]);
    let good = keys.text();
    let system = keys.up().start().await;
    keys.write(&format!("{good}\nskill = 1\n"));
    system.process.log.line(&["ERROR", "unknown field", "OPENSKILL_KEYS"]).await;
    assert_eq!(get(&system, &key, "/skills").await.status, 200);
    // Good again, with another key: the file has been read some times.
    keys.write(&good);
    let other = keys.create("a", &[]);
    until("the new file is read", PATIENCE, || async {
        (get(&system, &other, "/skills").await.status == 200).then_some(())
    })
    .await;
    assert_eq!(system.process.log.text().matches("cannot be used").count(), 1);
}

#[tokio::test]
async fn a_file_that_is_gone_or_cut_off_changes_nothing_and_an_empty_one_revokes_all() {
    let keys = Keys::new();
    let key = keys.create("a", &["--skills", "in_echo"]);
    let good = keys.text();
    let system = keys.up().start().await;
    assert_eq!(get(&system, &key, "/skills").await.status, 200);
    keys.write(&good[..good.len() - 10]);
    system.process.log.line(&["ERROR", "cannot be used", "OPENSKILL_KEYS"]).await;
    assert_eq!(get(&system, &key, "/skills").await.status, 200);
    std::fs::remove_file(keys.path()).unwrap();
    system.process.log.line(&["ERROR", "cannot be read", "OPENSKILL_KEYS"]).await;
    assert_eq!(get(&system, &key, "/skills").await.status, 200);
    keys.write("");
    until("no key is left", PATIENCE, || async { (get(&system, &key, "/skills").await.status == 401).then_some(()) })
        .await;
}
