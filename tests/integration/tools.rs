//! Tool definitions for models, over REST, gRPC and the command line.

use openskill_proto::v1::{Dialect, ExportToolsRequest};
use openskill_tests::system::{Setup, System};
use serde_json::{Value, json};

async fn tools(system: &System, query: &str) -> Value {
    let answer = system.get(&format!("/tools?{query}")).await;
    assert_eq!(answer.status, 200, "{query}: {answer:?}");
    answer.json()
}

/// The name and schema of a definition in a dialect.
fn parts<'a>(dialect: &str, tool: &'a Value) -> (&'a str, Option<&'a Value>) {
    let (holder, schema) = match dialect {
        "openai" | "dashscope" => (&tool["function"], "parameters"),
        "openai-responses" | "gemini" => (tool, "parameters"),
        "anthropic" => (tool, "input_schema"),
        _ => (tool, "inputSchema"),
    };
    (holder["name"].as_str().unwrap(), holder.get(schema))
}

/// How many of the shipped skills can be called here: those of the sandbox only in a strict jail, and those that drive a
/// browser only where there is one. A whole task for a browser needs a model.
async fn available(system: &System) -> usize {
    let mut count = 9;
    for (skill, more) in [("microsandbox_execute", 6), ("browser_navigate", 26)] {
        let described = system.get(&format!("/skills/{skill}")).await.json();
        count += if described["status"] == "available" { more } else { 0 };
    }
    count
}

#[tokio::test]
async fn every_dialect_exports_every_tool_in_its_own_shape() {
    let system = Setup::shipped().start().await;
    for (dialect, _) in Dialect::NAMES {
        for strict in [false, true] {
            let list = tools(&system, &format!("dialect={dialect}&strict={strict}&include_unavailable=true")).await;
            let all = list["tools"].as_array().unwrap();
            assert_eq!(
                (all.len(), list["disabled"].as_array().unwrap().len()),
                (46, 46 - available(&system).await),
                "{dialect}"
            );
            for tool in all {
                let (name, schema) = parts(dialect, tool);
                assert_eq!(list["skill_ids"][name], name, "{dialect}");
                let Some(schema) = schema else {
                    assert_eq!(dialect, "gemini", "only Gemini omits the schema of a tool without parameters: {tool}");
                    continue;
                };
                assert_eq!(schema["type"], "object", "{dialect}: {tool}");
                let is_strict = tool["strict"] == true || tool["function"]["strict"] == true;
                if strict && dialect.starts_with("openai") {
                    let names = schema["properties"].as_object().unwrap().len();
                    assert!(is_strict, "{dialect}: {tool}");
                    assert_eq!(schema["required"].as_array().unwrap().len(), names, "{dialect}: {tool}");
                }
                assert!(strict || !is_strict, "{dialect}: {tool}");
            }
        }
    }
    let anthropic = tools(&system, "dialect=anthropic&strict=true&include_unavailable=true").await;
    let strict = anthropic["tools"].as_array().unwrap().iter().filter(|tool| tool["strict"] == true).count();
    assert!((1..=20).contains(&strict), "{strict}");
    assert!(!anthropic["notes"].as_array().unwrap().is_empty(), "the notes list the tools that are not strict");
}

#[tokio::test]
async fn a_call_written_to_a_strict_definition_succeeds() {
    let system = Setup::shipped().start().await;
    let list = tools(&system, "dialect=openai&strict=true&skill=file_search").await;
    let parameters = &list["tools"][0]["function"]["parameters"];
    let nothing: serde_json::Map<_, _> = parameters["properties"]
        .as_object()
        .unwrap()
        .iter()
        .map(|(name, _)| (name.clone(), if name == "query" { json!("openSkill") } else { Value::Null }))
        .collect();
    let answer = system.call("file_search", Value::Object(nothing)).await;
    assert_eq!(answer.status, 200, "{answer:?}");
}

#[tokio::test]
async fn unavailable_tools_are_omitted_and_listed_separately() {
    let system = Setup::shipped().with("OPENSKILL_BROWSER", "/nonexistent/chromium").start().await;
    let list = tools(&system, "").await;
    assert_eq!(
        (&list["dialect"], list["tools"].as_array().unwrap().len()),
        (&json!("openai"), available(&system).await)
    );
    let disabled = list["disabled"].as_array().unwrap();
    assert_eq!(disabled.len(), 46 - available(&system).await);
    let browser =
        disabled.iter().find(|it| it["skill_id"].as_str().is_some_and(|it| it.starts_with("browser_"))).unwrap();
    assert!(browser["reason"].as_str().unwrap().contains("OPENSKILL_BROWSER"));
    let one = tools(&system, "skill=echo&skill=calculator&dialect=mcp").await;
    let names: Vec<_> = one["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["calculator", "echo"]);
    let none = tools(&system, "toolset=deepsearch").await;
    assert_eq!((&none["tools"], none["disabled"].as_array().unwrap().len()), (&json!([]), 3));
}

#[tokio::test]
async fn a_search_in_words_ranks_matching_tools() {
    let system = Setup::shipped().start().await;
    for (query, best) in [
        ("click+a+button", "browser_click_element"),
        ("run+python+code", "microsandbox_execute"),
        ("search+text+in+files", "file_search"),
        ("average+of+numbers+mean", "calculator"),
        ("take+a+screenshot", "browser_screenshot"),
    ] {
        let list = tools(&system, &format!("dialect=mcp&include_unavailable=true&query={query}")).await;
        let found = list["tools"].as_array().unwrap();
        assert_eq!(found[0]["name"], best, "{query}");
        assert!(found.len() <= 10);
    }
    let limited = tools(&system, "dialect=mcp&include_unavailable=true&query=browser+page&limit=3").await;
    assert_eq!(limited["tools"].as_array().unwrap().len(), 3);
    assert_eq!(tools(&system, "query=zzzz").await["tools"], json!([]));
}

#[tokio::test]
async fn an_invalid_query_is_told_what_is_valid() {
    let system = Setup::shipped().start().await;
    for (query, status, word) in [
        ("dialect=klingon", 400, "openai-responses"),
        ("strict=maybe", 400, "true or false"),
        ("colour=red", 400, "dialect, strict"),
        ("limit=many", 400, "whole number"),
        ("skill=nope", 404, "no skill 'nope'"),
    ] {
        let answer = system.get(&format!("/tools?{query}")).await;
        assert_eq!(answer.status, status, "{query}");
        assert!(answer.json()["error"]["message"].as_str().unwrap().contains(word), "{query}");
    }
}

#[tokio::test]
async fn grpc_exports_the_same_tools_as_rest() {
    let system = Setup::shipped().start().await;
    let mut request = ExportToolsRequest { strict: true, ..ExportToolsRequest::default() };
    request.set_dialect(Dialect::OpenaiResponses);
    let exported = system.skills().await.export_tools(request).await.unwrap().into_inner();
    let over_rest = tools(&system, "dialect=openai-responses&strict=true").await;
    let parsed: Vec<Value> = exported.tools_json.iter().map(|text| serde_json::from_str(text).unwrap()).collect();
    assert_eq!(Value::from(parsed), over_rest["tools"]);
    assert_eq!(exported.disabled.len(), 46 - available(&system).await);
    let unknown = ExportToolsRequest { skill_ids: vec!["nope".to_owned()], ..ExportToolsRequest::default() };
    let status = system.skills().await.export_tools(unknown).await.unwrap_err();
    assert_eq!(status.code(), tonic::Code::NotFound);
}
