//! Invalid input of every kind gets a typed error, never an empty 500 and never a panic.

use http::Method;
use openskill_proto::limits::MAX_REQUEST_BYTES;
use openskill_proto::v1::InvokeRequest;
use openskill_proto::v1::invoke_request::Arguments;
use openskill_tests::rest;
use openskill_tests::system::{Setup, System, code, request};
use serde_json::json;

async fn still_fine(system: &System) {
    let result = system.invoke(request("in_echo", json!({"n": 1}))).await;
    assert!(result.success, "{result:?}");
    let log = system.process.log.text();
    assert!(!log.contains("panicked"), "{log}");
}

#[tokio::test]
async fn rest_answers_every_bad_request_with_a_typed_error() {
    let system = Setup::up().start().await;
    let deep = format!("{{\"input\": {}{}}}", "[".repeat(5000), "]".repeat(5000));
    let json_type = ("content-type", "application/json");
    let path = "/skills/in_echo:invoke";
    for (what, path, header, body, status, expected) in [
        ("malformed JSON", path, json_type, "{\"input\": ", 400, "INVALID_JSON"),
        ("an empty body", path, json_type, "", 400, "INVALID_JSON"),
        ("not UTF-8", path, json_type, "{\"input\": \"\u{fffd}", 400, "INVALID_JSON"),
        ("no object", path, json_type, "[]", 400, "INVALID_ARGUMENT"),
        ("values by position", path, json_type, r#"[{"text": "hi"}, null, "id"]"#, 400, "INVALID_ARGUMENT"),
        ("input is no object", path, json_type, "{\"input\": [1]}", 400, "INVALID_ARGUMENT"),
        ("an unknown field", path, json_type, "{\"inputs\": {}}", 400, "INVALID_ARGUMENT"),
        ("a wrong content type", path, ("content-type", "text/xml"), "{}", 415, "INVALID_ARGUMENT"),
        ("an unknown skill", "/skills/nope:invoke", json_type, "{}", 404, "NOT_FOUND"),
        ("an impossible skill", "/skills/%00..%2f:invoke", json_type, "{}", 404, "NOT_FOUND"),
        ("a path that is no UTF-8", "/skills/%ff:invoke", json_type, "{}", 404, "NOT_FOUND"),
        ("an unknown verb", "/skills/in_echo:explode", json_type, "{}", 404, "NOT_FOUND"),
        ("an unknown path", "/nope", json_type, "{}", 404, "NOT_FOUND"),
        ("deep nesting", path, json_type, &deep, 400, "INVALID_JSON"),
    ] {
        let answer = system.post(path, &[header], body.to_owned()).await;
        assert_eq!((answer.status, answer.code().as_str()), (status, expected), "{what}: {answer:?}");
        assert_eq!(answer.json()["success"], false, "{what}");
        assert!(!answer.json()["error"]["message"].as_str().unwrap().is_empty(), "{what}");
        assert!(!answer.header("x-trace-id").is_empty(), "{what}");
    }
    for (path, status) in [("/skills/%ff", 404), ("/skills?toolset=a&toolset=b", 400), ("/skills/nope", 404)] {
        let answer = system.get(path).await;
        assert_eq!(answer.status, status, "{path}");
        assert_eq!(answer.json()["success"], false, "{path}");
    }
    let answer = rest::send(system.address, Method::DELETE, "/skills/in_echo", &[], "").await;
    assert_eq!((answer.status, answer.code().as_str()), (405, "INVALID_ARGUMENT"));
    still_fine(&system).await;
}

#[tokio::test]
async fn an_oversized_body_is_rejected_before_it_is_read() {
    let system = Setup::up().start().await;
    let body = format!("{{\"input\": {{\"text\": \"{}\"}}}}", "x".repeat(10 << 20));
    let answer = system.post("/skills/in_echo:invoke", &[], body.clone()).await;
    assert_eq!((answer.status, answer.code().as_str()), (413, "INVALID_ARGUMENT"));
    let mut client = system.skills().await;
    let call = InvokeRequest {
        skill_id: "in_echo".to_owned(),
        arguments: Some(Arguments::InputJson("x".repeat(MAX_REQUEST_BYTES + 1))),
        ..InvokeRequest::default()
    };
    let status = client.invoke(call).await.unwrap_err();
    assert!([tonic::Code::OutOfRange, tonic::Code::ResourceExhausted].contains(&status.code()), "{status:?}");
    still_fine(&system).await;
}

#[tokio::test]
async fn grpc_errors_a_model_can_fix_are_results() {
    let system = Setup::up().start().await;
    let text = |skill: &str, text: &str| InvokeRequest {
        skill_id: skill.to_owned(),
        arguments: Some(Arguments::InputJson(text.to_owned())),
        ..InvokeRequest::default()
    };
    for (call, expected) in [
        (text("in_echo", "{"), "INVALID_JSON"),
        (text("in_echo", "[]"), "INVALID_ARGUMENT"),
        (text("in_echo", &"[".repeat(100_000)), "INVALID_JSON"),
        (text("nope", "{}"), "NOT_FOUND"),
        (text("", "{}"), "INVALID_ARGUMENT"),
        (InvokeRequest { call_id: "x".repeat(129), ..text("in_echo", "{}") }, "INVALID_ARGUMENT"),
    ] {
        assert_eq!(code(&system.invoke(call.clone()).await), expected, "{call:?}");
    }
    still_fine(&system).await;
}

#[tokio::test]
async fn grpc_errors_only_the_client_program_can_fix_are_statuses() {
    use http_body_util::{BodyExt as _, Full};
    let system = Setup::up().start().await;
    let stream = tokio::net::TcpStream::connect(system.address).await.unwrap();
    let io = hyper_util::rt::TokioIo::new(stream);
    let executor = hyper_util::rt::TokioExecutor::new();
    let (mut sender, connection) = hyper::client::conn::http2::handshake(executor, io).await.unwrap();
    tokio::spawn(connection);
    for (path, body, expected) in [
        ("/openskill.v1.SkillService/Explode", &[0_u8, 0, 0, 0, 0][..], "12"),
        ("/no.such.Service/Method", &[0, 0, 0, 0, 0], "12"),
        // A malformed message: tonic itself answers INTERNAL.
        ("/openskill.v1.SkillService/Invoke", &[0, 0, 0, 0, 2, 0xff, 0xff], "13"),
    ] {
        let request = http::Request::post(format!("http://{}{path}", system.address))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(Full::new(bytes::Bytes::copy_from_slice(body)))
            .unwrap();
        let response = sender.send_request(request).await.unwrap();
        let headers = response.headers().clone();
        let collected = response.into_body().collect().await.unwrap();
        let trailers = collected.trailers().cloned().unwrap_or_default();
        let status = headers.get("grpc-status").or(trailers.get("grpc-status")).unwrap().to_str().unwrap().to_owned();
        assert_eq!(status, expected, "{path}");
    }
    still_fine(&system).await;
}

#[tokio::test]
async fn an_invalid_trace_id_is_replaced_with_a_warning() {
    let system = Setup::up().start().await;
    for bad in ["two words", &"x".repeat(129), "caf\u{e9}"] {
        let answer = system.post("/skills/in_echo:invoke", &[("x-trace-id", bad)], "{}").await;
        assert_eq!(answer.status, 200);
        let body = answer.json();
        assert_eq!(answer.header("x-trace-id"), body["trace_id"]);
        assert_eq!(body["trace_id"].as_str().unwrap().len(), 32);
        assert!(body["meta"]["warnings"].to_string().contains("X-Trace-Id"), "{body}");
    }
}

#[tokio::test]
async fn a_caller_cannot_forge_a_log_line() {
    let system = Setup::up().start().await;
    let forged = "x%0a2026-01-01T00:00:00Z%20INFO%20openskill::call:%20forged";
    system.post(&format!("/skills/{forged}:invoke"), &[], "{}").await;
    system.invoke(InvokeRequest { call_id: "x\nforged".to_owned(), ..request("in_echo", json!({})) }).await;
    system.post("/skills/in_echo:invoke", &[("x-trace-id", "the-last")], "{}").await;
    system.process.log.line(&["the-last"]).await;
    let log = system.process.log.text();
    assert!(log.lines().all(|line| line.starts_with("20") && line.contains('Z')), "{log}");
    assert_eq!(log.lines().filter(|line| line.contains("openskill::call")).count(), 3, "{log}");
}

#[tokio::test]
async fn arguments_that_exceed_the_limit_as_json_are_the_callers_fault() {
    let system = Setup::up().start().await;
    let text = prost_types::Value { kind: Some(prost_types::value::Kind::StringValue("\u{1}".repeat(1 << 20))) };
    let call = InvokeRequest {
        skill_id: "in_echo".to_owned(),
        arguments: Some(Arguments::Input(prost_types::Struct { fields: [("text".to_owned(), text)].into() })),
        ..InvokeRequest::default()
    };
    let result = system.invoke(call).await;
    assert_eq!(code(&result), "INVALID_ARGUMENT", "{:?}", result.error);
}

#[tokio::test]
async fn bytes_that_are_not_http_get_an_error_and_the_connection_closes() {
    let system = Setup::up().start().await;
    for bytes in [&b"\x00\x01\x02\x03\r\n\r\n"[..], b"GET / HTTP/9.9\r\n\r\n", b"GET /\x01 HTTP/1.1\r\nhost: x\r\n\r\n"]
    {
        let answer = rest::send_raw(system.address, bytes).await;
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{answer}");
    }
    let many = format!("GET /skills HTTP/1.1\r\nhost: x\r\n{}\r\n", "x-a: b\r\n".repeat(500));
    assert!(rest::send_raw(system.address, many.as_bytes()).await.starts_with("HTTP/1.1 431"));
    still_fine(&system).await;
}

#[tokio::test]
async fn a_cross_origin_request_is_rejected() {
    let system = Setup::up().start().await;
    let path = "/skills/in_echo:invoke";
    let answer = system.post(path, &[("origin", "http://evil.example")], "{}").await;
    assert_eq!((answer.status, answer.code().as_str()), (403, "PERMISSION_DENIED"));
    let own = format!("http://{}", system.address);
    assert_eq!(system.post(path, &[("origin", &own)], "{}").await.status, 200);
}
