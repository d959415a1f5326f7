//! The agent is killed after any of its events, and goes on where it was.

use std::time::Duration;

use openskill_tests::system::System;
use openskill_tests::wait::until;
use serde_json::json;

use super::wire::{Wire, calls, knowing, says};
use super::{JSON, Skills, all, chat, events};

/// Events of the whole turn.
const EVENTS: usize = 14;

/// Waits until the turn waits or ended, and answers what it asks. Whether it ended.
async fn goes_on(system: &System, id: &str) {
    loop {
        let state = until("the turn to wait or end", Duration::from_secs(60), || async {
            let conversation = system.get(&format!("/agent/conversations/{id}")).await.json();
            let state = conversation["state"].as_str()?.to_owned();
            (state != "running").then_some(state)
        })
        .await;
        if state == "idle" {
            return;
        }
        let events = events(system, id).await;
        let decided = all(&events, "decided");
        let open = all(&events, "approval_required")
            .into_iter()
            .find(|it| decided.iter().all(|d| d["request_id"] != it["request_id"]));
        let decision = json!({ "request_id": open.unwrap()["request_id"], "decision": "allow" });
        chat(system, json!({ "conversation_id": id, "decision": decision })).await;
    }
}

#[tokio::test]
async fn after_a_kill_finished_calls_do_not_run_again_and_lost_ones_are_told() {
    let mut unknown = 0;
    for n in 1..EVENTS {
        let skills = Skills::new();
        let (noted, again, wiped) = (skills.mark("noted"), skills.mark("again"), skills.mark("wiped"));
        let server = knowing(move |round| match round {
            0 => calls(&[
                ("note", json!({ "mark": noted, "seconds": 0.2 })),
                ("again", json!({ "mark": again, "seconds": 0.2 })),
            ]),
            1 => calls(&[("wipe", json!({ "mark": wiped, "seconds": 0.2 }))]),
            _ => says("done"),
        })
        .await;
        let setup = || Wire::Chat.configure(skills.setup(), &server);
        let system = setup().start().await;
        system.has_skill("note").await;
        system.has_skill("wipe").await;
        let id = begin(&system).await;
        let seen = reaches(&system, &id, n).await;
        kill(system).await;
        let system = setup().start().await;
        system.has_skill("note").await;
        system.has_skill("wipe").await;
        goes_on(&system, &id).await;
        let events = events(&system, &id).await;
        assert_eq!(events.last().unwrap().1["end"], "completed", "after {seen} events: {events:?}");
        let results = all(&events, "tool_result");
        assert_eq!(results.len(), 3, "after {seen} events: {events:?}");
        unknown += results.iter().filter(|it| it["unknown"] == true).count();
        assert!(skills.runs("noted") <= 1 && skills.runs("wiped") <= 1, "after {seen} events: {events:?}");
        assert!((1..=2).contains(&skills.runs("again")), "after {seen} events: {events:?}");
    }
    assert!(unknown > 0, "no kill fell into a call: the test shows too little");
}

/// Kills the gateway with its agent; its workers end by themselves.
async fn kill(mut system: System) {
    openskill_tests::processes::send(system.process.pid(), rustix::process::Signal::KILL);
    system.process.ended().await;
}

async fn begin(system: &System) -> String {
    let sse = ("accept", "text/event-stream");
    let (address, body) = (system.address, json!({ "message": "go" }).to_string());
    // The client goes away at once: the turn does not.
    let sent = tokio::spawn(async move {
        openskill_tests::rest::send(address, http::Method::POST, "/agent/chat", &[JSON, sse], body).await
    });
    let id = until("the conversation", Duration::from_secs(30), || async {
        let page = system.get("/agent/conversations").await.json();
        page["conversations"][0]["id"].as_str().map(str::to_owned)
    })
    .await;
    sent.abort();
    id
}

/// Lets the turn go on until its log has so many events. Approvals are given.
async fn reaches(system: &System, id: &str, wanted: usize) -> usize {
    until("the turn to get that far", Duration::from_secs(60), || async {
        let events = events(system, id).await;
        let is_waiting = events.last().is_some_and(|(name, _)| name == "waiting");
        if events.len() >= wanted || events.last().is_some_and(|(name, _)| name == "done") {
            return Some(events.len());
        }
        if is_waiting {
            let request_id = &all(&events, "approval_required")[0]["request_id"];
            let decision = json!({ "request_id": request_id, "decision": "allow" });
            let body = json!({ "conversation_id": id, "decision": decision }).to_string();
            let sse = ("accept", "text/event-stream");
            let headers = [JSON, sse];
            // Not to the end: the kill may fall into what follows.
            let sent = openskill_tests::rest::send(system.address, http::Method::POST, "/agent/chat", &headers, body);
            let _ = tokio::time::timeout(Duration::from_millis(50), sent).await;
        }
        None
    })
    .await
}
