//! What is not kept: secrets by any rule, and what would act on a terminal or on another line.

use openskill_proto::v1::InvokeRequest;
use openskill_tests::fixtures;
use openskill_tests::folder::Folder;
use openskill_tests::system::{Setup, request};
use serde_json::json;

use super::{call, events, files, lines};

/// Looks like a key of a known provider.
const KEY: &str = "sk-proj-Zk3v9QpX7mB2nR8tY5wL1cD4fG6hJ0aS";

#[tokio::test]
async fn planted_secrets_are_in_no_file_and_no_answer() {
    let folder = Folder::new();
    let system = Setup::up().with("OPENSKILL_TRACE_DIR", folder.path().display()).start().await;
    let input =
        json!({ "text": format!("use {KEY} please"), "password": "hunter2-and-more", "deep": [{ "api_key": KEY }] });
    let result =
        call(&system, "planted", InvokeRequest { session_id: "my-session".to_owned(), ..request("in_echo", input) })
            .await;
    assert!(format!("{result:?}").contains(KEY), "the caller gets its own result");
    let events = events(&system, "planted").await;
    assert_eq!((&events[0]["arguments"]["password"], &events[0]["redacted"]), (&json!("***"), &json!(true)));
    call(&system, KEY, request("in_echo", json!({}))).await;
    assert_eq!(super::events(&system, KEY).await[0]["skill"], "in_echo", "found by the id that was sent");
    let (written, answered) = (files(folder.path()), lines(&system, "planted").await.concat());
    assert!(written.contains("in_echo"));
    for secret in [KEY, "hunter2", "my-session"] {
        assert!(!written.contains(secret) && !answered.contains(secret), "{secret}");
    }
}

#[tokio::test]
async fn a_value_that_is_secret_for_its_name_is_not_repeated_by_repairs_and_errors() {
    let skills = Folder::new();
    skills.write("logs_in.yaml", "id: logs_in\ntype: inproc\nentry: echo\nparameters:\n  password: {type: integer}\n");
    let system = Setup::with_skills(&[&fixtures(), skills.path()]).start().await;
    system.has_skill("logs_in").await;
    for (trace, skill, input) in [
        ("dropped", "typed", json!({"task": "a", "password": "hunter2-and-more"})),
        ("quoted", "logs_in", json!({"password": "hunter2-and-more"})),
        ("echoed", "in_echo", json!({"password": "hunter2-and-more", "text": "it is hunter2-and-more"})),
    ] {
        call(&system, trace, request(skill, input)).await;
        let text = lines(&system, trace).await.concat();
        assert!(text.contains("***") && !text.contains("hunter2"), "{trace}: {text}");
    }
}

#[tokio::test]
async fn a_parameter_that_its_manifest_marks_is_kept_nowhere() {
    let skills = Folder::new();
    let manifest = "id: marked\ntype: inproc\nentry: echo\nparameters:\n  pin: {type: string, required: true, secret: true, aliases: [code]}\n  n: {type: integer}\n";
    skills.write("marked.yaml", manifest);
    let system = Setup::with_skills(&[&fixtures(), skills.path()]).start().await;
    system.has_skill("marked").await;
    for (trace, input) in [
        ("plain", json!({"pin": "quiet-word", "n": 1})),
        ("aliased", json!({"code": "quiet-word"})),
        ("wrapped", json!({"input": {"pin": "quiet-word"}})),
        ("rejected", json!({"pin": "quiet-word", "n": "many"})),
        ("misplaced", json!({"Pin": ["quiet-word"]})),
    ] {
        call(&system, trace, request("marked", input)).await;
        let text = lines(&system, trace).await.concat();
        assert!(text.contains("***") && !text.contains("quiet-word"), "{trace}: {text}");
    }
    assert_eq!(events(&system, "plain").await[0]["arguments"], json!({"pin": "***", "n": 1}));
}

#[tokio::test]
async fn nothing_is_redacted_if_a_setting_says_so_and_a_warning_too() {
    let system = Setup::up().with("TRACE_SANITIZE", "false").start().await;
    system.process.log.line(&["WARN", "TRACE_SANITIZE"]).await;
    let named = InvokeRequest { call_id: "my-id".to_owned(), ..request("in_echo", json!({ "api_key": KEY })) };
    call(&system, "open", named).await;
    let events = events(&system, "open").await;
    assert_eq!((&events[0]["arguments"]["api_key"], &events[0]["call"]), (&json!(KEY), &json!("my-id")));
}

#[tokio::test]
async fn a_rule_file_adds_names_and_turns_on_addresses_and_so_does_a_setting() {
    let folder = Folder::new();
    let rules = folder.write("rules.toml", "emails = true\nnames = [\"employee_number\"]\n");
    let rules = rules.to_string_lossy().into_owned();
    let input = json!({"employee_number": "E-48213", "text": "mail ada@example.com or call +49 30 901820"});
    let both = json!({"employee_number": "***", "text": "mail *** or call ***"});
    for (settings, expected) in [
        (
            vec![("OPENSKILL_REDACT_RULES", rules.as_str())],
            json!({"employee_number": "***", "text": "mail *** or call +49 30 901820"}),
        ),
        (vec![("OPENSKILL_REDACT_RULES", rules.as_str()), ("OPENSKILL_REDACT_CONTACTS", "1")], both),
        (vec![], input.clone()),
    ] {
        let setup = settings.iter().fold(Setup::up(), |setup, (name, value)| setup.with(name, value));
        let system = setup.start().await;
        call(&system, "contacts", request("in_echo", input.clone())).await;
        assert_eq!(events(&system, "contacts").await[0]["arguments"], expected, "{settings:?}");
    }
}

#[tokio::test]
async fn hostile_text_stays_one_line_an_event() {
    let folder = Folder::new();
    let system = Setup::up().with("OPENSKILL_TRACE_DIR", folder.path().display()).start().await;
    let hostile = "a\n{\"v\":1}\r\u{1b}[2J\u{9b}31m\u{202e}\u{2028}\u{2029}\u{85}\u{0}\u{e0041}é";
    let input = json!({ "text": hostile, hostile: [hostile] });
    let given = InvokeRequest { session_id: "s\u{202e}".to_owned(), ..request("in_echo", input.clone()) };
    assert!(call(&system, "hostile", given).await.success);
    call(&system, "hostile", request(hostile, json!({}))).await;
    let events = events(&system, "hostile").await;
    assert_eq!(events[0]["arguments"], input, "it parses to the same value");
    let text = files(folder.path());
    let hidden = |it: char| it != '\n' && (it.is_control() || "\u{202e}\u{2028}\u{2029}\u{e0041}".contains(it));
    assert!(!text.contains(hidden), "{text:?}");
    assert!(text.lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()), "{text}");
}
