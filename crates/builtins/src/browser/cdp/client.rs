//! Calls to a browser with deadlines, and the task that reads and writes for all of them.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::browser::cdp::frames::{Frame, FrameReader};
use crate::browser::cdp::message::{self, Event, Message, ProtocolError, Request};

/// The maximum length of a message, in bytes. Screenshots and PDF documents are the largest messages.
const MAX_MESSAGE_BYTES: usize = 64 << 20;

/// The maximum number of messages that wait to be written.
const QUEUE: usize = 256;

/// The maximum number of calls that wait for responses.
const MAX_PENDING: usize = 1024;

/// Why a call failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CallError {
    /// The browser responded with an error.
    #[error(transparent)]
    Refused(#[from] ProtocolError),
    /// The browser did not respond in time. It may still execute the request.
    #[error("the browser did not answer within {} ms", .0.as_millis())]
    Late(Duration),
    /// The response is longer than 64 MiB, or nested deeper than 120 levels.
    #[error("the browser's answer is too long or too deeply nested to be read")]
    Unreadable,
    /// The connection is closed because the browser has ended.
    #[error("the browser has ended")]
    Closed,
    /// Too many calls wait for responses.
    #[error("too many calls to the browser are waiting for answers")]
    Full,
}

/// A connection to a browser. Cheap to clone. It closes when the driver ends.
#[derive(Debug, Clone)]
pub(crate) struct Client(Arc<ClientState>);

#[derive(Debug)]
struct ClientState {
    queue: mpsc::Sender<Vec<u8>>,
    pending: Mutex<PendingCalls>,
    /// Cancelled to end the driver.
    closing: CancellationToken,
}

#[derive(Debug, Default)]
struct PendingCalls {
    last: u64,
    calls: HashMap<u64, oneshot::Sender<Result<Value, CallError>>>,
}

/// Connects to a browser. Returns the client and its driver, a future that the caller must poll. The driver ends
/// when the pipe closes. Dropping it closes the connection. The driver calls `handle` for each event, in order.
/// `handle` must not block.
pub(crate) fn connect<R, W, H>(from: R, to: W, mut handle: H) -> (Client, impl Future<Output = ()> + Send)
where
    R: AsyncRead + Unpin + Send,
    W: AsyncWrite + Unpin + Send,
    H: FnMut(&Client, Event) + Send,
{
    let (queue, queued) = mpsc::channel(QUEUE);
    let client = Client(Arc::new(ClientState { queue, pending: Mutex::default(), closing: CancellationToken::new() }));
    let mut end = CloseOnDrop { client: client.clone(), queued };
    let driver = async move {
        let client = &end.client;
        let read = async {
            let mut frames = FrameReader::new(from, MAX_MESSAGE_BYTES);
            while let Ok(Some(text)) = frames.next().await {
                let message = match text {
                    Frame::Whole(text) => message::read(text),
                    Frame::TooLong(beginning) => message::read_beginning(beginning),
                };
                match message {
                    Some(Message::Answer(id, answer)) => client.complete(id, answer.map_err(CallError::Refused)),
                    Some(Message::Unreadable(id)) => client.complete(id, Err(CallError::Unreadable)),
                    Some(Message::Event(event)) => handle(client, event),
                    None => {}
                }
            }
        };
        // Read and write concurrently: the browser may stop reading until its output is read.
        tokio::select! {
            () = read => {}
            () = write(&mut end.queued, to) => {}
            () = client.0.closing.cancelled() => {}
        }
    };
    (client, driver)
}

async fn write(queued: &mut mpsc::Receiver<Vec<u8>>, mut to: impl AsyncWrite + Unpin) {
    while let Some(text) = queued.recv().await {
        if to.write_all(&text).await.is_err() {
            return;
        }
    }
}

/// Closes the queue and fails all pending calls when the driver ends or is dropped.
struct CloseOnDrop {
    client: Client,
    queued: mpsc::Receiver<Vec<u8>>,
}

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        self.queued.close();
        self.client.lock().calls.clear();
    }
}

/// Removes a pending call when its caller gets the response or stops waiting.
struct ForgetOnDrop<'a>(&'a Client, u64);

impl Drop for ForgetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.lock().calls.remove(&self.1);
    }
}

impl Client {
    /// Calls a method and waits for the response. Dropping the future forgets the call, but the browser may still
    /// execute it.
    ///
    /// # Errors
    /// The browser rejects the call, closes the connection, or does not respond within `time`.
    pub(crate) async fn call(
        &self,
        session: Option<&str>,
        method: &str,
        params: &Value,
        time: Duration,
    ) -> Result<Value, CallError> {
        let (sender, receiver) = oneshot::channel();
        let id = self.register(Some(sender))?;
        let _forget = ForgetOnDrop(self, id);
        let text = encode(&Request { id, session, method, params });
        let reply = async {
            self.0.queue.send(text).await.map_err(|_| CallError::Closed)?;
            receiver.await.map_err(|_| CallError::Closed)
        };
        tokio::time::timeout(time, reply).await.map_err(|_| CallError::Late(time))??
    }

    /// Calls a method without waiting for the response. Meant for event handlers. Returns whether the message was
    /// queued.
    pub(crate) fn send(&self, session: Option<&str>, method: &str, params: &Value) -> bool {
        let Ok(id) = self.register(None) else { return false };
        self.0.queue.try_send(encode(&Request { id, session, method, params })).is_ok()
    }

    /// Closes the connection. All pending calls fail.
    pub(crate) fn close(&self) {
        self.0.closing.cancel();
    }

    /// Whether the connection is closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.0.queue.is_closed()
    }

    /// Waits until the connection is closed.
    pub(crate) async fn wait_closed(&self) {
        self.0.queue.closed().await;
    }

    fn register(&self, sender: Option<oneshot::Sender<Result<Value, CallError>>>) -> Result<u64, CallError> {
        let mut pending = self.lock();
        if self.is_closed() {
            return Err(CallError::Closed);
        }
        if pending.calls.len() >= MAX_PENDING {
            return Err(CallError::Full);
        }
        pending.last += 1;
        let id = pending.last;
        pending.calls.extend(sender.map(|it| (id, it)));
        Ok(id)
    }

    fn complete(&self, id: u64, answer: Result<Value, CallError>) {
        if let Some(sender) = self.lock().calls.remove(&id) {
            let _ = sender.send(answer);
        }
    }

    fn lock(&self) -> MutexGuard<'_, PendingCalls> {
        self.0.pending.lock()
    }
}

fn encode(request: &Request<'_>) -> Vec<u8> {
    // Serializing strings, numbers and maps with string keys cannot fail.
    let mut text = serde_json::to_vec(request).unwrap_or_default();
    text.push(0);
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tokio::io::DuplexStream;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    /// Connects a client. Returns it with the browser's reading and writing ends and the received events.
    fn pair() -> (Client, FrameReader<DuplexStream>, DuplexStream, mpsc::Receiver<Event>) {
        let (ours, theirs) = (tokio::io::duplex(64), tokio::io::duplex(64));
        let (events, seen) = mpsc::channel(8);
        let (client, driver) = connect(theirs.0, ours.0, move |client: &Client, event: Event| {
            if event.method == "Page.javascriptDialogOpening" {
                client.send(event.session.as_deref(), "Page.handleJavaScriptDialog", &json!({"accept": false}));
            }
            let _ = events.try_send(event);
        });
        tokio::spawn(driver);
        (client, FrameReader::new(ours.1, 1000), theirs.1, seen)
    }

    async fn request(frames: &mut FrameReader<DuplexStream>) -> Value {
        match frames.next().await.unwrap() {
            Some(Frame::Whole(text)) => serde_json::from_slice(text).unwrap(),
            other => panic!("{other:?}"),
        }
    }

    async fn say(to: &mut DuplexStream, message: &Value) {
        to.write_all(&[message.to_string().as_bytes(), &[0]].concat()).await.unwrap();
    }

    #[tokio::test]
    async fn answers_find_their_calls_in_any_order() {
        let (client, mut asked, mut to, _) = pair();
        let browser = async {
            let (first, second) = (request(&mut asked).await, request(&mut asked).await);
            assert_eq!((&first["method"], &first["sessionId"]), (&json!("A.a"), &json!("s")));
            assert_eq!(second.get("sessionId"), None);
            say(&mut to, &json!({"id": 999, "result": {}})).await;
            say(&mut to, &json!({"no": "message"})).await;
            say(&mut to, &json!({"id": second["id"], "result": {"n": 2}})).await;
            say(&mut to, &json!({"id": first["id"], "error": {"code": -1, "message": "no"}})).await;
        };
        let (a, b) = (json!({}), json!({"x": 1}));
        let calls = async { tokio::join!(client.call(Some("s"), "A.a", &a, LONG), client.call(None, "B.b", &b, LONG)) };
        let (answers, ()) = tokio::join!(calls, browser);
        let refusal = ProtocolError { code: -1, message: "no".to_owned() };
        assert_eq!(answers, (Err(CallError::Refused(refusal)), Ok(json!({"n": 2}))));
    }

    #[tokio::test]
    async fn a_call_without_an_answer_ends_and_is_forgotten() {
        let (client, _asked, _to, _) = pair();
        let time = Duration::from_millis(20);
        assert_eq!(client.call(None, "A.a", &json!({}), time).await, Err(CallError::Late(time)));
        assert!(client.lock().calls.is_empty());
    }

    #[tokio::test]
    async fn an_answer_that_can_t_be_read_is_an_error_at_once() {
        let (client, mut asked, mut to, _) = pair();
        let browser = async {
            let id = request(&mut asked).await["id"].clone();
            let deep = format!("{{\"id\":{id},\"result\":{}1{}}}\0", "[".repeat(200), "]".repeat(200));
            to.write_all(deep.as_bytes()).await.unwrap();
        };
        let params = json!({});
        let (answer, ()) = tokio::join!(client.call(None, "A.a", &params, LONG), browser);
        assert_eq!(answer, Err(CallError::Unreadable));
    }

    #[tokio::test]
    async fn the_end_of_the_browser_ends_all_calls() {
        let (client, asked, to, _) = pair();
        let params = json!({});
        let call = client.call(None, "A.a", &params, LONG);
        let (answer, ()) = tokio::join!(call, async { drop((asked, to)) });
        assert_eq!(answer, Err(CallError::Closed));
        assert!(client.is_closed());
        assert_eq!(client.call(None, "A.a", &params, LONG).await, Err(CallError::Closed));
    }

    #[tokio::test]
    async fn a_handler_answers_events_without_waiting() {
        let (_client, mut asked, mut to, mut seen) = pair();
        say(&mut to, &json!({"method": "Page.javascriptDialogOpening", "sessionId": "p", "params": {"type": "alert"}}))
            .await;
        let answer = request(&mut asked).await;
        assert_eq!((&answer["method"], &answer["sessionId"]), (&json!("Page.handleJavaScriptDialog"), &json!("p")));
        assert_eq!(seen.recv().await.unwrap().params["type"], "alert");
    }
}
