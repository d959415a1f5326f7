//! Messages that were valid before something happened to them: whatever it was, the answer is one of the protocol, and others
//! feel nothing. `OPENSKILL_FUZZ_SECONDS` says how long to go on.

mod mutation;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, Request};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use openskill_tests::system::PATIENCE;
use openskill_tests::wait::until;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::{ask, ask_older, begin, start};
use mutation::{Mutated, Random};

/// Connections at once.
const SENDERS: u64 = 4;

/// How many messages each sends, unless a time is set.
const MESSAGES: usize = 1_000;

/// The errors of the protocol, as the documentation lists them.
const CODES: [i64; 10] = [-32700, -32600, -32601, -32602, -32800, -32000, -32002, -32020, -32021, -32022];

const STATUSES: [u16; 10] = [200, 202, 400, 403, 404, 405, 406, 413, 415, 503];

/// One connection, made again if it ends.
struct Sender {
    address: SocketAddr,
    connection: Option<SendRequest<Full<Bytes>>>,
}

/// The status, whether it is a stream, and the body; of a stream that goes on, its beginning.
type Answered = (u16, bool, Vec<u8>);

impl Sender {
    async fn send(&mut self, headers: &HeaderMap, body: &[u8]) -> Answered {
        // A connection that was about to be closed is tried once more.
        match self.try_send(headers, body).await {
            Some(answered) => answered,
            None => {
                self.try_send(headers, body).await.unwrap_or_else(|| panic!("no answer to {}", shown(headers, body)))
            }
        }
    }

    async fn try_send(&mut self, headers: &HeaderMap, body: &[u8]) -> Option<Answered> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => {
                let stream = TcpStream::connect(self.address).await.unwrap();
                let (connection, running) = handshake(TokioIo::new(stream)).await.unwrap();
                tokio::spawn(running);
                connection
            }
        };
        let mut request = Request::post("/mcp").body(Full::new(Bytes::copy_from_slice(body))).unwrap();
        request.headers_mut().extend(headers.clone());
        request.headers_mut().insert("host", self.address.to_string().parse().unwrap());
        connection.ready().await.ok()?;
        let response = connection.send_request(request).await.ok()?;
        let status = response.status().as_u16();
        let is_stream = response.headers().get("content-type").is_some_and(|it| it == "text/event-stream");
        let mut body = response.into_body();
        if is_stream {
            // It may go on for ever. Its connection ends here.
            let first = tokio::time::timeout(PATIENCE, body.frame()).await.expect("a stream begins");
            let first = first?.ok()?.into_data().ok()?;
            return Some((status, true, first.to_vec()));
        }
        let whole = tokio::time::timeout(PATIENCE, body.collect()).await.expect("an answer ends").ok()?.to_bytes();
        self.connection = Some(connection);
        Some((status, false, whole.to_vec()))
    }
}

fn shown(headers: &HeaderMap, body: &[u8]) -> String {
    format!("{headers:?}\n{}", String::from_utf8_lossy(body))
}

/// An answer is one of the protocol, and has the id of the request or none.
fn check(answered: &Answered, headers: &HeaderMap, body: &[u8]) {
    let (status, is_stream, text) = answered;
    let context = || format!("{status} {}\nto {}", String::from_utf8_lossy(text), shown(headers, body));
    assert!(STATUSES.contains(status), "{}", context());
    if *is_stream || text.is_empty() {
        return;
    }
    let answer: Value = serde_json::from_slice(text).unwrap_or_else(|_| panic!("no JSON: {}", context()));
    for message in answer.as_array().map_or(std::slice::from_ref(&answer), Vec::as_slice) {
        // What the HTTP of the gateway refuses is refused as over REST.
        if message["jsonrpc"] != "2.0" {
            assert!(message["success"] == false && *status >= 400, "{}", context());
            continue;
        }
        let error = message["error"]["code"].as_i64();
        assert!(message["result"].is_object() != error.is_some(), "{}", context());
        assert!(error.is_none_or(|code| CODES.contains(&code)), "{}", context());
        if let Ok(request) = serde_json::from_slice::<Value>(body)
            && request.is_object()
            && !message["id"].is_null()
        {
            assert_eq!(message["id"], request["id"], "{}", context());
        }
    }
}

/// How long to go on: none for a number of messages.
fn time() -> Option<Duration> {
    let seconds = std::env::var("OPENSKILL_FUZZ_SECONDS").ok()?;
    Some(Duration::from_secs(seconds.parse().expect("OPENSKILL_FUZZ_SECONDS is a number of seconds")))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mutated_messages_get_answers_of_the_protocol_and_others_feel_nothing() {
    let system = start().await;
    system.has_skill("test_simple_text").await;
    let session = begin(&system, "2025-11-25").await;
    let (begun, time) = (Instant::now(), time());
    let seed: u64 =
        std::env::var("OPENSKILL_FUZZ_SEED").ok().and_then(|it| it.parse().ok()).unwrap_or_else(rand::random);
    eprintln!("OPENSKILL_FUZZ_SEED={seed}");
    let mut senders = JoinSet::new();
    for number in 0..SENDERS {
        let (address, session) = (system.address, session.clone());
        senders.spawn(async move {
            let (mut random, mut sent) = (Random::new(seed ^ number), 0);
            let mut sender = Sender { address, connection: None };
            while time.map_or(sent < MESSAGES, |time| begun.elapsed() < time) {
                let Mutated { headers, body } = mutation::next(&mut random, &session);
                let answered = sender.send(&headers, &body).await;
                check(&answered, &headers, &body);
                sent += 1;
            }
            sent
        });
    }
    let mut sent = 0;
    while let Some(ended) = senders.join_next().await {
        sent += ended.unwrap();
    }
    eprintln!("{sent} messages in {:.0} s", begun.elapsed().as_secs_f64());
    assert!(sent > 0);
    // Others are served as before, and nothing is left in flight.
    let listed = ask(&system, "tools/list", json!({})).await;
    assert_eq!((listed.status, listed.json()["result"]["resultType"].as_str()), (200, Some("complete")));
    let other = begin(&system, "2025-06-18").await;
    let called = ask_older(&system, &other, "tools/call", json!({"name": "test_simple_text", "arguments": {}})).await;
    assert!(called.json()["result"]["content"].is_array(), "{called:?}");
    until("all calls have ended", PATIENCE, || async {
        let metrics = String::from_utf8(system.get("/metrics").await.body.into()).unwrap();
        metrics.lines().any(|line| line == "openskill_calls_in_flight 0").then_some(())
    })
    .await;
}
