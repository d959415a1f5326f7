//! Many messages in one body, for the one revision that has that. A few are answered at a time, and the answers go out as they
//! are made, in the order of the messages: the gateway never holds all of them. A message that was begun goes on while its
//! client reads nothing, so that it gives back what it holds.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::body::{Body, to_bytes};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use futures_util::stream::{self, StreamExt as _};
use http_body::Body as _;
use openskill_identity::shares::{Pool, Share};
use tokio_util::task::AbortOnDropHandle;

use super::answer::{JSON, accepted};
use super::jsonrpc::{self, Code, Fault, Id, Message, Unreadable};

/// How many messages of a batch are answered at a time.
const AT_A_TIME: usize = 4;

/// What the answers of a batch may have together, in bytes. No further message is begun past that.
const MAX_BYTES: usize = 32 * 1024 * 1024;

/// The answer to one message, and what it holds of its principal's share.
struct CountedAnswer {
    text: Bytes,
    share: Option<Share>,
}

impl CountedAnswer {
    fn refused(id: Option<&Id>, fault: &Fault) -> Self {
        Self { text: jsonrpc::error(id, fault).into(), share: None }
    }
}

/// The messages of one batch share these.
struct Batch {
    /// Of responses.
    pool: Pool,
    principal: Arc<str>,
    /// The bytes of all answers so far.
    bytes: AtomicUsize,
}

/// Answers each message with what `one` answers, which must not be a stream.
pub(super) async fn answer<F>(
    pool: &Pool,
    principal: Arc<str>,
    messages: Vec<Result<Message, Unreadable>>,
    one: impl Fn(Message) -> F + Send + 'static,
) -> Response
where
    F: Future<Output = Response> + Send + 'static,
{
    let batch = Arc::new(Batch { pool: pool.clone(), principal, bytes: AtomicUsize::new(0) });
    let answers = stream::iter(messages).map(move |message| {
        let (batch, id) = (Arc::clone(&batch), message.as_ref().ok().and_then(Message::request_id).cloned());
        let answering = message.map(|message| (!batch.is_full() || id.is_none()).then(|| one(message)));
        async move {
            match answering {
                Err(Unreadable { id, fault }) => Some(CountedAnswer::refused(id.as_ref(), &fault)),
                Ok(None) => Some(CountedAnswer::refused(id.as_ref(), &too_much())),
                Ok(Some(answering)) => {
                    let asked = id.clone();
                    let task = tokio::spawn(async move { batch.collect(answering.await, id.as_ref()).await });
                    let broken = || Fault::new(Code::Internal, "the gateway panicked while it answered this message");
                    let collected = AbortOnDropHandle::new(task).await;
                    collected.unwrap_or_else(|_| Some(CountedAnswer::refused(asked.as_ref(), &broken())))
                }
            }
        }
    });
    let mut answers = Box::pin(answers.buffered(AT_A_TIME).filter_map(std::future::ready));
    let Some(CountedAnswer { text, share }) = answers.next().await else { return accepted() };
    let first = [(Bytes::from_static(b"["), None), (text, share)];
    let others = answers.flat_map(|it| stream::iter([(Bytes::from_static(b","), None), (it.text, it.share)]));
    let parts = stream::iter(first).chain(others).chain(stream::iter([(Bytes::from_static(b"]"), None)]));
    // What a part holds counts as part of the response from here on.
    let body = Body::from_stream(parts.map(|(text, _share)| Ok::<_, Infallible>(text)));
    (StatusCode::OK, [(header::CONTENT_TYPE, JSON)], body).into_response()
}

impl Batch {
    fn is_full(&self) -> bool {
        self.bytes.load(Ordering::Relaxed) >= MAX_BYTES
    }

    /// The text of an answer, once it counts. None for a message that has no answer.
    async fn collect(&self, response: Response, id: Option<&Id>) -> Option<CountedAnswer> {
        if response.status() == StatusCode::ACCEPTED {
            return None;
        }
        let body = response.into_body();
        let length = body.size_hint().exact().and_then(|length| usize::try_from(length).ok());
        let counted = length.and_then(|length| Some((length, self.pool.take(Arc::clone(&self.principal), length)?)));
        let Some((length, share)) = counted else { return Some(CountedAnswer::refused(id, &too_much())) };
        self.bytes.fetch_add(length, Ordering::Relaxed);
        Some(CountedAnswer { text: to_bytes(body, length).await.ok()?, share: Some(share) })
    }
}

fn too_much() -> Fault {
    let message = format!(
        "the answers of a batch have at most {MAX_BYTES} bytes, and no more than its caller's share of unread responses: \
         send this message in a request of its own"
    );
    Fault::new(Code::Overloaded, message)
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;

    fn batch(count: usize) -> Vec<Result<Message, Unreadable>> {
        let ping = |id: usize| format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"ping\"}}");
        let text = (0..count).map(ping).collect::<Vec<_>>().join(",");
        match jsonrpc::read(format!("[{text}]").as_bytes()) {
            jsonrpc::Body::Batch(messages) => messages,
            jsonrpc::Body::One(one) => panic!("{one:?}"),
        }
    }

    /// Answers each message with so many bytes, and says how many were begun.
    async fn respond(pool: &Pool, count: usize, bytes: usize) -> (Response, Arc<AtomicUsize>) {
        let begun = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&begun);
        let one = move |_| {
            counted.fetch_add(1, Ordering::Relaxed);
            async move { format!("\"{}\"", "x".repeat(bytes)).into_response() }
        };
        (answer(pool, "ada".into(), batch(count), one).await, begun)
    }

    #[tokio::test]
    async fn a_client_that_does_not_read_makes_few_answers_and_they_count() {
        let pool = Pool::new(1 << 30);
        let (response, begun) = respond(&pool, 64, 1 << 20).await;
        assert!(begun.load(Ordering::Relaxed) <= 2 * AT_A_TIME && pool.used() >= 1 << 20);
        assert!(pool.used() <= (2 * AT_A_TIME) << 20, "{}", pool.used());
        let all: serde_json::Value =
            serde_json::from_slice(&response.into_body().collect().await.unwrap().to_bytes()).unwrap();
        assert_eq!(all.as_array().unwrap().len(), 64);
        let begun = begun.load(Ordering::Relaxed);
        assert!((MAX_BYTES >> 20..=(MAX_BYTES >> 20) + AT_A_TIME).contains(&begun), "{begun}");
        assert!(all[63]["error"]["message"].as_str().unwrap().contains("of its own"), "{}", all[63]);
        assert_eq!(pool.used(), 0);
    }

    #[tokio::test]
    async fn an_answer_without_room_is_an_error_of_its_message() {
        let (response, _) = respond(&Pool::new(100), 2, 1000).await;
        let all: serde_json::Value =
            serde_json::from_slice(&response.into_body().collect().await.unwrap().to_bytes()).unwrap();
        assert_eq!((&all[1]["id"], &all[1]["error"]["code"]), (&1.into(), &(-32000).into()), "{all}");
    }
}
