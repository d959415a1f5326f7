//! A secret that a user gave reaches the skill, and nothing else.

use std::path::{Path, PathBuf};

use openskill_tests::backend::{Backend, Reply};
use openskill_tests::folder::Folder;
use serde_json::json;

use super::wire::{Wire, calls, chat as frames, says};
use super::{Skills, all, chat, events};

const SECRET: &str = "zebra-7f3a-quartz-91";

/// A model that asks for a key, and notes and repeats what it gets for it.
async fn asks_for_a_key(mark: String) -> Backend {
    Backend::start(move |seen| {
        let body = seen.json();
        let messages = body["messages"].as_array().unwrap();
        let last = messages.last().unwrap();
        let content = last["content"].as_str().unwrap_or_default();
        let said = if last["role"] == "user" {
            let question = json!({ "id": "key", "text": "The key?", "type": "secret" });
            calls(&[("ask_user", json!({ "questions": [question] }))])
        } else if let Some((_, after)) = content.split_once(r#""$secret":""#) {
            let reference = json!({ "$secret": after.split('"').next().unwrap() });
            calls(&[("note", json!({ "mark": mark, "token": reference })), ("echo", json!({ "text": reference }))])
        } else {
            says("done")
        };
        Reply::new(200, "text/event-stream", frames(&said))
    })
    .await
}

#[tokio::test]
async fn a_users_secret_is_in_no_file_no_log_no_record_and_no_prompt() {
    let (skills, traces) = (Skills::new(), Folder::new());
    let model = asks_for_a_key(skills.mark("noted")).await;
    let setup = Wire::Chat.configure(skills.setup(), &model);
    let system = setup.with("OPENSKILL_TRACE_DIR", traces.path().display()).start().await;
    system.has_skill("note").await;
    system.has_skill("echo").await;
    let answer = chat(&system, json!({ "message": "log in" })).await;
    let id = answer["conversation_id"].as_str().unwrap().to_owned();
    let asked = events(&system, &id).await;
    let request_id = all(&asked, "input_required")[0]["request_id"].as_str().unwrap().to_owned();
    let answers = json!({ "request_id": request_id, "answers": [{ "id": "key", "answer": SECRET }] });
    let answer = chat(&system, json!({ "conversation_id": id, "answers": answers })).await;
    assert_eq!(answer["done"]["text"], "done", "{answer}");
    let shown = events(&system, &id).await;
    // The skill had it: what it repeats is marked.
    let has_mark = |it: &&serde_json::Value| it["content"].as_str().unwrap().contains("[secret ");
    assert_eq!(all(&shown, "tool_result").into_iter().filter(has_mark).count(), 1, "{shown:?}");
    assert_eq!(skills.runs("noted"), 1);
    let prompts: Vec<_> = model.seen().iter().map(|it| String::from_utf8_lossy(&it.body).into_owned()).collect();
    let log = system.process.log.text();
    for (what, text) in [("the log", &log), ("a prompt", &prompts.join("\n")), ("an event", &format!("{shown:?}"))] {
        assert!(!text.contains(SECRET), "{what}: {text}");
    }
    drop(system);
    for folder in [skills.data(), skills.store(), traces.path().to_owned()] {
        assert_eq!(files_with(&folder, SECRET), Vec::<PathBuf>::new());
    }
    assert!(!files_with(traces.path(), "log in").is_empty() || !files_with(traces.path(), "echo").is_empty());
}

fn files_with(path: &Path, text: &str) -> Vec<PathBuf> {
    if path.is_dir() {
        let entries = std::fs::read_dir(path).unwrap().flatten();
        return entries.flat_map(|it| files_with(&it.path(), text)).collect();
    }
    let bytes = std::fs::read(path).unwrap_or_default();
    let has = bytes.windows(text.len()).any(|it| it == text.as_bytes());
    if has { vec![path.to_owned()] } else { Vec::new() }
}
