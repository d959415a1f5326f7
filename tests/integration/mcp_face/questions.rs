//! Skills ask the users of MCP clients.

use openskill_tests::system::System;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

use super::{BOTH, JSON, ask, ask_older, start};

fn schema() -> Value {
    json!({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]})
}

/// A call of the newest revision, whose client can ask its user.
async fn call(system: &System, arguments: &Value, more: Value) -> (u16, Value) {
    let meta = json!({"io.modelcontextprotocol/clientCapabilities": {"elicitation": {}}});
    let mut params = json!({"name": "asks", "arguments": arguments, "_meta": meta});
    params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let answer = ask(system, "tools/call", params).await;
    (answer.status, answer.json())
}

#[tokio::test]
async fn a_question_is_a_result_and_its_answer_comes_with_the_same_request() {
    let system = start().await;
    let arguments = json!({"message": "Who?", "schema": schema()});
    let (_, asked) = call(&system, &arguments, json!({})).await;
    let asked = &asked["result"];
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    let (key, request) = asked["inputRequests"].as_object().unwrap().iter().next().unwrap();
    assert_eq!(request["method"], "elicitation/create");
    assert_eq!(request["params"], json!({"message": "Who?", "requestedSchema": schema()}));
    let answers = |content: Value| json!({key.as_str(): {"action": "accept", "content": content}});
    let back = |state: &Value, responses: Value| json!({"requestState": state, "inputResponses": responses});
    // What is missing, or does not fit, is asked again, with another state.
    let (_, again) =
        call(&system, &arguments, back(&asked["requestState"], json!({"other": {"action": "accept"}}))).await;
    assert_eq!(again["result"]["inputRequests"], asked["inputRequests"], "{again}");
    assert_ne!(again["result"]["requestState"], asked["requestState"]);
    let (_, misfit) =
        call(&system, &arguments, back(&again["result"]["requestState"], answers(json!({"name": 5})))).await;
    assert_eq!(misfit["result"]["resultType"], "input_required", "{misfit}");
    let state = misfit["result"]["requestState"].clone();
    let (_, done) = call(&system, &arguments, back(&state, answers(json!({"name": "Ada"})))).await;
    assert_eq!(done["result"]["content"][0]["text"], r#"{"name": "Ada"}"#, "{done}");
    // A state is good once, for its own request, and not if it is changed.
    let forged = json!(format!("{}-TAMPERED", state.as_str().unwrap()));
    for state in [&state, &forged] {
        let (status, refused) = call(&system, &arguments, back(state, answers(json!({"name": "Ada"})))).await;
        assert_eq!((status, &refused["error"]["code"]), (400, &json!(-32602)));
    }
}

#[tokio::test]
async fn a_client_that_can_not_ask_is_told_what_the_tool_needs() {
    let system = start().await;
    let answer = ask(&system, "tools/call", json!({"name": "asks", "arguments": {"message": "Who?"}})).await;
    let error = answer.json()["error"].clone();
    assert_eq!((answer.status, &error["code"]), (400, &json!(-32021)), "{error}");
    assert_eq!(error["data"], json!({"requiredCapabilities": {"elicitation": {}}}));
    let older = ask_older(&system, "", "tools/call", json!({"name": "asks", "arguments": {"message": "Who?"}})).await;
    assert_eq!(older.json()["result"]["isError"], true);
}

#[tokio::test]
async fn an_older_client_is_asked_on_the_stream_of_its_call() {
    let system = start().await;
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}}});
    let session = ask_older(&system, "", "initialize", params).await.header("mcp-session-id").to_owned();
    let params = json!({"name": "asks", "arguments": {"message": "Who?", "schema": schema()}});
    let body = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}).to_string();
    let mut stream = TcpStream::connect(system.address).await.unwrap();
    let (host, length) = (system.address, body.len());
    let head = format!(
        "POST /mcp HTTP/1.1\r\nhost: {host}\r\naccept: application/json, text/event-stream\r\n\
         content-type: application/json\r\nmcp-session-id: {session}\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut lines = BufReader::new(stream).lines();
    let mut next = async || loop {
        let line = lines.next_line().await.unwrap().expect("the stream goes on");
        if let Some(data) = line.strip_prefix("data: ") {
            return serde_json::from_str::<Value>(data).unwrap();
        }
    };
    let asked = next().await;
    assert_eq!((&asked["method"], &asked["params"]["message"]), (&json!("elicitation/create"), &json!("Who?")));
    let result = json!({"action": "accept", "content": {"name": "Ada"}});
    let answer = json!({"jsonrpc": "2.0", "id": asked["id"], "result": result}).to_string();
    let sent = system.post("/mcp", &[BOTH, JSON, ("mcp-session-id", &session)], answer).await;
    assert_eq!(sent.status, 202);
    let done = next().await;
    assert_eq!((&done["id"], &done["result"]["content"][0]["text"]), (&json!(7), &json!(r#"{"name": "Ada"}"#)));
}

#[tokio::test]
async fn nobody_is_asked_for_a_secret_by_a_form() {
    let system = start().await;
    let schema = json!({"type": "object", "properties": {"password": {"type": "string", "writeOnly": true}}});
    let (_, done) = call(&system, &json!({"message": "Your password?", "schema": schema}), json!({})).await;
    assert_eq!(done["result"]["content"][0]["text"], r#"{"declined": "cancel"}"#, "{done}");
}
