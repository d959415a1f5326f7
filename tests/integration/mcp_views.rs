//! Views: parts of the catalog as MCP servers of their own.

use std::time::Duration;

use openskill_tests::folder::Folder;
use openskill_tests::rest::Answer;
use openskill_tests::system::{Setup, System};
use openskill_tests::{repository, wait};
use serde_json::{Value, json};

mod authorization;
mod listening;
mod ownership;

const PATIENCE: Duration = Duration::from_secs(20);

/// Skills that read, that write, and one of a toolset; and the file of views.
struct Views(Folder);

const FILE: &str = "
[views.some]
skills = ['reads', 'writes']

[views.some.names]
reads = 'Exact.Name'

[views.of_set]
toolsets = ['notes']

[views.reading]
read_only = true

[views.search]
list = 'search'
pinned = ['in_set']

[views.reading_search]
list = 'search'
read_only = true
";

impl Views {
    fn with(text: &str) -> Self {
        let views = Self(Folder::new());
        for (id, about, rest) in [
            ("reads", "Reads the temperature of a room.", "read_only: true"),
            ("writes", "Writes a letter to somebody.", "destructive: false"),
            ("in_set", "Counts the notes of a day.", "toolset: notes"),
        ] {
            let run = "type: cli\nruntime: python\nentry: run.py\nparameters:\n  text: {type: string}\n";
            views.0.write(&format!("{id}.yaml"), format!("id: {id}\ndescription: {about}\n{rest}\n{run}"));
        }
        let script = "import json, os, sys\nrequest = json.load(sys.stdin)\n\
                      print(json.dumps({'skill': os.environ['OPENSKILL_SKILL_ID'], 'input': request['input']}))\n";
        views.0.write("run.py", script);
        views.write(text);
        views
    }

    fn write(&self, text: &str) {
        let path = self.0.write("views.toml.new", text);
        std::fs::rename(path, self.0.path().join("views.toml")).unwrap();
    }

    fn up(&self) -> Setup {
        Setup::with_skills(&[self.0.path()])
            .with("OPENSKILL_MCP_VIEWS_FILE", self.0.path().join("views.toml").display())
    }
}

const HEADERS: [(&str, &str); 2] =
    [("accept", "application/json, text/event-stream"), ("content-type", "application/json")];

async fn ask(system: &System, path: &str, method: &str, params: Value) -> Answer {
    let body = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params});
    system.post(path, &HEADERS, body.to_string()).await
}

async fn tools(system: &System, path: &str) -> Vec<Value> {
    let answer = ask(system, path, "tools/list", json!({})).await;
    answer.json()["result"]["tools"].as_array().unwrap_or_else(|| panic!("{answer:?}")).clone()
}

async fn names(system: &System, path: &str) -> Vec<String> {
    tools(system, path).await.iter().map(|it| it["name"].as_str().unwrap().to_owned()).collect()
}

async fn call(system: &System, path: &str, name: &str, arguments: Value) -> Value {
    ask(system, path, "tools/call", json!({"name": name, "arguments": arguments})).await.json()
}

/// The data that the skill of these tests returned.
fn data(answer: &Value) -> Value {
    let text = answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}"));
    serde_json::from_str(text).unwrap_or_else(|_| panic!("{answer}"))
}

#[tokio::test]
async fn a_view_lists_and_calls_its_own_skills_by_their_names() {
    let views = Views::with(FILE);
    let system = views.up().start().await;
    assert_eq!(names(&system, "/mcp").await, ["in_set", "reads", "writes"]);
    assert_eq!(names(&system, "/mcp/some").await, ["Exact.Name", "writes"]);
    assert_eq!(names(&system, "/mcp/of_set").await, ["in_set"]);
    assert_eq!(names(&system, "/mcp/reading").await, ["reads"]);
    let called = call(&system, "/mcp/some", "Exact.Name", json!({"text": "a"})).await;
    assert_eq!(data(&called), json!({"skill": "reads", "input": {"text": "a"}}));
    for (path, name) in [("/mcp/some", "reads"), ("/mcp/some", "in_set"), ("/mcp/reading", "writes"), ("/mcp", "none")]
    {
        let refused = call(&system, path, name, json!({})).await;
        assert_eq!(refused["error"]["code"], -32602, "{path} {name}: {refused}");
    }
    assert_eq!(ask(&system, "/mcp/unknown", "tools/list", json!({})).await.status, 404);
    let metrics = String::from_utf8(system.get("/metrics").await.body.into()).unwrap();
    let series = "openskill_mcp_requests_total{view=\"some\",protocol=\"2025-03-26\",method=\"tools/list\"} 1";
    assert!(metrics.contains(series), "{metrics}");
}

#[tokio::test]
async fn a_view_that_searches_lists_little_and_calls_everything() {
    let views = Views::with(FILE);
    let system = views.up().start().await;
    assert_eq!(names(&system, "/mcp/search").await, ["call_read_only_tool", "call_tool", "in_set", "search_tools"]);
    let found = call(&system, "/mcp/search", "search_tools", json!({"query": "how warm is the room?"})).await;
    let structured = &found["result"]["structuredContent"];
    assert_eq!(structured["tools"][0]["name"], "reads", "{found}");
    assert_eq!(structured["tools"][0]["annotations"]["readOnlyHint"], true);
    assert_eq!(data(&found), *structured);
    let letter = call(&system, "/mcp/search", "search_tools", json!({"query": "write a letter", "limit": 1})).await;
    assert_eq!(letter["result"]["structuredContent"]["tools"].as_array().unwrap().len(), 1);
    let none = call(&system, "/mcp/search", "search_tools", json!({"query": "xyzzy"})).await;
    assert!(none["result"]["structuredContent"]["hint"].as_str().unwrap().contains("other words"), "{none}");
    for (name, inner, skill) in
        [("call_tool", "writes", "writes"), ("call_tool", "reads", "reads"), ("call_read_only_tool", "reads", "reads")]
    {
        let called = call(&system, "/mcp/search", name, json!({"name": inner, "arguments": {"text": "x"}})).await;
        assert_eq!(data(&called), json!({"skill": skill, "input": {"text": "x"}}), "{name} {inner}");
    }
    for (name, arguments) in [
        ("call_read_only_tool", json!({"name": "writes"})),
        ("call_tool", json!({"name": "none"})),
        ("call_tool", json!({"arguments": {}})),
        ("search_tools", json!({"limit": 3})),
    ] {
        let refused = call(&system, "/mcp/search", name, arguments.clone()).await;
        assert_eq!(refused["result"]["isError"], true, "{name} {arguments}: {refused}");
    }
    // What is not listed is called by the tools that are.
    assert_eq!(call(&system, "/mcp/search", "writes", json!({})).await["error"]["code"], -32602);
    assert_eq!(data(&call(&system, "/mcp/search", "in_set", json!({})).await)["skill"], "in_set");
}

#[tokio::test]
async fn a_view_that_only_reads_has_no_tool_that_calls_everything() {
    let views = Views::with(FILE);
    let system = views.up().start().await;
    let listed = tools(&system, "/mcp/reading_search").await;
    assert!(listed.iter().all(|it| it["annotations"]["readOnlyHint"] == true), "{listed:?}");
    assert_eq!(names(&system, "/mcp/reading_search").await, ["call_read_only_tool", "search_tools"]);
    let refused = call(&system, "/mcp/reading_search", "call_read_only_tool", json!({"name": "writes"})).await;
    assert_eq!(refused["result"]["isError"], true);
}

#[tokio::test]
async fn a_file_that_can_not_be_used_changes_nothing_and_is_counted() {
    let views = Views::with(FILE);
    let system = views.up().start().await;
    views.write("[views.some]\nskill = ['misspelled']\n");
    wait::until("the failure is counted", PATIENCE, || async {
        let metrics = String::from_utf8(system.get("/metrics").await.body.into()).unwrap();
        metrics.contains("openskill_mcp_views_failures_total 1").then_some(())
    })
    .await;
    assert_eq!(names(&system, "/mcp/some").await, ["Exact.Name", "writes"]);
    views.write("[default]\nskills = ['reads']\n");
    let is_new = || async { (names(&system, "/mcp").await == ["reads"]).then_some(()) };
    wait::until("the new file counts", PATIENCE, is_new).await;
    assert_eq!(ask(&system, "/mcp/some", "tools/list", json!({})).await.status, 404);
}

#[tokio::test]
async fn a_gateway_does_not_start_with_a_file_that_can_not_be_used() {
    let views = Views::with("[views.some]\nskill = ['misspelled']\n");
    let mut process = views.up().spawn();
    let line = process.log.line(&["OPENSKILL_MCP_VIEWS_FILE", "unknown field"]).await;
    assert!(line.contains("line 2"), "{line}");
    assert!(!process.ended().await.success());
}

#[tokio::test]
async fn a_client_on_stdio_has_its_view() {
    let views = Views::with(FILE);
    let system = views.up().start().await;
    let listing = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}});
    let mut child = tokio::process::Command::new(openskill_tests::binary())
        .args(["mcp", "--gateway", &system.url(), "--view", "of_set"])
        .current_dir(repository())
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    tokio::io::AsyncWriteExt::write_all(&mut stdin, format!("{listing}\n").as_bytes()).await.unwrap();
    drop(stdin);
    let output = tokio::time::timeout(PATIENCE, child.wait_with_output()).await.expect("it ends").unwrap();
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    let tools = answer["result"]["tools"].as_array().unwrap();
    assert_eq!((tools.len(), &tools[0]["name"]), (1, &json!("in_set")));
}
