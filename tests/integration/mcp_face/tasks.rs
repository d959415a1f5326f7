//! Calls that go on as tasks.

use openskill_tests::folder::Folder;
use openskill_tests::system::{PATIENCE, Setup, System};
use openskill_tests::{processes, wait};
use serde_json::{Value, json};

use super::{ask, library};
use crate::operations::stage::{Stage, kill};

fn able() -> Value {
    let able = json!({"elicitation": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}});
    json!({"io.modelcontextprotocol/clientCapabilities": able})
}

/// A request of a client that takes tasks.
async fn request(system: &System, method: &str, mut params: Value) -> Value {
    params["_meta"] = able();
    ask(system, method, params).await.json()
}

async fn begin(system: &System, name: &str, arguments: Value) -> String {
    let answer = request(system, "tools/call", json!({"name": name, "arguments": arguments})).await;
    assert_eq!(answer["result"]["resultType"], "task", "{answer}");
    answer["result"]["taskId"].as_str().unwrap().to_owned()
}

async fn get(system: &System, id: &str) -> Value {
    request(system, "tasks/get", json!({"taskId": id})).await["result"].clone()
}

async fn ended(system: &System, id: &str) -> Value {
    let over = async || {
        let task = get(system, id).await;
        (!matches!(task["status"].as_str(), Some("working" | "input_required"))).then_some(task)
    };
    wait::until("the task ends", PATIENCE, over).await
}

#[tokio::test]
async fn a_call_that_takes_long_becomes_a_task_after_the_time_that_is_set() {
    let folder = Folder::new();
    // More than fits into the row of an operation.
    folder.write("slow.py", "import json, time\ntime.sleep(2)\nprint(json.dumps('5' * 300_000))\n");
    folder.write("slow.yaml", "id: slow\ntype: cli\nruntime: python\nentry: slow.py\n");
    let system = Setup::with_skills(&[folder.path()]).with("OPENSKILL_MCP_TASK_AFTER_MS", 100).start().await;
    let id = begin(&system, "slow", json!({})).await;
    let task = ended(&system, &id).await;
    assert_eq!(task["status"], "completed", "{task}");
    assert!(task["result"]["content"][0]["text"].as_str().unwrap().contains("5555"), "{task}");
    // A client that takes no tasks waits.
    let waited = ask(&system, "tools/call", json!({"name": "slow", "arguments": {}})).await.json();
    assert_eq!(waited["result"]["resultType"], "complete", "{waited}");
    for (method, more) in
        [("tasks/get", json!({})), ("tasks/update", json!({"inputResponses": {}})), ("tasks/cancel", json!({}))]
    {
        let mut params = json!({"taskId": id});
        params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let refused = ask(&system, method, params).await;
        assert_eq!((refused.status, &refused.json()["error"]["code"]), (400, &json!(-32021)), "{method}");
    }
}

#[tokio::test]
async fn a_task_that_is_cancelled_ends_the_processes_of_its_skill() {
    let folder = Folder::new();
    let mark = format!("MARK=mcp-task-{}", std::process::id());
    folder.write(
        "sleeper.yaml",
        format!(
            "id: sleeper\ntype: cli\nruntime: exec\nentry: sleeper.sh\ntimeout_ms: 600000\nenv: [{mark}]\n\
             task: {{after_ms: 0}}\n"
        ),
    );
    let script = folder.write("sleeper.sh", "#!/bin/sh\nsleep 500\necho null\n");
    std::fs::set_permissions(script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let system = Setup::with_skills(&[folder.path()]).start().await;
    let id = begin(&system, "sleeper", json!({})).await;
    wait::until_true("the skill runs", PATIENCE, || !processes::with_environment(&mark).is_empty()).await;
    let cancelled = request(&system, "tasks/cancel", json!({"taskId": id})).await;
    assert_eq!(cancelled["result"]["resultType"], "complete", "{cancelled}");
    assert_eq!(ended(&system, &id).await["status"], "cancelled");
    wait::until_none_is_left("processes of the skill", PATIENCE, || processes::with_environment(&mark)).await;
}

#[tokio::test]
async fn a_task_outlives_its_gateway_and_is_an_operation_like_others() {
    let stage = Stage::start().await;
    let first = stage.gateway().await;
    let id = begin(&first, "naps", json!({"seconds": 3, "mark": stage.mark()})).await;
    kill(first).await;
    let second = stage.gateway().await;
    assert_eq!(get(&second, &id).await["status"], "working");
    let task = ended(&second, &id).await;
    assert_eq!((&task["status"], stage.starts()), (&json!("completed"), 1), "{task}");
    let text = task["result"]["content"][0]["text"].as_str().unwrap();
    assert_eq!(serde_json::from_str::<Value>(text).unwrap(), json!({"slept": 3}));
    kill(second).await;
    let third = stage.gateway().await;
    assert_eq!(get(&third, &id).await["result"]["content"], task["result"]["content"]);
    let listed = third.get("/operations").await.json();
    assert_eq!(listed["operations"][0]["name"], format!("operations/{id}"));
}

#[tokio::test]
async fn a_question_of_a_task_waits_for_its_answer() {
    let folder = Folder::new();
    let script = "import time\nfrom openskill_sdk import ask, run\n\n\ndef handle(input):\n    time.sleep(1)\n    \
                  return ask('Who?', {'type': 'object', 'properties': {'age': {'type': 'integer'}}})\n\n\nrun(handle)\n";
    folder.write("late.py", script);
    folder.write("late.yaml", "id: late\ntype: cli\nruntime: python\nentry: late.py\ntask: {after_ms: 0}\n");
    let system = Setup::with_skills(&[folder.path(), &library()]).with("OPENSKILL_STORE", "off").start().await;
    system.has_skill("late").await;
    let id = begin(&system, "late", json!({})).await;
    let asked = async || {
        let task = get(&system, &id).await;
        (task["status"] == "input_required").then_some(task)
    };
    let task = wait::until("the task asks", PATIENCE, asked).await;
    let key = task["inputRequests"].as_object().unwrap().keys().next().unwrap();
    for age in [json!("old"), json!(42)] {
        let answers = json!({key: {"action": "accept", "content": {"age": age}}});
        request(&system, "tasks/update", json!({"taskId": id, "inputResponses": answers})).await;
    }
    let task = ended(&system, &id).await;
    assert!(task["result"]["content"][0]["text"].as_str().unwrap().contains("42"), "{task}");
}
