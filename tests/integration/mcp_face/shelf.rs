//! Prompts, resources, templates and completion: of manifests, and of servers behind the gateway.

use std::time::Duration;

use openskill_tests::folder::Folder;
use openskill_tests::processes;
use openskill_tests::system::{PATIENCE, Setup, System};
use openskill_tests::wait::{until, until_true};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::changes::Events;
use super::{BOTH, JSON, ask, ask_older, begin, setup, start};

async fn result(system: &System, method: &str, params: Value) -> Value {
    let answer = ask(system, method, params).await.json();
    assert!(answer["result"].is_object(), "{method}: {answer}");
    answer["result"].clone()
}

/// What a list has, by this field.
fn named(list: &Value, field: &str) -> Vec<String> {
    let items = list.as_object().unwrap().values().find_map(Value::as_array).unwrap();
    items.iter().map(|it| it[field].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn prompts_and_resources_of_servers_stand_beside_those_of_manifests() {
    let system = start().await;
    system.has_skill("blocks__test_refusal").await;
    let prompts = named(&result(&system, "prompts/list", json!({})).await, "name");
    assert!(
        ["blocks__review", "test_simple_prompt"].iter().all(|it| prompts.iter().any(|name| name == it)),
        "{prompts:?}"
    );
    let arguments = json!({"name": "blocks__review", "arguments": {"text": "this"}});
    let messages = result(&system, "prompts/get", arguments).await["messages"].clone();
    assert_eq!(messages[0]["content"]["text"], "Review this: this");
    let resources = named(&result(&system, "resources/list", json!({})).await, "uri");
    assert!(
        ["note://changes", "test://static-text"].iter().all(|it| resources.iter().any(|uri| uri == it)),
        "{resources:?}"
    );
    let read = result(&system, "resources/read", json!({"uri": "note://monday"})).await;
    assert_eq!((&read["contents"][0]["text"], &read["cacheScope"]), (&json!("the note of monday"), &json!("public")));
    let asked =
        json!({"ref": {"type": "ref/resource", "uri": "note://{day}"}, "argument": {"name": "day", "value": "t"}});
    let completion = result(&system, "completion/complete", asked).await["completion"].clone();
    assert_eq!(completion["values"], json!(["tuesday", "thursday"]));
}

#[tokio::test]
async fn what_is_not_there_or_does_not_fit_is_refused() {
    let system = start().await;
    for (method, params) in [
        ("prompts/get", json!({"name": "none"})),
        ("prompts/get", json!({"name": "test_prompt_with_arguments", "arguments": {"arg1": "x"}})),
        ("prompts/get", json!({"name": "test_prompt_with_arguments", "arguments": {"arg1": "x", "arg2": 5}})),
        ("resources/read", json!({"uri": "test://template/1/2/data"})),
        ("resources/read", json!({"uri": "test://none"})),
        (
            "completion/complete",
            json!({"ref": {"type": "ref/prompt", "name": "none"}, "argument": {"name": "a", "value": ""}}),
        ),
        ("completion/complete", json!({"ref": {"type": "ref/x"}, "argument": {"name": "a", "value": ""}})),
        ("prompts/list", json!({"cursor": "made-up"})),
    ] {
        let answer = ask(&system, method, params.clone()).await;
        assert_eq!((answer.status, &answer.json()["error"]["code"]), (400, &json!(-32602)), "{method} {params}");
    }
    let older = ask_older(&system, "", "resources/read", json!({"uri": "test://none"})).await.json();
    assert_eq!((&older["error"]["code"], &older["error"]["data"]["uri"]), (&json!(-32002), &json!("test://none")));
    let unbound = ask_older(&system, "", "resources/subscribe", json!({"uri": "test://static-text"})).await;
    assert_eq!(unbound.json()["error"]["code"], -32600, "a subscription needs a session");
}

/// A skill that declares a file, a template in JSON, and a prompt.
fn declare(folder: &Folder, prompts: &str) {
    folder.write("notes.py", "print('null')\n");
    folder.write(
        "notes.yaml",
        format!(
            "id: notes\ntype: cli\nruntime: python\nentry: notes.py\n\
             resources:\n\
             - {{uri: 'note://today', name: today, file: today.md}}\n\
             - {{uri: 'note://by/{{name}}', text: '{{\"by\": \"{{name}}\"}}', media_type: application/json}}\n{prompts}"
        ),
    );
}

#[tokio::test]
async fn subscribers_of_all_revisions_hear_of_a_changed_file_and_of_a_new_prompt() {
    let folder = Folder::new();
    declare(&folder, "");
    folder.write("today.md", "one");
    let system = Setup::with_skills(&[folder.path()]).start().await;
    let session = begin(&system, "2025-11-25").await;
    assert_eq!(
        ask_older(&system, &session, "resources/subscribe", json!({"uri": "note://today"})).await.json()["result"],
        json!({})
    );
    let unknown = ask_older(&system, &session, "resources/subscribe", json!({"uri": "note://none"})).await.json();
    assert_eq!(unknown["error"]["code"], -32002);
    let mut older = Events::listen_to_session(&system, &session).await;
    let wanted = json!({"promptsListChanged": true, "resourceSubscriptions": ["note://today", "note://none"]});
    let mut newest = Events::subscribe(&system, "s", wanted).await;
    let granted = newest.next().await["params"]["notifications"].clone();
    assert_eq!(granted, json!({"promptsListChanged": true, "resourceSubscriptions": ["note://today"]}));
    folder.write("today.md", "two, and more");
    for events in [&mut older, &mut newest] {
        let changed = events.next().await;
        assert_eq!(
            (&changed["method"], &changed["params"]["uri"]),
            (&json!("notifications/resources/updated"), &json!("note://today"))
        );
    }
    let read = result(&system, "resources/read", json!({"uri": "note://today"})).await;
    assert_eq!(
        read["contents"][0],
        json!({"uri": "note://today", "mimeType": "text/markdown", "text": "two, and more"})
    );
    declare(&folder, "prompts:\n- {name: sum-up, description: Sums up., messages: [{text: 'Sum up.'}]}\n");
    assert_eq!(newest.next().await["method"], "notifications/prompts/list_changed");
    assert_eq!(older.next().await["method"], "notifications/prompts/list_changed");
    assert_eq!(named(&result(&system, "prompts/list", json!({})).await, "name"), ["sum-up"]);
    // A value is escaped where it stands in JSON.
    let read = result(&system, "resources/read", json!({"uri": "note://by/a%22b"})).await;
    assert_eq!(read["contents"][0]["text"], r#"{"by": "a\"b"}"#);
}

/// No text has half of a surrogate pair, and JSON may.
#[tokio::test]
async fn an_argument_that_no_text_can_have_is_refused() {
    let system = start().await;
    let reference = r#"{"type": "ref/prompt", "name": "test_prompt_with_arguments"}"#;
    for (argument, context) in
        [(r#"{"nam\ud800e": "a"}"#, "{}"), (r#"{"name": "arg1", "value": ""}"#, r#"{"\ud800": 1}"#)]
    {
        let params = format!(r#"{{"ref": {reference}, "argument": {argument}, "context": {context}}}"#);
        let body = format!(r#"{{"jsonrpc": "2.0", "id": 7, "method": "completion/complete", "params": {params}}}"#);
        let answer = system.post("/mcp", &[BOTH, JSON], body).await;
        assert_eq!((answer.status, &answer.json()["error"]["code"]), (200, &json!(-32602)), "{answer:?}");
    }
}

#[tokio::test]
async fn a_worker_that_starts_again_is_told_of_subscriptions() {
    let system = setup().flag("--workers", 1).start().await;
    system.has_skill("blocks__test_touch").await;
    let mut events = Events::subscribe(&system, "s", json!({"resourceSubscriptions": ["note://changes"]})).await;
    assert_eq!(events.next().await["method"], "notifications/subscriptions/acknowledged");
    let workers = processes::children(system.process.pid(), " worker ");
    assert_eq!(workers.len(), 1);
    processes::send(workers[0], Signal::KILL);
    until_true("the worker is gone", PATIENCE, || !processes::is_alive(workers[0])).await;
    // The state of a server that starts again may count as a first change.
    for _ in 0..2 {
        let touches = async {
            loop {
                ask(&system, "tools/call", json!({"name": "blocks__test_touch", "arguments": {}})).await;
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        let changed = tokio::select! {
            changed = events.next() => changed,
            () = touches => unreachable!(),
        };
        assert_eq!(changed["params"]["uri"], "note://changes", "{changed}");
    }
}

#[tokio::test]
async fn subscribers_hear_of_a_changed_resource_of_a_server() {
    let system = start().await;
    system.has_skill("blocks__test_touch").await;
    // Each worker has a server of its own. Those that have it now are told of the subscription, and any of them may be called.
    until("both workers have the server", PATIENCE, || async {
        let skills: Vec<_> = system.workers().await.iter().map(|it| it.skills).collect();
        (skills.len() == 2 && skills[0] == skills[1]).then_some(())
    })
    .await;
    let mut events = Events::subscribe(&system, "s", json!({"resourceSubscriptions": ["note://changes"]})).await;
    assert_eq!(events.next().await["method"], "notifications/subscriptions/acknowledged");
    ask(&system, "tools/call", json!({"name": "blocks__test_touch", "arguments": {}})).await;
    let changed = events.next().await;
    assert_eq!(
        (&changed["method"], &changed["params"]["uri"]),
        (&json!("notifications/resources/updated"), &json!("note://changes"))
    );
    let read = result(&system, "resources/read", json!({"uri": "note://changes"})).await;
    assert!(read["contents"][0]["text"].as_str().unwrap().contains("touched"), "{read}");
}
