//! Bounds the memory of responses that wait for slow clients. A response counts towards its principal from its
//! creation, because a client may never read its first byte. A large response is sent in pieces as the connection
//! accepts them, so that the rest stays here and is counted. If the client reads too slowly, the response is
//! abandoned.

use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker, ready};
use std::time::{Duration, Instant};

use axum::BoxError;
use axum::body::Body;
use bytes::Bytes;
use http_body::{Body as _, Frame, SizeHint};
use openskill_identity::shares::{Pool, Share};
use parking_lot::Mutex;

use super::deflate::Deflate;
use crate::state::lazy_share::LazyShare;
use crate::state::limits::SMALL;

/// The maximum size of a piece, in bytes.
const PIECE: usize = 64 * 1024;

/// The minimum rate at which a client must read a large response: bytes per period.
const PACE: (usize, Duration) = (512 * 1024, Duration::from_secs(30));

/// The principal of a response, in its extensions. Absent for the anonymous principal.
#[derive(Debug, Clone)]
pub(crate) struct ResponseOwner(pub(crate) Arc<str>);

/// Why a response was abandoned.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OutboundError {
    #[error("the client read the answer too slowly")]
    TooSlow,
    #[error("the gateway has too many answers that this client, or others, do not read")]
    OverBudget,
}

type Polled = Option<Result<Frame<Bytes>, BoxError>>;

/// A response body with its limits.
pub(crate) struct Outbound {
    body: Body,
    /// The share of the first frame, released once it is sent.
    share: LazyShare,
    /// The first frame, if it was polled before the client read it.
    first: Option<Polled>,
    /// Compresses messages. None if the client does not accept compression.
    gzip: Option<Box<Deflate>>,
    /// None before the first frame that is larger than one piece.
    remainder: Option<Arc<Mutex<Remainder>>>,
}

/// The part of a large frame that is not sent yet.
struct Remainder {
    bytes: Bytes,
    share: LazyShare,
    /// When the rate was last checked, and how much the client has read since.
    checked: Instant,
    read: usize,
    is_abandoned: bool,
}

impl Outbound {
    /// `owner` is the principal. None for the anonymous principal.
    pub(crate) fn new(body: Body, pool: &Pool, owner: Option<ResponseOwner>) -> Self {
        let share = LazyShare::new(pool, owner.map(|ResponseOwner(name)| name));
        Self { body, share, first: None, gzip: None, remainder: None }
    }

    /// Compresses messages with gzip.
    pub(crate) fn with_gzip(self) -> Self {
        let gzip = Some(Box::new(Deflate::new(self.share.another())));
        Self { gzip, ..self }
    }

    /// Polls the first frame, so that it is counted before its client reads. Most responses have only one.
    /// `is_message`: the response consists of gRPC messages, which are ready at once although the response has no
    /// length.
    ///
    /// # Errors
    /// The frame does not fit into its principal's share.
    pub(crate) fn begin(mut self, is_message: bool) -> Result<Self, OutboundError> {
        // If the length is known, all of it is ready.
        if self.body.is_end_stream() || !(is_message || self.body.size_hint().exact().is_some()) {
            return Ok(self);
        }
        // If the frame is not ready, the reader polls again.
        let Poll::Ready(first) = self.poll_frame_of_body(&mut Context::from_waker(Waker::noop())) else {
            return Ok(self);
        };
        let length = data_length(&first);
        if length > PIECE && self.gzip.is_none() {
            if let Some(Ok(frame)) = first
                && let Ok(bytes) = frame.into_data()
            {
                self.keep(bytes)?;
            }
            return Ok(self);
        }
        if length > SMALL && !self.share.resize(length) {
            return Err(OutboundError::OverBudget);
        }
        self.first = Some(first);
        Ok(self)
    }

    /// Keeps a large frame, to send it in pieces.
    fn keep(&mut self, bytes: Bytes) -> Result<(), OutboundError> {
        let is_new = self.remainder.is_none();
        let remainder = self.remainder.get_or_insert_with(|| {
            let (share, bytes, checked) = (self.share.another(), Bytes::new(), Instant::now());
            Arc::new(Mutex::new(Remainder { bytes, share, checked, read: 0, is_abandoned: false }))
        });
        let mut held = remainder.lock();
        if !held.share.resize(bytes.len()) {
            return Err(OutboundError::OverBudget);
        }
        held.bytes = bytes;
        (held.checked, held.read) = (Instant::now(), 0);
        drop(held);
        if is_new {
            tokio::spawn(watch(Arc::downgrade(remainder)));
        }
        Ok(())
    }

    /// Polls the next uncompressed frame.
    fn poll_body(&mut self, context: &mut Context<'_>) -> Poll<Polled> {
        match self.first.take() {
            // Compression counts the frame again.
            Some(first) if self.gzip.is_some() => {
                self.share.resize(0);
                Poll::Ready(first)
            }
            Some(Some(Ok(frame))) => {
                let share = self.share.split(frame.data_ref().map_or(0, Bytes::len));
                Poll::Ready(Some(Ok(frame.map_data(|bytes| count_until_sent(bytes, share)))))
            }
            Some(first) => Poll::Ready(first),
            None => self.poll_frame_of_body(context),
        }
    }

    fn poll_frame_of_body(&mut self, context: &mut Context<'_>) -> Poll<Polled> {
        Pin::new(&mut self.body).poll_frame(context).map_err(Into::into)
    }

    /// Returns the next piece of the remainder. None if nothing remains.
    fn next_piece(&self) -> Polled {
        let mut rest = self.remainder.as_ref()?.lock();
        if rest.is_abandoned {
            return Some(Err(OutboundError::TooSlow.into()));
        }
        let length = rest.bytes.len().min(PIECE);
        let piece = rest.bytes.split_to(length);
        let share = rest.share.split(length);
        rest.read += length;
        (!piece.is_empty()).then(|| Ok(Frame::data(count_until_sent(piece, share))))
    }

    /// Polls the next frame of compressed messages.
    fn poll_deflated(&mut self, context: &mut Context<'_>) -> Poll<Polled> {
        let frame = match self.gzip.as_ref().is_some_and(|gzip| gzip.is_idle()) {
            true => ready!(self.poll_body(context)),
            false => None,
        };
        let Some(gzip) = &mut self.gzip else { return Poll::Ready(None) };
        if gzip.is_idle() {
            let frame = match frame {
                Some(Ok(frame)) => frame,
                ended => return Poll::Ready(ended),
            };
            match frame.into_data() {
                Ok(bytes) if bytes.is_empty() => return Poll::Ready(Some(Ok(Frame::data(bytes)))),
                Ok(bytes) => {
                    if !gzip.take(bytes) {
                        return Poll::Ready(Some(Err(OutboundError::OverBudget.into())));
                    }
                }
                Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
            }
        }
        match gzip.step() {
            Some(bytes) => Poll::Ready(Some(Ok(Frame::data(bytes)))),
            None => {
                context.waker().wake_by_ref();
                Poll::Pending
            }
        }
    }

    /// The number of unsent bytes of a large frame.
    fn remaining_bytes(&self) -> usize {
        self.remainder.as_ref().map_or(0, |rest| rest.lock().bytes.len())
    }
}

/// Bytes that a connection has accepted, with their share, which is released when they are sent or dropped.
struct CountedBytes {
    bytes: Bytes,
    _share: Share,
}

impl AsRef<[u8]> for CountedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Counts bytes until the connection drops them.
fn count_until_sent(bytes: Bytes, share: Option<Share>) -> Bytes {
    match share {
        Some(share) if share.amount() > 0 => Bytes::from_owner(CountedBytes { bytes, _share: share }),
        _ => bytes,
    }
}

/// Returns the length of a data frame, or zero for any other.
fn data_length(polled: &Polled) -> usize {
    polled.as_ref().and_then(|it| it.as_ref().ok()?.data_ref()).map_or(0, Bytes::len)
}

/// Abandons the remainder if the client reads too slowly. Returns once the body is gone.
async fn watch(rest: Weak<Mutex<Remainder>>) {
    loop {
        tokio::time::sleep(PACE.1 / 4).await;
        let Some(rest) = rest.upgrade() else { return };
        let mut rest = rest.lock();
        if rest.bytes.is_empty() || rest.checked.elapsed() < PACE.1 {
            continue;
        }
        if rest.read < PACE.0 {
            let length = std::mem::take(&mut rest.bytes).len();
            rest.share.shrink(length);
            rest.is_abandoned = true;
            return;
        }
        (rest.checked, rest.read) = (Instant::now(), 0);
    }
}

impl http_body::Body for Outbound {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Polled> {
        let piece = self.next_piece();
        if piece.is_some() {
            return Poll::Ready(piece);
        }
        let frame = match self.gzip {
            None => ready!(self.poll_body(context)),
            Some(_) => ready!(self.poll_deflated(context)),
        };
        let bytes = match frame {
            Some(Ok(frame)) if frame.data_ref().is_some_and(|it| it.len() > PIECE) => {
                frame.into_data().unwrap_or_default()
            }
            frame => return Poll::Ready(frame),
        };
        Poll::Ready(match self.keep(bytes) {
            Ok(()) => self.next_piece(),
            Err(error) => Some(Err(error.into())),
        })
    }

    fn is_end_stream(&self) -> bool {
        let has_first = matches!(self.first, Some(Some(_)));
        !has_first
            && self.remaining_bytes() == 0
            && self.gzip.as_ref().is_none_or(|it| it.is_idle())
            && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        if self.gzip.is_some() {
            return SizeHint::default();
        }
        let (inner, left) = (self.body.size_hint(), self.remaining_bytes() as u64);
        let left = left + self.first.as_ref().map_or(0, data_length) as u64;
        let mut hint = SizeHint::new();
        hint.set_lower(inner.lower() + left);
        if let Some(upper) = inner.upper() {
            hint.set_upper(upper + left);
        }
        hint
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;

    const MIB: usize = 1024 * 1024;

    fn owner(name: &str) -> Option<ResponseOwner> {
        Some(ResponseOwner(name.into()))
    }

    fn json(bytes: usize) -> Body {
        Body::from(vec![b'x'; bytes])
    }

    /// A response without a known length, like that of a gRPC method.
    fn message(bytes: usize) -> Body {
        let frames = [Ok::<_, std::io::Error>(Bytes::from(vec![b'x'; bytes]))];
        Body::from_stream(futures_util::stream::iter(frames))
    }

    #[tokio::test]
    async fn an_answer_counts_before_its_client_reads_and_arrives_whole() {
        for bytes in [SMALL + 1, PIECE, PIECE + 1, 3 * MIB] {
            for (body, is_message) in [(json(bytes), false), (message(bytes), true)] {
                let pool = Pool::new(100 * MIB);
                let outbound = Outbound::new(body, &pool, owner("ada")).begin(is_message).ok().unwrap();
                assert_eq!((pool.in_use(), outbound.size_hint().lower()), (bytes, bytes as u64));
                assert!(!outbound.is_end_stream());
                assert_eq!(outbound.collect().await.unwrap().to_bytes().len(), bytes);
                assert_eq!(pool.in_use(), 0);
            }
        }
    }

    #[tokio::test]
    async fn what_a_connection_has_taken_counts_until_it_is_sent() {
        for (bytes, taken) in [(PIECE, PIECE), (3 * MIB, PIECE)] {
            let pool = Pool::new(100 * MIB);
            let mut outbound = Outbound::new(json(bytes), &pool, owner("ada")).begin(false).ok().unwrap();
            let frame = outbound.frame().await.unwrap().unwrap();
            assert_eq!((frame.data_ref().map(Bytes::len), pool.in_use()), (Some(taken), bytes));
            drop(outbound);
            assert_eq!(pool.in_use(), taken);
            drop(frame);
            assert_eq!(pool.in_use(), 0);
        }
    }

    #[tokio::test]
    async fn a_compressed_answer_counts_too() {
        let (pool, framed) = (Pool::new(100 * MIB), [&[0][..], &(MIB as u32).to_be_bytes(), &vec![7; MIB]].concat());
        let body = Body::from(framed);
        let outbound = Outbound::new(body, &pool, owner("ada")).with_gzip().begin(true).ok().unwrap();
        assert_eq!(pool.in_use(), MIB + 5);
        assert!(outbound.collect().await.unwrap().to_bytes().len() < MIB / 10);
        assert_eq!(pool.in_use(), 0);
    }

    #[tokio::test]
    async fn a_principal_that_reads_nothing_is_refused_and_another_one_is_not() {
        let pool = Pool::new(10 * MIB);
        let begin = |name: &str| Outbound::new(json(MIB), &pool, owner(name)).begin(false);
        let unread: Vec<_> = std::iter::from_fn(|| begin("greedy").ok()).collect();
        assert!((6..=8).contains(&unread.len()), "{}", unread.len());
        assert!(begin("honest").is_ok());
        drop(unread);
        assert!(begin("greedy").is_ok() && pool.in_use() == 0);
    }

    #[tokio::test]
    async fn a_stream_that_has_not_begun_is_not_touched() {
        let pool = Pool::new(MIB);
        let body = Body::from_stream(futures_util::stream::pending::<Result<Bytes, std::io::Error>>());
        let mut outbound = Outbound::new(body, &pool, None).begin(true).ok().unwrap();
        assert!(futures_util::poll!(outbound.frame()).is_pending() && pool.in_use() == 0);
    }
}
