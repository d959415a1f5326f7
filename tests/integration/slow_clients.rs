//! Clients that do not read, do not send, or send without end delay nobody but themselves.

use std::time::Duration;

use http_body_util::{BodyExt as _, Full};
use openskill_tests::alone::alone;
use openskill_tests::processes;
use openskill_tests::system::{PATIENCE, Setup, System, request};
use openskill_tests::wait::{until, until_true};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

async fn in_flight(system: &System) -> u64 {
    system.get("/readyz").await.json()["in_flight"].as_u64().unwrap()
}

/// A connection with a flow-control window of zero: the server can send headers, but no byte of a body.
pub(crate) async fn connection_without_windows(
    system: &System,
) -> hyper::client::conn::http2::SendRequest<Full<bytes::Bytes>> {
    let stream = TcpStream::connect(system.address).await.unwrap();
    let io = hyper_util::rt::TokioIo::new(stream);
    let executor = hyper_util::rt::TokioExecutor::new();
    let (sender, connection) =
        hyper::client::conn::http2::Builder::new(executor).initial_stream_window_size(0).handshake(io).await.unwrap();
    tokio::spawn(connection);
    sender
}

#[tokio::test]
async fn a_client_that_never_reads_cannot_extend_a_deadline_or_keep_a_permit() {
    let _alone = alone();
    let system = Setup::up().start().await;
    let mut sender = connection_without_windows(&system).await;
    let mut open = Vec::new();
    for (number, skill) in ["never_ends", "floods_events", "daemon_then_hangs"].into_iter().enumerate() {
        let call_id = format!("unread-{number}-{}", std::process::id());
        let body = json!({"input": {}, "timeout_ms": 1500, "call_id": call_id}).to_string();
        let uri = format!("http://{}/skills/{skill}:stream", system.address);
        let request = http::Request::post(uri).body(Full::new(body.into())).unwrap();
        open.push((call_id, sender.send_request(request).await.unwrap()));
    }
    until_true("the skills run", PATIENCE, || open.iter().all(|(id, _)| !processes::of_call(id).is_empty())).await;
    for (call_id, _) in &open {
        processes::gone(call_id, Duration::from_secs(4)).await;
    }
    until("no permit is in use", PATIENCE, || async { (in_flight(&system).await == 0).then_some(()) }).await;
    assert!(system.invoke(request("in_echo", json!({}))).await.success);
}

#[tokio::test]
async fn a_silent_connection_is_closed() {
    let system = Setup::up().with("OPENSKILL_MAX_CONNECTIONS", 4).start().await;
    let mut silent = Vec::new();
    for opening in [&b""[..], b"PRI * HT", b"GET /skills HTT", b""] {
        let mut stream = TcpStream::connect(system.address).await.unwrap();
        stream.write_all(opening).await.unwrap();
        silent.push(stream);
    }
    // Until they are closed, no further connection is accepted.
    for mut stream in silent {
        let mut rest = Vec::new();
        let closed = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut rest)).await;
        assert!(closed.is_ok(), "the connection is still open");
    }
    assert!(system.invoke(request("in_echo", json!({}))).await.success);
}

#[tokio::test]
async fn several_shards_serve_calls_and_lose_none() {
    let system = Setup::up().with("OPENSKILL_SHARDS", 4).flag("--workers", 1).start().await;
    let mut running = Vec::new();
    for _ in 0..16 {
        // One connection each, so that the kernel spreads them over the shards.
        let mut client = system.skills().await;
        running.push(tokio::spawn(async move {
            let mut failed = Vec::new();
            for number in 0..150 {
                let result = client.invoke(request("in_echo", json!({"n": number}))).await.unwrap().into_inner();
                failed.extend((!result.success).then_some(result));
            }
            failed
        }));
    }
    for failed in running {
        let failed = failed.await.unwrap();
        assert!(failed.is_empty(), "{} failed: {:?}", failed.len(), failed.first());
    }
}

#[tokio::test]
async fn an_oversized_body_is_rejected_before_it_is_sent() {
    let system = Setup::up().start().await;
    let mut stream = TcpStream::connect(system.address).await.unwrap();
    let head = "POST /skills/in_echo:invoke HTTP/1.1\r\nhost: 127.0.0.1\r\nexpect: 100-continue\r\ncontent-length: 99999999\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 413", "and no 100-continue before it");
}

#[tokio::test]
async fn a_slow_reader_gets_the_whole_answer() {
    let system = Setup::up().start().await;
    let stream = TcpStream::connect(system.address).await.unwrap();
    let executor = hyper_util::rt::TokioExecutor::new();
    let io = hyper_util::rt::TokioIo::new(stream);
    let (mut sender, connection) = hyper::client::conn::http2::handshake(executor, io).await.unwrap();
    tokio::spawn(connection);
    let uri = format!("http://{}/skills/many_numbers:invoke", system.address);
    let response = sender
        .send_request(http::Request::post(uri).body(Full::new(bytes::Bytes::from_static(b"{}"))).unwrap())
        .await
        .unwrap();
    until("the call is over", PATIENCE, || async { (in_flight(&system).await == 0).then_some(()) }).await;
    let body: bytes::Bytes = response.into_body().collect().await.unwrap().to_bytes();
    let value: serde_json::Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(value["data"].as_array().unwrap().len(), 3_300_000);
}

#[tokio::test]
async fn a_flood_of_reset_streams_delays_no_other_client() {
    let system = Setup::up().start().await;
    let stream = TcpStream::connect(system.address).await.unwrap();
    let io = hyper_util::rt::TokioIo::new(stream);
    let executor = hyper_util::rt::TokioExecutor::new();
    let (sender, connection) =
        hyper::client::conn::http2::handshake::<_, _, Full<bytes::Bytes>>(executor, io).await.unwrap();
    let connection = tokio::spawn(connection);
    let uri = format!("http://{}/skills/in_wait:invoke", system.address);
    let mut sent = 0;
    for _ in 0..20_000 {
        let mut sender = sender.clone();
        if sender.is_closed() {
            break;
        }
        let body = Full::new(bytes::Bytes::from_static(br#"{"input": {"ms": 60000}, "timeout_ms": 60000}"#));
        let request = http::Request::post(&uri).body(body).unwrap();
        // Dropping the request in flight resets the stream.
        let asked = sender.send_request(request);
        let _ = tokio::time::timeout(Duration::from_micros(50), asked).await;
        sent += 1;
        if sent % 1000 == 0 {
            assert!(system.invoke(request_of_another()).await.success, "after {sent}");
        }
    }
    assert!(sent > 100, "{sent}");
    drop(sender);
    connection.abort();
    until("no permit is in use", PATIENCE, || async { (in_flight(&system).await == 0).then_some(()) }).await;
    assert!(system.invoke(request_of_another()).await.success);
}

fn request_of_another() -> openskill_proto::v1::InvokeRequest {
    request("in_echo", json!({}))
}

#[tokio::test]
async fn oversized_headers_are_rejected_and_other_connections_unaffected() {
    let system = Setup::up().start().await;
    let long = "x".repeat(64 * 1024);
    let answer = openskill_tests::rest::send_raw(
        system.address,
        format!("GET /skills HTTP/1.1\r\nhost: x\r\nlong: {long}\r\n\r\n").as_bytes(),
    )
    .await;
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431"), "{answer}");
    let many: String = (0..500).map(|number| format!("h{number}: 1\r\n")).collect();
    let answer = openskill_tests::rest::send_raw(
        system.address,
        format!("GET /skills HTTP/1.1\r\nhost: x\r\n{many}\r\n").as_bytes(),
    )
    .await;
    assert!(answer.starts_with("HTTP/1.1 431"), "{answer}");
    assert!(system.invoke(request_of_another()).await.success);
}
