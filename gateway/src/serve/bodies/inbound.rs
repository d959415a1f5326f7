//! Limits how long a request body may take to arrive, and how much memory all bodies use meanwhile. A stream of
//! calls has no overall timeout, but each message has one. The clock runs only while the gateway waits for the
//! client, not while the gateway is not reading.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::BoxError;
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use openskill_identity::shares::Pool;
use openskill_proto::limits::MAX_REQUEST_BYTES;
use tokio::time::{Instant, Sleep};

use super::inflate::{Inflate, InflateError, InflateStep};
use crate::identity::identified::CredentialWatch;
use crate::state::lazy_share::LazyShare;
use crate::state::limits::SMALL;

/// The timeout for a body, or for one message of a stream.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Why a body can't be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InboundError {
    /// The client was too slow.
    #[error("the body took longer than {} s to arrive", TIMEOUT.as_secs())]
    TooSlow,
    /// The credential of the request was revoked or has expired.
    #[error("the key or token of this request was revoked or has expired: begin again with a valid one")]
    Revoked,
    /// The bodies of the principal, or of all principals, use too much memory.
    #[error(
        "the gateway has too many request bodies of this caller, or of all callers: send them later, or one at a time"
    )]
    OverBudget,
    /// A message can't be decompressed.
    #[error(transparent)]
    Compressed(#[from] InflateError),
    /// The connection broke.
    #[error(transparent)]
    Broken(BoxError),
}

/// A request body, as it arrives.
pub(crate) trait RequestBody:
    http_body::Body<Data = Bytes, Error: Into<BoxError>> + Send + Unpin + 'static
{
}

impl<B> RequestBody for B where B: http_body::Body<Data = Bytes, Error: Into<BoxError>> + Send + Unpin + 'static {}

/// A request body with its limits.
pub(crate) struct Inbound<B> {
    body: B,
    parts: Parts,
    clock: Clock,
    share: LazyShare,
    /// Decompresses messages. None if the client does not compress them.
    gzip: Option<Box<Inflate>>,
    /// Ends the body when the credential does. None if the gateway requires no keys.
    credential: Option<CredentialWatch>,
}

/// The time that the client has left.
struct Clock {
    /// Created on the first wait: most bodies arrive with their headers.
    over: Option<Pin<Box<Sleep>>>,
    left: Duration,
    /// When the current wait began. None while the clock is stopped.
    since: Option<Instant>,
}

impl Clock {
    /// Stops the clock, because data arrived.
    fn stop(&mut self) {
        if let Some(since) = self.since.take() {
            self.left = self.left.saturating_sub(since.elapsed());
        }
    }

    /// Restarts the clock for a new message.
    fn restart(&mut self) {
        self.left = TIMEOUT;
    }

    /// Runs the clock while the gateway waits for the client. Ready when the timeout has passed.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let over = self.over.get_or_insert_with(|| Box::pin(tokio::time::sleep(TIMEOUT)));
        if self.since.is_none() {
            let now = Instant::now();
            self.since = Some(now);
            over.as_mut().reset(now + self.left);
        }
        over.as_mut().poll(context)
    }
}

/// What must arrive before the timeout.
enum Parts {
    /// The whole body. Contains the number of bytes that have arrived.
    One(usize),
    /// The current message.
    Messages(Framing),
}

/// Finds message boundaries in a gRPC stream. Each message is a flag, a 4-byte length, and that many bytes.
#[derive(Default)]
struct Framing {
    head: [u8; 5],
    /// The number of head bytes that have arrived.
    begun: usize,
    /// The numbers of message bytes that have arrived, and that are missing.
    received: usize,
    left: usize,
    /// The number of messages that have begun.
    messages: u64,
}

impl Framing {
    /// Processes the next bytes. Returns how many bytes of the incomplete message have arrived.
    fn take(&mut self, mut bytes: &[u8]) -> usize {
        while !bytes.is_empty() {
            if self.begun < self.head.len() {
                self.messages += u64::from(self.begun == 0);
                let count = bytes.len().min(self.head.len() - self.begun);
                self.head[self.begun..self.begun + count].copy_from_slice(&bytes[..count]);
                self.begun += count;
                bytes = &bytes[count..];
                let [_, length @ ..] = self.head;
                (self.received, self.left) = (0, u32::from_be_bytes(length) as usize);
            } else {
                let count = bytes.len().min(self.left);
                (self.received, self.left) = (self.received + count, self.left - count);
                bytes = &bytes[count..];
            }
            if self.begun == self.head.len() && self.left == 0 {
                *self = Self { messages: self.messages, ..Self::default() };
            }
        }
        self.begun + self.received
    }
}

impl<B> Inbound<B> {
    /// With `is_stream`, each message has its own timeout.
    pub(crate) fn new(body: B, is_stream: bool, pool: &Pool) -> Self {
        let parts = if is_stream { Parts::Messages(Framing::default()) } else { Parts::One(0) };
        let clock = Clock { over: None, left: TIMEOUT, since: None };
        Self { body, parts, clock, share: LazyShare::new(pool, None), gzip: None, credential: None }
    }

    /// Counts the whole body towards a principal. Nothing reads the body before its principal is known.
    pub(crate) fn belong_to(&mut self, principal: &Arc<str>) {
        self.share.belong_to(principal);
    }

    /// Decompresses messages that the client sends with gzip.
    pub(crate) fn with_gzip(self) -> Self {
        Self { gzip: Some(Box::new(Inflate::new())), ..self }
    }

    /// Ends the body when this credential ends: later data is not read.
    pub(crate) fn end_with(&mut self, credential: CredentialWatch) {
        self.credential = Some(credential);
    }

    /// Counts bytes that arrived. Returns false if the budget is spent.
    fn count(&mut self, bytes: &Bytes) -> bool {
        let held = match &mut self.parts {
            Parts::One(received) => {
                *received += bytes.len();
                *received
            }
            Parts::Messages(framing) => {
                let before = framing.messages;
                let held = framing.take(bytes);
                if framing.messages > before {
                    self.clock.restart();
                }
                held
            }
        };
        self.hold(held)
    }

    fn hold(&mut self, bytes: usize) -> bool {
        // No reader keeps more than this.
        let held = bytes.min(MAX_REQUEST_BYTES);
        self.share.resize(if held > SMALL { held } else { 0 })
    }

    /// Counts the message that is being decompressed, and `given` bytes of earlier ones that were passed on.
    /// Returns false if the budget is spent.
    fn count_inflated(&mut self, given: usize) -> bool {
        let inflated = self.gzip.as_ref().map_or(0, |gzip| gzip.buffered_bytes());
        let held = match &mut self.parts {
            Parts::One(received) => {
                *received += given;
                *received + inflated
            }
            Parts::Messages(framing) => inflated.max(framing.begun + framing.received),
        };
        self.hold(held)
    }

    /// Whether the clock runs.
    fn is_timed(&self) -> bool {
        match &self.parts {
            Parts::One(_) => true,
            Parts::Messages(framing) => framing.begun > 0,
        }
    }
}

type Polled = Poll<Option<Result<Frame<Bytes>, InboundError>>>;

impl<B: RequestBody> Inbound<B> {
    /// Polls the next frame from the connection.
    fn poll_arriving(&mut self, context: &mut Context<'_>) -> Polled {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            self.clock.stop();
            if let Some(bytes) = frame.as_ref().and_then(|it| it.as_ref().ok()?.data_ref())
                && !self.count(bytes)
            {
                return Poll::Ready(Some(Err(InboundError::OverBudget)));
            }
            return Poll::Ready(frame.map(|frame| frame.map_err(|error| InboundError::Broken(error.into()))));
        }
        if self.is_timed() && self.clock.poll(context).is_ready() {
            return Poll::Ready(Some(Err(InboundError::TooSlow)));
        }
        Poll::Pending
    }

    /// Polls the next frame of decompressed messages.
    fn poll_inflated(&mut self, context: &mut Context<'_>) -> Polled {
        loop {
            let Some(gzip) = &mut self.gzip else { return self.poll_arriving(context) };
            let step = match gzip.step() {
                Ok(step) => step,
                Err(error) => return Poll::Ready(Some(Err(error.into()))),
            };
            let given = if let InflateStep::Data(bytes) = &step { bytes.len() } else { 0 };
            if !self.count_inflated(given) {
                return Poll::Ready(Some(Err(InboundError::OverBudget)));
            }
            match step {
                InflateStep::Data(bytes) => return Poll::Ready(Some(Ok(Frame::data(bytes)))),
                InflateStep::Later => {
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
                InflateStep::Starving => {}
            }
            let arrived = ready!(self.poll_arriving(context));
            let Some(gzip) = &mut self.gzip else { return Poll::Ready(arrived) };
            match arrived {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(bytes) => gzip.take(bytes),
                    Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
                },
                None if gzip.is_inside() => return Poll::Ready(Some(Err(InflateError::NotGzip.into()))),
                ended => return Poll::Ready(ended),
            }
        }
    }
}

impl<B: RequestBody> http_body::Body for Inbound<B> {
    type Data = Bytes;
    type Error = InboundError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Polled {
        if self.credential.as_ref().is_some_and(CredentialWatch::has_ended) {
            return Poll::Ready(Some(Err(InboundError::Revoked)));
        }
        let polled = if self.gzip.is_some() { self.poll_inflated(context) } else { self.poll_arriving(context) };
        match &mut self.credential {
            Some(credential) if polled.is_pending() => {
                credential.poll_end(context).map(|()| Some(Err(InboundError::Revoked)))
            }
            _ => polled,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.gzip.is_none() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        if self.gzip.is_some() { SizeHint::default() } else { self.body.size_hint() }
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::{BodyExt as _, Full};

    use super::*;

    #[test]
    fn a_message_counts_until_it_is_complete_however_it_is_split() {
        let message = |length: u32| [&[0][..], &length.to_be_bytes(), &vec![7; length as usize]].concat();
        let stream = [message(3), message(0), message(300)].concat();
        for size in 1..stream.len() {
            let mut framing = Framing::default();
            let held: Vec<_> = stream.chunks(size).map(|chunk| framing.take(chunk)).collect();
            assert_eq!(held.last(), Some(&0), "in pieces of {size}");
            assert!(held.iter().all(|held| *held < 305));
        }
        let mut framing = Framing::default();
        assert_eq!(framing.take(&message(300)[..105]), 105);
    }

    #[tokio::test]
    async fn a_message_that_is_not_compressed_counts_on_a_stream_that_may_be() {
        let half = [&[0][..], &(1_u32 << 20).to_be_bytes(), &vec![7; 1 << 19]].concat();
        let pool = Pool::new(512 << 20);
        let mut body = Inbound::new(Full::new(Bytes::from(half)), true, &pool).with_gzip();
        while let Some(Ok(frame)) = body.frame().await {
            assert!(frame.is_data());
        }
        assert!(pool.in_use() >= 1 << 19, "{}", pool.in_use());
    }
}
