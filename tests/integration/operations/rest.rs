//! Operations over REST: a stored call, its state, its events, and who may see them.

use http::Method;
use openskill_tests::rest::{self, Answer};
use openskill_tests::system::{Setup, System};
use serde_json::{Value, json};

use crate::identity::{Keys, get, post};

const STORE: (&str, &str) = ("OPENSKILL_STORE", "operations.sqlite");

/// Longer than anything here takes.
const WAIT: [(&str, &str); 1] = [("prefer", "wait=60")];

async fn start() -> System {
    Setup::up().with(STORE.0, STORE.1).start().await
}

/// Invokes a skill with this `Prefer` header.
async fn invoke(system: &System, skill: &str, input: Value, prefer: &str) -> Answer {
    let headers = [("content-type", "application/json"), ("prefer", prefer)];
    system.post(&format!("/skills/{skill}:invoke"), &headers, json!({ "input": input }).to_string()).await
}

/// Stores a call, and returns the path of its operation.
async fn submit(system: &System, skill: &str, input: Value) -> String {
    let answer = invoke(system, skill, input, "respond-async").await;
    assert_eq!(answer.status, 202, "{answer:?}");
    answer.header("location").to_owned()
}

/// The operation once it is done.
async fn ended(system: &System, path: &str) -> Value {
    let answer = rest::send(system.address, Method::GET, path, &WAIT, "").await;
    let operation = answer.json();
    assert_eq!(operation["done"], true, "{operation}");
    operation
}

async fn delete(system: &System, path: &str) -> Answer {
    rest::send(system.address, Method::DELETE, path, &[], "").await
}

/// One server-sent event.
#[derive(Debug, PartialEq, Eq)]
struct Sent {
    id: String,
    name: String,
}

async fn events(system: &System, path: &str, headers: &[(&str, &str)]) -> Vec<Sent> {
    let answer = rest::send(system.address, Method::GET, path, headers, "").await;
    assert_eq!((answer.status, answer.header("content-type")), (200, "text/event-stream"), "{answer:?}");
    let text = String::from_utf8(answer.body.to_vec()).unwrap();
    let sent = text.split("\n\n").filter(|it| it.contains("event: ")).map(|event| {
        let field = |name: &str| event.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().to_owned();
        Sent { id: field("id: "), name: field("event: ") }
    });
    sent.collect()
}

#[tokio::test]
async fn a_call_that_is_stored_says_where_its_result_will_be() {
    let system = start().await;
    let answer = invoke(&system, "in_echo", json!({"n": 1}), "respond-async").await;
    assert_eq!((answer.status, answer.header("preference-applied")), (202, "respond-async"), "{answer:?}");
    let path = answer.header("location");
    assert_eq!(format!("/{}", answer.json()["name"].as_str().unwrap()), path);
    let operation = ended(&system, path).await;
    assert_eq!(
        (&operation["metadata"]["state"], &operation["result"]["data"]),
        (&json!("succeeded"), &json!({"n": 1}))
    );
    assert_eq!(operation["metadata"]["trace_id"], answer.header("x-trace-id"));
    // A model's raw call, and a second one with the same key.
    let headers = [("prefer", "respond-async"), ("idempotency-key", "once")];
    let body = json!({"call": {"name": "in_echo", "arguments": {"n": 2}}}).to_string();
    let first = system.post("/skills:invoke", &headers, body.clone()).await;
    let second = system.post("/skills:invoke", &headers, body).await;
    assert_eq!((second.status, second.header("location")), (202, first.header("location")), "{second:?}");
}

#[tokio::test]
async fn a_client_that_waits_gets_what_invoke_answers_or_the_operation() {
    let system = start().await;
    let answer = invoke(&system, "in_echo", json!({"n": 1}), "respond-async, wait=60").await;
    assert_eq!((answer.status, &answer.json()["data"]), (200, &json!({"n": 1})), "{answer:?}");
    let answer = invoke(&system, "in_fail", json!({}), "respond-async, wait=60").await;
    let called = system.call("in_fail", json!({})).await;
    assert_eq!((answer.status, answer.code()), (called.status, called.code()), "{answer:?}");
    let answer = invoke(&system, "in_wait", json!({"ms": 30_000}), "respond-async, wait=0").await;
    assert_eq!((answer.status, &answer.json()["done"]), (202, &json!(false)), "{answer:?}");
    // Without the other preference, it is a call.
    assert_eq!(invoke(&system, "in_echo", json!({}), "wait=60").await.status, 200);
}

#[tokio::test]
async fn what_invoke_refuses_is_refused_with_the_same_words() {
    let system = start().await;
    for (skill, body) in [
        ("typed", r#"{"input": {"n": [1]}}"#),
        ("no_such_skill", r#"{"input": {}}"#),
        ("in_echo", r#"{"input": {"#),
        ("in_echo", r#"{"inputs": {}}"#),
    ] {
        let path = format!("/skills/{skill}:invoke");
        let called = system.post(&path, &[], body).await;
        let stored = system.post(&path, &[("prefer", "respond-async, wait=60")], body).await;
        let words = |answer: &Answer| (answer.status, answer.code(), answer.json()["error"]["message"].clone());
        assert!(called.status >= 400, "{called:?}");
        assert_eq!(words(&stored), words(&called), "{skill} {body}");
        assert_eq!(stored.json()["skill_id"], called.json()["skill_id"]);
    }
    assert_eq!(system.get("/operations").await.json()["operations"], json!([]));
}

#[tokio::test]
async fn events_resume_after_the_last_one_that_a_client_has() {
    let system = start().await;
    let path = submit(&system, "reports_progress", json!({})).await;
    let all = events(&system, &format!("{path}/events"), &[]).await;
    let ids: Vec<_> = all.iter().map(|it| it.id.parse::<usize>().unwrap()).collect();
    assert_eq!(ids, (1..=all.len()).collect::<Vec<_>>());
    assert!(all.iter().any(|it| it.name == "progress") && all.len() > 2, "{all:?}");
    assert_eq!(all.last().unwrap().name, "result");
    let rest = events(&system, &format!("{path}/events?after=1"), &[("last-event-id", "2")]).await;
    assert_eq!(rest, all[2..]);
    assert_eq!(events(&system, &format!("{path}/events?after=1"), &[("last-event-id", "x")]).await, all[1..]);
}

#[tokio::test]
async fn a_running_operation_is_cancelled_then_retried_or_removed() {
    let system = start().await;
    let path = submit(&system, "in_wait", json!({"ms": 300_000})).await;
    let refused = delete(&system, &path).await;
    assert_eq!(refused.status, 409, "{refused:?}");
    assert_eq!(system.post(&format!("{path}:cancel"), &[], "").await.status, 200);
    let operation = ended(&system, &path).await;
    let found = (&operation["metadata"]["state"], &operation["result"]["error"]["code"]);
    assert_eq!(found, (&json!("cancelled"), &json!("CANCELLED")), "{operation}");
    let again = system.post(&format!("{path}:retry"), &[], "").await;
    assert!(again.status == 202 && again.header("location") != path, "{again:?}");
    let refused = system.post(&format!("{}:retry", again.header("location")), &[], "").await;
    assert_eq!(refused.status, 409, "{refused:?}");
    assert_eq!(system.post(&format!("{}:cancel", again.header("location")), &[], "").await.status, 200);
    let removed = delete(&system, &path).await;
    assert_eq!((removed.status, removed.body.len()), (204, 0), "{removed:?}");
    assert_eq!(system.get(&path).await.status, 404);
}

#[tokio::test]
async fn operations_are_listed_in_pages_and_what_is_not_known_is_refused() {
    let system = start().await;
    for n in 0..3 {
        ended(&system, &submit(&system, "in_echo", json!({ "n": n })).await).await;
    }
    let mut names = Vec::new();
    let mut token = String::new();
    loop {
        let answer = system.get(&format!("/operations?page_size=2&page_token={token}")).await;
        let page = answer.json();
        names.extend(page["operations"].as_array().unwrap().iter().map(|it| it["name"].to_string()));
        let Some(next) = page["next_page_token"].as_str() else { break };
        token = next.to_owned();
    }
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 3);
    let listed = system.get("/operations?filter=done%20%3D%20false").await.json();
    assert_eq!(listed["operations"], json!([]));
    for (method, target, status) in [
        (Method::GET, "/operations?page_token=forged", 400),
        (Method::GET, "/operations?page_size=-1", 400),
        (Method::GET, "/operations?filter=color%20%3D%20red", 400),
        (Method::GET, "/operations?limit=1", 400),
        (Method::GET, "/operations/none", 404),
        (Method::GET, "/operations/none/events", 404),
        (Method::GET, "/operations/none/events?after=last", 400),
        (Method::DELETE, "/operations/none", 404),
        (Method::POST, "/operations/none:cancel", 404),
        (Method::POST, "/operations/none:retry", 404),
        (Method::POST, "/operations/none:stop", 404),
        (Method::POST, "/operations/none", 405),
        (Method::GET, "/operations/none:cancel", 405),
    ] {
        let answer = rest::send(system.address, method.clone(), target, &[], "").await;
        assert_eq!(answer.status, status, "{method} {target}: {answer:?}");
        assert_eq!(answer.json()["success"], false, "{method} {target}");
    }
}

#[tokio::test]
async fn another_principals_operation_does_not_exist() {
    let keys = Keys::new();
    let (ada, eve) = (keys.create("ada", &["--skills", "in_wait"]), keys.create("eve", &["--skills", "in_wait"]));
    let system = keys.up().with(STORE.0, STORE.1).start().await;
    let authorization = format!("Bearer {ada}");
    let headers = [("authorization", authorization.as_str()), ("prefer", "respond-async")];
    let answer = system.post("/skills/in_wait:invoke", &headers, r#"{"input": {"ms": 300000}}"#).await;
    assert_eq!(answer.status, 202, "{answer:?}");
    let path = answer.header("location");
    assert_eq!(get(&system, &ada, path).await.json()["metadata"]["principal"], "ada");
    for answer in [
        get(&system, &eve, path).await,
        get(&system, &eve, &format!("{path}/events")).await,
        post(&system, &eve, &format!("{path}:cancel"), "").await,
        post(&system, &eve, &format!("{path}:retry"), "").await,
    ] {
        assert_eq!((answer.status, answer.code().as_str()), (404, "NOT_FOUND"), "{answer:?}");
    }
    assert_eq!(get(&system, &eve, "/operations").await.json()["operations"], json!([]));
    assert_eq!(get(&system, &ada, "/operations").await.json()["operations"][0]["done"], false);
    assert_eq!(post(&system, &ada, &format!("{path}:cancel"), "").await.status, 200);
}

#[tokio::test]
async fn a_gateway_without_a_store_says_so() {
    let system = Setup::up().with(STORE.0, "off").start().await;
    for answer in [invoke(&system, "in_echo", json!({}), "respond-async").await, system.get("/operations").await] {
        assert_eq!((answer.status, answer.code().as_str()), (503, "UNAVAILABLE"), "{answer:?}");
    }
    assert_eq!(invoke(&system, "in_echo", json!({}), "wait=1").await.status, 200);
}
