//! nginx and Envoy in front of a gateway, with the configurations of `docs/proxies.md`. Skipped where they are not.

mod proxied;

use std::process::Stdio;

use http::Method;
use openskill_proto::v1::invoke_event::Event;
use openskill_proto::v1::{InputAction, InputResponse, InvokeRequest};
use openskill_tests::system::{data, request};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use proxied::{HOST, Proxied, Proxy};

#[tokio::test]
async fn grpc_passes_nginx_one_message_at_a_time() {
    let Some(proxied) = Proxied::or_skip(Proxy::Nginx).await else { return };
    grpc_passes_one_message_at_a_time(&proxied).await;
}

#[tokio::test]
async fn grpc_passes_envoy_one_message_at_a_time() {
    let Some(proxied) = Proxied::or_skip(Proxy::Envoy).await else { return };
    grpc_passes_one_message_at_a_time(&proxied).await;
}

async fn grpc_passes_one_message_at_a_time(proxied: &Proxied) {
    let mut client = proxied.grpc().await;
    let called = client.invoke(request("in_echo", json!({"n": 1}))).await.unwrap().into_inner();
    assert_eq!(data(&called)["n"], 1);
    // A question on a stream: its answer is sent only after it was read, so nothing may be held back in either direction.
    let (requests, receiver) = mpsc::channel(8);
    let asking = InvokeRequest {
        call_id: "c".to_owned(),
        interactive: true,
        timeout_ms: 20_000,
        ..request("in_ask", json!({"message": "Which?"}))
    };
    requests.send(asking).await.unwrap();
    let mut events = client.invoke_many(ReceiverStream::new(receiver)).await.unwrap().into_inner();
    let result = loop {
        match events.message().await.unwrap().unwrap().event.unwrap() {
            Event::InputRequired(question) => {
                let response = InputResponse {
                    request_id: question.request_id,
                    action: InputAction::Accept.into(),
                    content_json: json!({"file": "a"}).to_string(),
                };
                let call_id = "c".to_owned();
                let answer = InvokeRequest { call_id, input_response: Some(response), ..InvokeRequest::default() };
                requests.send(answer).await.unwrap();
            }
            Event::Result(result) => break result,
            _ => {}
        }
    };
    assert_eq!(data(&result)["content"], json!({"file": "a"}), "{result:?}");
    // An error of the gateway's is not one of the proxy's.
    let refused = client.invoke(request("in_echo", json!([]))).await.unwrap().into_inner();
    assert!(refused.error.is_some(), "{refused:?}");
    let large = request("in_echo", json!({"text": "x".repeat(2_000_000)}));
    assert!(
        client.invoke(large).await.unwrap().into_inner().success,
        "a proxy may refuse more than a megabyte by default"
    );
}

#[tokio::test]
async fn rest_events_and_mcp_pass_nginx_over_both_versions_of_http() {
    let Some(proxied) = Proxied::or_skip(Proxy::Nginx).await else { return };
    rest_events_and_mcp_pass_over_both_versions_of_http(&proxied).await;
}

#[tokio::test]
async fn rest_events_and_mcp_pass_envoy_over_both_versions_of_http() {
    let Some(proxied) = Proxied::or_skip(Proxy::Envoy).await else { return };
    rest_events_and_mcp_pass_over_both_versions_of_http(&proxied).await;
}

async fn rest_events_and_mcp_pass_over_both_versions_of_http(proxied: &Proxied) {
    let large = format!("{{\"input\": {{\"text\": \"{}\"}}}}", "x".repeat(100_000));
    for version in ["--http1.1", "--http2"] {
        let (status, body) =
            proxied.curl(&[version, "--data", r#"{"input": {"n": 1}}"#], "/skills/in_echo:invoke").await.unwrap();
        assert_eq!((status, &serde_json::from_str::<Value>(&body).unwrap()["data"]["n"]), (200, &json!(1)), "{body}");
        assert_eq!(proxied.curl(&[version, "--data", &large], "/skills/in_echo:invoke").await.unwrap().0, 200);
        assert_eq!(proxied.curl(&[version], "/skills/nobody").await.unwrap().0, 404, "the gateway's own errors");
        let call = r#"{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "in_echo", "arguments": {"n": 2}}}"#;
        let json = "content-type: application/json";
        let (status, body) = proxied.curl(&[version, "--header", json, "--data", call], "/mcp").await.unwrap();
        assert!(status == 200 && body.contains("\"result\""), "{status} {body}");

        // The event with the question arrives while the call runs: it ends by the answer alone.
        let asking = r#"{"input": {"message": "Which?"}, "interactive": true, "timeout_ms": 20000}"#;
        let mut stream = proxied.curl_command(&[version, "--data", asking], "/skills/in_ask:stream");
        let mut stream = stream.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(stream.stdout.take().unwrap()).lines();
        let (mut text, mut is_answered) = (String::new(), false);
        while let Some(line) = lines.next_line().await.unwrap() {
            text.push_str(&line);
            let question = line.strip_prefix("data: ").and_then(|it| serde_json::from_str::<Value>(it).ok());
            let id = question.as_ref().and_then(|it| find(it, "request_id")).filter(|_| !is_answered);
            if let Some(id) = id {
                is_answered = true;
                let answer = r#"{"action": "accept", "content": {"file": "b"}}"#;
                let path = format!("/questions/{id}:answer");
                let (status, body) = proxied.curl(&[version, "--data", answer], &path).await.unwrap();
                assert_eq!(status, 200, "{body}");
            }
        }
        assert!(stream.wait().await.unwrap().success());
        assert!(is_answered && text.contains("\"file\""), "{text}");
    }
}

/// The first text of this name in a value.
fn find(value: &Value, name: &str) -> Option<String> {
    match value {
        Value::Object(fields) => {
            let own = fields.get(name).and_then(Value::as_str).map(str::to_owned);
            own.or_else(|| fields.values().find_map(|it| find(it, name)))
        }
        Value::Array(items) => items.iter().find_map(|it| find(it, name)),
        _ => None,
    }
}

#[tokio::test]
async fn pages_of_other_sites_are_refused_behind_nginx_and_forwarded_headers_change_nothing() {
    let Some(proxied) = Proxied::or_skip(Proxy::Nginx).await else { return };
    pages_of_other_sites_are_refused_and_forwarded_headers_change_nothing(&proxied).await;
}

#[tokio::test]
async fn pages_of_other_sites_are_refused_behind_envoy_and_forwarded_headers_change_nothing() {
    let Some(proxied) = Proxied::or_skip(Proxy::Envoy).await else { return };
    pages_of_other_sites_are_refused_and_forwarded_headers_change_nothing(&proxied).await;
}

async fn pages_of_other_sites_are_refused_and_forwarded_headers_change_nothing(proxied: &Proxied) {
    let own = format!("origin: https://{HOST}:{}", proxied.port.number());
    let site = format!("x-forwarded-host: {HOST}");
    for (headers, expected) in [
        (&[][..], 200),
        (&[&own[..], "sec-fetch-site: same-origin"], 200),
        (&["origin: https://evil.example"], 403),
        (&["sec-fetch-site: cross-site"], 403),
        (&["host: evil.example"], 403),
        // What a client says of a proxy before this one, in any form, makes no host and no origin better.
        (&["host: evil.example", &site], 403),
        (&["host: evil.example", "forwarded: for=127.0.0.1;host=skills.example.com;proto=https"], 403),
        (&["origin: https://evil.example", "x-forwarded-host: evil.example", "x-forwarded-proto: https"], 403),
        (&["x-forwarded-host: evil.example", "x-forwarded-for: 10.0.0.1"], 200),
    ] {
        for version in ["--http1.1", "--http2"] {
            let flags: Vec<_> = [version].into_iter().chain(headers.iter().flat_map(|it| ["--header", it])).collect();
            let (status, body) = proxied.curl(&flags, "/skills").await.unwrap();
            assert_eq!(status, expected, "{flags:?}: {body}");
        }
    }
    let mut client = proxied.grpc().await;
    let mut foreign = tonic::Request::new(request("in_echo", json!({})));
    foreign.metadata_mut().insert("origin", "https://evil.example".parse().unwrap());
    assert_eq!(client.invoke(foreign).await.unwrap_err().code(), tonic::Code::PermissionDenied);
    // The proxy itself answers nothing of this: the gateway does.
    let direct = openskill_tests::rest::send(
        proxied.system.address,
        Method::GET,
        "/skills",
        &[("origin", "https://evil.example"), ("x-forwarded-host", "evil.example")],
        "",
    );
    assert_eq!(direct.await.status, 403);
}
