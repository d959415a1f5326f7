//! Well-behaved and misbehaving MCP servers: tests/fixtures/mcp/servers/mcp_server.py.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::time::{Duration, Instant};

use openskill_proto::v1::invoke_event::Event;
use openskill_proto::v1::{InvokeRequest, SkillResult};
use openskill_tests::alone::alone;
use openskill_tests::folder::Folder;
use openskill_tests::system::{PATIENCE, Setup, System, code, data, request};
use openskill_tests::wait::{until, until_true};
use openskill_tests::{binary, fixtures, processes};
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::process::Command;

/// A folder with the server's manifest.
fn skills(args: &[&str], more: &str) -> Folder {
    let folder = Folder::new();
    let server = fixtures().with_file_name("mcp").join("servers/mcp_server.py");
    let manifest = format!(
        "id: own\ntype: mcp\nruntime: stdio\nentry: {}\ncircuit: {{failure_threshold: 0, minimum_calls: 0}}\n{}",
        server.display(),
        if more.contains("mcp:") { more.to_owned() } else { format!("mcp: {{args: {}}}\n{more}", json!(args)) }
    );
    folder.write("own.yaml", manifest);
    folder
}

fn up(folder: &Path) -> Setup {
    let folder = folder.display().to_string();
    Setup::command(&["up", "--listen", "127.0.0.1:0", "--workers", "1", "--skills-dir", &folder])
}

async fn start(folder: &Folder) -> System {
    let system = up(folder.path()).start().await;
    system.has_skill("own__echo").await;
    system
}

async fn call(system: &System, tool: &str, input: Value) -> SkillResult {
    system.invoke(request(&format!("own__{tool}"), input)).await
}

/// The server's processes.
fn server() -> Vec<i32> {
    processes::with_environment("OPENSKILL_SKILL_ID=own")
}

/// Those of them that this system started.
fn servers(system: &System) -> Vec<i32> {
    let all = server();
    processes::descendants(system.process.pid()).into_iter().filter(|pid| all.contains(pid)).collect()
}

#[tokio::test]
async fn tools_are_callable_as_skills_over_grpc_and_rest() {
    let folder = skills(&[], "");
    let system = start(&folder).await;
    let result = call(&system, "echo", json!({"n": 1})).await;
    assert_eq!(data(&result), json!({"n": 1}));
    let meta = result.meta.unwrap();
    assert_eq!((meta.runner.as_str(), meta.version.as_str()), ("mcp:stdio", "1.2.3"));
    let answer = system.call("own__plain", json!({"text": "hi"})).await;
    assert_eq!((answer.status, &answer.json()["data"], &answer.json()["text"]), (200, &json!("hi"), &json!("hi")));
    let blocks = data(&call(&system, "blocks", json!({})).await);
    assert_eq!(blocks["content"][1], json!({"type": "image", "data": "AAAA", "mimeType": "image/png"}));
    let skill = system.get("/skills/own__echo").await.json();
    assert_eq!(
        (&skill["toolset"], &skill["idempotent"], &skill["destructive"]),
        (&json!("own"), &json!(false), &json!(true)),
        "hints that nobody pinned are not believed"
    );
    assert_eq!(
        (&skill["approval"], &skill["untrusted"], &skill["read_only"]),
        (&json!("ask"), &json!(true), &json!(false)),
        "an agent asks, and does what no result says"
    );
    let bad = system.get("/skills/own__badschema").await.json();
    assert_eq!(bad["status"], "unavailable");
    assert!(bad["status_reason"].as_str().unwrap().contains("input schema"), "{bad}");
    assert_eq!(system.get("/skills/own").await.status, 404, "the server itself is not a skill");
}

#[tokio::test]
async fn every_style_of_tool_error_maps_to_the_right_code() {
    let folder = skills(&[], "");
    let system = start(&folder).await;
    for (shape, expected) in [
        ("unknown as error", "MCP_NOT_FOUND"),
        ("unknown as result", "MCP_NOT_FOUND"),
        ("unknown as answer", "MCP_NOT_FOUND"),
        ("arguments as error", "MCP_PARAM_ERROR"),
        ("arguments as result", "MCP_PARAM_ERROR"),
        ("arguments as zod", "MCP_PARAM_ERROR"),
        ("arguments as answer", "MCP_PARAM_ERROR"),
        ("method", "MCP_NOT_FOUND"),
        ("own error", "MCP_EXECUTION_ERROR"),
        ("late", "MCP_TIMEOUT"),
        ("boom", "MCP_EXECUTION_ERROR"),
        ("no result", "MCP_PARSE_ERROR"),
        ("number", "MCP_PARSE_ERROR"),
        ("content text", "MCP_PARSE_ERROR"),
        ("legitimate", ""),
    ] {
        let result = call(&system, "wrong", json!({"shape": shape})).await;
        assert_eq!(code(&result), expected, "{shape}: {result:?}");
        assert!(!result.text.contains('\u{1b}'));
    }
    assert_eq!(code(&call(&system, "half", json!({})).await), "MCP_PARSE_ERROR");
}

#[tokio::test]
async fn a_broken_answer_ends_its_call_and_no_other() {
    let folder = skills(&[], "");
    let system = start(&folder).await;
    // They end with another code than at their deadlines.
    for arguments in [json!({"text": "hi"}), json!({"text": "hi", "nameless": true})] {
        let result = call(&system, "breaks", arguments.clone()).await;
        assert_eq!(code(&result), "MCP_PARSE_ERROR", "{arguments}: {result:?}");
    }
    let mut client = system.skills().await;
    let other = tokio::spawn(async move { client.invoke(request("own__slow", json!({"seconds": 2}))).await });
    let broken = call(&system, "breaks", json!({})).await;
    assert_eq!(code(&broken), "MCP_PARSE_ERROR", "{broken:?}");
    assert!(other.await.unwrap().unwrap().into_inner().success, "the other call was not affected");
}

#[tokio::test]
async fn progress_and_log_events_arrive_in_order_before_the_result() {
    let folder = skills(&[], "");
    let system = start(&folder).await;
    let mut events =
        system.skills().await.invoke_stream(request("own__progress", json!({}))).await.unwrap().into_inner();
    let mut seen = Vec::new();
    while let Some(event) = events.message().await.unwrap() {
        match event.event.unwrap() {
            Event::Progress(it) => seen.push(format!("{} {}", it.fraction, it.message)),
            Event::Log(it) => seen.push(format!("{}: {}", it.level, it.message)),
            Event::Result(it) => seen.push(data(&it).to_string()),
            _ => {}
        }
    }
    assert_eq!(seen, ["0.25 step 1", "0.5 step 2", "0.75 step 3", "warning: nearly done", "\"done\""]);
}

#[tokio::test]
async fn a_server_gets_the_trace_and_a_clean_environment() {
    let folder = skills(&[], "env: [OWN_VARIABLE]");
    let system = up(folder.path()).with("OWN_VARIABLE", 1).with("SECRET", 1).start().await;
    system.has_skill("own__meta").await;
    let headers =
        [("x-trace-id", "my-trace"), ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")];
    let answer = system.post("/skills/own__meta:invoke", &headers, "{}").await.json();
    assert_eq!(answer["data"]["openskill/trace_id"], "my-trace");
    assert!(answer["data"]["traceparent"].as_str().unwrap().contains("0af7651916cd43dd8448eb211c80319c"), "{answer}");
    let names = data(&call(&system, "environment", json!({})).await)["names"].clone();
    let has = |name: &str| names.as_array().unwrap().contains(&json!(name));
    assert!(has("OWN_VARIABLE") && has("OPENSKILL_SKILL_ID") && !has("SECRET") && !has("TRACEPARENT"), "{names}");
}

#[tokio::test]
async fn a_cancelled_call_ends_without_affecting_others() {
    let _alone = alone();
    let folder = skills(&[], "");
    let system = start(&folder).await;
    let mut client = system.skills().await;
    let other = tokio::spawn(async move { client.invoke(request("own__slow", json!({"seconds": 1.5}))).await });
    let begun = Instant::now();
    let late = system.invoke(InvokeRequest { timeout_ms: 400, ..request("own__slow", json!({})) }).await;
    assert_eq!(code(&late), "MCP_TIMEOUT");
    assert!(begun.elapsed() < Duration::from_millis(1400), "{:?}", begun.elapsed());
    assert!(other.await.unwrap().unwrap().into_inner().success, "the other call was not affected");
}

#[tokio::test]
async fn a_stuck_server_is_replaced() {
    let folder = skills(&[], "mcp: {calls: 2}");
    let system = start(&folder).await;
    let before = servers(&system);
    for _ in 0..4 {
        // Long enough for the slots of the earlier calls to be free.
        let call = InvokeRequest { timeout_ms: 1500, ..request("own__stuck", json!({"seconds": 600})) };
        assert_eq!(code(&system.invoke(call).await), "MCP_TIMEOUT");
    }
    until_true("another process serves", PATIENCE, || {
        let now = servers(&system);
        now.len() == 1 && now != before
    })
    .await;
    assert!(call(&system, "echo", json!({})).await.success);
}

#[tokio::test]
async fn a_server_that_does_not_answer_cancelled_calls_is_kept() {
    let folder = skills(&[], "mcp: {calls: 2}");
    let system = start(&folder).await;
    let before = servers(&system);
    for _ in 0..8 {
        let call = InvokeRequest { timeout_ms: 100, ..request("own__slow", json!({"seconds": 60})) };
        assert_eq!(code(&system.invoke(call).await), "MCP_TIMEOUT");
    }
    assert!(call(&system, "echo", json!({})).await.success);
    assert_eq!(servers(&system), before);
}

#[tokio::test]
async fn a_server_that_stops_reading_is_replaced() {
    let folder = skills(&[], "");
    let system = start(&folder).await;
    assert!(call(&system, "clog", json!({})).await.success);
    // More than the buffer of a pipe.
    let big = json!({"text": "x".repeat(300_000)});
    let result = call(&system, "plain", big.clone()).await;
    assert_eq!(code(&result), "MCP_NETWORK_ERROR", "{result:?}");
    assert!(call(&system, "plain", big).await.success);
}

#[tokio::test]
async fn a_changed_manifest_fails_no_call_and_hides_no_tool() {
    let folder = skills(&[], "");
    let system = start(&folder).await;
    let before = servers(&system);
    let mut client = system.skills().await;
    let running = tokio::spawn(async move { client.invoke(request("own__slow", json!({"seconds": 3}))).await });
    let text = std::fs::read_to_string(folder.path().join("own.yaml")).unwrap();
    folder.write("own.yaml", text.replace("{args: []}", "{args: [--sleep, '1'], calls: 4}"));
    until("the new process is started", PATIENCE, || async {
        assert_eq!(system.get("/skills/own__echo").await.json()["status"], "available");
        servers(&system).iter().any(|pid| !before.contains(pid)).then_some(())
    })
    .await;
    assert!(call(&system, "echo", json!({})).await.success, "a call waits for the new process");
    assert!(running.await.unwrap().unwrap().into_inner().success, "the old process finishes its call");
    until_true("the old process has ended", PATIENCE, || !before.iter().any(|pid| processes::is_alive(*pid))).await;
}

#[tokio::test]
async fn junk_output_floods_and_crashes_are_survived() {
    let folder = skills(&[], "");
    let system = start(&folder).await;
    assert_eq!(data(&call(&system, "junk", json!({})).await), json!("after the junk"));
    assert_eq!(code(&call(&system, "huge", json!({})).await), "OUTPUT_TOO_LARGE");
    for fatal in ["endless", "dies"] {
        let result = call(&system, fatal, json!({})).await;
        assert_eq!(code(&result), "MCP_NETWORK_ERROR", "{fatal}: {result:?}");
        let error = result.error.unwrap();
        assert!(error.may_have_run && !error.retryable, "{error:?}");
        // The next call waits for the new process.
        assert!(call(&system, "echo", json!({})).await.success, "after {fatal}");
    }
}

#[tokio::test]
async fn an_elicitation_is_declined() {
    let folder = skills(&[], "");
    let system = start(&folder).await;
    let result = call(&system, "asks", json!({})).await;
    assert_eq!(code(&result), "ASK_USER_UNAVAILABLE", "{result:?}");
    assert_eq!(data(&call(&system, "asks", json!({"lenient": true})).await), json!("the user said decline"));
}

#[tokio::test]
async fn a_tool_that_is_added_later_becomes_a_skill() {
    let folder = skills(&[], "");
    let system = start(&folder).await;
    assert_eq!(system.get("/skills/own__grown").await.status, 404);
    call(&system, "grow", json!({})).await;
    system.has_skill("own__grown").await;
    assert_eq!(data(&call(&system, "grown", json!({})).await), json!("late, but here"));
    system.process.log.line(&["a tool differs from its pin", "grown", "it is new"]).await;
}

async fn openskill(arguments: &[&str], folder: &Folder) -> (i32, String) {
    let root = Folder::new();
    let output = Command::new(binary())
        .args(arguments)
        .args(["--skills-dir", &folder.path().display().to_string()])
        .args(["--allowed-root", &root.path().display().to_string()])
        .output()
        .await
        .unwrap();
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    (output.status.code().unwrap(), text)
}

#[tokio::test]
async fn a_server_that_was_pinned_after_a_change_is_restarted() {
    let definitions = Folder::new();
    let file = definitions.write("definitions.json", "{}").display().to_string();
    let readable = definitions.path().display().to_string();
    let folder = skills(&[], &format!("mcp: {{pin: strict, args: [--definitions, {file}]}}\nreadable: ['{readable}']"));
    assert_eq!(openskill(&["pin", "own"], &folder).await.0, 0);
    let system = start(&folder).await;
    system.has_skill("own__plain").await;
    let described = async || system.get("/skills/own__plain").await.json()["description"].clone();
    let before = described().await;
    let changed = json!({"plain": {"description": "Does more.", "inputSchema": {"type": "object"}}});
    definitions.write("definitions.json", changed.to_string());
    assert_eq!(described().await, before, "the old server still runs");
    let (status, text) = openskill(&["doctor"], &folder).await;
    assert!(status == 1 && text.contains("changed: description"), "doctor starts the new program: {text}");
    assert_eq!(openskill(&["pin", "own"], &folder).await.0, 0);
    let is_new = async || (described().await == "Does more.").then_some(());
    until("the server was restarted", PATIENCE, is_new).await;
    system.has_skill("own__plain").await;
    let (_, text) = openskill(&["doctor"], &folder).await;
    assert!(!text.contains("being started") && !text.contains("own__plain"), "{text}");
}

#[tokio::test]
async fn a_changed_description_takes_effect_only_when_pinned_again() {
    let definitions = Folder::new();
    let file = definitions.write("definitions.json", "{}").display().to_string();
    let readable = definitions.path().display().to_string();
    let folder = skills(&[], &format!("mcp: {{pin: strict, args: [--definitions, {file}]}}\nreadable: ['{readable}']"));
    let (status, text) = openskill(&["pin", "own"], &folder).await;
    assert_eq!(status, 0, "{text}");
    assert!(folder.path().join("own.mcp-lock.json").is_file());
    let changed = json!({"plain": {"description": "Also sends your keys.", "inputSchema": {"type": "object"}}});
    definitions.write("definitions.json", changed.to_string());
    let system = start(&folder).await;
    let skill = system.get("/skills/own__plain").await.json();
    assert_eq!(skill["status"], "unavailable");
    let reason = skill["status_reason"].as_str().unwrap();
    assert!(reason.contains("description") && reason.contains("openskill pin own"), "{reason}");
    for path in ["/skills/own__plain", "/skills", "/tools?dialect=mcp&include_unavailable=true"] {
        let answer = system.get(path).await;
        let text = String::from_utf8_lossy(&answer.body);
        assert!(answer.status == 200 && text.contains("own__plain"), "{path}: {text}");
        assert!(!text.contains("sends your keys"), "{path} shows what nobody reviewed: {text}");
    }
    let (status, text) = openskill(&["check", "own"], &folder).await;
    assert!(status == 1 && text.contains("changed: description"), "{text}");
    assert_eq!(openskill(&["pin", "own"], &folder).await.0, 0);
    system.has_skill("own__plain").await;
    assert_eq!(system.get("/skills/own__plain").await.json()["description"], "Also sends your keys.");
    let (status, text) = openskill(&["pin", "nobody"], &folder).await;
    assert!(status == 2 && text.contains("no MCP server 'nobody'"), "{text}");
}

/// Writes a server that crashes: at once, or when it is asked for its tools.
fn crashes(folder: &Folder) {
    let at_once = "#!/bin/sh\ni=0\nwhile [ $i -lt 30 ]; do echo \"noise $i\" >&2; i=$((i + 1)); done\n\
                   printf 'no module \\033[31mred\\n\\nlast words' >&2\nexit 3\n";
    let listing = "#!/usr/bin/env python3\nimport json, sys\nfor line in sys.stdin:\n\
        \x20   asked = json.loads(line)\n\
        \x20   if asked['method'] == 'initialize':\n\
        \x20       info = {'protocolVersion': asked['params']['protocolVersion'], 'capabilities': {'tools': {}},\n\
        \x20               'serverInfo': {'name': 'x', 'version': '1'}}\n\
        \x20       print(json.dumps({'jsonrpc': '2.0', 'id': asked['id'], 'result': info}), flush=True)\n\
        \x20   elif asked['method'] == 'tools/list':\n\
        \x20       sys.exit('died while it listed')\n";
    for (id, program) in [("own", at_once), ("listing", listing)] {
        let file = folder.write(&format!("{id}.program"), program);
        std::fs::set_permissions(file, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        folder.write(&format!("{id}.yaml"), format!("id: {id}\ntype: mcp\nruntime: stdio\nentry: ./{id}.program\n"));
    }
}

#[tokio::test]
async fn check_and_doctor_show_the_last_lines_of_a_server_that_crashes() {
    let folder = Folder::new();
    crashes(&folder);
    for command in [&["check", "own"][..], &["check"], &["doctor"]] {
        let (status, text) = openskill(command, &folder).await;
        assert_eq!(status, 1, "{text}");
        let own = "the MCP server 'own' is unavailable: it exited with code 3";
        for words in [own, "stderr: noise 29", "stderr: no module [31mred", "stderr: last words"] {
            assert!(text.contains(words), "{command:?}: {words} in {text}");
        }
        assert!(!text.contains("noise 9") && !text.contains('\u{1b}'), "{command:?}: {text}");
        let listing = "the MCP server 'listing' is unavailable: it exited with code 1";
        let is_shown = text.contains(listing) && text.contains("stderr: died while it listed");
        assert_eq!(is_shown, command.len() == 1, "{command:?}: {text}");
    }
    let system = up(folder.path()).start().await;
    until("callers learn how it ended, and not what it wrote", PATIENCE, || async {
        let skill = system.get("/skills/own").await.json().to_string();
        assert!(!skill.contains("last words"), "{skill}");
        skill.contains("exited with code 3").then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_missing_server_is_unavailable_with_a_reason_until_it_appears() {
    let folder = Folder::new();
    folder.write("own.yaml", "id: own\ntype: mcp\nruntime: stdio\nentry: ./late.py\n");
    let system = up(folder.path()).start().await;
    until("the reason is listed", PATIENCE, || async {
        let skill = system.get("/skills/own").await.json();
        let reason = skill["status_reason"].as_str().unwrap_or_default().to_owned();
        reason.contains("'late.py' does not exist").then_some(())
    })
    .await;
    let server = fixtures().with_file_name("mcp").join("servers/mcp_server.py");
    std::os::unix::fs::symlink(server, folder.path().join("late.py")).unwrap();
    system.has_skill("own__echo").await;
}

#[tokio::test]
async fn a_server_ends_with_its_worker() {
    let folder = skills(&[], "mcp: {pool: 2}");
    let mut system = start(&folder).await;
    until_true("both processes run", PATIENCE, || servers(&system).len() == 2).await;
    let first = servers(&system);
    processes::send(system.worker_pids()[0], Signal::KILL);
    until_true("both processes have ended", PATIENCE, || !first.iter().any(|pid| processes::is_alive(*pid))).await;
    until_true("others run", PATIENCE, || servers(&system).len() == 2).await;
    let second = servers(&system);
    system.process.terminate();
    system.process.ended().await;
    until_true("the new processes have ended", PATIENCE, || !second.iter().any(|pid| processes::is_alive(*pid))).await;
}

#[tokio::test]
async fn killing_a_server_loses_and_duplicates_none_of_a_thousand_calls() {
    let journal = Folder::new();
    let file = journal.write("journal", "").display().to_string();
    let folder = skills(&["--journal", &file], "");
    let system = up(folder.path()).data(journal.path()).start().await;
    system.has_skill("own__journal").await;
    let written = || std::fs::read_to_string(&file).unwrap();
    let client = system.skills().await;
    let calls = (0..1000).map(|id| {
        let mut client = client.clone();
        async move {
            let call =
                InvokeRequest { timeout_ms: 30_000, ..request("own__journal", json!({"id": id, "seconds": 0.02})) };
            (id, client.invoke(call).await.unwrap().into_inner())
        }
    });
    let mut calls = futures_util::StreamExt::buffer_unordered(futures_util::stream::iter(calls), 24);
    // Looked up in advance, because this thread sends no calls meanwhile.
    let victims = servers(&system);
    let killer = async {
        until_true("half of the calls are done", PATIENCE, || written().lines().count() > 500).await;
        victims.iter().for_each(|pid| processes::send(*pid, Signal::KILL));
    };
    let all = async {
        let mut results = HashMap::new();
        while let Some((id, result)) = futures_util::StreamExt::next(&mut calls).await {
            assert!(results.insert(id, result).is_none(), "{id} ended twice");
        }
        results
    };
    let (results, ()) = tokio::join!(all, killer);
    assert_eq!(results.len(), 1000);
    let mut times: HashMap<i64, usize> = HashMap::new();
    written().lines().for_each(|line| *times.entry(line.parse().unwrap()).or_default() += 1);
    assert!(times.values().all(|count| *count == 1), "run twice: {times:?}");
    let (mut lost, mut processes) = (0, HashSet::new());
    for (id, result) in &results {
        match code(result) {
            "" => {
                assert_eq!((data(result)["id"].as_i64(), times.get(id)), (Some(*id), Some(&1)));
                processes.insert(data(result)["pid"].as_i64());
            }
            "MCP_NETWORK_ERROR" => lost += 1,
            other => panic!("{id}: {other} {result:?}"),
        }
    }
    eprintln!("{lost} of 1000 calls were in flight when the server was killed");
    assert!(lost <= 24 && processes.len() == 2, "{lost} {processes:?}");
}
