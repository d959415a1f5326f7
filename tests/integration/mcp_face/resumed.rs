//! Clients of older revisions take the streams of their calls up again.

use std::time::Duration;

use openskill_tests::folder::Folder;
use openskill_tests::system::{Setup, System};
use openskill_tests::{processes, wait};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

use super::{begin, library};

const PATIENCE: Duration = Duration::from_secs(30);

/// A skill that reports progress, waits, reports again, and returns.
fn worker(folder: &Folder, wait_s: f64) {
    let script = format!(
        "import time\n\nfrom openskill_sdk import progress, run\n\n\ndef handle(input):\n    progress(0.25)\n    \
         time.sleep({wait_s})\n    progress(0.75)\n    return 'done'\n\n\nrun(handle)\n"
    );
    folder.write("steps.py", script);
    let mark = mark(folder);
    let manifest = "id: steps\ntype: cli\nruntime: python\nisolation: process\nentry: steps.py\ntimeout_ms: 60000\n";
    folder.write("steps.yaml", format!("{manifest}env: [{mark}]\n"));
}

/// What the environment of the skill's processes has.
fn mark(folder: &Folder) -> String {
    format!("MARK={}", folder.path().file_name().unwrap().to_string_lossy())
}

fn up(folder: &Folder) -> Setup {
    Setup::with_skills(&[folder.path(), &library()])
}

/// The stream of a request, event by event.
struct Stream(BufReader<TcpStream>);

impl Stream {
    async fn open(system: &System, session: &str, head: &str, more: &str, body: &str) -> Self {
        let mut stream = TcpStream::connect(system.address).await.unwrap();
        let (host, length) = (system.address, body.len());
        let text = format!(
            "{head} /mcp HTTP/1.1\r\nhost: {host}\r\naccept: application/json, text/event-stream\r\n\
             content-type: application/json\r\nmcp-session-id: {session}\r\n{more}content-length: {length}\r\n\r\n{body}"
        );
        stream.write_all(text.as_bytes()).await.unwrap();
        Self(BufReader::new(stream))
    }

    async fn call(system: &System, session: &str) -> Self {
        let params = json!({"name": "steps", "arguments": {}, "_meta": {"progressToken": 1}});
        let body = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}).to_string();
        Self::open(system, session, "POST", "", &body).await
    }

    async fn resume(system: &System, session: &str, last: &str) -> Self {
        Self::open(system, session, "GET", &format!("last-event-id: {last}\r\n"), "").await
    }

    async fn line(&mut self) -> String {
        let mut line = String::new();
        let read = tokio::time::timeout(PATIENCE, self.0.read_line(&mut line)).await.expect("a line in time");
        assert!(read.unwrap() > 0, "the stream goes on");
        line.trim_end().to_owned()
    }

    /// The first event begins with it, on each connection.
    async fn says_when_to_come_back(&mut self) {
        while !self.line().await.is_empty() {}
        // The size of a chunk.
        self.line().await;
        assert_eq!(self.line().await, "retry: 1000");
    }

    /// The id of the next event, and its message; none if it has only an id.
    async fn next(&mut self) -> (String, Option<Value>) {
        let mut id = String::new();
        loop {
            let line = self.line().await;
            if let Some(found) = line.strip_prefix("id: ") {
                found.clone_into(&mut id);
            }
            if let Some(data) = line.strip_prefix("data:") {
                let message = Some(data.trim()).filter(|it| !it.is_empty());
                return (id, message.map(|it| serde_json::from_str(it).unwrap()));
            }
        }
    }
}

fn progress(message: &(String, Option<Value>)) -> &Value {
    &message.1.as_ref().unwrap()["params"]["progress"]
}

#[tokio::test]
async fn a_stream_goes_on_over_another_connection_from_the_event_after_the_last_one() {
    let folder = Folder::new();
    worker(&folder, 0.5);
    let system = up(&folder).start().await;
    for (revision, has_empty) in [("2025-11-25", true), ("2025-06-18", false)] {
        let session = begin(&system, revision).await;
        let mut stream = Stream::call(&system, &session).await;
        stream.says_when_to_come_back().await;
        let mut first = stream.next().await;
        if has_empty {
            assert!(first.1.is_none() && !first.0.is_empty(), "{first:?}");
            first = stream.next().await;
        }
        assert_eq!(*progress(&first), 25, "{first:?}");
        drop(stream);
        let mut again = Stream::resume(&system, &session, &first.0).await;
        again.says_when_to_come_back().await;
        let second = again.next().await;
        assert_eq!(*progress(&second), 75);
        let (last, result) = again.next().await;
        assert_eq!(result.unwrap()["result"]["content"][0]["text"], "done", "{revision}");
        // All of it again, after its end.
        let mut whole = Stream::resume(&system, &session, &first.0).await;
        assert_eq!(whole.next().await, second);
        assert_eq!(whole.next().await.0, last);
        let stranger = begin(&system, revision).await;
        for (session, id) in [(&stranger, first.0.as_str()), (&session, "made-up"), (&session, "")] {
            let mut refused = Stream::resume(&system, session, id).await;
            assert!(refused.line().await.contains("400"), "{id}");
        }
    }
}

#[tokio::test]
async fn a_call_whose_stream_nobody_takes_up_ends() {
    for (seconds, what) in [("0", "streams are not kept"), ("1", "nobody takes it up")] {
        let folder = Folder::new();
        worker(&folder, 50.0);
        let system = up(&folder).with("OPENSKILL_MCP_RESUMABLE_S", seconds).start().await;
        let session = begin(&system, "2025-11-25").await;
        let mut stream = Stream::call(&system, &session).await;
        while stream.next().await.1.is_none() {}
        assert!(!processes::with_environment(&mark(&folder)).is_empty());
        drop(stream);
        wait::until_none_is_left(what, PATIENCE, || processes::with_environment(&mark(&folder))).await;
    }
}

#[tokio::test]
async fn a_call_whose_stream_broke_can_still_be_cancelled() {
    let folder = Folder::new();
    worker(&folder, 50.0);
    let system = up(&folder).start().await;
    let session = begin(&system, "2025-11-25").await;
    let mut stream = Stream::call(&system, &session).await;
    while stream.next().await.1.is_none() {}
    drop(stream);
    let cancelled = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}});
    let headers = [super::BOTH, super::JSON, ("mcp-session-id", session.as_str())];
    assert_eq!(system.post("/mcp", &headers, cancelled.to_string()).await.status, 202);
    wait::until_none_is_left("processes", PATIENCE, || processes::with_environment(&mark(&folder))).await;
}
