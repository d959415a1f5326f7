//! Bounds the memory of answers that wait for slow clients. A large answer goes out in pieces, each only when the connection
//! takes it, so the remainder stays here and is counted. An answer that hardly moves for a while is abandoned.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body::{Body as _, Frame, SizeHint};
use tokio::sync::OwnedSemaphorePermit;

use super::deflate::Deflate;
use super::ending::Ending;
use super::guarded::Guarded;
use crate::state::memory::{MemoryBudget, MemoryShare};

/// The largest piece.
const PIECE: usize = 64 * 1024;

/// How many bytes of a large answer a client has to read in how long.
const PACE: (usize, Duration) = (512 * 1024, Duration::from_secs(30));

/// An answer of either face.
pub(crate) enum Answer {
    Grpc(tonic::body::Body),
    Rest(axum::body::Body),
    /// One that is no call, and the permit it holds until it is sent.
    Read(Box<Guarded<Answer, OwnedSemaphorePermit>>),
    /// A stream that ends with its key.
    Ending(Box<Ending<Answer>>),
}

/// The answer to a browser that asks what it may send.
impl Default for Answer {
    fn default() -> Self {
        Self::Rest(axum::body::Body::empty())
    }
}

/// Why an answer is abandoned.
#[derive(Debug, thiserror::Error)]
enum Abandoned {
    #[error("the client read the answer too slowly")]
    TooSlow,
    #[error("the gateway holds too many answers that clients do not read")]
    OverBudget,
}

/// An answer with its bounds.
pub(crate) struct Outbound {
    body: Answer,
    budget: MemoryBudget,
    /// Compresses messages, if the client wants that.
    gzip: Option<Box<Deflate>>,
    /// Made with the first frame that is larger than one piece.
    remainder: Option<Arc<Mutex<Remainder>>>,
}

/// What is left of a frame.
struct Remainder {
    bytes: Bytes,
    share: MemoryShare,
    /// When its pace was last checked, and how much was read since.
    checked: Instant,
    read: usize,
    is_abandoned: bool,
}

impl Outbound {
    pub(crate) fn new(body: Answer, budget: &MemoryBudget) -> Self {
        Self { body, budget: budget.clone(), gzip: None, remainder: None }
    }

    /// The same for a client that wants its messages compressed.
    pub(crate) fn deflated(self) -> Self {
        let gzip = Some(Box::new(Deflate::new(&self.budget)));
        Self { gzip, ..self }
    }

    /// Keeps what does not fit into the first piece. Returns that piece.
    fn split(&mut self, mut bytes: Bytes) -> Result<Bytes, Abandoned> {
        let piece = bytes.split_to(PIECE);
        let is_new = self.remainder.is_none();
        let remainder = self.remainder.get_or_insert_with(|| {
            let share = self.budget.share();
            let (bytes, checked) = (Bytes::new(), Instant::now());
            Arc::new(Mutex::new(Remainder { bytes, share, checked, read: 0, is_abandoned: false }))
        });
        let mut held = lock(remainder);
        if !held.share.add(bytes.len()) {
            return Err(Abandoned::OverBudget);
        }
        held.bytes = bytes;
        (held.checked, held.read) = (Instant::now(), 0);
        drop(held);
        if is_new {
            tokio::spawn(watch(Arc::downgrade(remainder)));
        }
        Ok(piece)
    }

    /// The next piece of the remainder; none if there is none.
    fn next_piece(&self) -> Option<Result<Bytes, Abandoned>> {
        let mut rest = lock(self.remainder.as_ref()?);
        if rest.is_abandoned {
            return Some(Err(Abandoned::TooSlow));
        }
        let length = rest.bytes.len().min(PIECE);
        let piece = rest.bytes.split_to(length);
        rest.share.take(length);
        rest.read += length;
        (!piece.is_empty()).then_some(Ok(piece))
    }

    /// The next frame, its messages compressed.
    fn poll_deflated(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::BoxError>>> {
        let Self { body, gzip: Some(gzip), .. } = self else { return Poll::Ready(None) };
        if gzip.is_idle() {
            let frame = match ready!(Pin::new(body).poll_frame(context)) {
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

    fn left(&self) -> usize {
        self.remainder.as_ref().map_or(0, |rest| lock(rest).bytes.len())
    }
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
            rest.share.take(length);
            rest.is_abandoned = true;
            return;
        }
        (rest.checked, rest.read) = (Instant::now(), 0);
    }
}

fn lock(rest: &Mutex<Remainder>) -> MutexGuard<'_, Remainder> {
    rest.lock().unwrap_or_else(PoisonError::into_inner)
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
            None => ready!(Pin::new(&mut self.body).poll_frame(context)),
            Some(_) => ready!(self.poll_deflated(context)),
        };
        Poll::Ready(match frame {
            Some(Ok(frame)) => match frame.into_data() {
                Ok(bytes) if bytes.len() > PIECE => Some(self.split(bytes).map(Frame::data).map_err(Into::into)),
                Ok(bytes) => Some(Ok(Frame::data(bytes))),
                Err(frame) => Some(Ok(frame)),
            },
            Some(Err(error)) => Some(Err(error)),
            None => None,
        })
    }

    fn is_end_stream(&self) -> bool {
        self.left() == 0 && self.gzip.as_ref().is_none_or(|it| it.is_idle()) && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        if self.gzip.is_some() {
            return SizeHint::default();
        }
        let (inner, left) = (self.body.size_hint(), self.left() as u64);
        let mut hint = SizeHint::new();
        hint.set_lower(inner.lower() + left);
        if let Some(upper) = inner.upper() {
            hint.set_upper(upper + left);
        }
        hint
    }
}
