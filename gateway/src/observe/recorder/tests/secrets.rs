//! Tests that a call's lines contain no secrets.

use openskill_proto::v1::execute_event::Event;
use openskill_proto::v1::{InputAction, InputRequired, InputResponse, Log, Partial, Repair};
use serde_json::{Value, json};

use super::rendered;
use crate::arguments::secrets::Secrets;
use crate::observe::call_event::CallEvent;
use crate::observe::recording::Recording;

/// Creates the recording of a call whose parameter `token` is secret.
fn marked(arguments: &str, result: &str) -> Recording {
    let schema = r#"{"properties": {"token": {"x-secret": true}}}"#;
    let mut recording = Recording::sample(arguments);
    recording.secrets = Secrets::from_question_schema(schema, |_| false).map(Into::into);
    recording.result.data_json = result.to_owned().into();
    recording
}

fn text(lines: &[Value]) -> String {
    lines.iter().map(Value::to_string).collect()
}

fn add(recording: &mut Recording, events: impl IntoIterator<Item = CallEvent>) {
    let received = recording.call.received;
    recording.events.extend(events.into_iter().map(|it| (received, it)));
}

fn log(message: &str) -> CallEvent {
    CallEvent::Relayed(Box::new(Event::Log(Log { level: "info".to_owned(), message: message.to_owned() })))
}

fn partial(data: &Value) -> CallEvent {
    CallEvent::Relayed(Box::new(Event::Partial(Partial { data_json: data.to_string() })))
}

#[test]
fn a_secret_that_a_result_writes_with_other_escapes_is_masked() {
    for result in [
        r#"{"echo":"a p\u0026ss/word b"}"#,
        r#"{"echo":"p\u0026ss\/word"}"#,
        r#"{"p\u0026ss\/word":1}"#,
        r#"{"log":"{\"token\":\"p\\u0026ss\\/word\"}"}"#,
    ] {
        let lines = rendered(&marked(r#"{"token":"p&ss/word"}"#, result));
        let shown = text(&lines);
        assert!(lines[1]["data"].is_object() && shown.contains("***") && !shown.contains("word"), "{result}: {shown}");
    }
    let mut recording = marked(r#"{"token":"p&ss/word"}"#, "{}");
    add(&mut recording, [log(r#"got {"token":"p\u0026ss\/word"}"#)]);
    assert_eq!(rendered(&recording)[1]["message"], r#"got {"token":"***"}"#);
}

#[test]
fn a_call_with_more_secrets_than_are_looked_for_is_recorded_without_content() {
    let tokens: Vec<_> = (0..65).map(|it| format!("token-number-{it}")).collect();
    let mut recording = marked(&json!({ "token": tokens, "n": 5 }).to_string(), r#"{"last":"token-number-64"}"#);
    add(&mut recording, [log("token-number-64"), partial(&json!("token-number-64"))]);
    let lines = rendered(&recording);
    let shown = text(&lines);
    assert!(!shown.contains("number") && lines.len() == 4, "{shown}");
    let why = lines[0]["content_left_out"].as_str().unwrap();
    assert!(why.contains("more than 64 secret values"), "{why}");
    assert_eq!((&lines[0]["arguments"], &lines[0]["redacted"]), (&json!("***"), &json!(true)));
    assert_eq!((&lines[3]["code"], &lines[3]["data"]), (&json!("OK"), &json!("***")));
}

#[test]
fn a_call_whose_secrets_can_not_be_read_is_recorded_without_content() {
    let lines = rendered(&marked("{'token': 'hush hush', 'n'", r#"{"echo":"hush hush"}"#));
    assert!(!text(&lines).contains("hush"), "{lines:?}");
    assert!(lines[0]["content_left_out"].as_str().unwrap().contains("can't be read"));
}

#[test]
fn arguments_without_secrets_are_kept_byte_for_byte_so_that_the_call_can_be_made_again() {
    let arguments = r#"{ "n" : 1.50, "text": "a\u0026b", "n": 2 }"#;
    let mut out = Vec::new();
    let mut renderer = super::Renderer::new(openskill_redact::Redactor::default(), "g".into());
    renderer.write(&marked(arguments, "{}"), &mut out);
    let line = String::from_utf8(out).unwrap();
    let first = line.lines().next().unwrap();
    assert!(first.contains(arguments) && !first.contains("\"redacted\""), "{first}");
}

fn asks(schema: &str) -> CallEvent {
    CallEvent::Asked(InputRequired {
        request_id: "q".to_owned(),
        message: "Who are you?".to_owned(),
        schema_json: schema.to_owned(),
        ..InputRequired::default()
    })
}

fn answers(content: &str) -> CallEvent {
    let mut answer =
        InputResponse { request_id: "q".to_owned(), content_json: content.to_owned(), ..InputResponse::default() };
    answer.set_action(InputAction::Accept);
    CallEvent::Answered(answer)
}

#[test]
fn the_answer_to_a_question_for_a_secret_is_not_kept_nor_what_repeats_it() {
    for of_word in [
        json!({"type": "string", "format": "password"}),
        json!({"type": "string", "writeOnly": true}),
        json!({"type": "password"}),
        json!({"type": "secret"}),
        json!({"type": "string", "x-secret": true}),
        json!({"type": "string", "title": "Password"}),
    ] {
        let mut recording = Recording::sample("{}");
        let schema = json!({"type": "object", "properties": {"word": of_word, "name": {"type": "string"}}});
        let answer = r#"{"word":"plain words only","name":"ada"}"#;
        add(&mut recording, [asks(&schema.to_string()), answers(answer), log("logged in with plain words only")]);
        let lines = rendered(&recording);
        assert_eq!(lines[2]["data"], json!({"word": "***", "name": "ada"}), "{of_word}");
        assert_eq!(lines[3]["message"], "logged in with ***");
    }
}

#[test]
fn an_answer_whose_question_is_not_known_is_not_kept() {
    for question in [None, Some(asks("no JSON"))] {
        let mut recording = Recording::sample("{}");
        add(&mut recording, question.into_iter().chain([answers(r#"{"word":"plain words"}"#)]));
        let lines = rendered(&recording);
        assert!(!text(&lines).contains("plain words"), "{lines:?}");
    }
    let mut recording = Recording::sample("{}");
    add(&mut recording, [asks(""), answers(r#"{"name":"ada"}"#)]);
    assert_eq!(rendered(&recording)[2]["data"], json!({"name": "ada"}));
}

#[test]
fn a_secret_in_pieces_is_in_no_event() {
    let mut recording = marked(r#"{"token":"correct horse battery staple"}"#, "{}");
    let words = ["it is correct h", "orse batt", "ery staple, is it"];
    add(&mut recording, ["first"].into_iter().chain(words).chain(["last line"]).map(log));
    add(&mut recording, ["sk-proj-Zk3v9Qp", "X7mB2nR8tY5wL1c", "D4fG6hJ0aS"].map(|it| partial(&json!({ "text": it }))));
    let lines = rendered(&recording);
    let shown: Vec<_> = lines[1..6].iter().map(|it| it["message"].as_str().unwrap()).collect();
    assert_eq!(shown, ["first", "***", "***", "***", "last line"]);
    assert!(lines[6..9].iter().all(|it| it["data"] == "***"), "{lines:?}");
}

#[test]
fn a_value_that_was_cut_is_shown_only_if_there_is_no_secret_to_cut() {
    let cut = |text: &str| json!(format!("\"{text}…")).to_string();
    let of = |arguments: Value| {
        let mut recording = Recording::sample(&arguments.to_string());
        let repair = Repair {
            path: "/text".to_owned(),
            kind: "whitespace".to_owned(),
            before_json: cut(arguments["text"].as_str().unwrap()),
            after_json: "\"a\"".to_owned(),
        };
        let (arguments, warnings) = (arguments.to_string().into(), Vec::new());
        let (repairs, defaults) = (vec![repair], Vec::new());
        add(&mut recording, [CallEvent::Prepared { arguments, repairs, defaults, warnings }]);
        rendered(&recording)[1]["repairs"][0]["before"].as_str().unwrap().to_owned()
    };
    let long = "word ".repeat(60);
    assert!(of(json!({ "text": long })).starts_with("\"word"));
    assert_eq!(of(json!({ "text": long, "password": "hunter2-and-more" })), "***");
}

#[test]
fn what_feedback_quotes_of_a_secret_in_part_is_masked() {
    let key = "nvapi-Zk3v9QpX7mB2nR8tY5wL1cD4fG6hJ0aSzQ1xW2eR3tY4uI5oP6aS";
    let arguments = json!({ "text": format!("use {key} now"), format!("x/{key}/y"): 1, "card 4111 1111 1111 1111": 2 });
    let mut recording = Recording::sample(&arguments.to_string());
    recording.result.text = format!("it said {}", &key[..30]);
    let quoted = "\"max_steps\" must be an integer, not \"use nvapi-Zk3v9QpX7mB2n\\u0052…\"";
    add(
        &mut recording,
        [log(quoted), log(&format!("unknown parameter at /x~1{}", &key[..20])), log("card 4111 1111 1111 11…")],
    );
    let shown = text(&rendered(&recording));
    for part in ["Zk3v9Q", "X7mB2n", "4111 1111"] {
        assert!(!shown.contains(part), "{part}: {shown}");
    }
    assert!(shown.contains("use *** now") && shown.contains("must be an integer"), "{shown}");
}

#[test]
fn a_secret_in_the_id_of_a_skill_that_nobody_has_is_masked() {
    let key = "nvapi-Zk3v9QpX7mB2nR8tY5wL1cD4fG6hJ0aSzQ1xW2eR3tY4uI5oP6aS";
    let mut recording = Recording::sample("{}");
    std::sync::Arc::get_mut(&mut recording.call).unwrap().skill_id = key.to_owned();
    recording.has_skill = false;
    recording.result.text = format!("unknown skill {}", &key[..20]);
    let shown = text(&rendered(&recording));
    assert!(!shown.contains("Zk3v9Q") && shown.contains("unknown skill ***"), "{shown}");
}
