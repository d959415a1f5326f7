//! The shipped skills, checked against their schemas and examples.

use openskill_tests::system::{Setup, code, data, request};
use serde_json::{Value, json};

#[tokio::test]
async fn every_example_of_every_shipped_skill_ends_as_declared() {
    for skill in [
        "echo",
        "calculator",
        "file_search",
        "log_transform",
        "search_file_content",
        "list_code_definitions",
        "search_and_install_tools",
    ] {
        let mut check = Setup::command(&["check", skill])
            .with("OPENSKILL_CLI_DIR", openskill_tests::repository().join("worker/skills").display())
            .data(&openskill_tests::repository().join("data"))
            .spawn();
        let status = check.ended().await;
        let output = check.output.line(&["example"]).await;
        assert!(status.success(), "{skill}: {output}\n{}{}", check.output.text(), check.log.text());
    }
}

#[tokio::test]
async fn answers_match_the_output_schemas() {
    let system = Setup::shipped().start().await;
    for (skill, input) in [
        ("echo", json!({"text": "grüße 你好"})),
        ("calculator", json!({"numbers": [3, 1, 2], "ops": ["mean", "median", "min", "max", "sum"]})),
        ("calculator", json!({"numbers": [0.1, 0.2], "ops": ["sum"], "compare": {"a": 10, "b": 12}})),
        ("file_search", json!({"query": "openSkill", "glob": "**/*.md", "limit": 5})),
        ("file_search", json!({"query": "no such thing anywhere"})),
        ("log_transform", json!({"input_path": "./data/logs/app.log", "limit": 50})),
        ("log_transform", json!({"input_path": "data/logs/events.jsonl", "format": "jsonl", "limit": 3})),
        (
            "search_file_content",
            json!({"file_path": "data/logs", "regex_pattern": "ERROR", "context": 2, "max_matches": 7}),
        ),
        ("search_file_content", json!({"file_path": "data", "regex_pattern": "no such text anywhere"})),
        ("list_code_definitions", json!({})),
        ("list_code_definitions", json!({"file_path": "data/src/main.py", "max_definitions": 2})),
        ("analyze_tool_needs", json!({"task_description": "Take a screenshot of the weather page"})),
        ("analyze_tool_needs", json!({"task_description": "？"})),
        ("search_and_install_tools", json!({"task_description": "东京现在几点了", "reason": "x"})),
        ("search_and_install_tools", json!({"task_description": "Send a mail to the supplier"})),
    ] {
        let result = system.invoke(request(skill, input.clone())).await;
        assert_eq!(code(&result), "", "{skill} {input}: {result:?}");
        let described = system.get(&format!("/skills/{skill}")).await.json();
        for (what, schema, value) in
            [("input", &described["input_schema"], &input), ("output", &described["output_schema"], &data(&result))]
        {
            let validator = jsonschema::draft202012::new(schema).unwrap();
            let errors: Vec<_> = validator.iter_errors(value).map(|error| error.to_string()).collect();
            assert!(errors.is_empty(), "{skill} {what}: {errors:?}");
        }
        if let Some(truncated) = data(&result).get("truncated") {
            assert_eq!(*truncated, json!(result.meta.unwrap().truncated), "{skill} {input}");
        }
    }
}

#[tokio::test]
async fn file_search_reports_truncation() {
    let system = Setup::shipped().start().await;
    let result = system.invoke(request("file_search", json!({"query": "openSkill", "limit": 1}))).await;
    assert_eq!(data(&result)["matches"].as_array().unwrap().len(), 1);
    assert!(result.meta.unwrap().truncated);
}

#[tokio::test]
async fn calculator_is_exact() {
    let system = Setup::shipped().start().await;
    let input = json!({"numbers": [0.1, 0.2], "ops": ["sum"], "compare": {"a": 10, "b": 12}});
    let answer: Value = data(&system.invoke(request("calculator", input)).await);
    assert_eq!(answer["results"]["sum"], 0.3);
    assert_eq!((&answer["comparison"]["larger"], &answer["comparison"]["difference"]), (&json!("b"), &json!(2)));
}

#[test]
fn the_tests_of_the_skills_pass() {
    let output = std::process::Command::new("python3")
        .args(["-m", "unittest", "discover", "-s", "worker/skills/tests"])
        .current_dir(openskill_tests::repository())
        .output()
        .expect("python3 is installed");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
