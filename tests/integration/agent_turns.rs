//! Whole turns of the agent, against scripted models in the wire format of each provider.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use openskill_proto::v1::agent_service_client::AgentServiceClient;
use openskill_proto::v1::chat_request::Request;
use openskill_proto::v1::{ChatRequest, UserMessage};
use openskill_tests::backend::Reply;
use openskill_tests::folder::Folder;
use openskill_tests::repository;
use openskill_tests::system::{Setup, System};
use openskill_tests::wait::until;
use serde_json::{Value, json};
use tonic::Code;

mod broken;
mod delegated;
mod restarts;
mod secrets;
mod shared;
mod unanswered;
pub(crate) mod wire;

use wire::{Model, Step, Wire, calls, model, says};

const JSON: (&str, &str) = ("content-type", "application/json");

/// Skills that note each run in a file, beside those that ship.
struct Skills {
    folder: Folder,
}

impl Skills {
    fn new() -> Self {
        let folder = Folder::new();
        std::fs::create_dir_all(folder.path().join("skills")).unwrap();
        std::fs::create_dir_all(folder.path().join("data")).unwrap();
        let script = repository().join("tests/fixtures/skills/moody.py");
        folder.write("skills/moody.py", std::fs::read(script).unwrap());
        for (id, more) in [
            ("note", "read_only: false"),
            ("again", "idempotent: true"),
            ("wipe", "destructive: true"),
            ("moody", "read_only: true"),
        ] {
            let manifest =
                format!("id: {id}\ntype: cli\nruntime: python\nentry: moody.py\ntimeout_ms: 20000\n{more}\n");
            folder.write(&format!("skills/{id}.yaml"), manifest);
        }
        Self { folder }
    }

    fn setup(&self) -> Setup {
        let shipped = repository().join("worker/skills");
        let own = self.folder.path().join("skills");
        let setup = Setup::with_skills(&[&own, &shipped]).flag("--workers", 1).data(&self.data());
        setup.with("OPENSKILL_AGENT_STORE", self.store().display())
    }

    /// Without a place for conversations.
    fn setup_on(&self, database: &str) -> Setup {
        self.setup().with("OPENSKILL_AGENT_STORE", "").with("OPENSKILL_STORE", database)
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn store(&self) -> PathBuf {
        self.folder.path().join("conversations.sqlite")
    }

    /// A file that a skill notes its runs in.
    fn mark(&self, name: &str) -> String {
        self.data().join(name).display().to_string()
    }

    /// How often skills ran.
    fn runs(&self, name: &str) -> usize {
        std::fs::read_to_string(Path::new(&self.mark(name))).map_or(0, |it| it.lines().count())
    }
}

/// Sends to the agent, and returns its answer.
async fn chat(system: &System, body: Value) -> Value {
    let answer = system.post("/agent/chat", &[JSON], body.to_string()).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()
}

/// The events of a conversation that are kept, with their names.
async fn events(system: &System, id: &str) -> Vec<(String, Value)> {
    let answer = system.get(&format!("/agent/conversations/{id}/events?follow=false")).await;
    let text = String::from_utf8_lossy(&answer.body).into_owned();
    let event = |line: &str| {
        let event: Value = serde_json::from_str(line).unwrap();
        (event["event"].as_str().unwrap().to_owned(), event["data"].clone())
    };
    text.lines().map(event).collect()
}

/// The data of the events with this name.
fn all<'a>(events: &'a [(String, Value)], name: &str) -> Vec<&'a Value> {
    events.iter().filter(|(it, _)| it == name).map(|(_, data)| data).collect()
}

fn steps(skills: &Skills) -> Vec<Step> {
    let fail = |n: usize| calls(&[("moody", json!({ "fail": true, "n": n }))]).into();
    vec![
        calls(&[("calculator", json!({ "numbers": "many", "ops": ["mean"] }))]).into(),
        calls(&[("calculator", json!({ "numbers": ["10.5", 9.5], "ops": ["mean"] }))]).into(),
        calls(&[("echo", json!({ "text": "one" })), ("file_search", json!({ "query": "nothing" }))]).into(),
        fail(1),
        fail(2),
        calls(&[("echo", json!({ "text": "two" }))]).into(),
        fail(3),
        fail(4),
        calls(&[("ask_user", json!({ "questions": [{ "id": "sure", "text": "Sure?", "type": "confirm" }] }))]).into(),
        calls(&[("wipe", json!({ "mark": skills.mark("wiped") }))]).into(),
        says("All is done: **10**.").into(),
    ]
}

#[tokio::test]
async fn a_task_with_mistakes_a_circuit_a_question_and_an_approval_ends_well_on_every_wire() {
    for wire in Wire::ALL {
        let skills = Skills::new();
        let Model { server, bodies } = model(wire, steps(&skills)).await;
        let setup = wire.configure(skills.setup(), &server).with("OPENSKILL_AGENT_MAX_TOOL_CALLS", 20);
        let system = setup.with("OPENSKILL_AGENT_MAX_ITERATIONS", 20).start().await;
        system.has_skill("wipe").await;
        let answer = chat(&system, json!({ "message": "do everything" })).await;
        assert_eq!(answer["done"]["end"], "waiting", "{wire:?}: {answer}");
        let id = answer["conversation_id"].as_str().unwrap().to_owned();
        let question = events(&system, &id).await;
        let request_id = all(&question, "input_required")[0]["request_id"].clone();
        let answers = json!({ "request_id": request_id, "answers": [{ "id": "sure", "answer": "true" }] });
        let answer = chat(&system, json!({ "conversation_id": id, "answers": answers })).await;
        assert_eq!((answer["done"]["end"].as_str(), skills.runs("wiped")), (Some("waiting"), 0), "{wire:?}: {answer}");
        let asked = events(&system, &id).await;
        let approval = all(&asked, "approval_required")[0];
        assert_eq!(
            (&approval["skill_id"], &approval["arguments"]["mark"]),
            (&json!("wipe"), &json!(skills.mark("wiped")))
        );
        let decision = json!({ "request_id": approval["request_id"], "decision": "allow" });
        let answer = chat(&system, json!({ "conversation_id": id, "decision": decision })).await;
        assert_eq!(answer["done"]["end"], "completed", "{wire:?}: {answer}");
        assert_eq!(answer["done"]["text"], "All is done: **10**.");
        assert_eq!(skills.runs("wiped"), 1);
        let events = events(&system, &id).await;
        check_results(wire, &events);
        // The repair of "10.5" is shown, and the circuit took the tool out of the list.
        let repaired = all(&events, "tool_call").iter().any(|it| !it["repairs"].as_array().unwrap().is_empty());
        assert!(repaired, "{wire:?}: {events:?}");
        let last = bodies.lock().unwrap().last().unwrap().clone();
        assert!(last.contains("These tools can't be called at the moment"), "{wire:?}: {last}");
        is_one_trace(&system, &events).await;
    }
}

fn check_results(wire: Wire, events: &[(String, Value)]) {
    let codes: Vec<_> =
        all(events, "tool_result").iter().map(|it| it["code"].as_str().unwrap_or("").to_owned()).collect();
    let failed = "EXECUTION_ERROR";
    let wanted = ["INVALID_ARGUMENT", "", "", "", failed, failed, "", failed, "CIRCUIT_OPEN", "", ""];
    assert_eq!(codes, wanted, "{wire:?}");
    let numbers: Vec<_> = events.iter().map(|(_, data)| data["number"].as_u64().unwrap()).collect();
    assert!(numbers.iter().copied().eq(1..=numbers.len() as u64), "{wire:?}: {numbers:?}");
}

/// All calls of a turn are calls of its trace.
async fn is_one_trace(system: &System, events: &[(String, Value)]) {
    let trace_id = all(events, "started")[0]["trace_id"].as_str().unwrap().to_owned();
    let path = format!("/traces/{trace_id}");
    let has_all = || async {
        let found = system.get(&path).await.json();
        let events = found["events"].as_array().cloned().unwrap_or_default();
        let calls: BTreeSet<_> = events.iter().filter_map(|it| it["call"].as_str().map(str::to_owned)).collect();
        (calls.len() >= 8).then_some(())
    };
    until("the calls of the turn to be recorded under its trace", Duration::from_secs(20), has_all).await;
}

#[tokio::test]
async fn limits_hold_exactly_and_a_last_request_has_no_tools() {
    let skills = Skills::new();
    let marks = skills.mark("noted");
    let endless: Vec<Step> = (0..9).map(|n| calls(&[("note", json!({ "mark": marks, "n": n }))]).into()).collect();
    let Model { server, bodies } = model(Wire::Chat, endless).await;
    let system = Wire::Chat.configure(skills.setup(), &server).start().await;
    system.has_skill("note").await;
    let limits = json!({ "max_tool_calls": 3 });
    let answer = chat(&system, json!({ "message": { "text": "note it", "limits": limits } })).await;
    assert_eq!(
        (&answer["done"]["end"], &answer["done"]["limit"]),
        (&json!("limit"), &json!("max_tool_calls")),
        "{answer}"
    );
    assert_eq!(skills.runs("noted"), 3);
    let last: Value = serde_json::from_str(bodies.lock().unwrap().last().unwrap()).unwrap();
    assert_eq!(last["tool_choice"], "none");
    assert_eq!(bodies.lock().unwrap().len(), 4);
}

#[tokio::test]
async fn a_cancelled_turn_kills_its_call_and_starts_nothing() {
    let skills = Skills::new();
    let slow = calls(&[("note", json!({ "seconds": 60 })), ("note", json!({ "mark": skills.mark("late") }))]);
    let Model { server, .. } = model(Wire::Chat, vec![slow.into()]).await;
    let system = Wire::Chat.configure(skills.setup(), &server).start().await;
    system.has_skill("note").await;
    let running = async { chat(&system, json!({ "message": "be slow" })).await };
    let cancelling = async {
        let conversation = until("the call to begin", Duration::from_secs(30), || async {
            let page = system.get("/agent/conversations").await.json();
            let id = page["conversations"][0]["id"].as_str()?.to_owned();
            let begun = events(&system, &id).await;
            (!all(&begun, "tool_call").is_empty()).then_some(id)
        })
        .await;
        chat(&system, json!({ "conversation_id": conversation, "cancel": {} })).await
    };
    let (answer, _) = tokio::join!(running, cancelling);
    assert_eq!(answer["done"]["end"], "cancelled", "{answer}");
    let id = answer["conversation_id"].as_str().unwrap();
    let events = events(&system, id).await;
    assert_eq!(all(&events, "tool_result").len(), 2, "{events:?}");
    assert_eq!(skills.runs("late"), 0);
}

#[tokio::test]
async fn a_message_to_a_busy_conversation_is_refused_as_a_conflict() {
    let skills = Skills::new();
    let slow = calls(&[("note", json!({ "seconds": 60 }))]);
    let Model { server, .. } = model(Wire::Chat, vec![slow.into()]).await;
    let system = Wire::Chat.configure(skills.setup(), &server).start().await;
    system.has_skill("note").await;
    let running = async { chat(&system, json!({ "message": "be slow" })).await };
    let busy = async {
        let conversation = until("the turn to begin", Duration::from_secs(30), || async {
            let page = system.get("/agent/conversations").await.json();
            page["conversations"][0]["id"].as_str().map(str::to_owned)
        })
        .await;
        let message = json!({ "conversation_id": conversation, "message": "and now?" }).to_string();
        let refused = system.post("/agent/chat", &[JSON], message).await;
        assert_eq!((refused.status, refused.code().as_str()), (409, "CONVERSATION_BUSY"), "{refused:?}");
        let message = UserMessage { text: "and now?".to_owned(), ..UserMessage::default() };
        let request = ChatRequest { conversation_id: conversation.clone(), request: Some(Request::Message(message)) };
        let mut agent = AgentServiceClient::new(system.channel().await);
        let refused = match agent.chat(tokio_stream::iter([request])).await {
            Ok(stream) => stream.into_inner().message().await.unwrap_err(),
            Err(status) => status,
        };
        assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
        chat(&system, json!({ "conversation_id": conversation, "cancel": {} })).await
    };
    tokio::join!(running, busy);
}

/// A stream that ends before its answer does.
fn cut_off() -> Reply {
    let whole = wire::chat(&says("this is cut off"));
    Reply::new(200, "text/event-stream", whole[..whole.len() / 3].to_owned())
}
