use std::time::Duration;

use openskill_proto::v1::{InputAction, InputResponse};
use serde_json::json;

use super::*;
use crate::questions::Questions;

/// Creates a call with a listener that can answer its questions.
fn interactive() -> (EventSink, mpsc::Receiver<Event>, Arc<Questions>) {
    let questions = Arc::default();
    let (sender, receiver) = mpsc::channel(100);
    let asker = CallQuestions::new(Arc::clone(&questions), "ada", Instant::now() + Duration::from_secs(60));
    (EventSink::for_call(Some(sender), Collector::default(), Some(asker)), receiver, questions)
}

const QUESTION: &[u8] = br#"{"input_required": {"id": "q1", "message": "Which?", "schema": {"type": "object"}}}"#;

fn accept(request_id: String) -> InputResponse {
    InputResponse { request_id, action: InputAction::Accept.into(), content_json: "{}".to_owned() }
}

async fn asked(receiver: &mut mpsc::Receiver<Event>) -> InputRequired {
    match receiver.recv().await {
        Some(Event::InputRequired(it)) => it,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_flood_is_cut_with_a_warning() {
    let (sender, mut receiver) = mpsc::channel(MAX_EVENTS + 10);
    let sink = EventSink::new(sender);
    for _ in 0..MAX_EVENTS + 3 {
        sink.line(br#"{"partial": 1}"#).await;
    }
    assert!(sink.finish().1[0].starts_with("3 events"));
    receiver.close();
    let mut count = 0;
    while receiver.recv().await.is_some() {
        count += 1;
    }
    assert_eq!(count, MAX_EVENTS);
}

#[tokio::test]
async fn an_artifact_of_several_lines_is_one_event_and_part_of_the_result() {
    let (sender, mut receiver) = mpsc::channel(10);
    let sink = EventSink::new(sender);
    sink.line(br#"{"artifact": {"id": "a", "name": "a.txt", "data": "aGVs", "more": true}}"#).await;
    assert!(receiver.try_recv().is_err());
    sink.line(br#"{"artifact": {"id": "a", "data": "bG8="}}"#).await;
    let Ok(Event::Artifact(artifact)) = receiver.try_recv() else { panic!("no artifact") };
    assert_eq!((artifact.name.as_str(), artifact.size_bytes), ("a.txt", 5));
    assert_eq!(sink.finish(), (vec![artifact], vec![]));
}

#[tokio::test]
async fn without_a_listener_artifacts_are_kept_and_the_rest_is_skipped() {
    let sink = EventSink::default();
    sink.line(b"{\"progress\": nonsense").await;
    sink.line(br#"{"artifact": {"id": "a", "name": "a.txt", "data": "aGk="}}"#).await;
    sink.artifact("b.txt", "text/plain", b"hi".to_vec()).await;
    let (artifacts, warnings) = sink.finish();
    assert_eq!((artifacts.len(), warnings), (2, vec![]));
}

#[tokio::test]
async fn without_a_listener_log_lines_wait_for_the_result_within_their_bounds() {
    let sink = EventSink::default();
    sink.line(br#"{"progress": {"fraction": 0.5}}"#).await;
    for number in 0..300 {
        sink.line(format!(r#"{{"log": {{"level": "warning", "message": "{number}"}}}}"#).as_bytes()).await;
    }
    let heard = sink.unheard();
    assert_eq!((heard.len(), heard[0].level.as_str(), heard[199].message.as_str()), (200, "warning", "199"));
    let sink = EventSink::default();
    for _ in 0..5 {
        sink.send(Event::Log(Log { level: "info".to_owned(), message: "x".repeat(30 * 1024) })).await;
    }
    assert_eq!(sink.unheard().len(), 2);
    assert_eq!(sink.finish(), (vec![], vec![]));
}

#[tokio::test]
async fn a_question_by_line_is_answered_by_line() {
    let (sink, mut receiver, questions) = interactive();
    let mut answers = sink.answers().unwrap();
    sink.line(QUESTION).await;
    let asked = asked(&mut receiver).await;
    assert_eq!((asked.message.as_str(), asked.schema_json.as_str()), ("Which?", r#"{"type":"object"}"#));
    assert!(asked.timeout_ms > 50_000 && asked.timeout_ms <= 60_000);
    questions.deliver(accept(asked.request_id), "ada").unwrap();
    let line = answers.recv().await.unwrap();
    assert_eq!(line, &b"{\"answer\":{\"id\":\"q1\",\"action\":\"accept\",\"content\":{}}}\n"[..]);
}

#[tokio::test]
async fn nobody_is_asked_where_nobody_can_answer() {
    let (sender, mut receiver) = mpsc::channel(10);
    for sink in [EventSink::new(sender), EventSink::default()] {
        let mut answers = sink.answers().unwrap();
        sink.line(QUESTION).await;
        let line = answers.recv().await.unwrap();
        assert!(line.starts_with(b"{\"answer\":{\"id\":\"q1\",\"action\":\"unavailable\",\"reason\":"));
        assert!(matches!(sink.ask("Which?", None).await, QuestionAnswer::Unavailable(_)));
    }
    assert!(receiver.try_recv().is_err());
}

#[tokio::test]
async fn a_question_is_open_from_when_the_user_is_asked_until_it_is_over() {
    let (sink, mut receiver, questions) = interactive();
    let open = Arc::new(());
    let ask = async |line: &[u8]| sink.line_that_may_ask(line, || Arc::clone(&open)).await;
    // These lines ask no question, although some of them begin like one.
    for line in [&b"{\"input_required\""[..], b"{\"input_required\": {}}", b"{\"partial\": 1}"] {
        ask(line).await;
        assert_eq!(Arc::strong_count(&open), 1);
    }
    let over = async || {
        while Arc::strong_count(&open) > 1 {
            tokio::task::yield_now().await;
        }
    };
    // Ask more questions than there is room for unread answers.
    for _ in 0..MAX_WAITING_ANSWERS + 2 {
        ask(QUESTION).await;
        assert_eq!(Arc::strong_count(&open), 2);
        let request_id = loop {
            if let Some(Event::InputRequired(it)) = receiver.recv().await {
                break it.request_id;
            }
        };
        questions.deliver(accept(request_id), "ada").unwrap();
        over().await;
    }
    ask(QUESTION).await;
    drop(sink.open_call());
    over().await;
    // Without a listener, no question can be asked.
    let unheard = EventSink::default();
    unheard.line_that_may_ask(QUESTION, || Arc::clone(&open)).await;
    assert_eq!(Arc::strong_count(&open), 1);
}

#[tokio::test]
async fn the_answers_are_taken_once_also_after_the_question() {
    let (sink, mut receiver, questions) = interactive();
    sink.line(QUESTION).await;
    let mut answers = sink.answers().unwrap();
    assert!(sink.answers().is_none());
    questions.deliver(accept(asked(&mut receiver).await.request_id), "ada").unwrap();
    assert!(answers.recv().await.is_some());
}

#[tokio::test]
async fn the_end_of_the_call_ends_its_questions() {
    let (sink, mut receiver, questions) = interactive();
    let call = sink.open_call();
    let waiting = tokio::spawn({
        let sink = sink.clone();
        async move { sink.ask("Which?", Some(json!({"type": "object"}))).await }
    });
    let request_id = asked(&mut receiver).await.request_id;
    drop(call);
    assert_eq!(waiting.await.unwrap(), QuestionAnswer::Cancel);
    assert!(questions.deliver(accept(request_id), "ada").is_err());
    assert!(matches!(sink.ask("Which?", None).await, QuestionAnswer::Unavailable(_)));
}
