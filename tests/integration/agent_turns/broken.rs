//! Providers and models that misbehave: a right result or a typed error, and no call lost or doubled.

use openskill_tests::backend::Reply;
use serde_json::{Value, json};

use super::wire::{Model, Step, Wire, calls, model, raw_call, says};
use super::{Skills, all, chat, cut_off, events};

async fn answered(steps: impl FnOnce(&Skills) -> Vec<Step>) -> (Skills, Value, Vec<(String, Value)>) {
    let skills = Skills::new();
    let Model { server, .. } = model(Wire::Chat, steps(&skills)).await;
    let system = Wire::Chat.configure(skills.setup(), &server).start().await;
    system.has_skill("note").await;
    let answer = chat(&system, json!({ "message": "go" })).await;
    let events = events(&system, answer["conversation_id"].as_str().unwrap()).await;
    (skills, answer, events)
}

#[tokio::test]
async fn a_provider_that_fails_for_a_while_is_asked_again_and_no_call_is_doubled() {
    for failing in [
        cut_off as fn() -> Reply,
        || Reply::new(429, "application/json", r#"{"error":{"message":"slow down"}}"#).with("retry-after", "1"),
        || Reply::new(529, "application/json", r#"{"error":{"message":"overloaded"}}"#),
        || Reply::new(500, "text/plain", "oops"),
    ] {
        let (skills, answer, _) = answered(|skills| {
            let note = calls(&[("note", json!({ "mark": skills.mark("noted") }))]);
            vec![note.into(), Step::Other(failing), says("done").into()]
        })
        .await;
        assert_eq!(
            (&answer["done"]["end"], &answer["done"]["text"]),
            (&json!("completed"), &json!("done")),
            "{answer}"
        );
        assert_eq!(skills.runs("noted"), 1);
    }
}

#[tokio::test]
async fn a_provider_that_keeps_failing_ends_the_turn_with_its_error() {
    for (failing, wanted) in [
        (cut_off as fn() -> Reply, "cut off"),
        (|| Reply::new(401, "application/json", r#"{"error":{"message":"bad key"}}"#), "401"),
        (|| Reply::new(200, "text/event-stream", "data: {\"choices\":[]}\n\ndata: [DONE]\n\n"), "openai"),
        (|| Reply::new(200, "text/html", "<html>a login page</html>"), "openai"),
    ] {
        let (_, answer, _) = answered(|_| vec![Step::Other(failing)]).await;
        assert_eq!(answer["done"]["end"], "failed", "{answer}");
        assert!(answer["done"]["error"].as_str().unwrap().contains(wanted), "{wanted}: {answer}");
        assert!(!answer.to_string().contains("sk-test-0123456789abcdef"));
    }
}

#[tokio::test]
async fn odd_calls_get_a_result_each() {
    let mut equal = calls(&[("echo", json!({ "text": "a" })), ("echo", json!({ "text": "b" }))]);
    equal.same_ids();
    let (_, answer, events) = answered(|_| {
        vec![
            raw_call("1", "echo", "[1, 2,]").into(),
            raw_call("1", "no_such_tool", "{}").into(),
            equal.into(),
            raw_call("4", "calculator", r#"{"numbers":[12345678901234567890123],"ops":["max"]}"#).into(),
            says("done").into(),
        ]
    })
    .await;
    assert_eq!(answer["done"]["end"], "completed", "{answer}");
    let results = all(&events, "tool_result");
    let codes: Vec<_> = results.iter().map(|it| it["code"].as_str().unwrap_or("")).collect();
    assert_eq!(codes, ["INVALID_JSON", "NOT_FOUND", "", "", ""], "{events:?}");
    let ids: std::collections::BTreeSet<_> = results.iter().map(|it| it["call_id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), 5, "{ids:?}");
    assert!(results[4]["content"].as_str().unwrap().contains("12345678901234567890123"), "{events:?}");
}
