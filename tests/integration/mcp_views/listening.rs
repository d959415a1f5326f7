//! Clients hear of changes of their view, and of no others.

use std::time::Duration;

use openskill_tests::system::System;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

use super::{FILE, PATIENCE, Views, ask, names};

/// The stream of `GET` at a path.
struct Events(BufReader<TcpStream>);

impl Events {
    async fn of(system: &System, path: &str) -> Self {
        let mut stream = TcpStream::connect(system.address).await.unwrap();
        let begun = ask(system, path, "initialize", json!({"protocolVersion": "2025-11-25", "capabilities": {}})).await;
        let (host, session) = (system.address, begun.header("mcp-session-id"));
        let head = format!(
            "GET {path} HTTP/1.1\r\nhost: {host}\r\naccept: text/event-stream\r\nmcp-session-id: {session}\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut events = Self(BufReader::new(stream));
        // The first comment says that the client listens.
        while events.line().await.is_some_and(|it| it != ":\n") {}
        events
    }

    /// None at the end of the stream.
    async fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let read = tokio::time::timeout(PATIENCE, self.0.read_line(&mut line)).await.expect("a line in time").unwrap();
        (read > 0).then_some(line)
    }

    async fn next(&mut self) -> Option<Value> {
        loop {
            let line = self.line().await?;
            if let Some(data) = line.strip_prefix("data: ") {
                return Some(serde_json::from_str(data).unwrap());
            }
        }
    }
}

#[tokio::test]
async fn a_changed_view_is_announced_to_those_who_listen_there() {
    let views = Views::with(FILE);
    let system = views.up().start().await;
    let (mut some, mut other) = (Events::of(&system, "/mcp/some").await, Events::of(&system, "/mcp/of_set").await);
    let expected = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed", "params": {}});
    views.write(&FILE.replace("['reads', 'writes']", "['writes']"));
    assert_eq!(some.next().await, Some(expected.clone()));
    assert_eq!(names(&system, "/mcp/some").await, ["writes"]);
    // The other hears of its own change alone: the first message is that one.
    views.write(&FILE.replace("toolsets = ['notes']", "toolsets = []"));
    assert_eq!((other.next().await, names(&system, "/mcp/of_set").await.len()), (Some(expected), 0));
    let quiet = tokio::time::timeout(Duration::from_millis(300), other.next()).await;
    assert!(quiet.is_err(), "{quiet:?}");
}

#[tokio::test]
async fn the_stream_of_a_view_that_is_gone_ends() {
    let views = Views::with(FILE);
    let system = views.up().start().await;
    let mut some = Events::of(&system, "/mcp/some").await;
    views.write("");
    // Chunked: the last one is empty.
    let mut last = String::new();
    while let Some(line) = some.line().await {
        assert!(!line.starts_with("data:"), "{line}");
        if line.trim() == "0" {
            last = line;
            break;
        }
    }
    assert_eq!(last.trim(), "0");
}
