//! The stdio transport: one JSON-RPC message per line, over the pipes of a supervised process.
//!
//! It is stricter than the protocol library's transport: an overlong line ends the process, and the transport
//! knows exactly whether writing a request has begun. It is also more lenient: log lines on stdout only cause a
//! warning. A broken answer ends its call.

use std::io::{Error, ErrorKind, Result};
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use openskill_redact::Redactor;
use openskill_sandbox::untrusted_json::{LIGHT_BYTES, off_shard};
use openskill_telemetry::log::admits;
use rmcp::RoleClient;
use rmcp::model::{ClientJsonRpcMessage, NumberOrString, RequestId, ServerJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use super::message::{self, MAX_MESSAGE_BYTES, Remains, Unread};
use super::tap::Tap;
use super::tapped::{ConnectionSignals, may_send};
use super::texts::RedactedLines;

/// The timeout for a server to read one message. The worker ends slower servers.
const READING: Duration = Duration::from_secs(5);

/// The maximum buffer size that is kept between messages, in bytes.
const KEPT_BYTES: usize = 64 * 1024;

/// The reason why a request was not sent.
const WITHDRAWN: &str = "withdrawn before it was sent";

/// The maximum part of an invalid line that is scanned for the log, in bytes.
const MAX_JUNK_BYTES: usize = 4096;

/// The maximum number of invalid lines that are logged.
const MAX_WARNINGS: u32 = 10;

type Message = std::result::Result<ServerJsonRpcMessage, Unread>;

/// A transport that reads and writes one message per line.
pub(super) struct LineTransport<R, W> {
    server: String,
    reader: BufReader<R>,
    /// The incomplete line. Survives when a read is dropped.
    line: Vec<u8>,
    /// A line that is being parsed, and the result. Also survives when a read is dropped.
    reading: Option<BoxFuture<'static, (Vec<u8>, Message)>>,
    junk: u32,
    /// Redacts lines that are not messages, for the log.
    redacted: RedactedLines,
    writer: Arc<Mutex<Option<W>>>,
    /// Cancelled when the server does not read its input in time.
    clogged: CancellationToken,
    signs: Arc<ConnectionSignals>,
}

impl<R: AsyncRead + Unpin + Send, W: AsyncWrite + Unpin + Send + 'static> LineTransport<R, W> {
    pub(super) fn new(server: &str, reader: R, writer: W, signs: Arc<ConnectionSignals>, redactor: &Redactor) -> Self {
        Self {
            server: server.to_owned(),
            reader: BufReader::new(reader),
            line: Vec::new(),
            reading: None,
            junk: 0,
            redacted: RedactedLines::new(redactor),
            writer: Arc::new(Mutex::new(Some(writer))),
            clogged: CancellationToken::new(),
            signs,
        }
    }

    /// Reads one line. Returns `None` at the end of the stream or if the line is too long.
    async fn next_line(&mut self) -> Option<()> {
        // One byte more than the limit shows that the line is too long.
        let room = MAX_MESSAGE_BYTES + 1 - self.line.len();
        (&mut self.reader).take(room as u64).read_until(b'\n', &mut self.line).await.ok()?;
        if self.line.len() > MAX_MESSAGE_BYTES {
            if admits("an MCP server was stopped") {
                tracing::warn!(
                    server = self.server,
                    "a message of over {MAX_MESSAGE_BYTES} bytes; stopping the server"
                );
            }
            return None;
        }
        self.line.ends_with(b"\n").then_some(())
    }

    /// Parses the current line, on another thread if it is long.
    async fn read(&mut self) -> Message {
        let line = std::mem::take(&mut self.line);
        let heavy = line.len() > LIGHT_BYTES;
        let reading = self.reading.get_or_insert_with(|| {
            let read = move || {
                let message = message::read(line.trim_ascii());
                (line, message)
            };
            off_shard(heavy, read).boxed()
        });
        let (line, message) = reading.await;
        self.reading = None;
        self.line = line;
        message
    }

    /// Converts an invalid line to an error for the request that it answers, if it answers one.
    fn answer_of(&mut self, unread: Unread) -> Option<ServerJsonRpcMessage> {
        let belongs_to = self.request_of(&unread.remains);
        self.log_invalid(belongs_to.is_some());
        belongs_to.map(|id| unread.into_answer(id))
    }

    /// Logs the first invalid lines. Their text may contain secrets of calls, so it is logged only at DEBUG, and only
    /// if no call had secrets.
    fn log_invalid(&mut self, ends_call: bool) {
        self.junk = self.junk.saturating_add(1);
        if self.junk > MAX_WARNINGS || !admits("an MCP server wrote lines that are not messages") {
            return;
        }
        let (server, text) = (&self.server, self.line.trim_ascii());
        let bytes = text.len();
        tracing::warn!(server, bytes, ends_call, "the server wrote a line to stdout that is not a message");
        if !self.signs.given_secrets.any() && tracing::enabled!(tracing::Level::DEBUG) {
            for line in self.redacted.lines(&text[..bytes.min(MAX_JUNK_BYTES)], 200) {
                tracing::debug!(server, line, "the line that is not a message");
            }
        }
    }

    /// Finds the request that an invalid line was meant to answer.
    fn request_of(&self, remains: &Remains) -> Option<RequestId> {
        let taps = &self.signs.taps;
        match remains.id.map(NumberOrString::Number) {
            _ if remains.has_method => None,
            // List requests have no tap.
            Some(id) => Some(id).filter(|id| remains.is_answer() || taps.waits(id)),
            None => taps.only_waiting().filter(|_| remains.is_answer()),
        }
    }
}

impl<R, W> Transport<RoleClient> for LineTransport<R, W>
where
    R: AsyncRead + Unpin + Send,
    W: AsyncWrite + Unpin + Send + 'static,
{
    type Error = Error;

    fn send(&mut self, item: ClientJsonRpcMessage) -> impl Future<Output = Result<()>> + Send + 'static {
        let (writer, clogged) = (Arc::clone(&self.writer), self.clogged.clone());
        async move {
            let tap = Tap::from_message(&item).cloned();
            let taken_back = async {
                match &tap {
                    Some(tap) => tap.withdrawn.cancelled().await,
                    None => std::future::pending().await,
                }
            };
            // The previous writer has a timeout, so this wait is limited too.
            let mut writer = tokio::select! {
                biased;
                () = taken_back => return Err(Error::other(WITHDRAWN)),
                writer = writer.lock() => writer,
            };
            let Some(open) = writer.as_mut() else { return Err(ErrorKind::NotConnected.into()) };
            if !may_send(&item) {
                return Err(Error::other(WITHDRAWN));
            }
            let mut text = message::write(item)?;
            text.push(b'\n');
            match tokio::time::timeout(READING, open.write_all(&text)).await {
                Ok(written) => written,
                Err(_) => {
                    // Part of the message may be in the pipe, so nothing may be written after it.
                    drop(writer.take());
                    clogged.cancel();
                    Err(ErrorKind::TimedOut.into())
                }
            }
        }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        let clogged = self.clogged.clone();
        loop {
            if self.reading.is_none() {
                tokio::select! {
                    () = clogged.cancelled() => {
                        if admits("an MCP server was stopped") {
                            tracing::warn!(server = self.server, "the server does not read its input; stopping it");
                        }
                        return None;
                    }
                    line = self.next_line() => line?,
                }
            }
            let message = match self.read().await {
                Ok(message) => Some(message),
                Err(_) if self.line.trim_ascii().is_empty() => None,
                Err(unread) => self.answer_of(unread),
            };
            self.line.clear();
            self.line.shrink_to(KEPT_BYTES);
            if message.is_some() {
                return message;
            }
        }
    }

    async fn close(&mut self) -> Result<()> {
        drop(self.writer.lock().await.take());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rmcp::model::{ErrorData, JsonRpcMessage};

    async fn received(stdout: &[u8]) -> Vec<ServerJsonRpcMessage> {
        let mut lines = LineTransport::new("s", stdout, tokio::io::sink(), Arc::default(), &Redactor::off());
        let mut all = Vec::new();
        while let Some(message) = lines.receive().await {
            all.push(message);
        }
        all
    }

    #[tokio::test]
    async fn invalid_lines_between_messages_are_skipped() {
        let text =
            b"Starting server...\n\n{\"a\": 1}\n\xff\xfe\n{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\r\n{\"half\": ";
        let all = received(text).await;
        assert!(matches!(&all[..], [JsonRpcMessage::Response(it)] if it.id == NumberOrString::Number(1)), "{all:?}");
    }

    #[tokio::test]
    async fn a_message_of_too_many_values_is_an_error_if_it_answers_a_request() {
        let many = format!("[{}0]", "0,".repeat(100_000));
        let text = format!(
            "{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{many}}}\n\
             {{\"jsonrpc\":\"2.0\",\"result\":{{\"content\":[],\"_meta\":{many}}},\"id\":1}}\n\
             {{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{{}}}}\n"
        );
        let mut lines = LineTransport::new("s", text.as_bytes(), tokio::io::sink(), Arc::default(), &Redactor::off());
        // Another thread parses a long line. Dropping the receive meanwhile loses nothing.
        while lines.receive().now_or_never().is_some() {}
        let first = lines.receive().await.unwrap();
        assert!(
            matches!(&first, JsonRpcMessage::Error(it) if it.error.code.0 == crate::runners::mcp::errors::TOO_LARGE),
            "{first:?}"
        );
        assert!(matches!(lines.receive().await.unwrap(), JsonRpcMessage::Response(_)));
    }

    #[tokio::test]
    async fn an_overlong_line_ends_the_connection_within_bounded_memory() {
        let mut lines =
            LineTransport::new("s", tokio::io::repeat(b'x'), tokio::io::sink(), Arc::default(), &Redactor::off());
        assert!(lines.receive().await.is_none());
        assert!(lines.line.capacity() <= 2 * MAX_MESSAGE_BYTES);
    }

    #[tokio::test]
    async fn a_server_that_does_not_read_is_ended() {
        let (_stdin, ours) = tokio::io::duplex(8);
        let (_stdout, theirs) = tokio::io::duplex(8);
        let mut lines = LineTransport::new("s", theirs, ours, Arc::default(), &Redactor::off());
        let message = || ClientJsonRpcMessage::error(ErrorData::parse_error("too much", None), None);
        let (first, second) = (lines.send(message()), lines.send(message()));
        let (first, second, received) = tokio::join!(first, second, lines.receive());
        assert_eq!(first.unwrap_err().kind(), ErrorKind::TimedOut);
        assert_eq!(second.unwrap_err().kind(), ErrorKind::NotConnected);
        assert!(received.is_none());
    }

    #[tokio::test]
    async fn nothing_is_written_after_the_end() {
        let mut lines =
            LineTransport::new("s", tokio::io::empty(), tokio::io::sink(), Arc::default(), &Redactor::off());
        let late = lines.send(ClientJsonRpcMessage::error(ErrorData::parse_error("x", None), None));
        lines.close().await.unwrap();
        assert_eq!(late.await.unwrap_err().kind(), ErrorKind::NotConnected);
    }
}
