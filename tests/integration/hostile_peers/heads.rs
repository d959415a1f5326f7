//! Heads of requests that two programs can read in two ways.

use openskill_tests::rest;
use openskill_tests::system::{Setup, System, request};
use serde_json::json;

/// The status of a request, and whether the connection was closed after it.
async fn ask(system: &System, head: &str, body: &str) -> (u16, bool) {
    let bytes = format!("{head}\r\n\r\n{body}");
    // The second request is answered only if the connection stays open.
    let second = "GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    let answer = rest::send_raw(system.address, [bytes.as_bytes(), second.as_bytes()].concat().as_slice()).await;
    let status = answer.split(' ').nth(1).and_then(|it| it.parse().ok());
    (status.unwrap_or_else(|| panic!("{head}: {answer}")), answer.matches("x-trace-id: ").count() == 1)
}

#[tokio::test]
async fn ambiguous_heads_are_refused_and_their_connections_closed() {
    let system = Setup::up().start().await;
    for head in [
        "GET /skills HTTP/1.1",
        "GET /skills HTTP/1.1\r\nhost: localhost\r\nhost: evil.example",
        "GET /skills HTTP/1.1\r\nhost: localhost, evil.example",
        "GET /skills HTTP/1.1\r\nhost: user@localhost",
        "GET http://localhost/skills HTTP/1.1\r\nhost: evil.example",
        "GET /skills HTTP/1.1\r\nhost: localhost\r\norigin: http://localhost\r\norigin: http://evil.example",
    ] {
        assert_eq!(ask(&system, head, "").await, (400, true), "{head}");
    }
    let call = "POST /skills/in_echo:invoke HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: ";
    for encoding in ["chunked, chunked", "chunked\r\ntransfer-encoding: chunked", "gzip, chunked"] {
        let answer = ask(&system, &format!("{call}{encoding}"), "2\r\n{}\r\n0\r\n\r\n").await;
        assert_eq!(answer, (400, true), "{encoding}");
    }
    assert_eq!(ask(&system, &format!("{call}chunked"), "2\r\n{}\r\n0\r\n\r\n").await, (200, false));
    assert!(system.invoke(request("in_echo", json!({}))).await.success);
}

#[tokio::test]
async fn a_host_that_only_begins_like_loopback_is_another_site() {
    let system = Setup::up().start().await;
    for host in ["[::1].evil.example", "127.0.0.1.evil.example", "localhost.evil.example"] {
        let head = format!("GET /skills HTTP/1.1\r\nhost: {host}\r\norigin: http://{host}");
        let (status, _) = ask(&system, &head, "").await;
        assert!([400, 403].contains(&status), "{host}: {status}");
        let (status, _) = ask(&system, &format!("GET /skills HTTP/1.1\r\nhost: {host}"), "").await;
        assert!([400, 403].contains(&status), "{host}: {status}");
    }
    assert_eq!(ask(&system, "GET /skills HTTP/1.1\r\nhost: [::1]:8000", "").await, (200, false));
}

#[tokio::test]
async fn several_parents_of_a_trace_are_none() {
    let system = Setup::up().start().await;
    let parent = |digit: char| format!("00-{}-00f067aa0ba902b7-01", digit.to_string().repeat(32));
    let (one, other) = (parent('a'), parent('b'));
    let trace_id = async |headers: &[(&str, &str)]| {
        system.post("/skills/in_echo:invoke", headers, "{}").await.header("x-trace-id").to_owned()
    };
    assert_eq!(trace_id(&[("traceparent", &one)]).await, "a".repeat(32));
    let neither = trace_id(&[("traceparent", &one), ("traceparent", &other)]).await;
    assert!(neither.len() == 32 && ["a", "b"].iter().all(|digit| neither != digit.repeat(32)), "{neither}");
}
