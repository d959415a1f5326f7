//! What a call would run with, without running it: `PrepareCall` and `POST /skills/{id}:prepare`.

use openskill_proto::v1::{InvokeRequest, PreparedCall, invoke_request::Arguments};
use openskill_tests::folder::Folder;
use openskill_tests::rest::Answer;
use openskill_tests::system::{Setup, System, code, request};
use serde_json::{Value, json};

const JSON: (&str, &str) = ("content-type", "application/json");

async fn prepare(system: &System, skill: &str, body: Value) -> Answer {
    system.post(&format!("/skills/{skill}:prepare"), &[JSON], body.to_string()).await
}

async fn prepare_grpc(system: &System, request: InvokeRequest) -> PreparedCall {
    system.skills().await.prepare_call(request).await.unwrap().into_inner()
}

#[tokio::test]
async fn arguments_are_repaired_as_for_a_call_and_keep_large_numbers() {
    let system = Setup::up().start().await;
    let input = json!({"task": "x", "max_steps": "7"});
    let answer = prepare(&system, "typed", json!({ "input": input })).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let prepared = answer.json();
    assert_eq!(prepared["arguments"], json!({"task": "x", "max_steps": 7}));
    let repair = json!({"path": "/max_steps", "kind": "string_to_integer", "before": "7", "after": 7});
    assert_eq!(prepared["repairs"], json!([repair]));
    assert_eq!((&prepared["success"], &prepared["error"]), (&json!(true), &Value::Null));
    assert_eq!(answer.header("x-trace-id"), prepared["trace_id"].as_str().unwrap());

    let same = prepare_grpc(&system, request("typed", input)).await;
    assert_eq!((same.skill_id.as_str(), same.repairs.len()), ("typed", 1));
    let arguments: Value = serde_json::from_str(&same.arguments_json).unwrap();
    assert_eq!(arguments, prepared["arguments"]);
    assert_eq!(same.version, prepared["version"].as_str().unwrap());

    let unchecked = json!({ "input": {} }).to_string();
    let unchecked = system.post("/skills/hello:prepare", &[JSON, ("x-trace-id", "not an id")], unchecked).await.json();
    let called =
        system.post("/skills/hello:invoke", &[JSON, ("x-trace-id", "not an id")], "{\"input\": {}}").await.json();
    assert_eq!(
        (&unchecked["warnings"], unchecked["warnings"].as_array().map(Vec::len)),
        (&called["meta"]["warnings"], Some(2))
    );

    let strict = prepare(&system, "typed", json!({ "input": {"task": 1}, "argument_policy": "strict" })).await;
    assert_eq!((strict.status, strict.code().as_str()), (400, "INVALID_ARGUMENT"));
    let exact = r#"{"n": 12345678901234567890123, "n2": 1.50}"#;
    let untyped = system.post("/skills/hello:prepare", &[JSON], format!(r#"{{"input": {exact}}}"#)).await;
    assert!(String::from_utf8_lossy(&untyped.body).contains(exact), "{untyped:?}");
}

#[tokio::test]
async fn a_raw_call_is_prepared_too() {
    let system = Setup::shipped().start().await;
    let call = json!({"type": "tool_use", "name": "echo", "input": {"text": "hi"}});
    let answer = system.post("/skills:prepare", &[JSON], json!({ "call": call }).to_string()).await.json();
    assert_eq!((&answer["skill_id"], &answer["arguments"]), (&json!("echo"), &json!({"text": "hi"})));
    let raw = Some(Arguments::Call("<core><echo>{\"text\": \"hi\"}</echo></core>".to_owned()));
    let prepared = prepare_grpc(&system, InvokeRequest { arguments: raw, ..InvokeRequest::default() }).await;
    assert_eq!((prepared.skill_id.as_str(), prepared.arguments_json.as_str()), ("echo", "{\"text\": \"hi\"}"));
}

#[tokio::test]
async fn a_call_is_refused_for_the_same_reason_as_when_it_runs() {
    let system = Setup::up().start().await;
    for (skill, input) in [
        ("typed", json!({})),
        ("typed", json!({"task": "x", "max_steps": "many"})),
        ("no_such_skill", json!({})),
        // It can't run, whatever its arguments are.
        ("no_such_runner", json!({})),
    ] {
        let run = system.invoke(request(skill, input.clone())).await;
        let prepared = prepare_grpc(&system, request(skill, input.clone())).await;
        let error = prepared.error.as_ref().unwrap();
        assert_eq!(error.code().as_str_name(), code(&run), "{skill} {input}");
        assert!(prepared.arguments_json.is_empty() && !error.may_have_run, "{prepared:?}");
        let (over_rest, called) =
            (prepare(&system, skill, json!({ "input": input })).await, system.call(skill, input).await);
        assert_eq!((over_rest.status, over_rest.code()), (called.status, called.code()), "{skill}");
        assert_eq!(over_rest.json()["error"]["message"], called.json()["error"]["message"], "{skill}");
        assert_eq!((&over_rest.json()["success"], &over_rest.json()["arguments"]), (&json!(false), &Value::Null));
    }
}

#[tokio::test]
async fn nothing_runs_and_nothing_is_recorded() {
    let (folder, written) = (Folder::new(), Folder::new());
    let mark = written.path().join("mark");
    let script = format!("open({:?}, 'a').write('x')\nprint('{{}}')\n", mark.display().to_string());
    folder.write("marks.py", script);
    folder.write("marks.yaml", "id: marks\ntype: cli\nruntime: python\nentry: marks.py\njail: off\n");
    let system = Setup::with_skills(&[folder.path()]).start().await;
    system.has_skill("marks").await;
    assert_eq!(prepare(&system, "marks", json!({ "input": {} })).await.status, 200);
    prepare_grpc(&system, request("marks", json!({}))).await;
    let call = system.call("marks", json!({})).await;
    assert_eq!(call.status, 200, "{call:?}");
    assert_eq!(std::fs::read_to_string(&mark).unwrap(), "x", "only the call ran");
}

#[tokio::test]
async fn what_is_no_call_or_comes_from_another_site_is_refused() {
    let system = Setup::shipped().start().await;
    let body = r#"{"input": {"text": "hi"}}"#;
    let path = "/skills/echo:prepare";
    let foreign = system.post(path, &[JSON, ("origin", "http://evil.example")], body).await;
    assert_eq!(foreign.status, 403);
    assert_eq!(system.post(path, &[("content-type", "text/plain")], body).await.status, 415);
    assert_eq!(system.post(path, &[JSON], vec![b' '; 5 * 1024 * 1024]).await.status, 413);
    assert_eq!(system.post(path, &[JSON], "{").await.code(), "INVALID_JSON");
    assert_eq!(system.post(path, &[JSON], r#"{"colour": 1}"#).await.code(), "INVALID_ARGUMENT");
    assert_eq!(system.get(path).await.status, 405);
    assert_eq!(system.post("/skills/echo:guess", &[JSON], body).await.status, 404);
}

#[tokio::test]
async fn the_document_describes_preparation_and_what_agents_must_know() {
    let system = Setup::shipped().start().await;
    let document = system.get("/openapi.json").await.json();
    let call = &document["paths"]["/skills/calculator:prepare"]["post"];
    assert_eq!(call["operationId"], "calculator_prepare");
    let schema = &call["requestBody"]["content"]["application/json"]["schema"];
    assert_eq!(schema["properties"]["input"]["$ref"], "#/components/schemas/calculator.input");
    assert_eq!(document["components"]["schemas"]["calculator.input"]["type"], "object");
    let answer = &call["responses"]["200"]["content"]["application/json"]["schema"]["$ref"];
    assert_eq!(answer, "#/components/schemas/PreparedCall");
    assert!(document["components"]["schemas"]["PreparedCall"]["properties"]["arguments"].is_object());
    assert!(document["paths"]["/skills:prepare"]["post"].is_object());
    let skill = &document["components"]["schemas"]["Skill"]["properties"];
    assert!(["approval", "repeatable", "untrusted", "read_only"].iter().all(|it| skill[*it].is_object()), "{skill}");
}
