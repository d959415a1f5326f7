//! Webhooks: servers that are told of the end of an operation.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use openskill_proto::longrunning::GetOperationRequest;
use openskill_proto::longrunning::operations_client::OperationsClient;
use openskill_proto::render::operation_metadata;
use openskill_proto::v1::SubmitRequest;
use openskill_proto::v1::operation_service_client::OperationServiceClient;
use openskill_tests::backend::{Backend, Reply, Seen};
use openskill_tests::folder::Folder;
use openskill_tests::port::Port;
use openskill_tests::processes;
use openskill_tests::system::{Setup, System, request};
use openskill_tests::wait::{until, until_true};
use ring::hmac;
use rustix::process::Signal;
use serde_json::json;
use tonic::{Code, Status};

const KEYS: [[u8; 32]; 2] = [[1; 32], [2; 32]];

/// Longer than the first pauses.
const PATIENCE: Duration = Duration::from_secs(90);

fn setup(allow: &str) -> Setup {
    let keys = KEYS.map(|key| format!("whsec_{}", STANDARD.encode(key))).join(",");
    Setup::up().with("OPENSKILL_WEBHOOK_SECRET", keys).with("OPENSKILL_WEBHOOK_ALLOW", allow)
}

async fn submit(system: &System, webhook: &str) -> Result<String, Status> {
    let (call, webhook) = (Some(request("in_echo", json!({"n": 1}))), webhook.to_owned());
    let request = SubmitRequest { call, webhook, ..SubmitRequest::default() };
    let mut client = OperationServiceClient::new(system.channel().await);
    client.submit(request).await.map(|it| it.into_inner().name)
}

/// What the gateway says of the webhook of an operation.
async fn told(system: &System, name: &str) -> String {
    let request = GetOperationRequest { name: name.to_owned() };
    let operation = OperationsClient::new(system.channel().await).get_operation(request).await.unwrap().into_inner();
    operation_metadata(&operation).unwrap().webhook
}

async fn until_told(system: &System, name: &str, part: &str) {
    let is_told = async || told(system, name).await.contains(part).then_some(());
    until("the webhook is told", PATIENCE, is_told).await;
}

/// Checks that an event has a signature by each key.
fn verify(event: &Seen) {
    let signatures: Vec<_> = event.header("webhook-signature").split(' ').collect();
    let signed = [event.header("webhook-id"), ".", event.header("webhook-timestamp"), "."].concat();
    let signed = [signed.as_bytes(), &event.body].concat();
    let expected = KEYS.map(|key| {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &key);
        format!("v1,{}", STANDARD.encode(hmac::sign(&key, &signed)))
    });
    assert_eq!(signatures, expected);
}

#[tokio::test]
async fn a_server_that_fails_twice_gets_one_event_three_times_signed_by_both_keys() {
    let tries = AtomicUsize::new(0);
    let receiver = Backend::start(move |_| match tries.fetch_add(1, Ordering::SeqCst) {
        0 => Reply::new(503, "text/plain", "").with("retry-after", "1"),
        1 => Reply::redirect(307, "http://127.0.0.1:1/").with("retry-after", "1"),
        _ => Reply::new(204, "text/plain", ""),
    })
    .await;
    let system = setup(&receiver.address.to_string()).with("OPENSKILL_STORE", "memory").start().await;
    let name = submit(&system, &receiver.url("/ended")).await.unwrap();
    until_told(&system, &name, "delivered").await;
    let events = receiver.seen();
    assert_eq!(events.len(), 3);
    for event in &events {
        verify(event);
        assert_eq!(event.header("content-type"), "application/cloudevents+json");
        assert_eq!(event.header("webhook-id"), events[0].header("webhook-id"));
        let body = event.json();
        assert_eq!((&body["specversion"], &body["type"]), (&json!("1.0"), &json!("dev.openskill.operation.succeeded")));
        assert_eq!(
            (&body["data"]["name"], &body["data"]["result"]["data"]),
            (&json!(name), &json!({"n": 1})),
            "{body}"
        );
    }
}

#[tokio::test]
async fn a_webhook_survives_a_gateway_that_is_killed_before_its_server_is_there() {
    let (port, folder) = (Port::reserve(), Folder::new());
    let store = folder.path().join("operations.sqlite").display().to_string();
    let start = || setup(&port.address().to_string()).with("OPENSKILL_STORE", &store).start();
    let mut first = start().await;
    let name = submit(&first, &format!("http://{}/", port.address())).await.unwrap();
    until_told(&first, &name, "connection refused").await;
    processes::send(first.process.pid(), Signal::KILL);
    first.process.ended().await;
    let listener = tokio::net::TcpListener::bind(port.address()).await.unwrap();
    let receiver = Backend::on(listener, |_| Reply::new(200, "text/plain", ""));
    let second = start().await;
    until_true("it is delivered", PATIENCE, || !receiver.seen().is_empty()).await;
    until_told(&second, &name, "delivered").await;
    verify(&receiver.last());
}

#[tokio::test]
async fn a_webhook_that_may_not_be_told_is_refused_by_name() {
    let system = setup("").with("OPENSKILL_STORE", "memory").start().await;
    for (url, reason) in [
        ("http://example.com/", "https://"),
        ("https://10.0.0.1/", "OPENSKILL_WEBHOOK_ALLOW"),
        ("https://user:secret@example.com/", "a user or a password"),
    ] {
        let refused = submit(&system, url).await.unwrap_err();
        assert!(refused.code() == Code::InvalidArgument && refused.message().contains(reason), "{url}: {refused}");
        assert!(!refused.message().contains("secret"), "{refused}");
    }
    // A name that leads to a private address is found out by the attempt.
    let name = submit(&system, "https://localhost:1/").await.unwrap();
    until_told(&system, &name, "'localhost' is this machine itself").await;
    let body = r#"{"input": {}}"#;
    let ignored = system.post("/skills/in_echo:invoke", &[("webhook-url", "https://example.com/")], body).await;
    assert!(ignored.status == 400 && ignored.code() == "INVALID_ARGUMENT", "{ignored:?}");

    let silent = Setup::up().with("OPENSKILL_STORE", "memory").start().await;
    let refused = submit(&silent, "https://example.com/").await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert!(refused.message().contains("set OPENSKILL_WEBHOOK_SECRET"), "{refused}");
}
