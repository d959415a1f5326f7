//! `openskill mcp`: MCP on stdin and stdout.

use std::process::Stdio;
use std::time::Duration;

use openskill_tests::binary;
use openskill_tests::folder::Folder;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

use super::{library, meta, skills, start};

/// What it writes if this is its input, and whether it ended well.
async fn run(arguments: &[&str], input: &[Value]) -> (Vec<Value>, bool) {
    let folder = Folder::new();
    std::fs::create_dir(folder.path().join("data")).unwrap();
    let mut command = Command::new(binary());
    command.arg("mcp").args(arguments).current_dir(folder.path()).env("OPENSKILL_TRACE_DIR", "off");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
    let text: String = input.iter().map(|it| format!("{it}\n")).collect();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(text.as_bytes()).await.unwrap();
    drop(stdin);
    let output = tokio::time::timeout(Duration::from_secs(60), child.wait_with_output()).await.expect("it ends");
    let output = output.unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let lines = text.lines().map(|it| serde_json::from_str(it).unwrap_or_else(|_| panic!("no message: {it}")));
    (lines.collect(), output.status.success())
}

fn request(id: u32, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

/// The message with this id.
fn answer(messages: &[Value], id: u32) -> &Value {
    messages.iter().find(|it| it["id"] == id).unwrap_or_else(|| panic!("{id} in {messages:?}"))
}

fn conversation() -> Vec<Value> {
    let progress = json!({"name": "test_tool_with_progress", "_meta": {"progressToken": 5}});
    vec![
        request(1, "initialize", json!({"protocolVersion": "2025-06-18", "capabilities": {}})),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        request(2, "tools/list", json!({})),
        request(3, "tools/call", progress),
    ]
}

fn check(messages: &[Value]) {
    assert_eq!(answer(messages, 1)["result"]["protocolVersion"], "2025-06-18");
    assert!(!answer(messages, 2)["result"]["tools"].as_array().unwrap().is_empty());
    assert_eq!(answer(messages, 3)["result"]["content"][0]["text"], "Tool with progress executed successfully");
    let reports = messages.iter().filter(|it| it["method"] == "notifications/progress");
    assert_eq!(reports.count(), 3, "{messages:?}");
}

#[tokio::test]
async fn before_a_running_gateway_it_answers_everything_and_ends_with_its_input() {
    let system = start().await;
    let mut input = conversation();
    input.push(request(4, "tools/call", json!({"name": "test_simple_text", "_meta": meta()})));
    let (messages, is_success) = run(&["--gateway", &system.url()], &input).await;
    check(&messages);
    assert_eq!(answer(&messages, 4)["result"]["resultType"], "complete");
    assert!(is_success);
}

#[tokio::test]
async fn it_repeats_arguments_as_headers_where_a_tool_asks_for_them() {
    let system = start().await;
    let call = |region: &str| json!({"name": "test_x_mcp_header", "arguments": {"region": region}, "_meta": meta()});
    let input = [request(1, "tools/call", call("eu-1")), request(2, "tools/call", call("ü"))];
    let (messages, is_success) = run(&["--gateway", &system.url()], &input).await;
    for id in [1, 2] {
        assert_eq!(answer(&messages, id)["result"]["resultType"], "complete", "{messages:?}");
    }
    assert!(is_success);
}

#[tokio::test]
async fn without_a_gateway_it_has_one_of_its_own() {
    let folders = format!("{}:{}", skills().display(), library().display());
    let (messages, is_success) = run(&["--skills-dir", &folders], &conversation()).await;
    check(&messages);
    assert!(is_success);
}

#[tokio::test]
async fn a_gateway_that_can_not_be_reached_is_an_error_of_each_request() {
    let (messages, is_success) = run(&["--gateway", "http://127.0.0.1:1"], &conversation()).await;
    assert!(is_success);
    for id in 1..=3 {
        assert_eq!(answer(&messages, id)["error"]["code"], -32603);
    }
}

#[test]
fn its_configuration_is_merged_into_the_file_of_a_client() {
    let folder = Folder::new();
    let file = folder.write("mcp.json", r#"{"mcpServers": {"other": {"command": "x"}}, "theme": "dark"}"#);
    let ran = std::process::Command::new(binary())
        .args(["mcp", "config", "cursor", "--gateway", "http://127.0.0.1:8000", "--write", "--file"])
        .arg(&file)
        .output()
        .unwrap();
    assert!(ran.status.success(), "{ran:?}");
    let written: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    assert_eq!((&written["theme"], &written["mcpServers"]["other"]["command"]), (&json!("dark"), &json!("x")));
    assert_eq!(written["mcpServers"]["openskill"]["args"], json!(["mcp", "--gateway", "http://127.0.0.1:8000"]));
}
