//! `/openapi.json` is what is served: statuses, media types, headers and bodies. `make schemathesis` asks far more.

use http::Method;
use openskill_tests::rest::{self, Answer};
use openskill_tests::system::{Setup, System};
use serde_json::{Value, json};

const JSON: [(&str, &str); 1] = [("content-type", "application/json")];

struct Document(Value);

impl Document {
    async fn of(system: &System) -> Self {
        Self(system.get("/openapi.json").await.json())
    }

    /// A part of the document, past references.
    fn resolved<'a>(&'a self, part: &'a Value) -> &'a Value {
        match part["$ref"].as_str() {
            Some(reference) => self.0.pointer(reference.strip_prefix('#').unwrap()).expect(reference),
            None => part,
        }
    }

    /// Whether the body may be sent to this operation.
    fn takes(&self, path: &str, body: &Value) -> bool {
        let schema = &self.0["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"];
        let schema = json!({ "allOf": [schema], "components": self.0["components"] });
        jsonschema::options().build(&schema).unwrap().is_valid(body)
    }

    /// Checks an answer to a request of this operation.
    fn check(&self, path: &str, method: &str, answer: &Answer) {
        let operation = &self.0["paths"][path][method];
        let what = format!("{method} {path}: {answer:?}");
        let responses = operation["responses"].as_object().unwrap_or_else(|| panic!("undocumented: {what}"));
        let response = responses.get(&answer.status.to_string()).unwrap_or_else(|| panic!("undocumented: {what}"));
        let response = self.resolved(response);
        for name in response["headers"].as_object().into_iter().flatten().map(|(name, _)| name) {
            assert!(name == "Retry-After" || !answer.header(name).is_empty(), "no {name}: {what}");
        }
        let media_type = answer.header("content-type").split(';').next().unwrap();
        let content = response["content"].get(media_type).unwrap_or_else(|| panic!("media type: {what}"));
        if media_type == "application/json" {
            let schema = json!({ "allOf": [content["schema"]], "components": self.0["components"] });
            let validator = jsonschema::options().build(&schema).unwrap();
            let errors: Vec<_> = validator.iter_errors(&answer.json()).map(|it| it.to_string()).collect();
            assert!(errors.is_empty(), "{errors:?}: {what}");
        }
    }
}

async fn post(system: &System, path: &str, body: &Value) -> Answer {
    system.post(path, &JSON, body.to_string()).await
}

#[tokio::test]
async fn answers_to_calls_are_as_documented_in_both_envelopes() {
    let system = Setup::up().start().await;
    let document = Document::of(&system).await;
    for (skill, verb, body, status) in [
        ("in_echo", "invoke", json!({"input": {"n": 1}}), 200),
        ("in_echo", "invoke", json!({"input": {"n": 1}, "envelope": "status"}), 200),
        ("in_echo", "invoke", json!({"input": {"n": 1}, "timeout_ms": 15000.0}), 200),
        ("in_echo", "invoke", json!({}), 200),
        ("in_echo", "invoke", json!({"input": {}, "call": "{}"}), 400),
        ("in_echo", "invoke", json!({"inputs": {}}), 400),
        ("in_fail", "invoke", json!({"input": {}}), 500),
        ("in_fail", "invoke", json!({"input": {}, "envelope": "status"}), 500),
        ("in_echo", "prepare", json!({"input": {"n": 1}}), 200),
        ("in_echo", "prepare", json!({"input": 1, "call": 2}), 400),
        ("in_artifact", "invoke", json!({"input": {"name": "a.bin", "bytes": 10}}), 200),
    ] {
        let path = format!("/skills/{skill}:{verb}");
        let answer = post(&system, &path, &body).await;
        let is_failure = status >= 400 && answer.status >= 400;
        assert!(answer.status == status || is_failure, "{path} {body}: {answer:?}");
        document.check(&path, "post", &answer);
    }
    let answer = system.post("/skills/in_echo:invoke", &[("content-type", "text/plain")], "{}").await;
    assert_eq!(answer.status, 415);
    document.check("/skills/in_echo:invoke", "post", &answer);
    let answer = system.post("/skills/in_echo:invoke", &JSON, " ".repeat(5 << 20)).await;
    assert_eq!(answer.status, 413);
    document.check("/skills/in_echo:invoke", "post", &answer);
    let answer = post(&system, "/skills/in_echo:stream", &json!({"input": {}})).await;
    document.check("/skills/in_echo:stream", "post", &answer);
    let raw = post(&system, "/skills:invoke", &json!({"call": {"name": "in_echo", "arguments": {}}})).await;
    assert_eq!(raw.status, 200, "{raw:?}");
    document.check("/skills:invoke", "post", &raw);
    document.check("/skills:prepare", "post", &post(&system, "/skills:prepare", &json!({"call": "in no form"})).await);
    let answer = post(&system, "/questions/none:answer", &json!({"action": "decline"})).await;
    assert_eq!(answer.status, 404);
    document.check("/questions/{request_id}:answer", "post", &answer);
}

#[tokio::test]
async fn other_answers_are_as_documented() {
    let system = Setup::up().with("OPENSKILL_STORE", "memory").start().await;
    let document = Document::of(&system).await;
    system.post("/skills/in_echo:invoke", &[("x-trace-id", "one")], "{}").await;
    for (path, target, status) in [
        ("/skills", "/skills", 200),
        ("/skills", "/skills?toolset=a&toolset=b", 400),
        ("/skills", "/skills?tools=a", 400),
        ("/skills/{id}", "/skills/in_echo", 200),
        ("/skills/{id}", "/skills/no-such", 404),
        ("/skills/{id}", "/skills/in_echo:invoke", 405),
        ("/tools", "/tools?dialect=anthropic&skill=in_echo&session_id=s", 200),
        ("/operations", "/operations", 200),
        ("/operations", "/operations?page_token=forged", 400),
        ("/operations/{id}", "/operations/none", 404),
        ("/operations/{id}", "/operations/none:cancel", 405),
        ("/operations/{id}/events", "/operations/none/events", 404),
        ("/operations/{id}/artifacts/{number}", "/operations/none/artifacts/0", 404),
        ("/tools", "/tools?limit=few", 400),
        ("/artifacts/{handle}", "/artifacts/none", 404),
        ("/calls", "/calls?skill=in_echo&principal=ada&limit=1", 200),
        ("/calls", "/calls?state=asking", 400),
        ("/traces", "/traces?limit=1&min_duration=0us", 200),
        ("/traces", "/traces?since=yesterday", 400),
        ("/traces/{id}", "/traces/one", 200),
        ("/traces/{id}", "/traces/two", 404),
        ("/metrics", "/metrics", 200),
        ("/healthz", "/healthz", 200),
        ("/readyz", "/readyz", 200),
        ("/version", "/version", 200),
        ("/openapi.json", "/openapi.json", 200),
        ("/agent/conversations", "/agent/conversations", 200),
        ("/agent/conversations", "/agent/conversations?limit=few", 400),
        ("/agent/conversations/{id}", "/agent/conversations/none", 404),
        ("/agent/conversations/{id}/events", "/agent/conversations/none/events", 404),
    ] {
        let answer = system.get(target).await;
        assert_eq!(answer.status, status, "{target}: {answer:?}");
        document.check(path, "get", &answer);
    }
    let answer = rest::send(system.address, Method::DELETE, "/calls/none", &[], "").await;
    assert_eq!(answer.status, 404, "{answer:?}");
    document.check("/calls/{id}", "delete", &answer);
    let stored = [("prefer", "respond-async")];
    let answer = system.post("/skills/in_wait:invoke", &stored, r#"{"input": {"seconds": 300}}"#).await;
    assert_eq!(answer.status, 202, "{answer:?}");
    document.check("/skills/in_wait:invoke", "post", &answer);
    let path = answer.header("location");
    document.check("/operations/{id}", "get", &system.get(path).await);
    for verb in ["cancel", "retry"] {
        let answer = post(&system, &format!("{path}:{verb}"), &json!({})).await;
        document.check(&format!("/operations/{{id}}:{verb}"), "post", &answer);
        // What runs ends soon after it is cancelled.
        let answer = rest::send(system.address, Method::GET, path, &[("prefer", "wait=60")], "").await;
        assert_eq!(answer.json()["done"], true, "{answer:?}");
        document.check("/operations/{id}", "get", &answer);
    }
    let answer = post(&system, "/agent/chat", &json!({"message": "hello"})).await;
    document.check("/agent/chat", "post", &answer);
    for body in [json!({"messages": []}), json!({"cancel": {}})] {
        let answer = post(&system, "/agent/chat", &body).await;
        assert_eq!(answer.status, 400, "{body}: {answer:?}");
        document.check("/agent/chat", "post", &answer);
        assert!(!document.takes("/agent/chat", &body), "{body}");
    }
}

#[tokio::test]
async fn input_is_optional_where_the_server_takes_a_call_without_it() {
    let system = Setup::shipped().start().await;
    let document = Document::of(&system).await;
    let paths = document.0["paths"].as_object().unwrap().keys();
    let prepared: Vec<_> = paths.filter(|it| it.starts_with("/skills/") && it.ends_with(":prepare")).collect();
    assert!(prepared.len() > 10);
    for path in prepared {
        let body = json!({"argument_policy": "strict"});
        let answer = post(&system, path, &body).await;
        assert_eq!(document.takes(path, &body), answer.status == 200, "{path}: {answer:?}");
    }
}

#[tokio::test]
async fn unavailable_is_documented_and_says_when_to_try_again() {
    let system = Setup::up().start().await;
    let document = Document::of(&system).await;
    let drain = openskill_proto::v1::DrainRequest::default();
    system.admin().await.drain(drain).await.unwrap();
    let answer = post(&system, "/skills/in_echo:invoke", &json!({"input": {}})).await;
    assert_eq!((answer.status, answer.header("retry-after")), (503, "1"));
    document.check("/skills/in_echo:invoke", "post", &answer);
    let answer = system.get("/readyz").await;
    assert_eq!(answer.status, 503);
    document.check("/readyz", "get", &answer);
}

#[tokio::test]
async fn the_methods_that_a_path_takes_are_those_that_are_documented() {
    let system = Setup::up().start().await;
    let document = Document::of(&system).await;
    let paths = document.0["paths"].as_object().unwrap();
    for (path, item) in paths {
        let mut documented: Vec<_> = item.as_object().unwrap().keys().map(|it| it.to_uppercase()).collect();
        if documented.contains(&"GET".to_owned()) {
            documented.push("HEAD".to_owned());
        }
        documented.sort();
        let target = path.replace("{request_id}", "none").replace("{id}", "none").replace("{handle}", "none");
        for method in [Method::OPTIONS, Method::TRACE, Method::PATCH] {
            let answer = rest::send(system.address, method.clone(), &target, &[], "").await;
            let mut allowed: Vec<_> = answer.header("allow").split(',').map(|it| it.trim().to_owned()).collect();
            allowed.sort();
            assert_eq!((answer.status, &allowed), (405, &documented), "{method} {target}");
        }
    }
    for (method, target, allowed) in
        [(Method::GET, "/skills/in_echo:invoke", "POST"), (Method::POST, "/skills/in_echo", "GET,HEAD")]
    {
        let answer = rest::send(system.address, method, target, &[], "").await;
        assert_eq!((answer.status, answer.header("allow")), (405, allowed), "{target}");
    }
}
