//! More connections than the gateway has places for.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http2::SendRequest;
use hyper_util::rt::{TokioExecutor, TokioIo};
use openskill_tests::system::{PATIENCE, Setup, System, request};
use openskill_tests::wait::{until, until_true};
use serde_json::{Value, json};
use tokio::net::TcpStream;

/// A connection that answers pings, and does nothing else unless it is told to.
async fn connect(system: &System) -> SendRequest<Full<Bytes>> {
    let io = TokioIo::new(TcpStream::connect(system.address).await.unwrap());
    let (sender, connection) = hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await.unwrap();
    tokio::spawn(connection);
    sender
}

/// Calls a skill. None if the connection ended.
async fn call(mut sender: SendRequest<Full<Bytes>>, system: &System, skill: &str, input: Value) -> Option<Value> {
    let uri = format!("http://{}/skills/{skill}:invoke", system.address);
    let body = json!({ "input": input }).to_string();
    let response = sender.send_request(http::Request::post(uri).body(Full::new(body.into())).unwrap()).await.ok()?;
    let body = response.into_body().collect().await.ok()?.to_bytes();
    serde_json::from_slice(&body).ok()
}

async fn in_flight(sender: SendRequest<Full<Bytes>>, system: &System) -> u64 {
    let mut sender = sender;
    let uri = format!("http://{}/readyz", system.address);
    let answer = sender.send_request(http::Request::get(uri).body(Full::default()).unwrap()).await.unwrap();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    serde_json::from_slice::<Value>(&body).unwrap()["in_flight"].as_u64().unwrap()
}

#[tokio::test]
async fn idle_connections_make_room_for_newcomers_and_busy_ones_do_not() {
    let system = Setup::up().with("OPENSKILL_MAX_CONNECTIONS", 4).start().await;
    let mut crowd = Vec::new();
    for _ in 0..4 {
        let sender = connect(&system).await;
        assert_eq!(call(sender.clone(), &system, "in_echo", json!({"n": 1})).await.unwrap()["success"], true);
        crowd.push(sender);
    }
    // The oldest is busy, and so is not the idlest.
    let running = call(crowd[0].clone(), &system, "in_wait", json!({"ms": 4000}));
    let newcomers = async {
        until("the call runs", PATIENCE, || async { (in_flight(crowd[3].clone(), &system).await > 0).then_some(()) })
            .await;
        // They stay, so that neither gets the place of the other.
        let newcomers = [connect(&system).await, connect(&system).await];
        for newcomer in &newcomers {
            let served =
                tokio::time::timeout(PATIENCE, call(newcomer.clone(), &system, "in_echo", json!({"n": 2}))).await;
            assert_eq!(served.expect("a newcomer is served").unwrap()["success"], true);
        }
        newcomers
    };
    let (running, _newcomers) = tokio::join!(running, newcomers);
    assert_eq!(running.expect("a busy connection stays")["success"], true);
    until_true("the two that were idle longest are ended", PATIENCE, || crowd[1].is_closed() && crowd[2].is_closed())
        .await;
    assert!(!crowd[0].is_closed());
}

#[tokio::test]
async fn silent_connections_make_room_for_newcomers() {
    let system = Setup::up().with("OPENSKILL_MAX_CONNECTIONS", 2).start().await;
    let silent = [(); 2].map(|()| TcpStream::connect(system.address));
    let silent = futures_util::future::join_all(silent).await;
    // Silence alone ends a connection only after ten seconds.
    let served = tokio::time::timeout(Duration::from_secs(8), async {
        for _ in 0..2 {
            assert!(system.invoke(request("in_echo", json!({}))).await.success);
        }
    });
    served.await.expect("newcomers are served");
    drop(silent);
}
