//! Calls that go on as tasks.

use openskill_tests::folder::Folder;
use openskill_tests::system::{PATIENCE, Setup, System};
use openskill_tests::{processes, repository, wait};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::{ask, skills};

fn able() -> Value {
    json!({"io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}}})
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

fn setup() -> Setup {
    Setup::with_skills(&[&skills(), &repository().join("worker/skills")])
}

#[tokio::test]
async fn a_call_that_takes_long_becomes_a_task_after_the_time_that_is_set() {
    let folder = Folder::new();
    folder.write("slow.py", "import time\ntime.sleep(2)\nprint('5')\n");
    folder.write("slow.yaml", "id: slow\ntype: cli\nruntime: python\nentry: slow.py\n");
    let system = Setup::with_skills(&[folder.path()]).with("OPENSKILL_MCP_TASK_AFTER_MS", 100).start().await;
    let id = begin(&system, "slow", json!({})).await;
    let task = ended(&system, &id).await;
    assert_eq!((&task["status"], &task["result"]["content"][0]["text"]), (&json!("completed"), &json!("5")));
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
async fn what_ended_survives_a_killed_gateway_and_what_ran_has_failed() {
    let folder = Folder::new();
    let file = folder.path().join("state/tasks.redb");
    let start = async || setup().with("OPENSKILL_MCP_TASKS_FILE", file.display()).start().await;
    let mut system = start().await;
    let done = begin(&system, "slow_compute", json!({"seconds": 0.1, "label": "x"})).await;
    assert_eq!(ended(&system, &done).await["status"], "completed");
    let runs = begin(&system, "slow_compute", json!({"seconds": 60})).await;
    processes::send(system.process.pid(), Signal::KILL);
    system.process.ended().await;
    let system = start().await;
    let task = get(&system, &done).await;
    assert_eq!((&task["status"], &task["result"]["content"][0]["text"]), (&json!("completed"), &json!("computed x")));
    let task = get(&system, &runs).await;
    assert_eq!((&task["status"], &task["error"]["code"]), (&json!("failed"), &json!(-32603)), "{task}");
}

#[tokio::test]
async fn a_file_that_another_gateway_uses_is_refused_at_the_start() {
    let folder = Folder::new();
    let file = folder.path().join("tasks.redb");
    let _first = setup().with("OPENSKILL_MCP_TASKS_FILE", file.display()).start().await;
    let mut second = setup().with("OPENSKILL_MCP_TASKS_FILE", file.display()).spawn();
    assert!(!second.ended().await.success());
    assert!(second.log.text().contains("the task store"), "{}", second.log.text());
}
