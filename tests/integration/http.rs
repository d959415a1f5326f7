//! `http` skills: the request, the addresses it may reach, and the result of its answer.

use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::StreamExt as _;
use openskill_proto::v1::{Blame, InvokeRequest, SkillResult, invoke_event::Event, skill_error::More};
use openskill_tests::alone::alone;
use openskill_tests::backend::{Backend, Reply, Seen};
use openskill_tests::folder::Folder;
use openskill_tests::port::Port;
use openskill_tests::system::{PATIENCE, Setup, System, code, data, request};
use openskill_tests::wait::{until, until_true};
use serde_json::{Value, json};

mod interim;
mod redirects;

/// A secret of the worker, and the settings that send it.
const SECRET: &str = "s3cr3t/tok3n+value";

/// The settings that allow the backend's address.
const ALLOW: &str = "allow: ['127.0.0.1:PORT']";

/// A running system, and the folder of its skills.
struct Stage {
    system: System,
    _skills: Folder,
}

impl std::ops::Deref for Stage {
    type Target = System;

    fn deref(&self) -> &System {
        &self.system
    }
}

/// A system with these skills: name, path on the backend, and `http` settings.
async fn system(backend: &Backend, skills: &[(&str, &str, &str)]) -> Stage {
    let folder = Folder::new();
    for (name, path, settings) in skills {
        let settings = settings.replace("ALLOW", ALLOW).replace("PORT", &backend.address.port().to_string());
        let url = if path.contains("://") {
            path.replace("PORT", &backend.address.port().to_string())
        } else {
            backend.url(path)
        };
        let manifest = format!("id: {name}\ntype: http\nentry: '{url}'\nenv: [TEST_TOKEN]\nhttp: {{{settings}}}\n");
        folder.write(&format!("{name}.yaml"), manifest);
    }
    let skills = folder.path().display().to_string();
    let up = Setup::command(&["up", "--listen", "127.0.0.1:0", "--workers", "1", "--skills-dir", &skills]);
    Stage { system: up.with("TEST_TOKEN", SECRET).start().await, _skills: folder }
}

async fn call(system: &System, skill: &str, input: Value) -> SkillResult {
    system.invoke(InvokeRequest { timeout_ms: 20_000, ..request(skill, input) }).await
}

fn details(result: &SkillResult) -> Value {
    match result.error.as_ref().and_then(|error| error.more.clone()) {
        Some(More::DetailsJson(text)) => serde_json::from_str(&text).unwrap(),
        other => panic!("{other:?}"),
    }
}

fn refused(result: &SkillResult, word: &str) {
    assert_eq!(code(result), "PERMISSION_DENIED", "{result:?}");
    let error = result.error.as_ref().unwrap();
    assert_eq!(error.blame(), Blame::Skill);
    assert!(error.message.contains(word), "{error:?}");
}

/// Returns the request that it got.
fn echo(seen: &Seen) -> Reply {
    let body = String::from_utf8_lossy(&seen.body);
    Reply::json(200, &json!({"method": seen.method.as_str(), "target": seen.target, "body": body}))
}

#[tokio::test]
async fn a_request_follows_its_manifest() {
    let backend = Backend::start(echo).await;
    let system = system(
        &backend,
        &[
            ("get", "/v1/{city}/now", "method: GET, query: {units: '{units}'}, ALLOW"),
            ("post", "/v1/things", "ALLOW"),
            ("form", "/v1/form/{id}", "method: PUT, body: form, headers: {X-City: 'in {city}'}, ALLOW"),
            ("picked", "/x", "response: {data: /target}, ALLOW"),
        ],
    )
    .await;
    let result = call(&system, "get", json!({"city": "New York", "units": "metric", "page": 2})).await;
    let expected = json!({"method": "GET", "target": "/v1/New%20York/now?units=metric&page=2", "body": ""});
    assert_eq!(data(&result), expected);
    assert_eq!(result.meta.unwrap().runner, "http");
    let result = call(&system, "post", json!({"a": [1, {"b": null}], "n": 1.5})).await;
    assert_eq!(data(&result)["method"], "POST");
    assert_eq!(backend.last().json(), json!({"a": [1, {"b": null}], "n": 1.5}));
    assert_eq!(backend.last().header("content-type"), "application/json");
    let result = call(&system, "form", json!({"id": 7, "city": "Köln", "tags": ["a b", "c"]})).await;
    assert_eq!(data(&result), json!({"method": "PUT", "target": "/v1/form/7", "body": "tags=a+b&tags=c"}));
    assert_eq!(backend.last().headers["x-city"].as_bytes(), "in Köln".as_bytes());
    assert_eq!(data(&call(&system, "picked", json!({})).await), "/x");
}

#[tokio::test]
async fn an_argument_cannot_change_other_parts_of_the_request() {
    let backend = Backend::start(echo).await;
    let system = system(
        &backend,
        &[
            ("path", "/v1/{city}/now", "method: GET, ALLOW"),
            ("header", "/", "method: GET, headers: {X-City: '{city}'}, ALLOW"),
        ],
    )
    .await;
    for city in ["../../admin", "..", "a/../../b", "%2e%2e", "%252e%252e%252fadmin", "..\\x", "", "a\r\nb"] {
        let result = call(&system, "path", json!({"city": city})).await;
        assert_eq!(code(&result), "INVALID_ARGUMENT", "{city}");
    }
    for city in ["a\r\nX-Evil: 1", "a\nb", "a\u{0}b"] {
        let result = call(&system, "header", json!({"city": city})).await;
        assert_eq!(code(&result), "INVALID_ARGUMENT", "{city}");
    }
    assert!(backend.seen().is_empty(), "no request was sent");
    for (city, target) in
        [("a/b", "a%2Fb"), ("a?b=c", "a%3Fb%3Dc"), ("a#b", "a%23b"), ("@evil.example", "%40evil.example")]
    {
        let result = call(&system, "path", json!({"city": city})).await;
        assert_eq!(data(&result)["target"], format!("/v1/{target}/now"));
    }
}

#[tokio::test]
async fn each_status_has_its_code() {
    let backend = Backend::start(|seen| {
        let status = seen.path()[1..].parse().unwrap();
        Reply::json(status, &json!({"error": {"message": "the reason"}, "x": 1})).with("retry-after", "30")
    })
    .await;
    let statuses = [
        (400, "INVALID_ARGUMENT", Blame::Caller),
        (401, "PERMISSION_DENIED", Blame::Skill),
        (404, "NOT_FOUND", Blame::Caller),
        (409, "EXECUTION_ERROR", Blame::Skill),
        (422, "INVALID_ARGUMENT", Blame::Caller),
        (429, "NETWORK_ERROR", Blame::Skill),
        (500, "EXECUTION_ERROR", Blame::Skill),
        (503, "NETWORK_ERROR", Blame::Skill),
        // Within the deadline, a timeout that the server reports is not the skill's fault.
        (504, "TIMEOUT", Blame::Gateway),
    ];
    let system = system(&backend, &[("answers", "/{status}", "ALLOW")]).await;
    for (status, expected, blame) in statuses {
        let result = call(&system, "answers", json!({"status": status})).await;
        assert_eq!(code(&result), expected, "{status}");
        assert_eq!(details(&result), json!({"status": status, "body": {"error": {"message": "the reason"}, "x": 1}}));
        let error = result.error.unwrap();
        assert!(error.message.contains(&status.to_string()) && error.message.contains("the reason"), "{error:?}");
        assert_eq!(error.blame(), blame, "{status}");
        // With 429 the server says that it did not act on the request. The skill is not idempotent.
        let wait = if status == 429 { 30_000 } else { 0 };
        assert_eq!((error.retryable, error.retry_after_ms), (wait > 0, wait), "{status}");
        assert_eq!(error.may_have_run, status != 429, "{status}");
    }
    assert_eq!(backend.seen().len(), statuses.len(), "no request was sent twice");
}

#[tokio::test]
async fn a_server_may_return_a_normalized_result() {
    let backend = Backend::start(|seen| match seen.path() {
        "/good" => Reply::json(200, &json!({"success": true, "data": {"n": 1}, "text": "one"})),
        "/bad" => Reply::json(
            500,
            &json!({"success": false, "error": {"code": "NOT_FOUND", "message": "no row", "details": {"row": 7}}}),
        ),
        "/bad-though-fine" => Reply::json(200, &json!({"success": false, "error": "no"})),
        _ => Reply::json(500, &json!({"success": true, "data": 1})),
    })
    .await;
    let skills = ["good", "bad", "bad-though-fine", "liar"].map(|name| (name, format!("/{name}")));
    let skills: Vec<_> = skills.iter().map(|(name, path)| (*name, path.as_str(), "ALLOW")).collect();
    let system = system(&backend, &skills).await;
    let good = call(&system, "good", json!({})).await;
    assert_eq!((data(&good), good.text.as_str()), (json!({"n": 1}), "one"));
    let bad = call(&system, "bad", json!({})).await;
    assert_eq!((code(&bad), details(&bad)), ("NOT_FOUND", json!({"row": 7})));
    assert_eq!(code(&call(&system, "bad-though-fine", json!({})).await), "EXECUTION_ERROR");
    assert_eq!(code(&call(&system, "liar", json!({})).await), "EXECUTION_ERROR");
}

#[tokio::test]
async fn every_kind_of_body_becomes_data_or_an_error() {
    let backend = Backend::start(|seen| match seen.path() {
        "/text" => Reply::new(200, "text/plain; charset=utf-8", "hällo"),
        "/empty" => Reply::new(200, "application/json", ""),
        "/image" => Reply::new(200, "image/png", &b"\x89PNG"[..]),
        "/broken" => Reply::new(200, "application/json", "{\"a\": "),
        "/deep" => Reply::new(200, "application/json", "[".repeat(100) + &"]".repeat(100)),
        "/gzip" => Reply::new(200, "application/json", "x").with("content-encoding", "gzip"),
        _ => Reply::new(200, "application/json", vec![b' '; 11 * 1024 * 1024]),
    })
    .await;
    let system = system(
        &backend,
        &[
            ("text", "/text", "ALLOW"),
            ("empty", "/empty", "ALLOW"),
            ("image", "/image", "ALLOW"),
            ("picture", "/image", "response: {binary: true}, ALLOW"),
            ("broken", "/broken", "ALLOW"),
            ("deep", "/deep", "ALLOW"),
            ("gzip", "/gzip", "ALLOW"),
            ("large", "/large", "ALLOW"),
        ],
    )
    .await;
    assert_eq!(data(&call(&system, "text", json!({})).await), "hällo");
    assert_eq!(data(&call(&system, "empty", json!({})).await), Value::Null);
    let picture = json!({"content_type": "image/png", "base64": "iVBORw=="});
    assert_eq!(data(&call(&system, "picture", json!({})).await), picture);
    for (skill, expected, word) in [
        ("image", "EXECUTION_ERROR", "http.response.binary"),
        ("broken", "EXECUTION_ERROR", "not valid JSON"),
        ("deep", "EXECUTION_ERROR", "deeper"),
        ("gzip", "EXECUTION_ERROR", "compressed"),
        ("large", "OUTPUT_TOO_LARGE", "10485760"),
    ] {
        let result = call(&system, skill, json!({})).await;
        assert_eq!(code(&result), expected, "{skill}");
        assert!(result.error.as_ref().unwrap().message.contains(word), "{result:?}");
    }
}

#[tokio::test]
async fn a_body_without_content_length_is_bounded() {
    let piece = Bytes::from(vec![b'1'; 1024 * 1024]);
    let backend =
        Backend::start(move |_| Reply::pieces("text/plain", futures_util::stream::repeat(piece.clone()).boxed())).await;
    let system = system(&backend, &[("endless", "/", "ALLOW")]).await;
    assert_eq!(code(&call(&system, "endless", json!({})).await), "OUTPUT_TOO_LARGE");
    until_true("the connection is closed", PATIENCE, || backend.open_connections() == 0).await;
}

#[tokio::test]
async fn a_deadline_closes_the_connection() {
    let _alone = alone();
    let backend = Backend::start(|_| {
        let begun = futures_util::stream::iter([Bytes::from_static(b"{\"a\":")]);
        Reply::pieces("application/json", begun.chain(futures_util::stream::pending()))
    })
    .await;
    let system = system(&backend, &[("slow", "/", "ALLOW")]).await;
    let result = system.invoke(InvokeRequest { timeout_ms: 500, ..request("slow", json!({})) }).await;
    assert_eq!(code(&result), "TIMEOUT");
    assert_eq!(backend.connections(), 1, "the request was in flight");
    let begun = Instant::now();
    until_true("the connection is closed", PATIENCE, || backend.open_connections() == 0).await;
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn connections_are_reused() {
    let backend = Backend::start(echo).await;
    let system = system(&backend, &[("post", "/", "ALLOW"), ("other", "/other", "ALLOW")]).await;
    for _ in 0..20 {
        assert!(call(&system, "post", json!({})).await.success);
        assert!(call(&system, "other", json!({})).await.success);
    }
    assert_eq!((backend.seen().len(), backend.connections()), (40, 1));
}

#[tokio::test]
async fn the_trace_context_is_propagated() {
    let backend = Backend::start(echo).await;
    let system = system(&backend, &[("post", "/", "ALLOW")]).await;
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    let parent = format!("00-{trace}-00f067aa0ba902b7-01");
    let headers = [
        ("content-type", "application/json"),
        ("traceparent", &parent),
        ("tracestate", "vendor=1"),
        ("x-trace-id", "my-trace"),
    ];
    let answer = system.post("/skills/post:invoke", &headers, r#"{"input": {}}"#).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let seen = backend.last();
    assert!(seen.header("traceparent").starts_with(&format!("00-{trace}-")), "{seen:?}");
    assert_eq!((seen.header("tracestate"), seen.header("x-trace-id")), ("vendor=1", "my-trace"));
    assert!(seen.header("user-agent").starts_with("openskill/"), "{seen:?}");
}

#[tokio::test]
async fn streams_become_partial_results() {
    let backend = Backend::start(|seen| match seen.path() {
        "/events" => Reply::new(
            200,
            "text/event-stream",
            "event: progress\ndata: {\"fraction\": 0.5, \"message\": \"half\"}\n\ndata: {\"n\": 1}\n\n: beat\n\ndata: two\n\ndata: [DONE]\n\n",
        ),
        _ => Reply::new(200, "application/x-ndjson", "{\"n\": 1}\n{\"n\": 2}\n"),
    })
    .await;
    let system = system(
        &backend,
        &[
            ("events", "/events", "ALLOW"),
            ("last", "/events", "stream: last, ALLOW"),
            ("lines", "/lines", "response: {data: /n}, ALLOW"),
            ("raw", "/lines", "stream: 'off', ALLOW"),
        ],
    )
    .await;
    assert_eq!(partials(&system, "events").await, (vec![json!({"n": 1}), json!("two")], 1, json!([{"n": 1}, "two"])));
    assert_eq!(partials(&system, "last").await, (vec![json!({"n": 1}), json!("two")], 1, json!("two")));
    assert_eq!(partials(&system, "lines").await, (vec![json!(1), json!(2)], 0, json!([1, 2])));
    assert_eq!(partials(&system, "raw").await, (vec![], 0, json!("{\"n\": 1}\n{\"n\": 2}\n")));
}

/// The partial results of a call, its number of progress events, and its data.
async fn partials(system: &System, skill: &str) -> (Vec<Value>, usize, Value) {
    let mut events = system.skills().await.invoke_stream(request(skill, json!({}))).await.unwrap().into_inner();
    let (mut parts, mut progress) = (Vec::new(), 0);
    while let Some(event) = events.message().await.unwrap() {
        match event.event.unwrap() {
            Event::Partial(part) => parts.push(serde_json::from_str(&part.data_json).unwrap()),
            Event::Progress(_) => progress += 1,
            Event::Result(result) => return (parts, progress, data(&result)),
            _ => {}
        }
    }
    panic!("no result of {skill}");
}

#[tokio::test]
async fn a_stream_is_relayed_as_it_arrives() {
    let (sender, receiver) = tokio::sync::watch::channel(false);
    let backend = Backend::start(move |_| {
        let mut receiver = receiver.clone();
        let first = futures_util::stream::iter([Bytes::from_static(b"data: 1\n\n")]);
        let second = futures_util::stream::once(async move {
            let _ = receiver.wait_for(|it| *it).await;
            Bytes::from_static(b"data: 2\n\n")
        });
        Reply::pieces("text/event-stream", first.chain(second))
    })
    .await;
    let system = system(&backend, &[("events", "/", "ALLOW")]).await;
    let mut events = system.skills().await.invoke_stream(request("events", json!({}))).await.unwrap().into_inner();
    let mut parts = 0;
    while let Some(event) = events.message().await.unwrap() {
        match event.event.unwrap() {
            Event::Partial(_) => {
                parts += 1;
                // The server continues once the first part has arrived.
                sender.send(true).unwrap();
            }
            Event::Result(result) => assert_eq!(data(&result), json!([1, 2])),
            _ => {}
        }
    }
    assert_eq!(parts, 2);
}

#[tokio::test]
async fn a_secret_is_sent_but_never_returned() {
    let backend = Backend::start(|seen| {
        let echoed =
            json!({"message": format!("bad {}", seen.header("authorization")), "target": seen.target, SECRET: 1});
        match seen.path() {
            "/good" => Reply::json(200, &echoed),
            "/text" => Reply::new(200, "text/plain", format!("you sent {}", seen.header("authorization"))),
            "/events" => Reply::new(200, "text/event-stream", format!("data: {echoed}\n\n")),
            "/moved" => Reply::redirect(302, &format!("ftp://{SECRET}/")),
            _ => Reply::json(401, &echoed),
        }
    })
    .await;
    let settings = "headers: {Authorization: 'Bearer ${TEST_TOKEN}'}, query: {key: '${TEST_TOKEN}'}, ALLOW";
    let skills = ["good", "text", "events", "moved", "denied"].map(|name| (name, format!("/{name}")));
    let skills: Vec<_> = skills.iter().map(|(name, path)| (*name, path.as_str(), settings)).collect();
    let system = system(&backend, &skills).await;
    for (skill, success) in [("good", true), ("text", true), ("events", true), ("moved", false), ("denied", false)] {
        let mut events = system.skills().await.invoke_stream(request(skill, json!({}))).await.unwrap().into_inner();
        let mut received = String::new();
        while let Some(event) = events.message().await.unwrap() {
            if let Some(Event::Result(result)) = &event.event {
                assert_eq!(result.success, success, "{result:?}");
            }
            received += &format!("{event:?}");
        }
        assert_eq!(backend.last().header("authorization"), format!("Bearer {SECRET}"), "{skill}");
        for hidden in ["s3cr3t", "tok3n", "%2Ftok3n"] {
            assert!(!received.contains(hidden), "{skill}: {received}");
        }
        assert!(skill == "moved" || received.contains("[secret]"), "{skill}: {received}");
    }
    let log = system.process.log.text() + &system.process.output.text();
    assert!(!log.contains("tok3n"), "{log}");
}

#[tokio::test]
async fn a_skill_without_its_secret_names_the_missing_variable() {
    let folder = Folder::new();
    folder.write(
        "needs.yaml",
        "id: needs\ntype: http\nentry: https://example.com/\nenv: [NOT_THERE]\nhttp: {headers: {X-Key: '${NOT_THERE}'}}\n",
    );
    let skills = folder.path().display().to_string();
    let system = Setup::command(&["up", "--listen", "127.0.0.1:0", "--skills-dir", &skills]).start().await;
    let listed = until("the skill is listed", PATIENCE, || async {
        let listed = system.get("/skills").await.json().to_string();
        listed.contains("needs").then_some(listed)
    })
    .await;
    assert!(listed.contains("NOT_THERE") && listed.contains("unavailable"), "{listed}");
}

#[tokio::test]
async fn local_addresses_are_refused_unless_the_manifest_allows_them() {
    let backend = Backend::start(echo).await;
    let system = system(
        &backend,
        &[
            ("name", "http://localhost:PORT/", ""),
            ("other", "http://localhost:PORT/", "allow: ['localhost:1', '127.0.0.1:1', 'other.example:PORT']"),
            ("named", "http://localhost:PORT/", "allow: ['localhost:PORT']"),
            ("resolved", "http://localhost:PORT/", "ALLOW"),
            ("loopback", "http://127.0.0.1:PORT/", ""),
            ("odd", "http://0x7f.1:PORT/", ""),
            ("mapped", "http://[::ffff:127.0.0.1]:PORT/", ""),
        ],
    )
    .await;
    for skill in ["name", "other"] {
        refused(&call(&system, skill, json!({})).await, "loopback");
    }
    assert_eq!(backend.connections(), 0, "no connection was made");
    for skill in ["named", "resolved"] {
        let result = call(&system, skill, json!({})).await;
        assert!(result.success, "{skill}: {result:?}");
    }
    // A literal address is known when the manifest is loaded.
    let listed = system.get("/skills").await.json().to_string();
    assert_eq!(listed.matches("this machine itself (loopback)").count(), 3, "{listed}");
}

#[tokio::test]
async fn an_unreachable_server_is_a_network_error() {
    let port = Port::reserve();
    let closed = port.number();
    let backend = Backend::start(echo).await;
    let gone = format!("http://127.0.0.1:{closed}/");
    let allow = format!("allow: ['127.0.0.1:{closed}']");
    let skills = [("gone", gone.as_str(), allow.as_str()), ("unknown", "http://no-such-host.invalid/", "")];
    let system = system(&backend, &skills).await;
    for (skill, word) in [("gone", "refused"), ("unknown", "resolved")] {
        let result = call(&system, skill, json!({})).await;
        assert_eq!(code(&result), "NETWORK_ERROR", "{skill}: {result:?}");
        let error = result.error.unwrap();
        assert!(error.retryable && !error.may_have_run && error.message.contains(word), "{error:?}");
    }
}
