//! Converts lines to requests, and responses to lines.

use std::collections::HashMap;
use std::sync::Arc;

use http::HeaderMap;
use parking_lot::Mutex;
use rustls::ClientConfig;
use tokio::io::{AsyncBufRead, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};

use super::exchange::{Gateway, MessageSender};
use super::lines::{self, InputLine, MAX_LINE};
use super::message::{Message, failure};
use crate::exit::Failure;

/// The maximum number of requests in flight. At this limit, the bridge stops reading stdin.
const MAX_IN_FLIGHT: usize = 256;

/// The maximum number of messages that wait to be written to stdout.
const WAITING: usize = 64;

/// The requests in flight, by id.
type InFlight = Arc<Mutex<HashMap<String, AbortHandle>>>;

/// Bridges stdin and stdout to MCP at `url`, until the end of stdin. `headers` are sent with each request. `tls`
/// is `None` for `http://`.
///
/// # Errors
/// Stdin is unreadable, or the HTTP client cannot be built.
pub(crate) async fn run(url: &str, headers: HeaderMap, tls: Option<ClientConfig>) -> Result<(), Failure> {
    let gateway = Gateway::new(url, headers, tls)?;
    let input = BufReader::new(tokio::io::stdin());
    bridge(gateway, input, tokio::io::stdout()).await.map_err(Failure::system("reading stdin"))
}

async fn bridge(
    gateway: Gateway,
    mut input: impl AsyncBufRead + Unpin,
    output: impl AsyncWrite + Unpin + Send + 'static,
) -> std::io::Result<()> {
    let (out, messages) = mpsc::channel(WAITING);
    let writing = tokio::spawn(write(messages, output));
    let mut bridge =
        Bridge { gateway, out, calls: JoinSet::new(), streams: JoinSet::new(), in_flight: InFlight::default() };
    let ended = loop {
        let line = tokio::select! {
            line = lines::next(&mut input) => line,
            // The client has closed stdout.
            () = bridge.out.closed() => break Ok(()),
        };
        match line {
            Ok(Some(line)) => bridge.take(line).await,
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    bridge.finish().await;
    let _ = writing.await;
    ended
}

/// Writes one message per line until all senders are gone or the output is closed.
async fn write(mut messages: mpsc::Receiver<String>, mut output: impl AsyncWrite + Unpin) {
    while let Some(mut message) = messages.recv().await {
        message.push('\n');
        if output.write_all(message.as_bytes()).await.is_err() || output.flush().await.is_err() {
            return;
        }
    }
}

struct Bridge {
    gateway: Gateway,
    out: MessageSender,
    /// Calls that the bridge answers before it ends.
    calls: JoinSet<()>,
    /// Streams that end with the bridge.
    streams: JoinSet<()>,
    in_flight: InFlight,
}

impl Bridge {
    async fn take(&mut self, line: InputLine) {
        while self.calls.try_join_next().is_some() {}
        while self.calls.len() >= MAX_IN_FLIGHT {
            self.calls.join_next().await;
        }
        let InputLine::Text(text) = line else {
            let reason = format!("a message must be UTF-8 and at most {MAX_LINE} bytes long");
            return self.say(failure(None, -32600, &reason)).await;
        };
        let Some(message) = Message::read(&text) else {
            return self.say(failure(None, -32700, "the line is not JSON")).await;
        };
        match message.method.as_str() {
            // Later messages belong to the new session, so wait until it exists.
            "initialize" => return self.gateway.exchange(text, message, self.out.clone()).await,
            "notifications/initialized" => {
                self.streams.spawn(self.gateway.clone().listen(self.out.clone()));
            }
            "notifications/cancelled" => {
                let call = message.cancels.as_ref().and_then(|id| self.in_flight.lock().remove(id));
                // Aborting closes the connection. Without a session the call cannot be resumed, so the gateway
                // ends it.
                call.inspect(AbortHandle::abort);
                if !self.gateway.has_session() {
                    return;
                }
            }
            _ => {}
        }
        self.start(text, message);
    }

    fn start(&mut self, text: String, message: Message) {
        let (gateway, out, in_flight) = (self.gateway.clone(), self.out.clone(), Arc::clone(&self.in_flight));
        let (id, is_subscription) = (message.id.clone(), message.is_subscription());
        let key = id.clone();
        let exchange = async move {
            gateway.exchange(text, message, out).await;
            key.inspect(|id| drop(in_flight.lock().remove(id)));
        };
        // Hold the lock until the handle is stored, so that the request cannot remove its id earlier.
        let mut in_flight = self.in_flight.lock();
        let handle = if is_subscription { self.streams.spawn(exchange) } else { self.calls.spawn(exchange) };
        id.inspect(|id| drop(in_flight.insert(id.clone(), handle)));
    }

    async fn say(&self, message: String) {
        // `bridge` notices when the client is gone.
        let _ = self.out.send(message).await;
    }

    /// Waits until all requests are answered, unless the client no longer reads stdout.
    async fn finish(mut self) {
        self.streams.abort_all();
        tokio::select! {
            () = async { while self.calls.join_next().await.is_some() {} } => {}
            () = self.out.closed() => {}
        }
    }
}
