//! `openskill chat` without anybody to answer.

use std::process::Output;

use openskill_tests::binary;
use serde_json::json;
use tokio::process::Command;

use super::{Model, Skills, System, Wire, all, calls, chat, events, model, says};

async fn run(system: &System, arguments: &[&str]) -> Output {
    let mut command = Command::new(binary());
    command.arg("chat").args(arguments).args(["--url", &system.url()]).stdin(std::process::Stdio::null());
    command.output().await.unwrap()
}

#[tokio::test]
async fn a_turn_that_waits_says_what_is_asked_and_options_make_a_choice() {
    let skills = Skills::new();
    let question = json!({ "id": "color", "text": "Which color?", "options": ["red", "blue"] });
    let wipes = json!({ "mark": skills.mark("wiped") });
    let steps = vec![
        calls(&[("ask_user", json!({ "questions": [question] }))]).into(),
        calls(&[("wipe", wipes)]).into(),
        says("done").into(),
    ];
    let Model { server, .. } = model(Wire::Chat, steps).await;
    let system = Wire::Chat.configure(skills.setup(), &server).start().await;
    system.has_skill("wipe").await;
    let asked = run(&system, &["-m", "go"]).await;
    let text = String::from_utf8(asked.stderr).unwrap();
    assert_eq!(asked.status.code(), Some(1), "{text}");
    assert!(text.contains("Which color? (1: red, 2: blue)\n") && text.contains("--resume conv_"), "{text}");
    let id = text.rsplit("--resume ").next().unwrap().trim().to_owned();
    let request_id = all(&events(&system, &id).await, "input_required")[0]["request_id"].clone();
    let answers = json!({ "request_id": request_id, "answers": [{ "id": "color", "answer": "2" }] });
    chat(&system, json!({ "conversation_id": id, "answers": answers })).await;
    assert_eq!(all(&events(&system, &id).await, "answered")[0]["answers"][0]["answer"], "blue");
    let asked = run(&system, &["--resume", &id]).await;
    let text = String::from_utf8(asked.stderr).unwrap();
    assert_eq!(asked.status.code(), Some(1), "{text}");
    assert!(text.contains("May wipe 0.0.0 run?") && text.contains(&skills.mark("wiped")), "{text}");
    assert!(!text.contains("1: red"), "{text}");
}
