//! The agent over gRPC and REST, in a gateway and on a server of its own.

use std::time::Duration;

use futures_util::StreamExt as _;
use openskill_proto::v1::agent_service_client::AgentServiceClient;
use openskill_proto::v1::chat_event::Event;
use openskill_proto::v1::chat_request::Request;
use openskill_proto::v1::{
    ChatEvent, ChatRequest, DeleteConversationRequest, GetConversationRequest, TurnEnd, UserAnswer, UserAnswers,
    UserMessage, WatchConversationRequest,
};
use openskill_tests::backend::{Backend, Reply};
use openskill_tests::rest::{self, Answer};
use openskill_tests::system::{Setup, System};
use openskill_tests::wait::until;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Code, Streaming};

const JSON: (&str, &str) = ("content-type", "application/json");
const SSE: (&str, &str) = ("accept", "text/event-stream");

/// A model that asks the user for a colour, and repeats what it learns.
async fn curious() -> Backend {
    Backend::start(|seen| {
        let body = seen.json();
        let messages = body["messages"].as_array().unwrap();
        let last = messages.last().unwrap();
        let delta = if last["role"] == "tool" {
            json!({ "content": format!("I learned {}", last["content"].as_str().unwrap()) })
        } else {
            let question = json!({ "id": "colour", "text": "Which colour?", "type": "text", "required": true });
            let arguments = json!({ "questions": [question] }).to_string();
            let call = json!({ "name": "ask_user", "arguments": arguments });
            json!({ "tool_calls": [{ "index": 0, "id": "1", "type": "function", "function": call }] })
        };
        let reason = if last["role"] == "tool" { "stop" } else { "tool_calls" };
        let chunk = json!({ "choices": [{ "index": 0, "delta": delta, "finish_reason": reason }] });
        Reply::new(200, "text/event-stream", format!("data: {chunk}\n\ndata: [DONE]\n\n"))
    })
    .await
}

async fn with_model(model: &Backend) -> System {
    Setup::shipped().with("OPENAI_API_BASE", model.url("/v1")).with("OPENAI_MODEL", "m").start().await
}

async fn agent(system: &System) -> AgentServiceClient<Channel> {
    AgentServiceClient::new(system.channel().await)
}

async fn chat(system: &System, body: Value) -> Answer {
    system.post("/agent/chat", &[JSON], body.to_string()).await
}

fn message(text: &str) -> ChatRequest {
    let message = UserMessage { text: text.to_owned(), ..UserMessage::default() };
    ChatRequest { request: Some(Request::Message(message)), ..ChatRequest::default() }
}

fn names(answer: &Value) -> Vec<&str> {
    answer["events"].as_array().unwrap().iter().map(|it| it["event"].as_str().unwrap()).collect()
}

/// The events up to `done`, without those that are not kept.
async fn to_the_end(mut events: Streaming<ChatEvent>) -> Vec<ChatEvent> {
    let mut all = Vec::new();
    while let Some(event) = events.message().await.unwrap() {
        if event.number > 0 || matches!(event.event, Some(Event::Done(_))) {
            all.push(event);
        }
    }
    all
}

fn end(events: &[ChatEvent]) -> TurnEnd {
    match events.last().and_then(|it| it.event.as_ref()) {
        Some(Event::Done(done)) => done.end(),
        other => panic!("{other:?} is no end"),
    }
}

#[tokio::test]
async fn without_a_model_a_message_over_rest_runs_the_skill_that_rules_choose() {
    let system = Setup::shipped().start().await;
    let answer = chat(&system, json!({ "message": "echo: hello" })).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let answer = answer.json();
    assert_eq!(names(&answer), ["started", "reply", "tool_call", "tool_result"]);
    assert_eq!(answer["events"][2]["data"]["arguments"], json!({ "text": "hello" }));
    assert_eq!(answer["done"]["end"], "completed", "{answer}");
    let id = answer["conversation_id"].as_str().unwrap();
    let path = format!("/agent/conversations/{id}/events");
    let lines = system.get(&format!("{path}?after=3")).await;
    let lines: Vec<Value> =
        String::from_utf8_lossy(&lines.body).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let found: Vec<_> = lines.iter().map(|it| (it["event"].as_str().unwrap(), it["data"]["number"].as_u64())).collect();
    assert_eq!(found, [("tool_result", Some(4)), ("done", Some(5))]);
    let headers = [SSE, ("last-event-id", "4")];
    let rest = rest::send(system.address, http::Method::GET, &format!("{path}?follow=false"), &headers, "").await;
    let text = String::from_utf8_lossy(&rest.body).into_owned();
    assert!(text.starts_with("event: done\n") && text.contains("\nid: 5\n"), "{text}");
}

#[tokio::test]
async fn events_arrive_as_they_happen_over_server_sent_events() {
    let system = Setup::shipped().start().await;
    let answer = system.post("/agent/chat", &[JSON, SSE], json!({ "message": "echo: hi" }).to_string()).await;
    assert_eq!(answer.header("content-type"), "text/event-stream");
    let text = String::from_utf8_lossy(&answer.body).into_owned();
    let events: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("event: ")).collect();
    assert_eq!(events, ["started", "reply", "tool_call", "tool_result", "done"], "{text}");
}

#[tokio::test]
async fn a_turn_runs_in_the_trace_that_the_response_names() {
    let system = Setup::shipped().start().await;
    let body = json!({ "message": "echo: hi" }).to_string();
    let headers: [&[(&str, &str)]; 2] = [&[JSON], &[JSON, ("x-trace-id", "turn-1")]];
    for headers in headers {
        let answer = system.post("/agent/chat", headers, body.clone()).await;
        let trace_id = answer.header("x-trace-id").to_owned();
        assert_eq!(answer.json()["events"][0]["data"]["trace_id"], trace_id.as_str(), "{answer:?}");
        let path = format!("/traces/{trace_id}");
        let is_recorded = || async { (system.get(&path).await.status == 200).then_some(()) };
        until("the call of the turn to be recorded under its trace", Duration::from_secs(20), is_recorded).await;
    }
}

#[tokio::test]
async fn a_conversation_is_read_and_deleted_over_grpc() {
    let system = Setup::shipped().start().await;
    let mut agent = agent(&system).await;
    let requests = tokio_stream::iter([message("echo: hello")]);
    let events = to_the_end(agent.chat(requests).await.unwrap().into_inner()).await;
    assert_eq!(end(&events), TurnEnd::Completed, "{events:?}");
    let conversation_id = events[0].conversation_id.clone();
    let watch = WatchConversationRequest { conversation_id: conversation_id.clone(), after: 2, no_follow: true };
    let again = to_the_end(agent.watch_conversation(watch).await.unwrap().into_inner()).await;
    assert_eq!(again, events[2..]);
    let get = GetConversationRequest { conversation_id: conversation_id.clone() };
    let found = agent.get_conversation(get.clone()).await.unwrap().into_inner();
    assert_eq!((found.id, found.last_number), (conversation_id.clone(), 5));
    agent.delete_conversation(DeleteConversationRequest { conversation_id }).await.unwrap();
    assert_eq!(agent.get_conversation(get).await.unwrap_err().code(), Code::NotFound);
}

#[tokio::test]
async fn who_can_send_no_more_is_told_that_the_turn_waits_and_answers_later() {
    let model = curious().await;
    let system = with_model(&model).await;
    let requests = tokio_stream::iter([message("paint it")]);
    let events = to_the_end(agent(&system).await.chat(requests).await.unwrap().into_inner()).await;
    assert_eq!((end(&events), events.last().unwrap().number), (TurnEnd::Waiting, 0), "{events:?}");
    let conversation = events[0].conversation_id.as_str();
    let asked = events.iter().find_map(|it| match &it.event {
        Some(Event::InputRequired(asked)) => Some(asked.clone()),
        _ => None,
    });
    let asked = asked.unwrap();
    assert_eq!(asked.questions[0].text, "Which colour?");
    let answers = json!({ "request_id": asked.request_id, "answers": [{ "id": "colour", "answer": "teal" }] });
    let answer = chat(&system, json!({ "conversation_id": conversation, "answers": answers })).await.json();
    assert_eq!(answer["done"]["end"], "completed", "{answer}");
    assert!(answer["done"]["text"].as_str().unwrap().contains("teal"), "{answer}");
}

#[tokio::test]
async fn a_client_answers_in_the_stream_that_asked() {
    let model = curious().await;
    let system = with_model(&model).await;
    let (sender, receiver) = mpsc::channel(4);
    sender.send(message("paint it")).await.unwrap();
    let mut events = agent(&system).await.chat(ReceiverStream::new(receiver)).await.unwrap().into_inner();
    let mut done = None;
    while let Some(event) = events.next().await {
        match event.unwrap().event {
            Some(Event::InputRequired(asked)) => {
                let answers = vec![UserAnswer { id: "colour".to_owned(), answer: "teal".to_owned() }];
                let answers = UserAnswers { request_id: asked.request_id, answers, declined: false };
                let request = ChatRequest { request: Some(Request::Answers(answers)), ..ChatRequest::default() };
                sender.send(request).await.unwrap();
            }
            Some(Event::Done(it)) => done = Some(it),
            _ => {}
        }
    }
    let done = done.unwrap();
    assert_eq!(done.end(), TurnEnd::Completed, "{done:?}");
    assert!(done.text.contains("teal"), "{done:?}");
}

#[tokio::test]
async fn a_refused_answer_ends_the_stream_and_the_question_stands() {
    let model = curious().await;
    let system = with_model(&model).await;
    let (sender, receiver) = mpsc::channel(4);
    sender.send(message("paint it")).await.unwrap();
    let mut events = agent(&system).await.chat(ReceiverStream::new(receiver)).await.unwrap().into_inner();
    let answers = UserAnswers { request_id: "of another".to_owned(), ..UserAnswers::default() };
    let request = ChatRequest { request: Some(Request::Answers(answers)), ..ChatRequest::default() };
    let mut conversation = String::new();
    let status = loop {
        match events.message().await {
            Ok(Some(event)) => {
                conversation.clone_from(&event.conversation_id);
                if matches!(event.event, Some(Event::Waiting(_))) {
                    sender.send(request.clone()).await.unwrap();
                }
            }
            Ok(None) => panic!("the stream ended without a status"),
            Err(status) => break status,
        }
    };
    assert_eq!(status.code(), Code::InvalidArgument, "{status}");
    let cancelled = chat(&system, json!({ "conversation_id": conversation, "cancel": {} })).await.json();
    assert_eq!(cancelled["done"]["end"], "cancelled", "{cancelled}");
}

#[tokio::test]
async fn requests_that_cannot_be_read_and_pages_of_other_sites_are_refused() {
    let system = Setup::shipped().start().await;
    for (body, word) in [
        (json!({ "message": "" }), "empty"),
        (json!({ "message": "hi", "cancel": {} }), "one of"),
        (json!({ "message": { "text": "hi", "model": "openai:m" } }), "OPENAI_API_KEY"),
        (json!({ "cancel": {} }), "conversation_id"),
    ] {
        let answer = chat(&system, body.clone()).await;
        assert_eq!((answer.status, answer.code().as_str()), (400, "INVALID_ARGUMENT"), "{body}");
        assert!(answer.json()["error"]["message"].as_str().unwrap().contains(word), "{body}: {answer:?}");
    }
    let body = json!({ "message": "echo: hi" }).to_string();
    let foreign = system.post("/agent/chat", &[JSON, ("origin", "http://evil.example")], body.clone()).await;
    assert_eq!(foreign.status, 403);
    assert_eq!(system.post("/agent/chat", &[("content-type", "text/plain")], body).await.status, 415);
    let large = "POST /agent/chat HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 5242880\r\n\r\n";
    let refused = rest::send_raw(system.address, large.as_bytes()).await;
    assert!(refused.starts_with("HTTP/1.1 413"), "{refused}");
    assert_eq!(system.get("/agent/conversations/unknown").await.code(), "NOT_FOUND");
    assert_eq!(system.get("/agent/conversations?colour=red").await.status, 400);
    let described = system.get("/openapi.json").await.json();
    assert!(described["paths"]["/agent/chat"]["post"].is_object());
}

#[tokio::test]
async fn a_gateway_without_an_agent_serves_none() {
    let system = Setup::shipped().with("OPENSKILL_AGENT", "off").start().await;
    assert_eq!(chat(&system, json!({ "message": "echo: hi" })).await.status, 404);
    assert!(system.get("/openapi.json").await.json()["paths"].get("/agent/chat").is_none());
    let requests = tokio_stream::iter([message("echo: hi")]);
    assert_eq!(agent(&system).await.chat(requests).await.unwrap_err().code(), Code::Unimplemented);
}

#[tokio::test]
async fn an_agent_on_its_own_calls_the_skills_of_a_gateway_elsewhere() {
    let system = Setup::shipped().with("OPENSKILL_AGENT", "off").start().await;
    let alone = Setup::command(&["agent", "--listen", "127.0.0.1:0", "--gateway", &system.url()]).spawn();
    let line = alone.log.line(&["agent listening", "address="]).await;
    let address = line.split("address=").nth(1).unwrap().split_whitespace().next().unwrap().parse().unwrap();
    until("the agent is ready", Duration::from_secs(10), || async {
        let answer = rest::send(address, http::Method::GET, "/readyz", &[], "").await;
        (answer.status == 200).then_some(())
    })
    .await;
    let body = json!({ "message": "echo: far away" }).to_string();
    let answer = rest::send(address, http::Method::POST, "/agent/chat", &[JSON], body).await.json();
    assert_eq!(answer["done"]["end"], "completed", "{answer}");
    assert_eq!(answer["events"][3]["data"]["success"], true, "{answer}");
    assert_eq!(rest::send(address, http::Method::GET, "/skills", &[], "").await.status, 404);
    drop(system);
    let body = json!({ "message": "echo: nobody" }).to_string();
    let answer = rest::send(address, http::Method::POST, "/agent/chat", &[JSON], body).await;
    assert!(answer.status == 200 && answer.json()["done"].is_object(), "{answer:?}");
}
