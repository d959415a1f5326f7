//! A canary in everything that others write: the log has it nowhere.

use openskill_proto::v1::InvokeRequest;
use openskill_proto::v1::invoke_request::Arguments;
use openskill_tests::backend::{Backend, Reply};
use openskill_tests::fixtures;
use openskill_tests::folder::Folder;
use openskill_tests::system::{PATIENCE, Setup, System, code, request};
use openskill_tests::wait::until_true;
use serde_json::{Value, json};

const CANARY: &str = "canary-4711";

/// Says what it was given: on stderr, as an error, and in the details of the error.
const LEAKS: &str = r#"
import json, sys
text = json.load(sys.stdin)["input"]["text"]
print(text, file=sys.stderr)
error = {"code": "NOT_FOUND", "message": text, "details": {"text": text}}
print(json.dumps({"success": False, "data": None, "error": error}))
sys.exit(1)
"#;

/// A skill that leaks, a back end that does, and an MCP server with tools that do.
fn skills(backend: &Backend) -> Folder {
    let folder = Folder::new();
    let schema = "input_schema: {type: object, properties: {text: {type: string}}, required: [text], \
                  additionalProperties: false}\n";
    folder.write("leaks.py", LEAKS);
    for isolation in ["fork", "process", "shared"] {
        let manifest = format!("id: leaks_{isolation}\ntype: cli\nruntime: python\nentry: leaks.py\n{schema}");
        folder.write(&format!("leaks_{isolation}.yaml"), format!("{manifest}isolation: {isolation}\n"));
    }
    let (url, allowed) = (backend.url("/"), backend.address);
    folder.write("backend.yaml", format!("id: backend\ntype: http\nentry: '{url}'\nhttp: {{allow: ['{allowed}']}}\n"));
    let server = fixtures().with_file_name("mcp").join("servers/mcp_server.py");
    folder.write("own.yaml", format!("id: own\ntype: mcp\nruntime: stdio\nentry: {}\n", server.display()));
    folder
}

/// Puts the canary wherever a caller, a skill or a server can write something.
async fn sing(system: &System) {
    let text = json!({ "text": CANARY });
    for skill in ["leaks_fork", "leaks_process", "backend", "own__says", "own__breaks"] {
        let result = system.invoke(request(skill, text.clone())).await;
        assert!(!result.success, "{skill}: {result:?}");
        let is_passed_on = format!("{result:?}").contains(CANARY);
        assert!(is_passed_on || skill == "own__breaks", "the caller is told: {skill}: {result:?}");
    }
    system.invoke(request("leaks_shared", text)).await;
    let bad_value = system.invoke(request("leaks_fork", json!({"text": {CANARY: 1}, CANARY: CANARY}))).await;
    assert_eq!(code(&bad_value), "INVALID_ARGUMENT", "{bad_value:?}");
    assert_eq!(code(&system.invoke(request(CANARY, json!({}))).await), "NOT_FOUND");
    for (skill, raw) in [("", format!("<{CANARY}>{{}}</{CANARY}>")), ("backend", format!("{{{CANARY}: "))] {
        let call = InvokeRequest {
            skill_id: skill.to_owned(),
            arguments: Some(Arguments::Call(raw)),
            ..InvokeRequest::default()
        };
        assert!(!system.invoke(call).await.success);
    }
    let headers =
        ["authorization", "cookie", "traceparent", "tracestate", "idempotency-key", "x-canary", "grpc-timeout"];
    let headers = headers.map(|name| (name, CANARY));
    for (path, body) in [
        (format!("/skills/{CANARY}:invoke"), "{}".to_owned()),
        (format!("/skills/backend:{CANARY}"), "{}".to_owned()),
        ("/skills/leaks_fork:invoke".to_owned(), format!("{{\"input\": {CANARY}")),
        ("/skills/leaks_fork:invoke".to_owned(), format!("{{\"{CANARY}\": \"{CANARY}\"}}")),
        ("/skills/leaks_fork:invoke".to_owned(), CANARY.to_owned()),
        (format!("/questions/{CANARY}:answer"), format!("{{\"{CANARY}\": 1}}")),
    ] {
        assert!(system.post(&path, &headers, body).await.status >= 400, "{path}");
    }
    for path in [format!("/{CANARY}"), format!("/skills/{CANARY}"), format!("/artifacts/{CANARY}")] {
        assert!(system.get(&path).await.status >= 400, "{path}");
    }
}

/// The log of a gateway and its workers after all of it, at the default level.
async fn log_of(format: &str) -> String {
    let backend = Backend::start(|_| Reply::new(500, "text/plain", CANARY).with("x-reason", CANARY)).await;
    let (folder, place) = (skills(&backend), Folder::new());
    let file = place.path().join("log");
    let folders = [folder.path()];
    let setup = Setup::with_skills(&folders).flag("--workers", 1).with("OPENSKILL_LOG_FORMAT", format);
    let mut system = setup.log_to(&file).start().await;
    for skill in ["own__says", "leaks_shared"] {
        system.has_skill(skill).await;
    }
    sing(&system).await;
    let last = InvokeRequest { call_id: "the-last".to_owned(), ..request("leaks_fork", json!({"text": "x"})) };
    system.invoke(last).await;
    let read = || std::fs::read_to_string(&file).unwrap();
    until_true("the last call is logged", PATIENCE, || read().contains("the-last")).await;
    // What is queued is written before the end.
    system.process.terminate();
    system.process.ended().await;
    read()
}

#[tokio::test]
async fn nothing_that_others_wrote_is_in_the_text_log() {
    let log = log_of("text").await;
    let found: Vec<_> = log.lines().filter(|line| line.to_lowercase().contains("canary")).collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
    for expected in [
        "the skill wrote to stderr",
        "stderr_bytes=",
        "unknown_skill_bytes=11",
        "error.code=\"NOT_FOUND\"",
        "error.message_bytes=",
        "is not a message",
    ] {
        assert!(log.contains(expected), "{expected} is missing in\n{log}");
    }
}

#[tokio::test]
async fn nothing_that_others_wrote_is_in_the_json_log() {
    let log = log_of("json").await;
    let found: Vec<_> = log.lines().filter(|line| line.to_lowercase().contains("canary")).collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let has = |field: &str, value: Value| lines.iter().any(|line| line[field] == value);
    assert!(has("unknown_skill_bytes", json!(CANARY.len())) && has("skill_id", json!("leaks_fork")), "{log}");
    assert!(has("stderr_bytes", json!(CANARY.len() + 1)) && has("error.message_bytes", json!(CANARY.len())), "{log}");
}
