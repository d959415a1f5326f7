use std::time::Duration;

use openskill_proto::limits::MAX_ANSWER_BYTES;
use serde_json::json;

use super::*;

fn asker(questions: &Arc<Questions>) -> CallQuestions {
    CallQuestions::new(Arc::clone(questions), "ada", Instant::now() + Duration::from_secs(60))
}

fn response(id: &str, action: InputAction, content: &str) -> InputResponse {
    InputResponse { request_id: id.to_owned(), action: action.into(), content_json: content.to_owned() }
}

fn accept(id: &str, content: &str) -> InputResponse {
    response(id, InputAction::Accept, content)
}

#[tokio::test]
async fn an_answer_reaches_the_skill_once() {
    let questions = Arc::default();
    let asker = asker(&questions);
    let (id, answered) = asker.open(None).unwrap();
    assert_eq!(id.len(), 32);
    questions.deliver(accept(&id, "{\"file\":\n1e400}"), "ada").unwrap_err();
    questions.deliver(accept(&id, "{\"file\":\n\"a\\nb\"}"), "ada").unwrap();
    assert_eq!(answered.await, Ok(QuestionAnswer::Accept("{\"file\": \"a\\nb\"}".to_owned())));
    assert_eq!(questions.deliver(accept(&id, "{}"), "ada"), Err(Rejection::NotFound));
}

#[tokio::test]
async fn declining_and_dismissing_are_told_apart() {
    let questions = Arc::default();
    let asker = asker(&questions);
    for (action, expected) in [
        (InputAction::Decline, QuestionAnswer::Decline),
        (InputAction::Cancel, QuestionAnswer::Cancel),
        (InputAction::Unspecified, QuestionAnswer::Cancel),
    ] {
        let (id, answered) = asker.open(None).unwrap();
        questions.deliver(response(&id, action, "ignored"), "ada").unwrap();
        assert_eq!(answered.await, Ok(expected));
    }
}

#[test]
fn an_answer_that_does_not_fit_says_why_and_leaves_the_question_open() {
    let questions = Arc::default();
    let asker = asker(&questions);
    let schema = json!({
        "type": "object", "required": ["age"],
        "properties": {"age": {"type": "integer"}, "color": {"enum": ["red", "blue"]}}
    });
    let (id, mut answered) = asker.open(Some(schema)).unwrap();
    let deep = format!("{{\"age\": {}1{}}}", "[".repeat(100), "]".repeat(100));
    let long = format!("{{\"age\": \"{}\"}}", "x".repeat(MAX_ANSWER_BYTES));
    for (content, word) in [
        ("", "not JSON"),
        ("[1]", "must be a JSON object"),
        ("{}", "age"),
        (r#"{"age": "x"}"#, "/age"),
        (r#"{"age": 1, "color": "green"}"#, "/color"),
        (&deep, "deeper"),
        (&long, "bytes"),
    ] {
        match questions.deliver(accept(&id, content), "ada") {
            Err(Rejection::Invalid(reason)) => assert!(reason.contains(word), "{reason}"),
            other => panic!("{content}: {other:?}"),
        }
    }
    assert!(answered.try_recv().is_err());
    questions.deliver(accept(&id, r#"{"age": 7}"#), "ada").unwrap();
    assert_eq!(answered.try_recv(), Ok(QuestionAnswer::Accept(r#"{"age": 7}"#.to_owned())));
}

#[test]
fn only_the_principal_of_the_call_can_answer() {
    let questions = Arc::default();
    let asker = asker(&questions);
    let (id, _answered) = asker.open(None).unwrap();
    for stranger in ["", "eve"] {
        assert_eq!(questions.deliver(accept(&id, "{}"), stranger), Err(Rejection::NotFound));
    }
    questions.deliver(accept(&id, "{}"), "ada").unwrap();
}

#[test]
fn questions_vanish_with_their_call() {
    let questions = Arc::default();
    let (ended, other) = (asker(&questions), asker(&questions));
    let (id, mut answered) = ended.open(None).unwrap();
    let (kept, _answered) = other.open(None).unwrap();
    ended.close();
    assert_eq!(answered.try_recv(), Err(oneshot::error::TryRecvError::Closed));
    assert_eq!(questions.deliver(accept(&id, "{}"), "ada"), Err(Rejection::NotFound));
    assert!(ended.open(None).unwrap_err().contains("ended"));
    questions.deliver(accept(&kept, "{}"), "ada").unwrap();
    assert!(questions.open.lock().is_empty());
}

#[test]
fn a_call_has_a_bounded_number_of_open_questions() {
    let questions = Arc::default();
    let asker = asker(&questions);
    let mut open: Vec<_> = (0..MAX_CALL_QUESTIONS).map(|_| asker.open(None).unwrap()).collect();
    assert!(asker.open(None).is_err());
    let (id, _answered) = open.remove(0);
    questions.deliver(response(&id, InputAction::Decline, ""), "ada").unwrap();
    assert!(asker.open(None).is_ok());
}

#[test]
fn a_schema_that_is_invalid_or_costly_opens_no_question() {
    let questions = Arc::default();
    let asker = asker(&questions);
    for schema in [json!([]), json!({"type": 7}), json!({"$ref": "https://example.com/schema"})] {
        assert!(asker.open(Some(schema)).is_err());
    }
    assert!(questions.open.lock().is_empty());
}

#[test]
fn what_can_not_be_asked_says_why() {
    let message = json!({"role": "user", "content": {"type": "text", "text": "hi"}});
    assert_eq!(Ask::sampling(json!({"messages": [message], "maxTokens": 10})).fault(), None);
    for params in [json!({}), json!({"messages": [], "maxTokens": 1}), json!({"messages": [message]}), json!(5)] {
        assert!(Ask::sampling(params.clone()).fault().is_some(), "{params}");
    }
    assert_eq!(Ask::url("Sign in", "https://example.com/x").fault(), None);
    for url in ["", "javascript:alert(1)", "file:///etc/passwd", "https:"] {
        assert!(Ask::url("Sign in", url).fault().is_some(), "{url}");
    }
    assert_eq!((Ask::roots().fault(), Ask::form("", None).fault()), (None, None));
}

#[test]
fn the_answer_to_a_model_or_for_roots_has_a_schema() {
    for (ask, required) in [(Ask::sampling(json!({})), "content"), (Ask::roots(), "roots")] {
        let schema = ask.answer_schema().unwrap();
        assert!(schema["required"].as_array().unwrap().contains(&json!(required)), "{schema}");
        check(&schema).unwrap();
    }
}
