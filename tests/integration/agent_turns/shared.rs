//! Gateways with one database share conversations.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use openskill_proto::v1::WatchConversationRequest;
use openskill_proto::v1::agent_service_client::AgentServiceClient;
use openskill_proto::v1::chat_event::Event;
use openskill_tests::postgres::{Postgres, Server};
use openskill_tests::system::PATIENCE;
use openskill_tests::wait::until;
use serde_json::{Value, json};

use super::wire::{Wire, calls, knowing, says};
use super::{JSON, Skills, all, chat, events};

#[tokio::test]
async fn a_conversation_is_listed_watched_and_continued_at_another_gateway() {
    let Some(programs) = Postgres::or_skip() else { return };
    let server = Server::start(&programs).await;
    let (skills, url) = (Skills::new(), server.url(&server.database()));
    let (wiped, asked) = (skills.mark("wiped"), AtomicUsize::new(0));
    let model = knowing(move |round| match round {
        0 => calls(&[("wipe", json!({ "mark": wiped, "n": asked.fetch_add(1, Ordering::Relaxed) }))]),
        _ => says("it is gone"),
    })
    .await;
    let start = async || {
        let system = Wire::Chat.configure(skills.setup_on(&url), &model).start().await;
        system.has_skill("wipe").await;
        system
    };
    let (one, other) = (start().await, start().await);
    let answer = chat(&one, json!({ "message": "wipe it" })).await;
    assert_eq!(answer["done"]["end"], "waiting", "{answer}");
    let id = answer["conversation_id"].as_str().unwrap();
    let listed = other.get("/agent/conversations").await.json();
    assert_eq!(
        (&listed["conversations"][0]["id"], &listed["conversations"][0]["title"]),
        (&json!(id), &json!("wipe it"))
    );

    // A watcher at the first gateway sees what the other one writes.
    let mut agent = AgentServiceClient::new(one.channel().await);
    let request = WatchConversationRequest { conversation_id: id.to_owned(), ..WatchConversationRequest::default() };
    let mut watched = agent.watch_conversation(request).await.unwrap().into_inner();
    let decision = |events: &[(String, Value)]| {
        let request_id = all(events, "approval_required").last().unwrap()["request_id"].clone();
        json!({ "conversation_id": id, "decision": { "request_id": request_id, "decision": "allow" } })
    };
    let answer = chat(&other, decision(&events(&other, id).await)).await;
    assert_eq!((&answer["done"]["end"], &answer["done"]["text"]), (&json!("completed"), &json!("it is gone")));
    assert_eq!(skills.runs("wiped"), 1);
    let done = async { while !matches!(watched.message().await.unwrap().unwrap().event, Some(Event::Done(_))) {} };
    tokio::time::timeout(PATIENCE, done).await.unwrap();

    // The first gateway still has its turn in memory, which no longer counts.
    let answer = chat(&one, json!({ "conversation_id": id, "message": "and again" })).await;
    assert_eq!(answer["done"]["end"], "waiting", "{answer}");
    let answer = chat(&one, decision(&events(&one, id).await)).await;
    assert_eq!((&answer["done"]["end"], skills.runs("wiped")), (&json!("completed"), 2), "{answer}");
    let numbers = events(&other, id).await.iter().map(|(_, data)| data["number"].as_u64().unwrap()).collect::<Vec<_>>();
    assert!(numbers.iter().copied().eq(1..=numbers.len() as u64), "{numbers:?}");
}

#[tokio::test]
async fn a_turn_is_not_repeated_by_another_gateway_which_can_cancel_it() {
    let Some(programs) = Postgres::or_skip() else { return };
    let server = Server::start(&programs).await;
    let (skills, url) = (Skills::new(), server.url(&server.database()));
    let mark = skills.mark("noted");
    let model = knowing(move |_| calls(&[("note", json!({ "mark": mark, "seconds": 60 }))])).await;
    let start = async || {
        let system = Wire::Chat.configure(skills.setup_on(&url), &model).start().await;
        system.has_skill("note").await;
        system
    };
    let (one, other) = (start().await, start().await);
    let running = chat(&one, json!({ "message": "be slow" }));
    let cancelling = async {
        let id = until("the call to run", Duration::from_secs(30), || async {
            let page = other.get("/agent/conversations").await.json();
            let id = page["conversations"][0]["id"].as_str()?.to_owned();
            (skills.runs("noted") == 1).then_some(id)
        })
        .await;
        let message = json!({ "conversation_id": id, "message": "and now?" }).to_string();
        let refused = other.post("/agent/chat", &[JSON], message).await;
        assert_eq!((refused.status, refused.code().as_str()), (409, "CONVERSATION_BUSY"), "{refused:?}");
        chat(&other, json!({ "conversation_id": id, "cancel": {} })).await
    };
    let (answer, cancelled) = tokio::join!(running, cancelling);
    assert_eq!(answer["done"]["end"], "cancelled", "{answer}");
    assert_eq!(cancelled["done"]["end"], "cancelled", "{cancelled}");
    assert_eq!(skills.runs("noted"), 1);
}
