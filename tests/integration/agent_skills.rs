//! Calls of an agent: to the gateway in its own process, and to one elsewhere over gRPC.

use std::net::SocketAddr;

use http::Method;
use openskill_tests::backend::{Backend, Reply, Seen};
use openskill_tests::rest::{self, Answer};
use openskill_tests::system::{PATIENCE, Process, Setup, System};
use openskill_tests::wait::until;
use openskill_tests::{fixtures, repository};
use serde_json::{Value, json};

const JSON: (&str, &str) = ("content-type", "application/json");
const SSE: (&str, &str) = ("accept", "text/event-stream");

/// A model that calls one skill, and then says what the skill returned.
async fn caller_of(skill: &'static str, arguments: Value) -> Backend {
    let arguments = arguments.to_string();
    Backend::start(move |seen: &Seen| {
        let body = seen.json();
        let last = body["messages"].as_array().unwrap().last().unwrap().clone();
        let is_over = last["role"] == "tool";
        let delta = if is_over {
            json!({ "content": last["content"] })
        } else {
            let function = json!({ "name": skill, "arguments": arguments });
            json!({ "tool_calls": [{ "index": 0, "id": "1", "type": "function", "function": function }] })
        };
        let reason = if is_over { "stop" } else { "tool_calls" };
        let chunk = json!({ "choices": [{ "index": 0, "delta": delta, "finish_reason": reason }] });
        Reply::new(200, "text/event-stream", format!("data: {chunk}\n\ndata: [DONE]\n\n"))
    })
    .await
}

/// An agent, and the gateway whose skills it calls.
struct Agent {
    address: SocketAddr,
    system: System,
    _alone: Option<Process>,
}

impl Agent {
    async fn chat(&self, headers: &[(&str, &str)], body: Value) -> Answer {
        let headers: Vec<_> = std::iter::once(&JSON).chain(headers).copied().collect();
        rest::send(self.address, Method::POST, "/agent/chat", &headers, body.to_string()).await
    }

    async fn calls_in_flight(&self) -> String {
        let text = String::from_utf8_lossy(&self.system.get("/metrics").await.body).into_owned();
        text.lines().find(|line| line.starts_with("openskill_calls_in_flight ")).unwrap_or_default().to_owned()
    }
}

/// The skills that misbehave, and those that ship: with them comes the SDK.
fn skills() -> Setup {
    Setup::with_skills(&[&fixtures(), &repository().join("worker/skills")])
}

async fn in_process(model: &Backend) -> Agent {
    let system = skills().with("OPENAI_API_BASE", model.url("/v1")).with("OPENAI_MODEL", "m").start().await;
    Agent { address: system.address, system, _alone: None }
}

async fn elsewhere(model: &Backend) -> Agent {
    let system = skills().with("OPENSKILL_AGENT", "off").start().await;
    let alone = Setup::command(&["agent", "--listen", "127.0.0.1:0", "--gateway", &system.url()]);
    let alone = alone.with("OPENAI_API_BASE", model.url("/v1")).with("OPENAI_MODEL", "m").spawn();
    let line = alone.log.line(&["agent listening", "address="]).await;
    let address = line.split("address=").nth(1).unwrap().split_whitespace().next().unwrap().parse().unwrap();
    until("the agent is ready", PATIENCE, || async {
        (rest::send(address, Method::GET, "/readyz", &[], "").await.status == 200).then_some(())
    })
    .await;
    Agent { address, system, _alone: Some(alone) }
}

/// The names of server-sent events, and their data.
fn events(answer: &Answer) -> Vec<(String, Value)> {
    let text = String::from_utf8_lossy(&answer.body).into_owned();
    let part = |event: &str, name: &str| event.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned);
    let event = |it: &str| Some((part(it, "event: ")?, serde_json::from_str(&part(it, "data: ")?).ok()?));
    text.split("\n\n").filter_map(event).collect()
}

#[tokio::test]
async fn progress_is_shown_before_the_result() {
    let model = caller_of("reports_progress", json!({})).await;
    for agent in [in_process(&model).await, elsewhere(&model).await] {
        let answer = agent.chat(&[SSE], json!({ "message": "go" })).await;
        let events = events(&answer);
        let names: Vec<_> =
            events.iter().map(|(name, _)| name.as_str()).filter(|it| !["text", "usage"].contains(it)).collect();
        let expected = ["started", "reply", "tool_call", "progress", "tool_result", "reply", "done"];
        assert_eq!(names, expected, "{answer:?}");
        let (_, progress) = events.iter().find(|(name, _)| name == "progress").unwrap();
        assert!(progress.to_string().contains("half"), "{progress}");
    }
}

#[tokio::test]
async fn a_question_of_a_skill_reaches_the_user_and_the_answer_reaches_the_skill() {
    let schema = json!({ "type": "object", "properties": { "colour": { "type": "string" } }, "required": ["colour"] });
    let model = caller_of("asks", json!({ "message": "Which colour?", "schema": schema })).await;
    for agent in [in_process(&model).await, elsewhere(&model).await] {
        let waiting = agent.chat(&[], json!({ "message": "paint it" })).await.json();
        assert_eq!(waiting["done"]["end"], "waiting", "{waiting}");
        let all = waiting["events"].as_array().unwrap();
        let asked = &all.iter().find(|it| it["event"] == "input_required").unwrap()["data"];
        let answers = json!({ "request_id": asked["request_id"], "answers": [{ "id": "colour", "answer": "teal" }] });
        let body = json!({ "conversation_id": waiting["conversation_id"], "answers": answers });
        let answer = agent.chat(&[], body).await.json();
        assert_eq!(answer["done"]["end"], "completed", "{answer}");
        assert!(answer["done"]["text"].as_str().unwrap().contains("teal"), "{answer}");
    }
}

#[tokio::test]
async fn a_cancelled_turn_cancels_its_call_at_the_gateway() {
    let model = caller_of("naps", json!({ "seconds": 600 })).await;
    for agent in [in_process(&model).await, elsewhere(&model).await] {
        let body = json!({ "message": { "text": "sleep" } });
        let turn = async { agent.chat(&[], body).await.json() };
        let cancel = async {
            let running = async || (agent.calls_in_flight().await.ends_with(" 1")).then_some(());
            until("the call runs", PATIENCE, running).await;
            let all = rest::send(agent.address, Method::GET, "/agent/conversations", &[], "").await.json();
            let id = all["conversations"][0]["id"].clone();
            agent.chat(&[], json!({ "conversation_id": id, "cancel": {} })).await.json()
        };
        let (turn, cancelled) = tokio::join!(turn, cancel);
        assert_eq!((&turn["done"]["end"], &cancelled["done"]["end"]), (&json!("cancelled"), &json!("cancelled")));
        let ended = async || (agent.calls_in_flight().await.ends_with(" 0")).then_some(());
        until("the call has ended", PATIENCE, ended).await;
    }
}

#[tokio::test]
async fn a_gateway_that_is_lost_during_a_call_leaves_its_effect_unknown() {
    let model = caller_of("naps", json!({ "seconds": 600 })).await;
    let Agent { address, mut system, _alone } = elsewhere(&model).await;
    let agent = async || rest::send(address, Method::POST, "/agent/chat", &[JSON], r#"{"message": "sleep"}"#).await;
    let kill = async {
        let in_flight = async || {
            let text = String::from_utf8_lossy(&system.get("/metrics").await.body).into_owned();
            text.lines().any(|line| line == "openskill_calls_in_flight 1").then_some(())
        };
        until("the call runs", PATIENCE, in_flight).await;
        openskill_tests::processes::send(system.process.pid(), rustix::process::Signal::KILL);
    };
    let (answer, ()) = tokio::join!(agent(), kill);
    let answer = answer.json();
    let all = answer["events"].as_array().unwrap();
    let result = &all.iter().find(|it| it["event"] == "tool_result").unwrap()["data"];
    assert_eq!((&result["success"], &result["unknown"]), (&json!(false), &json!(true)), "{answer}");
    assert!(
        until("the gateway is gone", PATIENCE, || std::future::ready(system.process.has_ended().then_some(true))).await
    );
}
