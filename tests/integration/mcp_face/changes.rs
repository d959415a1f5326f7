//! Clients hear of changes of the list of tools.

use std::time::Duration;

use http::Method;
use openskill_tests::folder::Folder;
use openskill_tests::rest;
use openskill_tests::system::{Setup, System};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

use super::{NEWEST, begin, meta};

/// A stream of events that is read message by message.
pub(super) struct Events(BufReader<TcpStream>);

impl Events {
    /// The stream of an older client's session.
    pub(super) async fn listen_to_session(system: &System, session: &str) -> Self {
        let mut events = Self::open(system, "GET", "").await.header("mcp-session-id", session).await.send("").await;
        // From its first comment on, the client hears of changes.
        let mut line = String::new();
        while !line.starts_with(':') {
            line.clear();
            assert!(events.0.read_line(&mut line).await.unwrap() > 0, "the stream ended");
        }
        events
    }

    /// `subscriptions/listen`.
    pub(super) async fn subscribe(system: &System, id: &str, notifications: Value) -> Self {
        let params = json!({"_meta": meta(), "notifications": notifications});
        let body = json!({"jsonrpc": "2.0", "id": id, "method": "subscriptions/listen", "params": params}).to_string();
        let events = Self::open(system, "POST", &body).await.header("mcp-protocol-version", NEWEST).await;
        events.header("mcp-method", "subscriptions/listen").await.send(&body).await
    }

    async fn open(system: &System, head: &str, body: &str) -> Self {
        let mut stream = TcpStream::connect(system.address).await.unwrap();
        let (host, length) = (system.address, body.len());
        let head = format!("{head} /mcp HTTP/1.1\r\nhost: {host}\r\naccept: application/json, text/event-stream\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let rest = format!("content-type: application/json\r\ncontent-length: {length}\r\n");
        stream.write_all(rest.as_bytes()).await.unwrap();
        Self(BufReader::new(stream))
    }

    async fn header(mut self, name: &str, value: &str) -> Self {
        self.0.get_mut().write_all(format!("{name}: {value}\r\n").as_bytes()).await.unwrap();
        self
    }

    async fn send(mut self, body: &str) -> Self {
        self.0.get_mut().write_all(format!("\r\n{body}").as_bytes()).await.unwrap();
        self
    }

    /// The next message. It comes in time, or the test fails.
    pub(super) async fn next(&mut self) -> Value {
        let found = async {
            loop {
                let mut line = String::new();
                assert!(self.0.read_line(&mut line).await.unwrap() > 0, "the stream ended");
                if let Some(data) = line.strip_prefix("data: ") {
                    return serde_json::from_str(data).unwrap();
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(30), found).await.expect("a message in time")
    }
}

fn add(folder: &Folder, id: &str) {
    folder.write(&format!("{id}.py"), "print('null')\n");
    folder.write(&format!("{id}.yaml"), format!("id: {id}\ntype: cli\nruntime: python\nentry: {id}.py\n"));
}

#[tokio::test]
async fn a_client_of_http_and_sse_is_told_at_once_that_it_is_not_served() {
    let system = Setup::up().start().await;
    for headers in
        [vec![("accept", "text/event-stream")], vec![("accept", "text/event-stream"), ("last-event-id", "1")]]
    {
        let answer = rest::send(system.address, Method::GET, "/mcp", &headers, "").await;
        assert_eq!((answer.status, answer.header("allow")), (405, "POST"), "{answer:?}");
        assert!(answer.json()["error"]["message"].as_str().unwrap().contains("HTTP+SSE"), "{answer:?}");
    }
}

#[tokio::test]
async fn a_new_skill_is_announced_to_clients_of_all_revisions() {
    let folder = Folder::new();
    add(&folder, "first");
    let system = Setup::with_skills(&[folder.path()]).start().await;
    let session = begin(&system, "2025-11-25").await;
    let older = Events::open(&system, "GET", "").await.header("mcp-session-id", &session).await;
    let mut older = older.send("").await;
    let subscribe = |id: &str, notifications: Value| {
        json!({"jsonrpc": "2.0", "id": id, "method": "subscriptions/listen",
            "params": {"_meta": meta(), "notifications": notifications}})
        .to_string()
    };
    let open = async |body: String| {
        let events = Events::open(&system, "POST", &body).await;
        let events = events.header("mcp-protocol-version", NEWEST).await;
        events.header("mcp-method", "subscriptions/listen").await.send(&body).await
    };
    let mut newest = open(subscribe("s1", json!({"toolsListChanged": true}))).await;
    let mut other = open(subscribe("s2", json!({"promptsListChanged": true}))).await;
    let id = "/params/_meta/io.modelcontextprotocol~1subscriptionId";
    let begun = newest.next().await;
    assert_eq!(begun["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(
        (begun.pointer(id), &begun["params"]["notifications"]),
        (Some(&json!("s1")), &json!({"toolsListChanged": true}))
    );
    assert_eq!(other.next().await["params"]["notifications"], json!({"promptsListChanged": true}));
    add(&folder, "second");
    let changed = newest.next().await;
    assert_eq!(
        (&changed["method"], changed.pointer(id)),
        (&json!("notifications/tools/list_changed"), Some(&json!("s1")))
    );
    assert_eq!(older.next().await["method"], "notifications/tools/list_changed");
    let listed = super::ask(&system, "tools/list", json!({})).await.json();
    assert_eq!(listed["result"]["tools"].as_array().unwrap().len(), 2);
    // One that did not ask hears only of the end.
    system.process.terminate();
    let ended = other.next().await;
    assert_eq!((&ended["id"], &ended["result"]["resultType"]), (&json!("s2"), &json!("complete")));
}
