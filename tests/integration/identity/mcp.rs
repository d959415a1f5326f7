//! MCP clients have the same principals as all others.

use openskill_tests::rest::Answer;
use openskill_tests::system::System;
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
