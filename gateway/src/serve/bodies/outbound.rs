//! Bounds the memory of answers that wait for slow clients. An answer counts to its principal as soon as it is made: a client
//! may never take its first byte. A large one goes out in pieces, each only when the connection takes it, so the remainder
//! stays here and is counted. An answer that hardly moves for a while is abandoned.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker, ready};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body::{Body as _, Frame, SizeHint};
use openskill_identity::shares::{Pool, Share};

use super::deflate::Deflate;
use super::ending::Ending;
use super::guarded::Guarded;
use crate::state::lazy_share::LazyShare;
use crate::state::limits::SMALL;

/// The largest piece.
const PIECE: usize = 64 * 1024;

/// How many bytes of a large answer a client has to read in how long.
const PACE: (usize, Duration) = (512 * 1024, Duration::from_secs(30));

/// An answer of either face.
pub(crate) enum Answer {
    Grpc(tonic::body::Body),
    Rest(axum::body::Body),
    /// One that is no call, and the place it holds until it is sent.
    Read(Box<Guarded<Answer, Share>>),
    /// A stream that ends with its key.
    Ending(Box<Ending<Answer>>),
}

/// The answer to a browser that asks what it may send.
impl Default for Answer {
    fn default() -> Self {
        Self::Rest(axum::body::Body::empty())
    }
}

/// The principal of an answer, among the extensions of a response. Absent for the anonymous one.
#[derive(Debug, Clone)]
pub(crate) struct AnswerOwner(pub(crate) Arc<str>);

/// Why an answer is abandoned.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Abandoned {
    #[error("the client read the answer too slowly")]
    TooSlow,
    #[error("the gateway holds too many answers that this client, or others, do not read")]
    OverBudget,
}

type Polled = Option<Result<Frame<Bytes>, axum::BoxError>>;

/// An answer with its bounds.
pub(crate) struct Outbound {
    body: Answer,
    /// What the first frame holds until it is sent.
    share: LazyShare,
    /// The first frame, if it was taken before the client read it.
    first: Option<Polled>,
    /// Compresses messages, if the client wants that.
    gzip: Option<Box<Deflate>>,
    /// Made with the first frame that is larger than one piece.
    remainder: Option<Arc<Mutex<Remainder>>>,
}

/// What is left of a frame.
struct Remainder {
    bytes: Bytes,
    share: LazyShare,
    /// When its pace was last checked, and how much was read since.
    checked: Instant,
    read: usize,
    is_abandoned: bool,
}

impl Outbound {
    /// `owner`: its principal. None: the anonymous one.
    pub(crate) fn new(body: Answer, pool: &Pool, owner: Option<AnswerOwner>) -> Self {
        let share = LazyShare::new(pool, owner.map(|AnswerOwner(name)| name));
        Self { body, share, first: None, gzip: None, remainder: None }
    }

    /// The same for a client that wants its messages compressed.
    pub(crate) fn deflated(self) -> Self {
        let gzip = Some(Box::new(Deflate::new(self.share.another())));
        Self { gzip, ..self }
    }

    /// Takes the first frame, which is all of most answers, so that it counts before its client reads. `is_message`: the
    /// answer has messages of gRPC, which are there at once although no length says so.
    ///
    /// # Errors
    /// It does not fit into its principal's share.
    pub(crate) fn begin(mut self, is_message: bool) -> Result<Self, Abandoned> {
        if self.body.is_end_stream() || !(is_message || self.body.has_length()) {
            return Ok(self);
        }
        // Whoever reads polls again what is not there yet.
        let Poll::Ready(first) = Pin::new(&mut self.body).poll_frame(&mut Context::from_waker(Waker::noop())) else {
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
            return Err(Abandoned::OverBudget);
        }
        self.first = Some(first);
        Ok(self)
    }

    /// Keeps a large frame, to send it in pieces.
    fn keep(&mut self, bytes: Bytes) -> Result<(), Abandoned> {
        let is_new = self.remainder.is_none();
        let remainder = self.remainder.get_or_insert_with(|| {
            let (share, bytes, checked) = (self.share.another(), Bytes::new(), Instant::now());
            Arc::new(Mutex::new(Remainder { bytes, share, checked, read: 0, is_abandoned: false }))
        });
        let mut held = lock(remainder);
        if !held.share.resize(bytes.len()) {
            return Err(Abandoned::OverBudget);
        }
        held.bytes = bytes;
        (held.checked, held.read) = (Instant::now(), 0);
        drop(held);
        if is_new {
            tokio::spawn(watch(Arc::downgrade(remainder)));
        }
        Ok(())
    }

    /// The next frame of the answer as it was made.
    fn poll_body(&mut self, context: &mut Context<'_>) -> Poll<Polled> {
        match self.first.take() {
            // Compressing counts it anew.
            Some(first) if self.gzip.is_some() => {
                self.share.resize(0);
                Poll::Ready(first)
            }
            Some(Some(Ok(frame))) => {
                let share = self.share.split(frame.data_ref().map_or(0, Bytes::len));
                Poll::Ready(Some(Ok(frame.map_data(|bytes| count_until_sent(bytes, share)))))
            }
            Some(first) => Poll::Ready(first),
            None => Pin::new(&mut self.body).poll_frame(context),
        }
    }

    /// The next piece of the remainder; none if there is none.
    fn next_piece(&self) -> Option<Result<Bytes, Abandoned>> {
        let mut rest = lock(self.remainder.as_ref()?);
        if rest.is_abandoned {
            return Some(Err(Abandoned::TooSlow));
        }
        let length = rest.bytes.len().min(PIECE);
        let piece = rest.bytes.split_to(length);
        let share = rest.share.split(length);
        rest.read += length;
        (!piece.is_empty()).then(|| Ok(count_until_sent(piece, share)))
    }

    /// The next frame, its messages compressed.
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
                        return Poll::Ready(Some(Err(Abandoned::OverBudget.into())));
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

    /// What is kept of a large frame.
    fn left(&self) -> usize {
        self.remainder.as_ref().map_or(0, |rest| lock(rest).bytes.len())
    }
}

/// Bytes that a connection has taken, with what they hold of a share until they are sent or dropped.
struct CountedBytes {
    bytes: Bytes,
    _share: Share,
}

impl AsRef<[u8]> for CountedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// The same bytes, which count until the connection is done with them.
fn count_until_sent(bytes: Bytes, share: Option<Share>) -> Bytes {
    match share {
        Some(share) if share.amount() > 0 => Bytes::from_owner(CountedBytes { bytes, _share: share }),
        _ => bytes,
    }
}

/// The length of a frame of data. Zero for any other.
fn data_length(polled: &Polled) -> usize {
    polled.as_ref().and_then(|it| it.as_ref().ok()?.data_ref()).map_or(0, Bytes::len)
}

/// Abandons the remainder when it hardly moves. Ends with the body.
async fn watch(rest: Weak<Mutex<Remainder>>) {
    loop {
        tokio::time::sleep(PACE.1 / 4).await;
        let Some(rest) = rest.upgrade() else { return };
        let mut rest = lock(&rest);
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

fn lock(rest: &Mutex<Remainder>) -> MutexGuard<'_, Remainder> {
    rest.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Answer {
    /// Whether it says how long it is: all of it is there.
    fn has_length(&self) -> bool {
        match self {
            Self::Grpc(body) => body.size_hint().exact().is_some(),
            Self::Rest(body) => body.size_hint().exact().is_some(),
            Self::Read(body) => body.inner().has_length(),
            Self::Ending(body) => body.inner().is_some_and(Self::has_length),
        }
    }
}

impl http_body::Body for Answer {
    type Data = Bytes;
    type Error = axum::BoxError;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        match self.get_mut() {
            Self::Grpc(body) => Pin::new(body).poll_frame(context).map_err(Into::into),
            Self::Rest(body) => Pin::new(body).poll_frame(context).map_err(Into::into),
            Self::Read(body) => Pin::new(&mut **body).poll_frame(context),
            Self::Ending(body) => Pin::new(&mut **body).poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Grpc(body) => body.is_end_stream(),
            Self::Rest(body) => body.is_end_stream(),
            Self::Read(body) => body.is_end_stream(),
            Self::Ending(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Grpc(body) => body.size_hint(),
            Self::Rest(body) => body.size_hint(),
            Self::Read(body) => body.size_hint(),
            Self::Ending(body) => body.size_hint(),
        }
    }
}

impl http_body::Body for Outbound {
    type Data = Bytes;
    type Error = axum::BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if let Some(piece) = self.next_piece() {
            return Poll::Ready(Some(piece.map(Frame::data).map_err(Into::into)));
        }
        let frame = match self.gzip {
            None => ready!(self.poll_body(context)),
            Some(_) => ready!(self.poll_deflated(context)),
        };
        Poll::Ready(match frame {
            Some(Ok(frame)) => match frame.into_data() {
                Ok(bytes) if bytes.len() > PIECE => match self.keep(bytes) {
                    Ok(()) => self.next_piece().map(|piece| piece.map(Frame::data).map_err(Into::into)),
                    Err(abandoned) => Some(Err(abandoned.into())),
                },
                Ok(bytes) => Some(Ok(Frame::data(bytes))),
                Err(frame) => Some(Ok(frame)),
            },
            Some(Err(error)) => Some(Err(error)),
            None => None,
        })
    }

    fn is_end_stream(&self) -> bool {
        let has_first = matches!(self.first, Some(Some(_)));
        !has_first && self.left() == 0 && self.gzip.as_ref().is_none_or(|it| it.is_idle()) && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        if self.gzip.is_some() {
            return SizeHint::default();
        }
        let (inner, left) = (self.body.size_hint(), self.left() as u64);
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

    fn owner(name: &str) -> Option<AnswerOwner> {
        Some(AnswerOwner(name.into()))
    }

    fn json(bytes: usize) -> Answer {
        Answer::Rest(axum::body::Body::from(vec![b'x'; bytes]))
    }

    /// An answer whose length is not known before it is read, as that of a gRPC method.
    fn message(bytes: usize) -> Answer {
        let frames = [Ok::<_, std::io::Error>(Bytes::from(vec![b'x'; bytes]))];
        Answer::Rest(axum::body::Body::from_stream(futures_util::stream::iter(frames)))
    }

    #[tokio::test]
    async fn an_answer_counts_before_its_client_reads_and_arrives_whole() {
        for bytes in [SMALL + 1, PIECE, PIECE + 1, 3 * MIB] {
            for (body, is_message) in [(json(bytes), false), (message(bytes), true)] {
                let pool = Pool::new(100 * MIB);
                let outbound = Outbound::new(body, &pool, owner("ada")).begin(is_message).ok().unwrap();
                assert_eq!((pool.used(), outbound.size_hint().lower()), (bytes, bytes as u64));
                assert!(!outbound.is_end_stream());
                assert_eq!(outbound.collect().await.unwrap().to_bytes().len(), bytes);
                assert_eq!(pool.used(), 0);
            }
        }
    }

    #[tokio::test]
    async fn what_a_connection_has_taken_counts_until_it_is_sent() {
        for (bytes, taken) in [(PIECE, PIECE), (3 * MIB, PIECE)] {
            let pool = Pool::new(100 * MIB);
            let mut outbound = Outbound::new(json(bytes), &pool, owner("ada")).begin(false).ok().unwrap();
            let frame = outbound.frame().await.unwrap().unwrap();
            assert_eq!((frame.data_ref().map(Bytes::len), pool.used()), (Some(taken), bytes));
            drop(outbound);
            assert_eq!(pool.used(), taken);
            drop(frame);
            assert_eq!(pool.used(), 0);
        }
    }

    #[tokio::test]
    async fn a_compressed_answer_counts_too() {
        let (pool, framed) = (Pool::new(100 * MIB), [&[0][..], &(MIB as u32).to_be_bytes(), &vec![7; MIB]].concat());
        let body = Answer::Rest(axum::body::Body::from(framed));
        let outbound = Outbound::new(body, &pool, owner("ada")).deflated().begin(true).ok().unwrap();
        assert_eq!(pool.used(), MIB + 5);
        assert!(outbound.collect().await.unwrap().to_bytes().len() < MIB / 10);
        assert_eq!(pool.used(), 0);
    }

    #[tokio::test]
    async fn a_principal_that_reads_nothing_is_refused_and_another_one_is_not() {
        let pool = Pool::new(10 * MIB);
        let begin = |name: &str| Outbound::new(json(MIB), &pool, owner(name)).begin(false);
        let unread: Vec<_> = std::iter::from_fn(|| begin("greedy").ok()).collect();
        assert!((6..=8).contains(&unread.len()), "{}", unread.len());
        assert!(begin("honest").is_ok());
        drop(unread);
        assert!(begin("greedy").is_ok() && pool.used() == 0);
    }

    #[tokio::test]
    async fn a_stream_that_has_not_begun_is_not_touched() {
        let pool = Pool::new(MIB);
        let body = Answer::Rest(axum::body::Body::from_stream(futures_util::stream::pending::<
            Result<Bytes, std::io::Error>,
        >()));
        let mut outbound = Outbound::new(body, &pool, None).begin(true).ok().unwrap();
        assert!(futures_util::poll!(outbound.frame()).is_pending() && pool.used() == 0);
    }
}
