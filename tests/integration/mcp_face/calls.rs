//! Tools: how they are listed and called, and what their results look like.

use openskill_tests::folder::Folder;
use openskill_tests::system::System;
use serde_json::{Value, json};

use super::{BOTH, JSON, ask, ask_older, begin, messages, setup, start};

async fn call(system: &System, name: &str) -> Value {
    ask(system, "tools/call", json!({"name": name, "arguments": {}})).await.json()["result"].clone()
}

#[tokio::test]
async fn every_skill_is_a_tool_with_its_schemas() {
    let system = start().await;
    system.has_skill("blocks__test_refusal").await;
    let newest = ask(&system, "tools/list", json!({})).await.json()["result"].clone();
    assert_eq!((&newest["resultType"], &newest["cacheScope"]), (&json!("complete"), &json!("public")));
    assert!(newest["ttlMs"].is_u64() && newest["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "openskill");
    let tools = newest["tools"].as_array().unwrap();
    let tool = |name: &str| tools.iter().find(|it| it["name"] == name).unwrap();
    let schema = &tool("json_schema_2020_12_tool")["inputSchema"];
    for keyword in ["$schema", "$defs", "allOf", "if", "then", "else", "additionalProperties"] {
        assert!(!schema[keyword].is_null(), "{keyword} in {schema}");
    }
    assert_eq!(tool("in_echo")["annotations"]["readOnlyHint"].as_bool(), Some(false));
    let session = begin(&system, "2025-06-18").await;
    let older = ask_older(&system, &session, "tools/list", json!({})).await.json()["result"].clone();
    assert_eq!(older["tools"], newest["tools"]);
    assert_eq!(older.as_object().unwrap().len(), 1, "{older}");
}

#[tokio::test]
async fn texts_pictures_and_sounds_are_blocks_of_their_kind() {
    let system = start().await;
    let text = call(&system, "test_simple_text").await;
    assert_eq!(text["content"], json!([{"type": "text", "text": "This is a simple text response for testing."}]));
    for (tool, kind, media_type) in
        [("test_image_content", "image", "image/png"), ("test_audio_content", "audio", "audio/wav")]
    {
        let blocks = call(&system, tool).await["content"].clone();
        assert_eq!((&blocks[0]["type"], &blocks[0]["mimeType"]), (&json!(kind), &json!(media_type)), "{blocks}");
        assert!(!blocks[0]["data"].as_str().unwrap().is_empty() && blocks[1].is_null());
    }
}

#[tokio::test]
async fn what_a_server_behind_the_gateway_sends_arrives_as_it_was_sent() {
    let system = start().await;
    system.has_skill("blocks__test_refusal").await;
    let mixed = call(&system, "blocks__test_multiple_content_types").await;
    let kinds: Vec<_> = mixed["content"].as_array().unwrap().iter().map(|it| it["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["text", "image", "resource"]);
    assert_eq!(mixed["content"][2]["resource"]["uri"], "test://mixed-content-resource");
    assert_eq!(mixed["_meta"]["example.com/cost"], 3);
    let refusal = call(&system, "blocks__test_refusal").await;
    assert_eq!((&refusal["isError"], &refusal["content"][1]["uri"]), (&json!(true), &json!("test://why")));
}

#[tokio::test]
async fn a_view_returns_what_the_whole_gateway_returns() {
    let folder = Folder::new();
    let views = folder.write("views.toml", "[views.all]\n");
    let system = setup().with("OPENSKILL_MCP_VIEWS_FILE", views.display()).start().await;
    system.has_skill("blocks__test_refusal").await;
    for name in ["blocks__test_multiple_content_types", "blocks__test_refusal", "test_simple_text"] {
        let mut results = Vec::new();
        for path in ["/mcp", "/mcp/all"] {
            let body =
                json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": name, "arguments": {}}});
            let answer = system.post(path, &[BOTH, JSON], body.to_string()).await.json();
            let result = &answer["result"];
            results.push((result["content"].clone(), result["structuredContent"].clone(), result["isError"].clone()));
        }
        assert!(!results[0].0.is_null() && results[0] == results[1], "{name}: {results:?}");
    }
}

#[tokio::test]
async fn what_a_model_can_act_on_is_a_result_and_an_unknown_tool_is_none() {
    let system = start().await;
    let failed = call(&system, "test_error_handling").await;
    assert_eq!(failed["isError"], true);
    assert_eq!(failed["content"][0]["text"], "This tool intentionally returns an error for testing");
    let params = json!({"name": "json_schema_2020_12_tool", "arguments": {"nam": 5}});
    let misfit = ask(&system, "tools/call", params).await.json()["result"].clone();
    assert_eq!(misfit["_meta"]["openskill.dev/error"]["code"], "INVALID_ARGUMENT", "{misfit}");
    let unknown = ask(&system, "tools/call", json!({"name": "no_such_tool"})).await;
    assert_eq!((unknown.status, &unknown.json()["error"]["code"]), (400, &json!(-32602)));
    let older = ask_older(&system, "", "tools/call", json!({"name": "no_such_tool"})).await;
    assert_eq!((older.status, &older.json()["error"]["code"]), (200, &json!(-32602)));
}

#[tokio::test]
async fn progress_precedes_the_result_if_the_client_asks_for_it() {
    let system = start().await;
    let name = "test_tool_with_progress";
    let asked = ask(&system, "tools/call", json!({"name": name, "_meta": {"progressToken": "p"}})).await;
    let said = messages(&asked);
    let reports: Vec<_> = said.iter().filter(|it| it["method"] == "notifications/progress").collect();
    let progress: Vec<_> = reports.iter().map(|it| it["params"]["progress"].as_f64().unwrap()).collect();
    assert_eq!(progress, [0.0, 50.0, 100.0]);
    assert!(reports.iter().all(|it| it["params"]["progressToken"] == "p" && it["params"]["total"] == 100));
    assert_eq!((&said[3]["id"], &said[3]["result"]["resultType"]), (&json!(7), &json!("complete")));
    let silent = ask(&system, "tools/call", json!({"name": name})).await;
    assert_eq!(silent.header("content-type"), "application/json");
}

#[tokio::test]
async fn log_lines_go_to_clients_that_ask_for_their_level() {
    let system = start().await;
    let lines = |said: Vec<Value>| said.iter().filter(|it| it["method"] == "notifications/message").count();
    let params =
        |level: &str| json!({"name": "test_logging_tool", "_meta": {"io.modelcontextprotocol/logLevel": level}});
    assert_eq!(lines(messages(&ask(&system, "tools/call", params("info")).await)), 3);
    let too_high = ask(&system, "tools/call", params("error")).await;
    assert_eq!(too_high.header("content-type"), "application/json");
    let session = begin(&system, "2025-11-25").await;
    let call = || ask_older(&system, &session, "tools/call", json!({"name": "test_tool_with_logging"}));
    assert_eq!(call().await.header("content-type"), "application/json");
    let set = ask_older(&system, &session, "logging/setLevel", json!({"level": "debug"})).await;
    assert_eq!(set.json()["result"], json!({}));
    assert_eq!(lines(messages(&call().await)), 3);
}

#[tokio::test]
async fn the_trace_of_a_message_goes_on_in_its_call() {
    let system = start().await;
    let trace_id = "4bf92f3577b34da6a3ce929d0e0e4736";
    let meta = json!({"traceparent": format!("00-{trace_id}-00f067aa0ba902b7-01")});
    let answer = ask(&system, "tools/call", json!({"name": "test_simple_text", "_meta": meta})).await;
    assert_eq!(answer.header("x-trace-id"), trace_id);
    let said = &answer.json()["result"]["_meta"];
    assert_eq!((&said["openskill.dev/trace_id"], &said["openskill.dev/attempts"]), (&json!(trace_id), &json!(1)));
}

#[tokio::test]
async fn only_one_revision_takes_batches() {
    let system = start().await;
    let batch = json!([
        {"jsonrpc": "2.0", "id": 1, "method": "ping"},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "test_simple_text"}},
    ]);
    let send = async |revision: &str| {
        let headers = [super::BOTH, super::JSON, ("mcp-protocol-version", revision)];
        system.post("/mcp", &headers, batch.to_string()).await
    };
    let answers = send("2025-03-26").await.json();
    assert_eq!((answers.as_array().unwrap().len(), &answers[0]["result"]), (2, &json!({})));
    assert_eq!(answers[1]["result"]["content"][0]["type"], "text");
    assert_eq!(send("2025-06-18").await.status, 400);
}
