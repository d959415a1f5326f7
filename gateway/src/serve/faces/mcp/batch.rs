//! Batches: many messages in one body, which only one protocol revision supports. A few messages run concurrently.
//! Responses are sent as they complete, in the order of the messages, so that the gateway never buffers all of
//! them. A message that has started runs to its end even if its client reads nothing, so that it releases its
//! resources.

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

use super::jsonrpc::{self, Code, Id, Message, RpcError, Unreadable};
use super::response::{JSON, accepted_response};

/// How many messages of a batch run concurrently.
const AT_A_TIME: usize = 4;

/// The maximum total size of a batch's responses, in bytes. Beyond it, no more messages are started.
const MAX_BYTES: usize = 32 * 1024 * 1024;

/// The response to one message, with its share of the principal's limit.
struct CountedAnswer {
    text: Bytes,
    share: Option<Share>,
}

impl CountedAnswer {
    fn from_fault(id: Option<&Id>, fault: &RpcError) -> Self {
        Self { text: jsonrpc::error(id, fault).into(), share: None }
    }
}

/// State that the messages of one batch share.
struct Batch {
    /// Accounts for the responses.
    pool: Pool,
    principal: Arc<str>,
    /// The total size of the responses so far, in bytes.
    bytes: AtomicUsize,
}

/// Answers each message with the response of `one`, which must not be a stream.
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
                Err(Unreadable { id, fault }) => Some(CountedAnswer::from_fault(id.as_ref(), &fault)),
                Ok(None) => Some(CountedAnswer::from_fault(id.as_ref(), &too_much())),
                Ok(Some(answering)) => {
                    let asked = id.clone();
                    let task = tokio::spawn(async move { batch.collect(answering.await, id.as_ref()).await });
                    let broken =
                        || RpcError::new(Code::Internal, "the gateway panicked while it answered this message");
                    let collected = AbortOnDropHandle::new(task).await;
                    collected.unwrap_or_else(|_| Some(CountedAnswer::from_fault(asked.as_ref(), &broken())))
                }
            }
        }
    });
    let mut answers = Box::pin(answers.buffered(AT_A_TIME).filter_map(std::future::ready));
    let Some(CountedAnswer { text, share }) = answers.next().await else { return accepted_response() };
    let first = [(Bytes::from_static(b"["), None), (text, share)];
    let others = answers.flat_map(|it| stream::iter([(Bytes::from_static(b","), None), (it.text, it.share)]));
    let parts = stream::iter(first).chain(others).chain(stream::iter([(Bytes::from_static(b"]"), None)]));
    // From here on, the bytes count as part of the response.
    let body = Body::from_stream(parts.map(|(text, _share)| Ok::<_, Infallible>(text)));
    (StatusCode::OK, [(header::CONTENT_TYPE, JSON)], body).into_response()
}

impl Batch {
    fn is_full(&self) -> bool {
        self.bytes.load(Ordering::Relaxed) >= MAX_BYTES
    }

    /// Collects the text of a response, with its share. None for a message without a response.
    async fn collect(&self, response: Response, id: Option<&Id>) -> Option<CountedAnswer> {
        if response.status() == StatusCode::ACCEPTED {
            return None;
        }
        let body = response.into_body();
        let length = body.size_hint().exact().and_then(|length| usize::try_from(length).ok());
        let counted = length.and_then(|length| Some((length, self.pool.take(Arc::clone(&self.principal), length)?)));
        let Some((length, share)) = counted else { return Some(CountedAnswer::from_fault(id, &too_much())) };
        self.bytes.fetch_add(length, Ordering::Relaxed);
        Some(CountedAnswer { text: to_bytes(body, length).await.ok()?, share: Some(share) })
    }
}

fn too_much() -> RpcError {
    let message = format!(
        "the answers of a batch must not exceed {MAX_BYTES} bytes or the caller's share of unread responses: \
         send this message in a separate request"
    );
    RpcError::new(Code::Overloaded, message)
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

    /// Answers `count` messages with `bytes` bytes each. Also counts the messages that were started.
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
        assert!(begun.load(Ordering::Relaxed) <= 2 * AT_A_TIME && pool.in_use() >= 1 << 20);
        assert!(pool.in_use() <= (2 * AT_A_TIME) << 20, "{}", pool.in_use());
        let all: serde_json::Value =
            serde_json::from_slice(&response.into_body().collect().await.unwrap().to_bytes()).unwrap();
        assert_eq!(all.as_array().unwrap().len(), 64);
        let begun = begun.load(Ordering::Relaxed);
        assert!((MAX_BYTES >> 20..=(MAX_BYTES >> 20) + AT_A_TIME).contains(&begun), "{begun}");
        assert!(all[63]["error"]["message"].as_str().unwrap().contains("separate request"), "{}", all[63]);
        assert_eq!(pool.in_use(), 0);
    }

    #[tokio::test]
    async fn an_answer_without_room_is_an_error_of_its_message() {
        let (response, _) = respond(&Pool::new(100), 2, 1000).await;
        let all: serde_json::Value =
            serde_json::from_slice(&response.into_body().collect().await.unwrap().to_bytes()).unwrap();
        assert_eq!((&all[1]["id"], &all[1]["error"]["code"]), (&1.into(), &(-32000).into()), "{all}");
    }
}
