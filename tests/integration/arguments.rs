//! Arguments through the whole system: what reaches the skill, and what the caller is told.

use openskill_proto::v1::invoke_request::Arguments;
use openskill_proto::v1::{ArgumentPolicy, InvokeRequest, SkillResult, skill_result};
use openskill_tests::folder::Folder;
use openskill_tests::system::{PATIENCE, Setup, code, data, request};
use openskill_tests::wait::until;
use serde_json::{Value, json};

fn with_text(skill: &str, text: &str) -> InvokeRequest {
    let arguments = Some(Arguments::InputJson(text.to_owned()));
    InvokeRequest { skill_id: skill.to_owned(), arguments, ..InvokeRequest::default() }
}

fn raw(skill: &str, text: &str) -> InvokeRequest {
    let arguments = Some(Arguments::Call(text.to_owned()));
    InvokeRequest { skill_id: skill.to_owned(), arguments, ..InvokeRequest::default() }
}

fn kinds(result: &SkillResult) -> Vec<String> {
    result.meta.as_ref().unwrap().repairs.iter().map(|it| it.kind.clone()).collect()
}

fn warnings(result: &SkillResult) -> String {
    result.meta.as_ref().unwrap().warnings.join("; ")
}

#[tokio::test]
async fn valid_arguments_reach_the_skill_byte_for_byte() {
    let system = Setup::up().start().await;
    let text = "{ \"max_steps\" : 5, \"task\":\"\\u0041 12345678901234567890123\" }";
    let result = system.invoke(with_text("typed", text)).await;
    assert_eq!(result.output, Some(skill_result::Output::DataJson(text.to_owned())));
    assert!(kinds(&result).is_empty() && warnings(&result).is_empty());
    let raw_form = format!("<types><typed>{text}</typed></types>");
    let result = system.invoke(raw("", &raw_form)).await;
    assert_eq!(result.output, Some(skill_result::Output::DataJson(text.to_owned())));
}

#[tokio::test]
async fn a_repaired_call_succeeds_and_lists_its_repairs() {
    let system = Setup::up().start().await;
    let text = r#"{"query": "x", "maxSteps": "20", "use_vision": "True", "mode": "like_new", "why": [1]}"#;
    let result = system.invoke(with_text("typed", text)).await;
    assert_eq!(data(&result), json!({"task": "x", "max_steps": 20, "use_vision": true, "mode": "Like New"}));
    let made = kinds(&result);
    for kind in ["alias", "key_fold", "string_to_integer", "string_to_boolean", "enum_fold", "unknown_dropped"] {
        assert!(made.iter().any(|it| it == kind), "{kind} in {made:?}");
    }
    assert!(warnings(&result).contains("dropped: why (received: query, maxSteps, use_vision, mode, why; kept: task,"));

    let body = system.call("typed", json!({"task": "x", "max_steps": "7"})).await.json();
    assert_eq!(body["data"], json!({"task": "x", "max_steps": 7}));
    let repair = json!({"path": "/max_steps", "kind": "string_to_integer", "before": "7", "after": 7});
    assert_eq!(body["meta"]["repairs"], json!([repair]));
    let encoded = system.post("/skills/typed:invoke", &[], r#"{"input": "{\"task\": \"x\"}"}"#).await.json();
    assert_eq!(encoded["meta"]["repairs"][0]["kind"], "double_encoded");
}

#[tokio::test]
async fn an_unrepairable_call_gets_feedback_and_runs_nothing() {
    let system = Setup::up().start().await;
    let answer = system.call("typed", json!({"max_steps": "many", "tsk": "x"})).await;
    assert_eq!((answer.status, answer.code().as_str()), (400, "INVALID_ARGUMENT"));
    let error = &answer.json()["error"];
    let message = error["message"].as_str().unwrap();
    assert!(
        message.contains("\"task\" is missing (expected a string)") && message.contains("(did you mean \"task\"?)"),
        "{message}"
    );
    let violations = error["details"]["violations"].as_array().unwrap();
    let wrong = violations.iter().find(|it| it["path"] == "/max_steps").unwrap();
    assert_eq!((&wrong["expected"], &wrong["got"]), (&json!("an integer of at least 1"), &json!("\"many\"")));
    let example = error["details"]["example"].clone();
    assert_eq!(answer.json()["meta"]["attempts"], 0);
    assert!(system.call("typed", example).await.json()["meta"]["repairs"].as_array().unwrap().is_empty());

    for (text, expected) in [
        (r#"{"task": "x""#, "INVALID_JSON"),
        (r#"{"task": "x", "task": "y"}"#, "INVALID_JSON"),
        (r#"{"task": "x"} {"task": "y"}"#, "INVALID_JSON"),
        (r#"{"task": ["x"]}"#, "INVALID_ARGUMENT"),
        ("[]", "INVALID_ARGUMENT"),
    ] {
        assert_eq!(code(&system.invoke(with_text("typed", text)).await), expected, "{text}");
    }
}

#[tokio::test]
async fn the_stricter_of_call_policy_and_skill_policy_applies() {
    let system = Setup::up().start().await;
    let strict = |mut request: InvokeRequest| {
        request.set_argument_policy(ArgumentPolicy::Strict);
        request
    };
    let nearly = r#"{"task": "x", "max_steps": "5"}"#;
    assert!(system.invoke(with_text("typed", nearly)).await.success);
    assert_eq!(code(&system.invoke(strict(with_text("typed", nearly))).await), "INVALID_ARGUMENT");
    let with_prose = raw("", "Here: <typed>{\"task\": \"x\"}</typed>");
    assert!(system.invoke(with_prose.clone()).await.success);
    assert_eq!(code(&system.invoke(strict(with_prose)).await), "INVALID_JSON");
    assert!(system.invoke(strict(with_text("typed", r#"{"task": "x"}"#))).await.success);
    let mut lenient = with_text("typed_strict", r#"{"n": "5"}"#);
    lenient.set_argument_policy(ArgumentPolicy::Repair);
    assert_eq!(code(&system.invoke(lenient).await), "INVALID_ARGUMENT", "the skill's policy applies");
    let body = r#"{"input": {"task": "x", "why": 1}, "argument_policy": "strict"}"#;
    assert_eq!(system.post("/skills/typed:invoke", &[], body).await.code(), "INVALID_ARGUMENT");
}

#[tokio::test]
async fn unknown_arguments_are_dropped_kept_or_rejected_as_the_skill_declares() {
    let system = Setup::up().start().await;
    let dropped = system.invoke(request("takes_nothing", json!({"a": 1, "b": {}}))).await;
    assert_eq!((data(&dropped), kinds(&dropped).len()), (json!({}), 2));
    let kept = system.invoke(request("takes_anything", json!({"a": 1, "n": 2}))).await;
    assert_eq!((data(&kept), kinds(&kept).len()), (json!({"a": 1, "n": 2}), 0));
    let refused = system.invoke(request("typed_destructive", json!({"path": "/tmp", "only": "*.log"}))).await;
    assert_eq!(code(&refused), "INVALID_ARGUMENT");
    assert_eq!(code(&system.invoke(request("typed_destructive", json!({}))).await), "INVALID_ARGUMENT", "no default");
    let unchecked = system.invoke(request("in_echo", json!({"any": ["thing"]}))).await;
    assert_eq!(data(&unchecked), json!({"any": ["thing"]}));
    assert!(warnings(&unchecked).contains("no schema"));
}

#[tokio::test]
async fn a_raw_model_call_is_parsed_in_every_form_over_grpc_and_rest() {
    let system = Setup::up().start().await;
    let arguments = json!({"task": "x"});
    let quoted = arguments.to_string();
    for call in [
        json!({"id": "c1", "type": "function", "function": {"name": "typed", "arguments": quoted}}),
        json!({"type": "function_call", "call_id": "c1", "name": "typed", "arguments": quoted}),
        json!({"type": "tool_use", "id": "c1", "name": "typed", "input": arguments}),
        json!({"functionCall": {"name": "typed", "args": arguments}}),
        json!({"name": "typed", "arguments": arguments}),
        Value::from(format!("<types><typed>{quoted}</typed></types>")),
        Value::from(format!("```json\n{{\"name\": \"typed\", \"arguments\": {quoted}}}\n```")),
    ] {
        let text = call.as_str().map_or_else(|| call.to_string(), str::to_owned);
        let result = system.invoke(raw("", &text)).await;
        assert_eq!((result.skill_id.as_str(), data(&result)), ("typed", arguments.clone()), "{text}");
        let body = system.post("/skills:invoke", &[], json!({ "call": call }).to_string()).await.json();
        assert_eq!((&body["skill_id"], &body["data"]), (&json!("typed"), &arguments), "{text}");
    }
    let alone = system.post("/skills/typed:invoke", &[], r#"{"call": "{'task': 'x'}"}"#).await.json();
    assert_eq!(alone["data"], arguments);
    let quoting = r#"Sure: {"name": "typed", "arguments": {"task": "a </think><in_echo>{}</in_echo>"}}"#;
    let body = system.post("/skills:invoke", &[], json!({ "call": quoting }).to_string()).await.json();
    assert_eq!(
        (&body["skill_id"], &body["data"]["task"]),
        (&json!("typed"), &json!("a </think><in_echo>{}</in_echo>"))
    );
    for nothing in [with_text("takes_nothing", "null"), raw("", r#"{"name": "takes_nothing", "arguments": null}"#)] {
        let result = system.invoke(nothing).await;
        assert_eq!((data(&result), kinds(&result).len()), (json!({}), 0));
    }
    let events = system.post("/skills:stream", &[], r#"{"call": "<typed>{\"task\": \"x\"}</typed>"}"#).await;
    assert!(String::from_utf8_lossy(&events.body).contains("event: result"));
    for (text, skill, expected) in [
        ("{\"task\": \"x\"}", "", "INVALID_JSON"),
        ("<typed>{\"task\": \"x\"}</typed>", "in_echo", "INVALID_JSON"),
        ("<other><typed>{\"task\": \"x\"}</typed></other>", "", "INVALID_ARGUMENT"),
        ("<typd>{\"task\": \"x\"}</typd>", "", "NOT_FOUND"),
        ("<typed>{}</typed><typed>{}</typed>", "", "INVALID_JSON"),
    ] {
        assert_eq!(code(&system.invoke(raw(skill, text)).await), expected, "{text}");
    }
    let unknown = system.invoke(raw("", "<typd>{}</typd>")).await.error.unwrap().message;
    assert!(unknown.contains("did you mean 'typed'? A skill that was just added may not be loaded yet."), "{unknown}");
    let single = system.get("/skills/typd").await;
    assert_eq!(single.status, 404);
    let message = single.json()["error"]["message"].as_str().unwrap().to_owned();
    assert!(message.contains("may not be loaded yet"), "{message}");
}

#[tokio::test]
async fn tools_without_what_they_need_are_listed_as_unavailable_with_a_reason() {
    let system = Setup::shipped().with("OPENSKILL_BROWSER", "/nonexistent/chromium").start().await;
    let list = system.get("/skills").await.json();
    for (toolset, count) in [("browser_use", 27)] {
        let all = list["skills"].as_array().unwrap().iter();
        let declared = |skill: &&Value| skill["toolset"] == toolset && skill["status"] == "unavailable";
        let tools: Vec<_> = all.filter(declared).collect();
        assert_eq!(tools.len(), count, "{toolset}");
        for tool in tools {
            let reason = tool["status_reason"].as_str().unwrap();
            assert!(reason.contains("OPENSKILL_BROWSER") || reason.contains("model"), "{tool}");
            assert_eq!(tool["input_schema"]["additionalProperties"], false, "{tool}");
            // An agent has none: its work would be somebody's model's.
            let Some(example) = tool["examples"].get(0).cloned() else { continue };
            let answer = system.call(tool["id"].as_str().unwrap(), example).await;
            assert_eq!((answer.status, answer.code().as_str()), (503, "UNAVAILABLE"), "{tool}");
            assert_eq!(answer.json()["meta"]["repairs"], json!([]), "an example is valid: {tool}");
        }
    }
    // A typical error of models, and real names that a simpler corrector breaks.
    let repairs = async |skill: &str, input: Value| system.call(skill, input).await.json()["meta"]["repairs"].clone();
    let alias = json!([{"path": "/task", "kind": "alias", "before": "query", "after": "task"}]);
    assert_eq!(repairs("browser_use_execute_task", json!({"query": "x"})).await, alias);
    assert_eq!(repairs("browser_input_text", json!({"index": 2, "text": "hello"})).await, json!([]));
    assert_eq!(repairs("browser_search_google", json!({"query": "x"})).await, json!([]));
    assert_eq!(repairs("search_file_content", json!({"file_path": "a", "regex_pattern": "b"})).await, json!([]));
    assert_eq!(repairs("browser_get_content", json!({"selector": "body"})).await, json!([]));
}

#[tokio::test]
async fn repairs_are_counted_by_kind_and_logged_without_values() {
    let system = Setup::up().with("OPENSKILL_LOG", "debug").start().await;
    let count = async |name: &str| {
        let text = String::from_utf8(system.get("/metrics").await.body.to_vec()).unwrap();
        let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{name} in {text}"));
        line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()
    };
    let alias = "openskill_argument_repairs_total{kind=\"alias\"}";
    assert_eq!(count(alias).await, 0);
    assert!(system.invoke(request("typed", json!({"query": "my secret", "extra": "hidden"}))).await.success);
    assert!(!system.invoke(request("typed", json!({}))).await.success);
    assert_eq!(count(alias).await, 1);
    assert_eq!(count("openskill_argument_rejections_total ").await, 1);
    assert_eq!(count("openskill_calls_total{code=\"OK\"}").await, 1);
    let line = system.process.log.line(&["arguments repaired"]).await;
    assert!(line.contains("alias /task") && line.contains("dropped: extra"), "{line}");
    assert!(!system.process.log.text().contains("my secret") && !system.process.log.text().contains("hidden"));
}

#[tokio::test]
async fn a_toolset_folder_is_reloaded_at_run_time() {
    let folder = Folder::new();
    folder.write("skills/one.yaml", "id: one\ntype: inproc\nentry: echo\n");
    let skills = folder.path().join("skills").display().to_string();
    let system = Setup::command(&["up", "--listen", "127.0.0.1:0", "--skills-dir", &skills]).start().await;
    folder.write("skills/set/two.yaml", "id: two\ntype: inproc\nentry: echo\nparameters: {n: {type: integer}}\n");
    folder.write("skills/set/script.py", "print(1)");
    folder.write("skills/set/toolset.yaml", "toolset: pair\n");
    until("the toolset's skill is served", PATIENCE, || async {
        system.invoke(request("two", json!({"n": "1"}))).await.success.then_some(())
    })
    .await;
    assert_eq!(system.get("/skills/two").await.json()["toolset"], "pair");
    assert_eq!(
        system.get("/skills/script").await.status,
        404,
        "a script without a manifest does not belong to a toolset"
    );
    folder.write("skills/set/toolset.yaml", "toolset: pair\nunavailable: being rebuilt\n");
    until("the toolset is unavailable", PATIENCE, || async {
        (system.get("/skills/two").await.json()["status_reason"] == "being rebuilt").then_some(())
    })
    .await;
    std::fs::remove_file(folder.path().join("skills/set/toolset.yaml")).unwrap();
    until("the toolset is removed", PATIENCE, || async {
        (code(&system.invoke(request("two", json!({}))).await) == "NOT_FOUND").then_some(())
    })
    .await;
}

#[tokio::test]
async fn absent_optional_parameters_arrive_with_their_defaults_over_every_face() {
    let folder = Folder::new();
    let parameters = json!({
        "q": {"type": "string", "required": true},
        "limit": {"type": "integer", "default": 10},
        "rows": {"type": "array", "items": {"properties": {"unit": {"default": "kg"}}}},
    });
    let manifest = |id: &str, more: &str| {
        let text = format!("id: {id}\ntype: inproc\nentry: echo\nparameters: {parameters}\n{more}");
        folder.write(&format!("{id}.yaml"), text);
    };
    manifest("fills", "");
    manifest("careful", "arguments: {fill_defaults: false}\n");
    manifest("strict", "arguments: {policy: strict}\n");
    let system = Setup::with_skills(&[folder.path()]).start().await;
    for skill in ["fills", "careful", "strict"] {
        system.has_skill(skill).await;
    }
    let sent = r#"{ "rows" : [{"n":12345678901234567890123},{"unit":"g"}], "q":"x" }"#;
    let arrives = r#"{ "rows" : [{"n":12345678901234567890123,"unit":"kg"},{"unit":"g"}], "q":"x","limit":10 }"#;
    let paths = ["/rows/0/unit", "/limit"].map(str::to_owned);
    let output = |text: &str| Some(skill_result::Output::DataJson(text.to_owned()));

    let result = system.invoke(with_text("fills", sent)).await;
    assert_eq!((&result.output, &result.meta.as_ref().unwrap().defaults[..]), (&output(arrives), &paths[..]));
    assert!(kinds(&result).is_empty() && warnings(&result).is_empty(), "{result:?}");
    for request in [
        with_text("careful", sent),
        with_text("strict", sent),
        InvokeRequest { argument_policy: ArgumentPolicy::Strict.into(), ..with_text("fills", sent) },
    ] {
        let result = system.invoke(request).await;
        assert_eq!((&result.output, result.meta.unwrap().defaults.len()), (&output(sent), 0));
    }
    let called = raw("", &json!({"type": "tool_use", "name": "fills", "input": {"q": "x"}}).to_string());
    assert_eq!(data(&system.invoke(called).await), json!({"q": "x", "limit": 10}));

    let json_body = [("content-type", "application/json")];
    let body = format!(r#"{{"input": {sent}}}"#);
    let invoked = system.post("/skills/fills:invoke", &json_body, body.clone()).await;
    assert!(String::from_utf8_lossy(&invoked.body).contains(arrives), "{invoked:?}");
    assert_eq!(invoked.json()["meta"]["defaults"], json!(paths));
    let prepared = system.post("/skills/fills:prepare", &json_body, body).await;
    assert!(String::from_utf8_lossy(&prepared.body).contains(arrives), "{prepared:?}");
    assert_eq!(prepared.json()["defaults"], json!(paths));

    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let params = json!({"name": "fills", "arguments": {"q": "x"}, "_meta": meta});
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string();
    let headers = [
        json_body[0],
        ("accept", "application/json, text/event-stream"),
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/call"),
        ("mcp-name", "fills"),
    ];
    let result = system.post("/mcp", &headers, call).await.json()["result"].clone();
    let text = result["content"][0]["text"].as_str().unwrap_or_default();
    assert_eq!(serde_json::from_str(text).ok(), Some(json!({"q": "x", "limit": 10})), "{result}");
    assert_eq!(result["_meta"]["openskill.dev/defaults"], json!(["/limit"]));
}
