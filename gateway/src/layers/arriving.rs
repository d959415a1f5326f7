//! Bounds how long a request's body may take to arrive, and how much of all bodies is held meanwhile. A stream of calls may
//! take as long as it likes; each of its messages may not. Time counts while the client is waited for, not while the
//! gateway itself does not read.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use openskill_proto::limits::MAX_REQUEST_BYTES;
use openskill_proto::v1::SkillError;
use tokio::time::{Instant, Sleep};
use tonic::Status;

use crate::grpc::status;
use crate::memory::{Memory, SMALL, Share};

/// How long a body, or a message of a stream, may take.
const LIMIT: Duration = Duration::from_secs(30);

/// Methods whose request is a stream.
const STREAMS: [&str; 3] = [
    "/openskill.v1.SkillService/InvokeMany",
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
];

/// A body on its way in. Whoever reads it drops it when it is whole. Its errors are statuses, which both faces know.
pub(crate) struct Arriving<B> {
    body: B,
    parts: Parts,
    clock: Clock,
    share: Share,
}

/// How long what has begun may still be waited for.
struct Clock {
    /// Made when the client is first waited for: most bodies are there with their head.
    over: Option<Pin<Box<Sleep>>>,
    left: Duration,
    /// Since when the client is waited for.
    since: Option<Instant>,
}

impl Clock {
    /// Something came.
    fn stop(&mut self) {
        if let Some(since) = self.since.take() {
            self.left = self.left.saturating_sub(since.elapsed());
        }
    }

    /// Something new begins.
    fn begin_anew(&mut self) {
        self.left = LIMIT;
    }

    /// Waits for the client. Ready when that took too long.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let over = self.over.get_or_insert_with(|| Box::pin(tokio::time::sleep(LIMIT)));
        if self.since.is_none() {
            let now = Instant::now();
            self.since = Some(now);
            over.as_mut().reset(now + self.left);
        }
        over.as_mut().poll(context)
    }
}

/// What of a body is not yet whole.
enum Parts {
    /// All of it: so many bytes.
    One(usize),
    /// The message that has begun.
    Messages(Framing),
}

/// Where in a stream of gRPC messages one ends and the next begins: a flag, a length in four bytes, and as many bytes.
#[derive(Default)]
struct Framing {
    head: [u8; 5],
    /// How much of the head is there.
    begun: usize,
    /// How much of the message is there, and is to come.
    there: usize,
    left: usize,
    /// How many messages have begun.
    messages: u64,
}

impl Framing {
    /// Takes the next bytes. Gives how many of the message that is not whole are there.
    fn take(&mut self, mut bytes: &[u8]) -> usize {
        while !bytes.is_empty() {
            if self.begun < self.head.len() {
                self.messages += u64::from(self.begun == 0);
                let count = bytes.len().min(self.head.len() - self.begun);
                self.head[self.begun..self.begun + count].copy_from_slice(&bytes[..count]);
                self.begun += count;
                bytes = &bytes[count..];
                let [_, length @ ..] = self.head;
                (self.there, self.left) = (0, u32::from_be_bytes(length) as usize);
            } else {
                let count = bytes.len().min(self.left);
                (self.there, self.left) = (self.there + count, self.left - count);
                bytes = &bytes[count..];
            }
            if self.begun == self.head.len() && self.left == 0 {
                *self = Self { messages: self.messages, ..Self::default() };
            }
        }
        self.begun + self.there
    }
}

/// Whether the request to this path is a stream of messages.
pub(crate) fn is_stream(path: &str) -> bool {
    STREAMS.contains(&path)
}

impl<B> Arriving<B> {
    /// `is_stream`: of messages, each of which has its time.
    pub(crate) fn new(body: B, is_stream: bool, memory: &Memory) -> Self {
        let parts = if is_stream { Parts::Messages(Framing::default()) } else { Parts::One(0) };
        let clock = Clock { over: None, left: LIMIT, since: None };
        Self { body, parts, clock, share: memory.share() }
    }

    /// Counts what came. False if there is no room for it.
    fn count(&mut self, bytes: &Bytes) -> bool {
        let held = match &mut self.parts {
            Parts::One(there) => {
                *there += bytes.len();
                *there
            }
            Parts::Messages(framing) => {
                let before = framing.messages;
                let held = framing.take(bytes);
                if framing.messages > before {
                    self.clock.begin_anew();
                }
                held
            }
        };
        // More than this nobody keeps.
        let held = held.min(MAX_REQUEST_BYTES);
        self.share.set(if held > SMALL { held } else { 0 })
    }

    /// Whether the time of what has begun is running.
    fn is_timed(&self) -> bool {
        match &self.parts {
            Parts::One(_) => true,
            Parts::Messages(framing) => framing.begun > 0,
        }
    }
}

impl<B> http_body::Body for Arriving<B>
where
    B: http_body::Body<Data = Bytes> + Unpin,
    B::Error: Into<axum::BoxError>,
{
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            self.clock.stop();
            if let Some(bytes) = frame.as_ref().and_then(|it| it.as_ref().ok()?.data_ref())
                && !self.count(bytes)
            {
                let error = SkillError::overloaded("the gateway holds too many bodies");
                return Poll::Ready(Some(Err(status::of(&error))));
            }
            return Poll::Ready(frame.map(|frame| frame.map_err(|error| Status::from_error(error.into()))));
        }
        if self.is_timed() && self.clock.poll(context).is_ready() {
            let message = format!("the body took longer than {} s to arrive", LIMIT.as_secs());
            return Poll::Ready(Some(Err(Status::deadline_exceeded(message))));
        }
        Poll::Pending
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_held_until_it_is_whole_however_it_is_cut() {
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
}
