//! Bounds what waits for clients that do not read. A large answer goes out in pieces, each taken only when the connection
//! has room, so what is left of it is here and counted; and one that hardly moves for a while is given up.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body::{Frame, SizeHint};

use crate::memory::{Memory, Share};

/// The largest piece.
const PIECE: usize = 64 * 1024;

/// How much of a large answer a client has to take in how long.
const PACE: (usize, Duration) = (512 * 1024, Duration::from_secs(30));

/// An answer of either face.
pub(crate) enum Outgoing {
    Grpc(tonic::body::Body),
    Rest(axum::body::Body),
}

/// Why an answer is not sent to its end.
#[derive(Debug, thiserror::Error)]
enum GivenUp {
    #[error("the answer was read too slowly")]
    NotRead,
    #[error("the gateway holds too many answers that are not read")]
    TooMuch,
}

/// A body on its way out.
pub(crate) struct Leaving {
    body: Outgoing,
    memory: Memory,
    /// Made with the first frame that is too large for one piece.
    rest: Option<Arc<Mutex<Rest>>>,
}

/// What is left of a frame.
struct Rest {
    bytes: Bytes,
    share: Share,
    /// When its pace was last looked at, and how much was taken since.
    looked: Instant,
    taken: usize,
    given_up: bool,
}

impl Leaving {
    pub(crate) fn new(body: Outgoing, memory: &Memory) -> Self {
        Self { body, memory: memory.clone(), rest: None }
    }

    /// Keeps what does not fit in the first piece. Gives that piece.
    fn cut(&mut self, mut bytes: Bytes) -> Result<Bytes, GivenUp> {
        let piece = bytes.split_to(PIECE);
        let is_new = self.rest.is_none();
        let rest = self.rest.get_or_insert_with(|| {
            let share = self.memory.share();
            Arc::new(Mutex::new(Rest { bytes: Bytes::new(), share, looked: Instant::now(), taken: 0, given_up: false }))
        });
        let mut held = lock(rest);
        if !held.share.add(bytes.len()) {
            return Err(GivenUp::TooMuch);
        }
        held.bytes = bytes;
        (held.looked, held.taken) = (Instant::now(), 0);
        drop(held);
        if is_new {
            tokio::spawn(watch(Arc::downgrade(rest)));
        }
        Ok(piece)
    }

    /// The next piece of what is left; none if nothing is.
    fn next_piece(&self) -> Option<Result<Bytes, GivenUp>> {
        let mut rest = lock(self.rest.as_ref()?);
        if rest.given_up {
            return Some(Err(GivenUp::NotRead));
        }
        let length = rest.bytes.len().min(PIECE);
        let piece = rest.bytes.split_to(length);
        rest.share.take(length);
        rest.taken += length;
        (!piece.is_empty()).then_some(Ok(piece))
    }

    fn left(&self) -> usize {
        self.rest.as_ref().map_or(0, |rest| lock(rest).bytes.len())
    }
}

/// Gives the rest up when it hardly moves. Ends with the body.
async fn watch(rest: Weak<Mutex<Rest>>) {
    loop {
        tokio::time::sleep(PACE.1 / 4).await;
        let Some(rest) = rest.upgrade() else { return };
        let mut rest = lock(&rest);
        if rest.bytes.is_empty() || rest.looked.elapsed() < PACE.1 {
            continue;
        }
        if rest.taken < PACE.0 {
            let length = std::mem::take(&mut rest.bytes).len();
            rest.share.take(length);
            rest.given_up = true;
            return;
        }
        (rest.looked, rest.taken) = (Instant::now(), 0);
    }
}

fn lock(rest: &Mutex<Rest>) -> MutexGuard<'_, Rest> {
    rest.lock().unwrap_or_else(PoisonError::into_inner)
}

impl http_body::Body for Outgoing {
    type Data = Bytes;
    type Error = axum::BoxError;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        match self.get_mut() {
            Self::Grpc(body) => Pin::new(body).poll_frame(context).map_err(Into::into),
            Self::Rest(body) => Pin::new(body).poll_frame(context).map_err(Into::into),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Grpc(body) => body.is_end_stream(),
            Self::Rest(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Grpc(body) => body.size_hint(),
            Self::Rest(body) => body.size_hint(),
        }
    }
}

impl http_body::Body for Leaving {
    type Data = Bytes;
    type Error = axum::BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if let Some(piece) = self.next_piece() {
            return Poll::Ready(Some(piece.map(Frame::data).map_err(Into::into)));
        }
        let frame = std::task::ready!(Pin::new(&mut self.body).poll_frame(context));
        Poll::Ready(match frame {
            Some(Ok(frame)) => match frame.into_data() {
                Ok(bytes) if bytes.len() > PIECE => Some(self.cut(bytes).map(Frame::data).map_err(Into::into)),
                Ok(bytes) => Some(Ok(Frame::data(bytes))),
                Err(frame) => Some(Ok(frame)),
            },
            Some(Err(error)) => Some(Err(error)),
            None => None,
        })
    }

    fn is_end_stream(&self) -> bool {
        self.left() == 0 && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (inner, left) = (self.body.size_hint(), self.left() as u64);
        let mut hint = SizeHint::new();
        hint.set_lower(inner.lower() + left);
        if let Some(upper) = inner.upper() {
            hint.set_upper(upper + left);
        }
        hint
    }
}
