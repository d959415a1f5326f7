//! Skills that are agents: called by a client, and by a conversation.

use std::time::Duration;

use openskill_proto::v1::invoke_event::Event;
use openskill_proto::v1::{InvokeRequest, invoke_request::Arguments};
use openskill_tests::backend::{Backend, Reply};
use openskill_tests::system::System;
use openskill_tests::wait::until;
use serde_json::{Value, json};

use super::wire::{self, Said, Wire, calls, says};
use super::{JSON, Skills, all, chat, events};

/// A folder with an agent, `researcher`, and a skill whose results hold text of strangers, `web`.
fn with_agent(tools: &str, more: &str) -> Skills {
    let skills = Skills::new();
    skills.folder.write(
        "skills/researcher.yaml",
        format!(
            "id: researcher\ntype: agent\ndescription: Finds things.\n{more}\
             agent:\n  prompt: You are the researcher.\n  tools: [{tools}]\n"
        ),
    );
    let web = "id: web\ntype: cli\nruntime: python\nentry: moody.py\nread_only: true\nuntrusted: true\n";
    skills.folder.write("skills/web.yaml", web);
    skills
}

/// A model that is the researcher and whoever calls it, each by how many replies it gave since its task.
async fn two(
    caller: impl Fn(usize) -> Said + Send + Sync + 'static,
    researcher: impl Fn(usize) -> Said + Send + Sync + 'static,
) -> Backend {
    Backend::start(move |seen| {
        let body = seen.json();
        let messages = body["messages"].as_array().unwrap();
        let is_researcher = messages[0]["content"].as_str().unwrap().starts_with("You are the researcher.");
        let since = messages.iter().rev().take_while(|it| it["role"] != "user");
        let round = since.filter(|it| it["role"] == "assistant").count();
        // At a limit, no call is possible.
        let said = match body["tool_choice"] == "none" {
            true => says("that is all"),
            false if is_researcher => researcher(round),
            false => caller(round),
        };
        Reply::new(200, "text/event-stream", wire::chat(&said))
    })
    .await
}

fn delegates(round: usize) -> Said {
    if round == 0 { calls(&[("researcher", json!({ "task": "find it" }))]) } else { says("the researcher found it") }
}

async fn start(skills: &Skills, model: &Backend) -> System {
    let system = Wire::Chat.configure(skills.setup(), model).start().await;
    for skill in ["researcher", "note", "web", "wipe"] {
        system.has_skill(skill).await;
    }
    system
}

#[tokio::test]
async fn a_client_calls_an_agent_like_any_skill() {
    let skills = with_agent("note", "");
    let noted = skills.mark("noted");
    let researcher = move |round| match round {
        0 => calls(&[("note", json!({ "mark": noted }))]),
        _ => says("it is in the drawer"),
    };
    let model = two(delegates, researcher).await;
    let system = start(&skills, &model).await;
    let answer = system.call("researcher", json!({ "task": "find it" })).await.json();
    assert_eq!(answer["data"], json!({ "answer": "it is in the drawer" }), "{answer}");
    assert_eq!((answer["meta"]["runner"].as_str(), skills.runs("noted")), (Some("agent"), 1), "{answer}");
    let used = &answer["meta"]["agent"];
    assert_eq!((&used["tool_calls"], &used["iterations"], &used["untrusted"]), (&json!(1), &json!(2), &json!(false)));
    assert_eq!(used["input_tokens"], 200, "{used}");
    let described = system.get("/skills/researcher").await.json();
    assert_eq!(described["input_schema"]["required"], json!(["task"]), "{described}");
    assert_eq!(described["agent"]["tools"], json!(["note"]), "{described}");
    assert!(!described.to_string().contains("You are the researcher"), "its instructions are not for callers");
    let tools = system.get("/tools?dialect=openai").await.json();
    assert!(tools.to_string().contains("\"researcher\""), "{tools}");
    let refused = system.call("researcher", json!({ "task": 1.5 })).await;
    assert_eq!(refused.code(), "INVALID_ARGUMENT", "{refused:?}");
}

#[tokio::test]
async fn a_caller_that_listens_sees_what_an_agent_calls() {
    let skills = with_agent("echo", "");
    let model = two(delegates, |round| match round {
        0 => calls(&[("echo", json!({ "text": "hello" }))]),
        _ => says("done"),
    })
    .await;
    let system = start(&skills, &model).await;
    let input = json!({ "task": "say hello" }).to_string();
    let request = InvokeRequest {
        skill_id: "researcher".to_owned(),
        arguments: Some(Arguments::InputJson(input)),
        ..InvokeRequest::default()
    };
    let mut stream = system.skills().await.invoke_stream(request).await.unwrap().into_inner();
    let (mut progress, mut result) = (Vec::new(), None);
    while let Some(event) = stream.message().await.unwrap() {
        match event.event {
            Some(Event::Progress(it)) => progress.push(it.message),
            Some(Event::Result(it)) => result = Some(it),
            _ => {}
        }
    }
    assert_eq!(progress, ["calling echo"]);
    assert!(result.unwrap().success);
}

#[tokio::test]
async fn an_agent_that_can_t_run_here_is_listed_with_the_reason() {
    for (name, value, word) in
        [("OPENSKILL_AGENT", "off", "OPENSKILL_AGENT"), ("OPENSKILL_AGENT", "on", "OPENAI_API_KEY")]
    {
        let skills = with_agent("echo", "");
        let system = skills.setup().with(name, value).start().await;
        system.has_skill("echo").await;
        let described = system.get("/skills/researcher").await.json();
        assert_eq!(described["status"], "unavailable", "{described}");
        assert!(described["status_reason"].as_str().unwrap().contains(word), "{described}");
        let answer = system.call("researcher", json!({ "task": "find it" })).await;
        assert_eq!(answer.code(), "UNAVAILABLE", "{answer:?}");
        assert!(answer.json()["error"]["message"].as_str().unwrap().contains(word), "{answer:?}");
    }
}

#[tokio::test]
async fn a_conversation_delegates_and_pays_for_it() {
    let skills = with_agent("note", "");
    let noted = skills.mark("noted");
    // It calls for as long as it may.
    let researcher = move |round| calls(&[("note", json!({ "mark": noted, "n": round }))]);
    let model = two(delegates, researcher).await;
    let system = start(&skills, &model).await;
    let limits = json!({ "max_tool_calls": 4 });
    let answer = chat(&system, json!({ "message": { "text": "find it", "limits": limits } })).await;
    assert_eq!(
        (&answer["done"]["end"], &answer["done"]["limit"]),
        (&json!("limit"), &json!("max_tool_calls")),
        "{answer}"
    );
    assert_eq!(skills.runs("noted"), 3, "the call of the agent is the fourth: {answer}");
    assert_eq!(answer["done"]["usage"]["tool_calls"], 4, "{answer}");
    let events = events(&system, answer["conversation_id"].as_str().unwrap()).await;
    let result = all(&events, "tool_result")[0];
    assert!(result["content"].as_str().unwrap().contains("that is all"), "{result}");
    let listed = system.get("/agent/conversations").await.json();
    assert_eq!(listed["conversations"].as_array().unwrap().len(), 1, "{listed}");
}

#[tokio::test]
async fn an_agent_gets_nothing_that_needs_approval_and_its_taint_goes_up() {
    let skills = with_agent("web, wipe, note", "");
    let (wiped, noted, later) = (skills.mark("wiped"), skills.mark("noted"), skills.mark("later"));
    let researcher = move |round| match round {
        0 => calls(&[("wipe", json!({ "mark": wiped }))]),
        1 => calls(&[("web", json!({}))]),
        2 => calls(&[("note", json!({ "mark": noted }))]),
        _ => says("I read a page"),
    };
    let caller = move |round| match round {
        0 => calls(&[("researcher", json!({ "task": "find it" }))]),
        1 => calls(&[("note", json!({ "mark": later }))]),
        _ => says("done"),
    };
    let model = two(caller, researcher).await;
    let system = start(&skills, &model).await;
    let answer = chat(&system, json!({ "message": "find it" })).await;
    assert_eq!(answer["done"]["end"], "waiting", "{answer}");
    assert_eq!((skills.runs("wiped"), skills.runs("noted"), skills.runs("later")), (0, 0, 0));
    let events = events(&system, answer["conversation_id"].as_str().unwrap()).await;
    let asked = all(&events, "approval_required")[0];
    assert_eq!((&asked["skill_id"], &asked["tainted"]), (&json!("note"), &json!(true)), "{asked}");
    let result = all(&events, "tool_result")[0];
    assert!(result["content"].as_str().unwrap().contains("untrusted data"), "{result}");
}

#[tokio::test]
async fn a_client_that_goes_away_ends_the_agent_and_what_it_called() {
    let skills = with_agent("note", "");
    let (begun, late) = (skills.mark("begun"), skills.mark("late"));
    let researcher = move |round| match round {
        0 => calls(&[("note", json!({ "mark": begun, "seconds": 60 }))]),
        _ => calls(&[("note", json!({ "mark": late }))]),
    };
    let model = two(delegates, researcher).await;
    let system = start(&skills, &model).await;
    let (address, body) = (system.address, json!({ "input": { "task": "find it" } }).to_string());
    let sent = tokio::spawn(async move {
        let path = "/skills/researcher:invoke";
        openskill_tests::rest::send(address, http::Method::POST, path, &[JSON], body).await
    });
    let has_begun = || async { (skills.runs("begun") == 1).then_some(()) };
    until("the agent's call to begin", Duration::from_secs(30), has_begun).await;
    sent.abort();
    let is_idle = || async {
        let workers = system.workers().await;
        workers.iter().all(|it| it.in_flight == 0).then_some(())
    };
    until("the call of the agent to end", Duration::from_secs(20), is_idle).await;
    assert_eq!(skills.runs("late"), 0);
}

#[tokio::test]
async fn an_agent_answers_before_its_deadline_or_ends_there() {
    let skills = with_agent("note", "timeout_ms: 4000\n");
    let begun = skills.mark("begun");
    let model = two(delegates, move |_| calls(&[("note", json!({ "mark": begun, "seconds": 60 }))])).await;
    let system = start(&skills, &model).await;
    let answer = system.call("researcher", json!({ "task": "find it" })).await.json();
    assert_eq!(answer["data"], json!({ "answer": "that is all", "limit": "timeout_ms" }), "{answer}");
    assert_eq!((&answer["meta"]["truncated"], &answer["meta"]["agent"]["tool_calls"]), (&json!(true), &json!(1)));
    let skills = with_agent("note", "timeout_ms: 4000\n");
    let silent = Backend::start(|_| Reply::pieces("text/event-stream", futures_util::stream::pending())).await;
    let system = start(&skills, &silent).await;
    let answer = system.call("researcher", json!({ "task": "find it" })).await;
    assert_eq!(answer.code(), "TIMEOUT", "{answer:?}");
}

#[tokio::test]
async fn after_a_kill_the_outcome_of_an_agent_is_unknown_unless_it_may_run_twice() {
    for (more, unknown) in [("", true), ("idempotent: true\n", false)] {
        let skills = with_agent("note", more);
        let begun = skills.mark("begun");
        let researcher = move |round| match round {
            0 => calls(&[("note", json!({ "mark": begun, "seconds": 2 }))]),
            _ => says("found"),
        };
        let model = two(delegates, researcher).await;
        let mut system = start(&skills, &model).await;
        let (address, body) = (system.address, json!({ "message": "find it" }).to_string());
        let sent = tokio::spawn(async move {
            openskill_tests::rest::send(address, http::Method::POST, "/agent/chat", &[JSON], body).await
        });
        let has_begun = || async { (skills.runs("begun") == 1).then_some(()) };
        until("the agent's call to begin", Duration::from_secs(30), has_begun).await;
        let id = system.get("/agent/conversations").await.json()["conversations"][0]["id"].clone();
        openskill_tests::processes::send(system.process.pid(), rustix::process::Signal::KILL);
        system.process.ended().await;
        sent.abort();
        let system = start(&skills, &model).await;
        let path = format!("/agent/conversations/{}", id.as_str().unwrap());
        until("the turn to end", Duration::from_secs(60), || async {
            (system.get(&path).await.json()["state"] == "idle").then_some(())
        })
        .await;
        let events = events(&system, id.as_str().unwrap()).await;
        let results = all(&events, "tool_result");
        assert_eq!(results.len(), 1, "{events:?}");
        assert_eq!(results[0]["unknown"] == true, unknown, "{results:?}");
        assert_eq!(skills.runs("begun"), if unknown { 1 } else { 2 });
        let done: &Value = &events.last().unwrap().1;
        // One that was lost counts as if it had used all that was left.
        let (text, limit) =
            if unknown { ("that is all", json!("max_tool_calls")) } else { ("the researcher found it", Value::Null) };
        assert_eq!((&done["text"], &done["limit"]), (&json!(text), &limit), "{done}");
    }
}
