//! MCP clients have the same principals as all others.

use std::path::PathBuf;

use openskill_tests::repository;
use openskill_tests::rest::Answer;
use openskill_tests::system::{PATIENCE, Setup, System};
use openskill_tests::wait::until;
use serde_json::{Value, json};

use super::Keys;

/// A request of an older revision, with this key and session.
async fn ask(system: &System, key: &str, session: &str, method: &str, params: Value) -> Answer {
    let body = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params}).to_string();
    let authorization = format!("Bearer {key}");
    let mut headers = vec![("content-type", "application/json"), ("authorization", authorization.as_str())];
    headers.extend((!session.is_empty()).then_some(("mcp-session-id", session)));
    system.post("/mcp", &headers, body).await
}

#[tokio::test]
async fn a_client_sees_and_calls_what_its_policy_allows_and_no_session_of_others() {
    let keys = Keys::new();
    let alice = keys.create("alice", &["--skills", "in_echo"]);
    let bob = keys.create("bob", &["--skills", "in_wait"]);
    let system = keys.up().start().await;
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}});
    let session = ask(&system, &alice, "", "initialize", params).await.header("mcp-session-id").to_owned();
    let listed = ask(&system, &alice, &session, "tools/list", json!({})).await.json();
    let names: Vec<_> = listed["result"]["tools"].as_array().unwrap().iter().map(|it| it["name"].clone()).collect();
    assert_eq!(names, ["in_echo"]);
    // What a policy forbids does not exist.
    let forbidden = ask(&system, &alice, &session, "tools/call", json!({"name": "in_wait"})).await.json();
    assert_eq!(forbidden["error"]["code"], -32602);
    let allowed = ask(&system, &alice, &session, "tools/call", json!({"name": "in_echo"})).await.json();
    assert!(allowed["result"]["content"].is_array(), "{allowed}");
    assert_eq!(ask(&system, &bob, &session, "ping", json!({})).await.status, 404);
    assert_eq!(ask(&system, "osk_made_up", &session, "ping", json!({})).await.status, 401);
}

#[tokio::test]
async fn prompts_resources_and_tasks_follow_the_policies_of_principals() {
    let keys = Keys::new();
    let alice = keys.create("alice", &["--skills", "test_simple_text,slow_compute"]);
    // What a server does not say is destructive.
    let bob = keys.create("bob", &["--skills", "blocks__test_refusal", "--destructive"]);
    let folders = [repository().join("tests/fixtures/mcp_face"), repository().join("worker/skills")];
    let folders: Vec<_> = folders.iter().map(PathBuf::as_path).collect();
    let system = Setup::with_skills(&folders).with("OPENSKILL_KEYS", keys.path().display()).start().await;
    let read = async |key: &str, uri: &str| ask(&system, key, "", "resources/read", json!({"uri": uri})).await.json();
    let has = async || read(&bob, "note://monday").await["result"].is_object().then_some(());
    until("the server is there", PATIENCE, has).await;
    assert!(read(&alice, "test://static-text").await["result"].is_object());
    for (key, uri) in [(&alice, "note://monday"), (&bob, "test://static-text"), (&bob, "test://template/1/data")] {
        assert_eq!(read(key, uri).await["error"]["code"], -32002, "{uri}");
    }
    let list = async |key: &str, method: &str| ask(&system, key, "", method, json!({})).await.json().to_string();
    assert!(
        !list(&alice, "prompts/list").await.contains("blocks__")
            && list(&bob, "prompts/list").await.contains("blocks__review")
    );
    assert!(
        !list(&bob, "resources/list").await.contains("test://")
            && list(&alice, "resources/list").await.contains("test://")
    );
    let forbidden = ask(&system, &bob, "", "prompts/get", json!({"name": "test_simple_prompt"})).await.json();
    assert_eq!(forbidden["error"]["code"], -32602);
    // A task is its owner's alone.
    let newest = async |key: &str, method: &str, name: &str, params: Value| {
        let mut params = params;
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}},
        });
        let body = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params}).to_string();
        let authorization = format!("Bearer {key}");
        let headers = [
            ("content-type", "application/json"),
            ("authorization", authorization.as_str()),
            ("mcp-protocol-version", "2026-07-28"),
            ("mcp-method", method),
            ("mcp-name", name),
        ];
        system.post("/mcp", &headers, body).await.json()
    };
    let call = json!({"name": "slow_compute", "arguments": {"seconds": 60}});
    let created = newest(&alice, "tools/call", "slow_compute", call).await;
    let id = created["result"]["taskId"].as_str().unwrap_or_else(|| panic!("{created}"));
    for method in ["tasks/get", "tasks/cancel"] {
        let foreign = newest(&bob, method, id, json!({"taskId": id})).await;
        assert_eq!(foreign["error"]["code"], -32602, "{method}");
    }
    let own = newest(&alice, "tasks/get", id, json!({"taskId": id})).await;
    assert_eq!(own["result"]["status"], "working", "{own}");
    // It is its owner's as long as the policy allows its skill.
    keys.write(&keys.text().replace("\"slow_compute\"", "\"echo\""));
    until("the policy has changed", PATIENCE, || async {
        let listed = ask(&system, &alice, "", "tools/list", json!({})).await.json().to_string();
        (!listed.contains("slow_compute")).then_some(())
    })
    .await;
    let later = newest(&alice, "tasks/get", id, json!({"taskId": id})).await;
    assert_eq!(later["error"]["code"], -32602, "{later}");
}

#[tokio::test]
async fn a_call_that_waits_for_an_answer_is_taken_up_by_whom_the_policy_still_allows_its_skill() {
    let keys = Keys::new();
    let key = keys.create("alice", &["--skills", "in_ask,in_echo"]);
    let system = keys.up().start().await;
    let call = async |more: Value| {
        let schema = json!({"type": "object", "properties": {"name": {"type": "string"}}});
        let mut params = json!({"name": "in_ask", "arguments": {"message": "Who?", "schema": schema}, "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
        }});
        params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let body = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}).to_string();
        let authorization = format!("Bearer {key}");
        let headers = [
            ("content-type", "application/json"),
            ("authorization", authorization.as_str()),
            ("mcp-protocol-version", "2026-07-28"),
            ("mcp-method", "tools/call"),
            ("mcp-name", "in_ask"),
        ];
        system.post("/mcp", &headers, body).await.json()
    };
    let back = |asked: &Value| {
        let key = asked["result"]["inputRequests"].as_object().unwrap_or_else(|| panic!("{asked}")).keys().next();
        let answer = json!({"action": "accept", "content": {"name": "Ada"}});
        json!({"requestState": asked["result"]["requestState"], "inputResponses": {key.unwrap(): answer}})
    };
    let (first, second) = (call(json!({})).await, call(json!({})).await);
    let done = call(back(&first)).await;
    assert!(done["result"]["content"].to_string().contains("Ada"), "{done}");
    keys.write(&keys.text().replace("\"in_ask\"", "\"in_wait\""));
    until("the policy has changed", PATIENCE, || async {
        let listed = ask(&system, &key, "", "tools/list", json!({})).await.json().to_string();
        (!listed.contains("\"in_ask\"")).then_some(())
    })
    .await;
    let refused = call(back(&second)).await;
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
    assert!(!refused.to_string().contains("Ada"));
}

#[tokio::test]
async fn questions_about_prompts_and_resources_count_towards_the_limits_of_a_principal() {
    let keys = Keys::new();
    let slow = keys.create("slow", &["--skills", "test_simple_text", "--rate", "0.001", "--burst", "3"]);
    let free = keys.create("free", &["--skills", "test_simple_text"]);
    let folders = [repository().join("tests/fixtures/mcp_face"), repository().join("worker/skills")];
    let folders: Vec<_> = folders.iter().map(PathBuf::as_path).collect();
    let system = Setup::with_skills(&folders).with("OPENSKILL_KEYS", keys.path().display()).start().await;
    let reference = json!({"type": "ref/prompt", "name": "test_prompt_with_arguments"});
    let questions = [
        ("prompts/get", json!({"name": "test_simple_prompt"})),
        ("resources/read", json!({"uri": "test://static-text"})),
        ("completion/complete", json!({"ref": reference, "argument": {"name": "arg1", "value": "t"}})),
    ];
    for (method, params) in &questions {
        let answer = ask(&system, &slow, "", method, params.clone()).await.json();
        assert!(answer["result"].is_object(), "{method}: {answer}");
    }
    for (method, params) in &questions {
        let refused = ask(&system, &slow, "", method, params.clone()).await.json();
        let message = refused["error"]["message"].as_str().unwrap_or_else(|| panic!("{method}: {refused}"));
        assert!(refused["error"]["code"] == -32000 && message.contains("rate limit"), "{refused}");
        // Others are not concerned.
        assert!(ask(&system, &free, "", method, params.clone()).await.json()["result"].is_object(), "{method}");
    }
    system.process.log.line(&["decision=\"limited\"", "principal=\"slow\"", "principal_rate"]).await;
}
