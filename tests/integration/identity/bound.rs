//! Both halves of each request end with the key that opened it.

use std::time::Duration;

use openskill_proto::v1::agent_service_client::AgentServiceClient;
use openskill_proto::v1::chat_request::Request as Sent;
use openskill_proto::v1::{ChatRequest, UserMessage};
use openskill_tests::system::{PATIENCE, System, request};
use openskill_tests::wait::until;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Code;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;

use super::{Keys, from, get, post};

const SOON: Duration = Duration::from_secs(5);

/// A request with so much of its body.
async fn send(system: &System, key: &str, line: &str, length: usize, body: &str) -> TcpStream {
    let mut stream = TcpStream::connect(system.address).await.unwrap();
    let headers = "host: 127.0.0.1\r\ncontent-type: application/json\r\naccept: application/json";
    let head =
        format!("{line} HTTP/1.1\r\n{headers}\r\nauthorization: Bearer {key}\r\ncontent-length: {length}\r\n\r\n");
    stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
    stream
}

/// What is read until the text appears, or the connection ends.
async fn read_until(stream: &mut TcpStream, text: &str) -> String {
    let (mut read, mut piece) = (Vec::new(), [0; 4096]);
    while !String::from_utf8_lossy(&read).contains(text) {
        match stream.read(&mut piece).await.unwrap_or_default() {
            0 => break,
            count => read.extend_from_slice(&piece[..count]),
        }
    }
    String::from_utf8_lossy(&read).into_owned()
}

#[tokio::test]
async fn what_arrives_after_a_revocation_has_no_effect_and_a_call_that_was_admitted_gets_its_result() {
    let keys = Keys::new();
    let key = keys.create("a", &["--skills", "in_echo,in_wait"]);
    let other = keys.create("a", &[]);
    let system = keys.up().start().await;
    let mut skills = system.skills().await;
    let begun = post(&system, &other, "/agent/chat", &json!({"message": "xyzzy"}).to_string()).await.json();
    let conversation = begun["conversation_id"].as_str().unwrap();

    let mut admitted = {
        let (mut skills, call) = (skills.clone(), from(&key, request("in_wait", json!({"ms": 2500}))));
        tokio::spawn(async move { skills.invoke(call).await })
    };
    let (messages, sent) = mpsc::channel(1);
    let mut agent = AgentServiceClient::new(system.channel().await);
    let chat = from(&key, ReceiverStream::new(sent));
    let mut chat = tokio::spawn(async move { agent.chat(chat).await.map(drop) });
    let (calls, sent) = mpsc::channel(1);
    let mut many = skills.invoke_many(from(&key, ReceiverStream::new(sent))).await.unwrap().into_inner();
    let (_questions, sent) = mpsc::channel(1);
    let mut reflection = ServerReflectionClient::new(system.channel().await);
    let asked = from(&key, ReceiverStream::new(sent));
    let mut reflection = reflection.server_reflection_info(asked).await.unwrap().into_inner();
    let upload = r#"{"input": {"text": "uploaded"}}"#;
    let mut rest = send(&system, &key, "POST /skills/in_echo:invoke", upload.len(), &upload[..9]).await;
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "in_echo"}}).to_string();
    let mut mcp = send(&system, &key, "POST /mcp", call.len(), &call[..20]).await;
    let follow = format!("GET /agent/conversations/{conversation}/events?follow=true");
    let mut lines = send(&system, &key, &follow, 0, "").await;
    assert!(read_until(&mut lines, "\"event\"").await.contains("application/x-ndjson"));
    assert!(!admitted.is_finished() && !chat.is_finished());

    keys.revoke(&key);
    let ended = async {
        assert_eq!((&mut chat).await.unwrap().unwrap_err().code(), Code::Unauthenticated);
        assert_eq!(many.message().await.unwrap_err().code(), Code::Unauthenticated);
        assert_eq!(reflection.message().await.unwrap_err().code(), Code::Unauthenticated);
        for upload in [&mut rest, &mut mcp] {
            let refused = read_until(upload, "UNAUTHENTICATED").await;
            assert!(refused.starts_with("HTTP/1.1 401"), "{refused}");
        }
        let rest_of_lines = read_until(&mut lines, "UNAUTHENTICATED").await;
        assert!(rest_of_lines.contains(r#"{"event":"error","data":{"#), "{rest_of_lines}");
    };
    tokio::time::timeout(SOON, ended).await.expect("all of them end soon");
    let message = Sent::Message(UserMessage { text: "too late".to_owned(), ..UserMessage::default() });
    // Nobody takes them any more.
    let _ = messages.try_send(ChatRequest { request: Some(message), ..ChatRequest::default() });
    let _ = calls.try_send(request("in_echo", json!({})));
    let _ = (rest.write_all(&upload.as_bytes()[9..]).await, mcp.write_all(&call.as_bytes()[20..]).await);

    let result = (&mut admitted).await.unwrap().unwrap().into_inner();
    assert!(result.success, "{result:?}");
    assert_eq!(post(&system, &other, "/skills/in_echo:invoke", "{}").await.status, 200);
    let recorded = until("the calls are recorded", PATIENCE, || async {
        let calls = get(&system, &other, "/traces").await.json()["calls"].as_array().unwrap().clone();
        (calls.len() >= 2).then_some(calls)
    })
    .await;
    assert_eq!(recorded.len(), 2, "the one that was admitted, and the one with the other key: {recorded:?}");
    let conversations = get(&system, &other, "/agent/conversations").await.json();
    assert_eq!(conversations["conversations"].as_array().unwrap().len(), 1, "{conversations}");
}
