//! Skills and servers ask clients for samples and roots.

use openskill_tests::system::System;
use serde_json::{Value, json};

use super::{ask, start};

fn sample(text: &str) -> Value {
    json!({"role": "assistant", "content": {"type": "text", "text": text}, "model": "m"})
}

/// A call by a client with these capabilities.
async fn call(system: &System, name: &str, capabilities: Value, more: Value) -> (u16, Value) {
    let meta = json!({"io.modelcontextprotocol/clientCapabilities": capabilities});
    let mut params = json!({"name": name, "arguments": {}, "_meta": meta});
    params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let answer = ask(system, "tools/call", params).await;
    (answer.status, answer.json())
}

#[tokio::test]
async fn a_server_behind_the_gateway_asks_the_clients_model_and_for_its_roots() {
    let system = start().await;
    system.has_skill("blocks__test_ask_model").await;
    let able = || json!({"sampling": {}, "roots": {}});
    for (tool, method, answer, expected) in [
        ("blocks__test_ask_model", "sampling/createMessage", sample("Paris"), "Paris"),
        ("blocks__test_ask_roots", "roots/list", json!({"roots": [{"uri": "file:///a"}]}), "file:///a"),
    ] {
        let (_, asked) = call(&system, tool, able(), json!({})).await;
        let (key, request) = asked["result"]["inputRequests"].as_object().unwrap().iter().next().unwrap();
        assert_eq!(request["method"], method);
        // An answer of another shape is asked for again.
        let back =
            |state: &Value, answer: &Value| json!({"requestState": state, "inputResponses": {key.as_str(): answer}});
        let wrong = back(&asked["result"]["requestState"], &json!({"role": "assistant"}));
        let (_, again) = call(&system, tool, able(), wrong).await;
        assert_eq!(again["result"]["resultType"], "input_required", "{again}");
        let (_, done) = call(&system, tool, able(), back(&again["result"]["requestState"], &answer)).await;
        assert!(done["result"]["content"][0]["text"].as_str().unwrap().contains(expected), "{done}");
    }
}

#[tokio::test]
async fn a_client_is_asked_only_for_what_it_declares() {
    let system = start().await;
    system.has_skill("blocks__test_ask_model").await;
    for tool in ["blocks__test_ask_model", "test_missing_capability"] {
        let (status, refused) = call(&system, tool, json!({"elicitation": {}}), json!({})).await;
        assert_eq!((status, &refused["error"]["code"]), (400, &json!(-32021)), "{tool}: {refused}");
        assert_eq!(refused["error"]["data"], json!({"requiredCapabilities": {"sampling": {}}}));
    }
    let (_, some) = call(&system, "test_input_required_result_multiple_inputs", json!({"roots": {}}), json!({})).await;
    let requests = some["result"]["inputRequests"].as_object().unwrap();
    assert_eq!(requests.keys().collect::<Vec<_>>(), ["client_roots"], "{some}");
}

#[tokio::test]
async fn what_is_asked_together_is_answered_one_by_one() {
    let system = start().await;
    let able = || json!({"elicitation": {}, "sampling": {}, "roots": {}});
    let tool = "test_input_required_result_multiple_inputs";
    let (_, asked) = call(&system, tool, able(), json!({})).await;
    assert_eq!(asked["result"]["inputRequests"].as_object().unwrap().len(), 3, "{asked}");
    let some = json!({"greeting": sample("Hi"), "client_roots": {"roots": []}});
    let more = json!({"requestState": asked["result"]["requestState"], "inputResponses": some});
    let (_, left) = call(&system, tool, able(), more).await;
    assert_eq!(left["result"]["inputRequests"].as_object().unwrap().keys().collect::<Vec<_>>(), ["user_name"]);
    let name = json!({"user_name": {"action": "accept", "content": {"name": "Ada"}}});
    let more = json!({"requestState": left["result"]["requestState"], "inputResponses": name});
    let (_, done) = call(&system, tool, able(), more).await;
    let text = done["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("Ada") && text.contains("Hi"), "{done}");
}
