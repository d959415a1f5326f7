//! Misbehaving MCP servers over streamable HTTP.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use openskill_proto::v1::invoke_request::Arguments;
use openskill_proto::v1::skill_result::Output;
use openskill_proto::v1::{Blame, InvokeRequest};
use openskill_tests::backend::{Backend, Reply, Seen};
use openskill_tests::folder::Folder;
use openskill_tests::system::{PATIENCE, Setup, System, code, data, request};
use openskill_tests::wait::until_true;
use serde_json::{Value, json};

/// The answer to anything but a tool call.
fn protocol(seen: &Seen, session: &str) -> Reply {
    if seen.method != "POST" {
        return Reply::new(405, "text/plain", "");
    }
    let message = seen.json();
    let result = match message["method"].as_str() {
        Some("initialize") => json!({"protocolVersion": message["params"]["protocolVersion"],
            "capabilities": {"tools": {}}, "serverInfo": {"name": "odd", "version": "1"}}),
        Some("tools/list") => json!({"tools": [{"name": "odd", "inputSchema": {"type": "object"}}]}),
        Some("ping") => json!({}),
        _ => return Reply::new(202, "text/plain", ""),
    };
    let answer = Reply::json(200, &json!({"jsonrpc": "2.0", "id": message["id"], "result": result}));
    if message["method"] == "initialize" { answer.with("mcp-session-id", session) } else { answer }
}

/// The arguments of a call.
fn called(seen: &Seen) -> Option<(Value, Value)> {
    let message = serde_json::from_slice::<Value>(&seen.body).ok().filter(|it| it["method"] == "tools/call")?;
    Some((message["id"].clone(), message["params"]["arguments"].clone()))
}

fn answer(id: &Value, text: &str) -> Reply {
    let result = json!({"content": [{"type": "text", "text": text}]});
    Reply::json(200, &json!({"jsonrpc": "2.0", "id": id, "result": result}))
}

fn setup(backend: &Backend, more: &str) -> (Folder, Setup) {
    let folder = Folder::new();
    let text = format!(
        "id: web\ntype: mcp\nruntime: http\nentry: {}\nenv: [TOKEN]\ncircuit: {{failure_threshold: 0, minimum_calls: 0}}\n\
         mcp: {{headers: {{Authorization: 'Bearer ${{TOKEN}}'}}, allow: ['{}']{more}}}\n",
        backend.url("/mcp"),
        backend.address
    );
    folder.write("web.yaml", text);
    let skills = folder.path().display().to_string();
    let setup = Setup::command(&["up", "--listen", "127.0.0.1:0", "--workers", "1", "--skills-dir", &skills]);
    (folder, setup.with("TOKEN", "s3cr3t-token"))
}

async fn start(backend: &Backend) -> (Folder, System) {
    let (folder, setup) = setup(backend, "");
    let system = setup.start().await;
    system.has_skill("web__odd").await;
    (folder, system)
}

fn handshakes(backend: &Backend) -> usize {
    let first = |seen: &Seen| seen.method == "POST" && seen.json()["method"] == "initialize";
    backend.seen().iter().filter(|seen| first(seen)).count()
}

#[tokio::test]
async fn every_status_maps_to_a_code_and_a_broken_answer_fails_one_call() {
    let backend = Backend::start(|seen| match called(seen) {
        None => protocol(seen, "one"),
        Some((id, arguments)) => match arguments["status"].as_u64() {
            Some(0) => Reply::pieces("text/event-stream", futures_util::stream::empty()),
            Some(form @ 1..=2) => {
                let result = json!({"content": [], "_meta": {"x": vec![0; 100_000]}});
                let message = json!({"jsonrpc": "2.0", "id": id, "result": result});
                let event = futures_util::stream::iter([format!("data: {message}\n\n").into()]);
                if form == 1 { Reply::json(200, &message) } else { Reply::pieces("text/event-stream", event) }
            }
            Some(status) => Reply::new(status as u16, "text/plain", "no"),
            None => {
                let late = async move {
                    tokio::time::sleep(Duration::from_secs(2)).await;
                    let result = json!({"content": [{"type": "text", "text": "late"}]});
                    format!("data: {}\n\n", json!({"jsonrpc": "2.0", "id": id, "result": result})).into()
                };
                Reply::pieces("text/event-stream", futures_util::stream::once(late))
            }
        },
    })
    .await;
    let (_folder, system) = start(&backend).await;
    let mut client = system.skills().await;
    let other = tokio::spawn(async move { client.invoke(request("web__odd", json!({}))).await });
    for (status, expected) in [
        (401, "PERMISSION_DENIED"),
        (403, "PERMISSION_DENIED"),
        (429, "MCP_NETWORK_ERROR"),
        (503, "MCP_NETWORK_ERROR"),
        (413, "MCP_EXECUTION_ERROR"),
        (0, "MCP_NETWORK_ERROR"),
    ] {
        let result = system.invoke(request("web__odd", json!({"status": status}))).await;
        assert_eq!(code(&result), expected, "{status}: {result:?}");
        let error = result.error.unwrap();
        assert_eq!(error.blame(), Blame::Skill, "{status}");
        assert!(status == 0 || error.message.contains(&status.to_string()), "{}", error.message);
    }
    for form in [1, 2] {
        let result = system.invoke(request("web__odd", json!({"status": form}))).await;
        assert_eq!(code(&result), "OUTPUT_TOO_LARGE", "{result:?}");
    }
    assert_eq!(data(&other.await.unwrap().unwrap().into_inner()), json!("late"));
    assert_eq!(handshakes(&backend), 1, "the connection was kept");
}

#[tokio::test]
async fn an_echoed_secret_is_masked() {
    let backend = Backend::start(|seen| match called(seen) {
        None => protocol(seen, "one"),
        Some((id, _)) => answer(&id, seen.header("authorization")),
    })
    .await;
    let (_folder, system) = start(&backend).await;
    let result = system.invoke(request("web__odd", json!({}))).await;
    assert_eq!((data(&result), result.text.as_str()), (json!("Bearer [secret]"), "Bearer [secret]"));
    assert_eq!(backend.seen().last().unwrap().header("authorization"), "Bearer s3cr3t-token");
}

#[tokio::test]
async fn a_server_that_lost_the_session_is_reconnected_and_the_call_is_retried() {
    let count = Arc::new(AtomicUsize::new(0));
    let calls = Arc::clone(&count);
    let backend = Backend::start(move |seen| match called(seen) {
        None => protocol(seen, "one"),
        Some(_) if calls.fetch_add(1, Ordering::SeqCst) == 0 => Reply::new(404, "text/plain", ""),
        Some((id, _)) => answer(&id, "here"),
    })
    .await;
    let (_folder, system) = start(&backend).await;
    let call = InvokeRequest { timeout_ms: 20_000, ..request("web__odd", json!({})) };
    assert_eq!(data(&system.invoke(call).await), json!("here"));
    let lists =
        backend.seen().iter().filter(|seen| seen.method == "POST" && seen.json()["method"] == "tools/list").count();
    assert_eq!((count.load(Ordering::SeqCst), handshakes(&backend), lists), (2, 2, 2));
}

#[tokio::test]
async fn a_request_that_is_not_answered_ends_its_call_and_a_lost_session_is_renewed() {
    let lost = Arc::new(AtomicUsize::new(0));
    let state = Arc::clone(&lost);
    let refusal = |status, id: Value| {
        let error = json!({"code": -32000, "message": "Bad Request: No valid session ID provided"});
        Reply::json(status, &json!({"jsonrpc": "2.0", "error": error, "id": id}))
    };
    let refused = move |form: usize| match form {
        0 => Reply::new(202, "text/plain", ""),
        1 => refusal(400, Value::Null),
        2 => refusal(500, json!("server-error")),
        _ => refusal(200, json!("server-error")),
    };
    // A session of a form that was lost is refused everything; the next one has all.
    let backend = Backend::start(move |seen| {
        let form = state.load(Ordering::SeqCst);
        let is_first = seen.method == "POST" && seen.json()["method"] == "initialize";
        match called(seen) {
            _ if is_first => {
                state.store(0, Ordering::SeqCst);
                protocol(seen, "one")
            }
            None if form == 0 => protocol(seen, "one"),
            None => refused(form - 1),
            Some((id, arguments)) => match arguments["lose"].as_u64() {
                Some(form) => {
                    state.store(form as usize + 1, Ordering::SeqCst);
                    refused(form as usize)
                }
                None => answer(&id, "here"),
            },
        }
    })
    .await;
    let (_folder, system) = start(&backend).await;
    let expected = ["MCP_EXECUTION_ERROR", "MCP_EXECUTION_ERROR", "MCP_NETWORK_ERROR", "MCP_EXECUTION_ERROR"];
    for (form, expected) in expected.into_iter().enumerate() {
        let call = InvokeRequest { timeout_ms: 60_000, ..request("web__odd", json!({"lose": form})) };
        let result = system.invoke(call).await;
        assert_eq!(code(&result), expected, "{form}: {result:?}");
        until_true("a new session", PATIENCE, || handshakes(&backend) == form + 2).await;
        let call = InvokeRequest { timeout_ms: 60_000, ..request("web__odd", json!({})) };
        assert_eq!(data(&system.invoke(call).await), json!("here"), "{form}");
    }
}

#[tokio::test]
async fn servers_with_unusual_answers_can_be_called() {
    let backend = Backend::start(|seen| {
        if seen.path() == "/mcp" {
            return Reply::redirect(307, "/mcp/");
        }
        if seen.method != "POST" {
            return Reply::new(405, "text/plain", "");
        }
        let text = match called(seen) {
            Some((id, _)) => {
                let body = String::from_utf8_lossy(&seen.body);
                let arguments = body.split_once("\"arguments\":").unwrap().1.split_inclusive('}').next().unwrap();
                let content = r#"[{"type":"hologram"},{"type":"text","text":"bad \ud83d end"}]"#;
                format!(
                    r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":{content},"structuredContent":{arguments}}}}}"#
                )
            }
            None if seen.json()["method"] == "initialize" => {
                let message = json!({"jsonrpc": "2.0", "id": seen.json()["id"], "result": {
                    "protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                    "serverInfo": {"name": "odd", "version": "1"}}});
                let events =
                    format!("event: ping\ndata: ping\n\ndata: heartbeat\n\nevent: message\ndata: {message}\n\n");
                return Reply::pieces("Text/Event-Stream", futures_util::stream::iter([events.into()]));
            }
            None => return protocol(seen, "one"),
        };
        Reply::new(200, "Application/JSON", text)
    })
    .await;
    let (_folder, system) = start(&backend).await;
    let input = r#"{"wei":12345678901234567890123,"max":18446744073709551616,"ratio":0.1234567890123456789012}"#;
    let arguments = Some(Arguments::InputJson(input.to_owned()));
    let result = system.invoke(InvokeRequest { arguments, ..request("web__odd", json!({})) }).await;
    assert_eq!(result.output, Some(Output::DataJson(input.to_owned())), "{result:?}");
    assert_eq!(result.text, "bad \u{fffd} end");
}

#[tokio::test]
async fn a_server_that_knows_no_handshake_can_be_called() {
    let backend = Backend::start(|seen| {
        if seen.method != "POST" {
            return Reply::new(405, "text/plain", "");
        }
        let message = seen.json();
        let result = match message["method"].as_str() {
            Some("server/discover") => json!({"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}},
                "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}),
            Some("tools/list") => json!({"tools": [{"name": "odd", "inputSchema": {"type": "object"}}],
                "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}),
            Some("tools/call") => {
                let meta = &message["params"]["_meta"];
                let revision = meta["io.modelcontextprotocol/protocolVersion"].as_str().unwrap_or("none");
                json!({"content": [{"type": "text", "text": revision}], "resultType": "complete"})
            }
            _ => {
                let error = json!({"code": -32601, "message": "Method not found"});
                return Reply::json(404, &json!({"jsonrpc": "2.0", "id": message["id"], "error": error}));
            }
        };
        Reply::json(200, &json!({"jsonrpc": "2.0", "id": message["id"], "result": result}))
    })
    .await;
    let (_folder, system) = start(&backend).await;
    let result = system.invoke(request("web__odd", json!({}))).await;
    assert_eq!(data(&result), json!("2026-07-28"), "{result:?}");
}

#[tokio::test]
async fn an_unanswered_handshake_leaks_no_connection() {
    let backend = Backend::start(|_| Reply::pieces("text/event-stream", futures_util::stream::pending())).await;
    let (_folder, setup) = setup(&backend, ", start_s: 1");
    let _system = setup.start().await;
    until_true("there were three attempts", PATIENCE, || handshakes(&backend) >= 3).await;
    until_true("at most one connection is open", PATIENCE, || backend.open_connections() <= 1).await;
}
