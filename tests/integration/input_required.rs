//! Questions in the middle of a call: who is asked, who may answer, and what ends a question.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use openskill_proto::v1::worker_service_client::WorkerServiceClient;
use openskill_proto::v1::{
    Blame, DeliverInputRequest, ExecuteRequest, InputAction, InputRequired, InputResponse, InvokeEvent, InvokeRequest,
    SkillResult, execute_event, invoke_event::Event,
};
use openskill_tests::system::{PATIENCE, Setup, System, code, data, request};
use openskill_tests::wait::until;
use openskill_tests::{fixtures, repository};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use tonic::transport::Channel;

/// The skills that ask, and those that ship: with them comes the SDK.
fn folders() -> [PathBuf; 2] {
    [fixtures(), repository().join("worker/skills")]
}

async fn start() -> System {
    let [own, shipped] = folders();
    let system = Setup::with_skills(&[&own, &shipped]).flag("--workers", 1).start().await;
    system.has_skill("asks").await;
    system
}

pub(crate) fn interactive(skill: &str, input: Value) -> InvokeRequest {
    InvokeRequest { interactive: true, timeout_ms: 20_000, ..request(skill, input) }
}

fn answer(question: &InputRequired, action: InputAction, content: &Value) -> InputResponse {
    let content_json = content.to_string();
    InputResponse { request_id: question.request_id.clone(), action: action.into(), content_json }
}

pub(crate) fn accept(question: &InputRequired, content: &Value) -> InputResponse {
    answer(question, InputAction::Accept, content)
}

/// A call that may ask, on an `InvokeMany` stream of its own.
pub(crate) struct Asking {
    requests: mpsc::Sender<InvokeRequest>,
    events: Streaming<InvokeEvent>,
}

impl Asking {
    pub(crate) async fn start(system: &System, call: InvokeRequest) -> Self {
        let (requests, receiver) = mpsc::channel(8);
        requests.send(InvokeRequest { call_id: "c".to_owned(), ..call }).await.unwrap();
        let mut client = system.skills().await;
        let events = client.invoke_many(ReceiverStream::new(receiver)).await.unwrap().into_inner();
        Self { requests, events }
    }

    /// The next event.
    pub(crate) async fn event(&mut self) -> Event {
        self.events.message().await.unwrap().expect("an event before the end").event.unwrap()
    }

    /// The next question, or the result.
    pub(crate) async fn next(&mut self) -> Result<InputRequired, Box<SkillResult>> {
        loop {
            match self.event().await {
                Event::InputRequired(question) => return Ok(question),
                Event::Result(result) => return Err(Box::new(result)),
                _ => {}
            }
        }
    }

    pub(crate) async fn answer(&self, response: InputResponse) {
        let call_id = "c".to_owned();
        let message = InvokeRequest { call_id, input_response: Some(response), ..InvokeRequest::default() };
        self.requests.send(message).await.unwrap();
    }
}

#[tokio::test]
async fn a_question_is_answered_on_the_stream_of_its_call() {
    let system = start().await;
    let content = json!({"file": "a.txt", "n": 1});
    for skill in ["asks", "asks_process", "asks_exec", "in_ask"] {
        let mut call = Asking::start(&system, interactive(skill, json!({"message": "Which file?"}))).await;
        let question = call.next().await.unwrap_or_else(|result| panic!("{skill}: {result:?}"));
        assert_eq!((question.message.as_str(), question.request_id.len()), ("Which file?", 32), "{skill}");
        assert!(question.timeout_ms > 0 && question.timeout_ms <= 20_000, "{skill}: {question:?}");
        call.answer(accept(&question, &content)).await;
        let result = call.next().await.unwrap_err();
        assert_eq!(code(&result), "", "{skill}: {result:?}");
        let answered = match skill {
            "in_ask" => data(&result)["content"].clone(),
            "asks_exec" => data(&result)["answer"]["content"].clone(),
            _ => data(&result),
        };
        assert_eq!(answered, content, "{skill}");
    }
}

#[tokio::test]
async fn a_user_may_decline() {
    let system = start().await;
    let mut call = Asking::start(&system, interactive("asks", json!({"message": "?"}))).await;
    let question = call.next().await.unwrap();
    call.answer(answer(&question, InputAction::Decline, &Value::Null)).await;
    assert_eq!(data(&call.next().await.unwrap_err()), json!({"declined": "decline"}));
}

#[tokio::test]
async fn another_call_may_answer_and_a_wrong_answer_leaves_the_question_open() {
    let system = start().await;
    let schema = json!({"type": "object", "properties": {"age": {"type": "integer"}}, "required": ["age"]});
    let input = json!({"message": "How old?", "schema": schema});
    let mut client = system.skills().await;
    let mut events = client.invoke_stream(interactive("asks", input)).await.unwrap().into_inner();
    let question = loop {
        if let Some(Event::InputRequired(question)) = events.message().await.unwrap().unwrap().event {
            break question;
        }
    };
    assert_eq!(serde_json::from_str::<Value>(&question.schema_json).unwrap(), schema);
    let refused = client.answer_input(accept(&question, &json!({"age": "old"}))).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::InvalidArgument);
    assert!(refused.message().contains("/age"), "{refused}");
    client.answer_input(accept(&question, &json!({"age": 42}))).await.unwrap();
    let again = client.answer_input(accept(&question, &json!({"age": 42}))).await.unwrap_err();
    assert_eq!(again.code(), tonic::Code::NotFound);
    let Some(Event::Result(result)) = events.message().await.unwrap().unwrap().event else { panic!("no result") };
    assert_eq!(data(&result), json!({"age": 42}));
}

#[tokio::test]
async fn an_unanswered_question_ends_with_the_deadline_of_its_call() {
    let system = start().await;
    for skill in ["asks", "in_ask"] {
        let begun = Instant::now();
        let request = InvokeRequest { timeout_ms: 3000, ..interactive(skill, json!({"message": "?"})) };
        let mut call = Asking::start(&system, request).await;
        let question = call.next().await.unwrap();
        let result = call.next().await.unwrap_err();
        assert_eq!(code(&result), "TIMEOUT", "{skill}: {result:?}");
        // The skill's circuit must not open because a user did not answer.
        assert_eq!(result.error.as_ref().unwrap().blame(), Blame::Caller, "{skill}");
        assert!(begun.elapsed() >= Duration::from_millis(2900), "{skill}");
        let late = system.skills().await.answer_input(accept(&question, &json!({}))).await.unwrap_err();
        assert_eq!(late.code(), tonic::Code::NotFound, "{skill}");
    }
}

#[tokio::test]
async fn an_answer_passes_the_calls_that_wait_for_a_permit() {
    let [own, shipped] = folders();
    let setup = Setup::with_skills(&[&own, &shipped]).flag("--workers", 1).with("OPENSKILL_MAX_IN_FLIGHT", 1);
    let system = setup.start().await;
    system.has_skill("asks").await;
    let mut call = Asking::start(&system, interactive("in_ask", json!({"message": "?"}))).await;
    let question = call.next().await.unwrap();
    // It gets no permit before the first call ends, and the answer comes behind it.
    let second = InvokeRequest { call_id: "second".to_owned(), ..request("in_echo", json!({"n": 1})) };
    call.requests.send(second).await.unwrap();
    call.answer(accept(&question, &json!({"n": 2}))).await;
    for _ in 0..2 {
        let result = call.next().await.unwrap_err();
        assert_eq!(code(&result), "", "{result:?}");
    }
}

#[tokio::test]
async fn a_user_who_does_not_answer_opens_no_circuit() {
    let [own, shipped] = folders();
    let setup = Setup::with_skills(&[&own, &shipped]).flag("--workers", 1);
    let system = setup.with("CIRCUIT_FAILURE_THRESHOLD", 1).with("OPENSKILL_TIMEOUT_MS", 1500).start().await;
    system.has_skill("asks").await;
    for _ in 0..2 {
        let request = InvokeRequest { timeout_ms: 0, ..interactive("in_ask", json!({"message": "?"})) };
        let mut call = Asking::start(&system, InvokeRequest { session_id: "s".to_owned(), ..request }).await;
        call.next().await.unwrap();
        let result = call.next().await.unwrap_err();
        assert_eq!(code(&result), "TIMEOUT", "{result:?}");
        assert_eq!(result.error.as_ref().unwrap().blame(), Blame::Caller, "{result:?}");
    }
}

#[tokio::test]
async fn a_skill_that_asks_where_nobody_can_answer_fails_at_once() {
    let system = start().await;
    for skill in ["asks", "asks_process", "asks_exec", "asks_shared", "in_ask"] {
        let result = system.invoke(interactive(skill, json!({"message": "?"}))).await;
        assert_eq!(code(&result), "ASK_USER_UNAVAILABLE", "unary, {skill}: {result:?}");
        let mut call =
            Asking::start(&system, InvokeRequest { timeout_ms: 20_000, ..request(skill, json!({"message": "?"})) })
                .await;
        let result = call.next().await.unwrap_err();
        assert_eq!(code(&result), "ASK_USER_UNAVAILABLE", "not interactive, {skill}: {result:?}");
    }
    // A shared interpreter has no way back for an answer.
    let mut call = Asking::start(&system, interactive("asks_shared", json!({"message": "?"}))).await;
    assert_eq!(code(&call.next().await.unwrap_err()), "ASK_USER_UNAVAILABLE");
}

#[tokio::test]
async fn the_shipped_skill_asks_several_questions_at_once() {
    let system = start().await;
    let questions = json!([
        {"id": "name", "text": "Your name?", "required": true},
        {"id": "color", "text": "Which color?", "options": ["red", "blue"]},
    ]);
    let mut call = Asking::start(&system, interactive("ask_user", json!({"questions": questions}))).await;
    let question = call.next().await.unwrap();
    assert_eq!(question.message, "1. Your name?\n2. Which color?");
    call.answer(accept(&question, &json!({"name": "Ada", "color": "blue"}))).await;
    let result = call.next().await.unwrap_err();
    let answers = json!([{"id": "name", "answer": "Ada"}, {"id": "color", "answer": "blue"}]);
    assert_eq!((data(&result), result.text.as_str()), (json!({"answers": answers}), "the user answered 2 questions"));
}

#[tokio::test]
async fn a_form_of_an_mcp_server_is_relayed_to_the_caller() {
    let server = fixtures().with_file_name("mcp");
    let system = Setup::with_skills(&[&server]).flag("--workers", 1).start().await;
    system.has_skill("own__asks").await;
    let mut call = Asking::start(&system, interactive("own__asks", json!({"lenient": true}))).await;
    let question = call.next().await.unwrap();
    assert_eq!(question.message, "Who are you?");
    assert!(question.schema_json.contains("name"), "{question:?}");
    call.answer(accept(&question, &json!({"name": "Ada"}))).await;
    assert_eq!(data(&call.next().await.unwrap_err()), json!("the user said accept"));
    // Answered, a failure is the server's own.
    let mut call = Asking::start(&system, interactive("own__asks", json!({}))).await;
    let question = call.next().await.unwrap();
    call.answer(answer(&question, InputAction::Cancel, &Value::Null)).await;
    assert_eq!(code(&call.next().await.unwrap_err()), "MCP_EXECUTION_ERROR");
}

#[tokio::test]
async fn a_worker_takes_the_answer_of_the_calls_principal_alone() {
    let folder = openskill_tests::folder::Folder::new();
    let listen = format!("unix:{}", folder.path().join("worker.sock").display());
    let skills = folders().map(|it| it.display().to_string()).join(":");
    let worker = Setup::command(&["worker", "--listen", &listen, "--skills-dir", &skills]).spawn();
    worker.log.line(&["worker ready"]).await;
    let mut client = connect(&listen).await;
    let call = ExecuteRequest {
        skill_id: "asks".to_owned(),
        input_json: r#"{"message": "?"}"#.into(),
        timeout_ms: 20_000,
        principal: "ada".to_owned(),
        interactive: true,
        ..ExecuteRequest::default()
    };
    let mut events = client.execute_stream(call).await.unwrap().into_inner();
    let Some(execute_event::Event::InputRequired(question)) = events.message().await.unwrap().unwrap().event else {
        panic!("no question")
    };
    for (principal, expected) in [("eve", tonic::Code::NotFound), ("", tonic::Code::NotFound), ("ada", tonic::Code::Ok)]
    {
        let response = Some(accept(&question, &json!({"n": 1})));
        let delivered = client.deliver_input(DeliverInputRequest { response, principal: principal.to_owned() }).await;
        assert_eq!(delivered.map_or_else(|status| status.code(), |_| tonic::Code::Ok), expected, "{principal}");
    }
    let Some(execute_event::Event::Result(result)) = events.message().await.unwrap().unwrap().event else {
        panic!("no result")
    };
    assert_eq!(result.data_json, br#"{"n": 1}"#[..]);
}

/// A client of the worker at this address, once it listens.
pub(crate) async fn connect(listen: &str) -> WorkerServiceClient<Channel> {
    let endpoint = tonic::transport::Endpoint::from_shared(listen.to_owned()).unwrap();
    let channel = until("the worker listens", PATIENCE, || async { endpoint.connect().await.ok() }).await;
    WorkerServiceClient::new(channel).max_decoding_message_size(16 << 20)
}
