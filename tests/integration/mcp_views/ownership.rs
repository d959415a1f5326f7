//! What began at a view is there at that view alone, whose scopes protect it: tasks, streams and long results.

use http::Method;
use openskill_tests::folder::Folder;
use openskill_tests::rest::{Answer, send};
use openskill_tests::system::System;
use openskill_tests::tokens::{Signer, claims};
use serde_json::{Value, json};

use super::authorization::{ask, protected};
use super::{HEADERS, Views};

const FILE: &str = "
[default]
scopes = ['tools']

[views.notes]
scopes = ['notes']
";

const NEWEST: &str = "2026-07-28";

/// Reports progress, and returns its text.
const SCRIPT: &str = "import json, os, sys\nevents = int(os.environ['OPENSKILL_EVENTS_FD'])\n\
                      os.write(events, b'{\"progress\": {\"fraction\": 0.5}}\\n')\n\
                      print(json.dumps(json.load(sys.stdin)['input']['text']))\n";

/// A gateway, and two tokens of one user: one for the view of notes, and one that lacks its scope.
struct Stage {
    system: System,
    notes: String,
    tools: String,
    _folder: Folder,
    _views: Views,
}

impl Stage {
    async fn start() -> Self {
        let (views, signer) = (Views::with(FILE), Signer::p256("a"));
        views.0.write("run.py", SCRIPT);
        let later = "id: later\ndescription: Takes its time.\ntask: {after_ms: 0}\nread_only: true\n\
                     type: cli\nruntime: python\nentry: run.py\nparameters:\n  text: {type: string}\n";
        views.0.write("later.yaml", later);
        let (setup, folder) = protected(&views, &signer);
        let system = setup.with("OPENSKILL_MCP_RESULT_BYTES", 2000).start().await;
        let token = |scope: &str| signer.token(&claims(&json!({ "scope": scope })));
        Self { system, notes: token("notes"), tools: token("tools"), _folder: folder, _views: views }
    }

    /// A request of the newest revision.
    async fn newest(&self, path: &str, token: &str, method: &str, name: &str, mut params: Value) -> Answer {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": NEWEST,
            "io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}},
        });
        let body = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params}).to_string();
        let authorization = format!("Bearer {token}");
        let mut headers = HEADERS.to_vec();
        headers.extend([
            ("authorization", authorization.as_str()),
            ("mcp-protocol-version", NEWEST),
            ("mcp-method", method),
            ("mcp-name", name),
        ]);
        self.system.post(path, &headers, body).await
    }
}

#[tokio::test]
async fn a_task_is_there_at_its_view_and_for_its_scopes_alone() {
    let stage = Stage::start().await;
    let call = json!({"name": "later", "arguments": {"text": "x"}});
    let created = stage.newest("/mcp/notes", &stage.notes, "tools/call", "later", call).await.json();
    let id = created["result"]["taskId"].as_str().unwrap_or_else(|| panic!("{created}"));
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        let params = json!({"taskId": id, "inputResponses": {}});
        let elsewhere = stage.newest("/mcp", &stage.tools, method, id, params.clone()).await;
        assert_eq!((elsewhere.status, &elsewhere.json()["error"]["code"]), (400, &json!(-32602)), "{method}");
        let lacking = stage.newest("/mcp/notes", &stage.tools, method, id, params.clone()).await;
        assert_eq!(lacking.status, 403, "{method}");
        let own = stage.newest("/mcp/notes", &stage.notes, method, id, params).await;
        assert_eq!(own.json()["result"]["resultType"], "complete", "{method}: {own:?}");
    }
}

#[tokio::test]
async fn a_long_result_is_there_at_its_view_and_for_its_scopes_alone() {
    let stage = Stage::start().await;
    let arguments = json!({"name": "reads", "arguments": {"text": "x".repeat(5000)}});
    let called = ask(&stage.system, "/mcp/notes", &stage.notes, "tools/call", arguments).await.json();
    let uri = called["result"]["content"][1]["text"].as_str().and_then(|it| it.split(": ").nth(1));
    let uri = uri.unwrap_or_else(|| panic!("{called}"));
    let read =
        async |path: &str, token: &str| ask(&stage.system, path, token, "resources/read", json!({ "uri": uri })).await;
    assert_eq!(read("/mcp", &stage.tools).await.json()["error"]["code"], -32002);
    assert_eq!(read("/mcp/notes", &stage.tools).await.status, 403);
    let own = read("/mcp/notes", &stage.notes).await.json();
    assert!(own["result"]["contents"][0]["text"].as_str().is_some_and(|it| it.starts_with("xxx")), "{own}");
}

#[tokio::test]
async fn a_stream_is_taken_up_at_its_view_and_for_its_scopes_alone() {
    let stage = Stage::start().await;
    let authorization = |token: &str| format!("Bearer {token}");
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}});
    let begun = ask(&stage.system, "/mcp/notes", &stage.notes, "initialize", params).await;
    let session = begun.header("mcp-session-id");
    let params = json!({"name": "reads", "arguments": {"text": "x"}, "_meta": {"progressToken": 1}});
    let call = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params});
    let own = authorization(&stage.notes);
    let headers = [HEADERS[0], HEADERS[1], ("authorization", own.as_str()), ("mcp-session-id", session)];
    let called = stage.system.post("/mcp/notes", &headers, call.to_string()).await;
    let text = String::from_utf8_lossy(&called.body);
    let first = text.lines().find_map(|line| line.strip_prefix("id: ")).unwrap_or_else(|| panic!("{called:?}"));
    let resume = async |path: &str, token: &str| {
        let authorization = authorization(token);
        let headers = [
            HEADERS[0],
            ("authorization", authorization.as_str()),
            ("mcp-session-id", session),
            ("last-event-id", first),
        ];
        send(stage.system.address, Method::GET, path, &headers, "").await
    };
    assert_eq!(resume("/mcp", &stage.tools).await.status, 400);
    assert_eq!(resume("/mcp/notes", &stage.tools).await.status, 403);
    let resumed = resume("/mcp/notes", &stage.notes).await;
    assert!(resumed.status == 200 && String::from_utf8_lossy(&resumed.body).contains("\"result\""), "{resumed:?}");
}
