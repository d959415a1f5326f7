//! Streams of calls that clients of older revisions may take up again: each event has an id, and is kept for a while.
//!
//! A call writes events, whoever reads them. Its client reads them over a connection; if that breaks, over another one, from
//! the event after the last that it got. Everything is bounded: a writer waits for a reader that falls behind, a call that nobody
//! reads for long is abandoned, and what was read is forgotten, the oldest first.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use openskill_proto::trace::{hex, random_id};
use tokio::sync::Notify;

use crate::call::principal::{GovernedSkill, Principal};

/// How many streams are kept. Calls beyond that have streams that can't be taken up again.
const MAX_STREAMS: usize = 4096;

/// How much of a stream waits to be read, and how much is kept that was read, in bytes. One event is kept whatever its size.
const MAX_BYTES: usize = 256 * 1024;

/// How much is kept of all calls that have ended, in bytes.
const MAX_ENDED_BYTES: usize = 32 * 1024 * 1024;

/// All streams.
#[derive(Debug)]
pub(crate) struct Replays {
    streams: Mutex<Streams>,
    /// How long a call goes on that nobody reads, and how long its stream is kept after its end. None: streams are not kept.
    patience: Duration,
}

#[derive(Debug, Default)]
struct Streams {
    by_id: HashMap<String, Arc<Replay>>,
    /// Those whose calls have ended, the oldest first: when, and how large they are.
    ended: VecDeque<(Instant, String, usize)>,
    ended_bytes: usize,
}

/// The stream of a call.
#[derive(Debug)]
pub(crate) struct Replay {
    id: String,
    /// Whose it is.
    session: String,
    /// What its call runs.
    skill: GovernedSkill,
    state: Mutex<State>,
    /// Something was written, or another reader took over.
    written: Notify,
    /// Something was read.
    read: Notify,
    /// A reader came or went away.
    turned: Notify,
}

#[derive(Debug)]
struct State {
    events: VecDeque<Bytes>,
    /// The number of the first event that is kept.
    first: u64,
    /// The number of the next event that is read.
    next: u64,
    is_over: bool,
    /// Counts readers: the last one reads.
    reader: u64,
    is_read: bool,
}

/// Reads a stream from one connection.
#[derive(Debug)]
pub(crate) struct Reader {
    replay: Arc<Replay>,
    number: u64,
}

impl Replays {
    /// `patience`: how long a call goes on without a reader. Zero: none does.
    pub(crate) fn new(patience: Duration) -> Self {
        Self { streams: Mutex::default(), patience }
    }

    pub(crate) fn patience(&self) -> Duration {
        self.patience
    }

    /// A stream of a session's call of `skill`, and its first reader. None if streams are not kept, or too many are.
    pub(crate) fn open(&self, session: &str, skill: GovernedSkill, now: Instant) -> Option<(Arc<Replay>, Reader)> {
        let mut streams = self.lock();
        streams.forget(now, self.patience);
        if self.patience.is_zero() || streams.by_id.len() >= MAX_STREAMS {
            return None;
        }
        let id = hex(&random_id::<12>());
        let state = State { events: VecDeque::new(), first: 0, next: 0, is_over: false, reader: 0, is_read: false };
        let (session, state) = (session.to_owned(), Mutex::new(state));
        let replay = Arc::new(Replay {
            id: id.clone(),
            session,
            skill,
            state,
            written: Notify::new(),
            read: Notify::new(),
            turned: Notify::new(),
        });
        streams.by_id.insert(id, Arc::clone(&replay));
        let reader = replay.reader(0)?;
        Some((replay, reader))
    }

    /// Reads on after an event of a session's stream. None if it is not kept, or this principal may no longer call its skill.
    pub(crate) fn resume(&self, principal: &Principal, session: &str, last: &str, now: Instant) -> Option<Reader> {
        let (id, number) = last.rsplit_once('-')?;
        let after = number.parse::<u64>().ok()?.checked_add(1)?;
        let mut streams = self.lock();
        streams.forget(now, self.patience);
        let replay = streams.by_id.get(id).filter(|it| it.session == session && principal.may_have(&it.skill))?;
        replay.reader(after)
    }

    /// The call of a stream has ended. It is kept for a while.
    pub(crate) fn end(&self, replay: &Replay, now: Instant) {
        let size = replay.end();
        let mut streams = self.lock();
        streams.ended_bytes += size;
        streams.ended.push_back((now, replay.id.clone(), size));
        streams.forget(now, self.patience);
    }

    fn lock(&self) -> MutexGuard<'_, Streams> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Streams {
    /// Forgets what ended too long ago, or takes too much room.
    fn forget(&mut self, now: Instant, patience: Duration) {
        while let Some((at, id, size)) = self.ended.front() {
            let is_old = now.saturating_duration_since(*at) >= patience;
            if !is_old && self.ended_bytes <= MAX_ENDED_BYTES && self.by_id.len() < MAX_STREAMS {
                return;
            }
            self.by_id.remove(id);
            self.ended_bytes -= size;
            self.ended.pop_front();
        }
    }
}

impl Replay {
    /// Adds an event, which `write` makes of its id. Waits while too much is not read.
    pub(crate) async fn push(&self, write: impl FnOnce(&str) -> Bytes) {
        loop {
            let read = self.read.notified();
            if self.lock().has_room() {
                break;
            }
            read.await;
        }
        let mut state = self.lock();
        let number = state.first + state.events.len() as u64;
        state.events.push_back(write(&format!("{}-{number}", self.id)));
        state.forget();
        drop(state);
        self.written.notify_waiters();
    }

    /// Waits until nobody has read the stream for so long.
    pub(crate) async fn abandoned(&self, patience: Duration) {
        let mut until = None;
        loop {
            let turned = self.turned.notified();
            until = (!self.lock().is_read).then(|| until.unwrap_or_else(|| tokio::time::Instant::now() + patience));
            let is_over = async {
                match until {
                    Some(until) => tokio::time::sleep_until(until).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = turned => {}
                () = is_over => return,
            }
        }
    }

    /// A reader from this event on, in place of any other. None if that event is no longer kept.
    fn reader(self: &Arc<Self>, from: u64) -> Option<Reader> {
        let mut state = self.lock();
        if !(state.first..=state.first + state.events.len() as u64).contains(&from) {
            return None;
        }
        state.reader += 1;
        (state.next, state.is_read) = (from, true);
        let number = state.reader;
        drop(state);
        self.written.notify_waiters();
        self.turned.notify_waiters();
        Some(Reader { replay: Arc::clone(self), number })
    }

    /// Nothing more will be written. Returns the size of what is kept.
    fn end(&self) -> usize {
        let mut state = self.lock();
        state.is_over = true;
        let size = state.events.iter().map(Bytes::len).sum();
        drop(state);
        self.written.notify_waiters();
        size
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// How many events were read of those that are kept.
    fn read(&self) -> usize {
        (self.next - self.first) as usize
    }

    fn has_room(&self) -> bool {
        self.events.iter().skip(self.read()).map(Bytes::len).sum::<usize>() < MAX_BYTES
    }

    /// Forgets what was read, the oldest first, down to its bound.
    fn forget(&mut self) {
        let mut kept: usize = self.events.iter().map(Bytes::len).sum();
        while kept > MAX_BYTES && self.read() > 0 {
            kept -= self.events.pop_front().map_or(0, |it| it.len());
            self.first += 1;
        }
    }
}

impl Reader {
    /// The next event. None at the end of the stream, or if another connection reads it now.
    pub(crate) async fn next(&mut self) -> Option<Bytes> {
        loop {
            let written = self.replay.written.notified();
            {
                let mut state = self.replay.lock();
                if state.reader != self.number {
                    return None;
                }
                let event = state.events.get(state.read()).cloned();
                if let Some(event) = event {
                    state.next += 1;
                    drop(state);
                    self.replay.read.notify_waiters();
                    return Some(event);
                }
                if state.is_over {
                    return None;
                }
            }
            written.await;
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let mut state = self.replay.lock();
        if state.reader == self.number {
            state.is_read = false;
        }
        drop(state);
        self.replay.turned.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);

    fn open(replays: &Replays) -> (Arc<Replay>, Reader) {
        replays.open("s", GovernedSkill::default(), Instant::now()).unwrap()
    }

    async fn write(replay: &Replay, text: &str) -> String {
        let mut id = String::new();
        replay
            .push(|it| {
                it.clone_into(&mut id);
                Bytes::copy_from_slice(text.as_bytes())
            })
            .await;
        id
    }

    #[tokio::test]
    async fn a_stream_is_taken_up_after_the_last_event_that_was_got() {
        let replays = Replays::new(PATIENCE);
        let (replay, mut reader) = open(&replays);
        let first = write(&replay, "one").await;
        write(&replay, "two").await;
        assert_eq!(reader.next().await.unwrap(), "one");
        assert_eq!(reader.next().await.unwrap(), "two");
        drop(reader);
        write(&replay, "three").await;
        replays.end(&replay, Instant::now());
        let mut again = replays.resume(&Principal::anonymous(), "s", &first, Instant::now()).unwrap();
        assert_eq!(again.next().await.unwrap(), "two", "what was sent may not have arrived");
        assert_eq!((again.next().await.unwrap(), again.next().await), (Bytes::from_static(b"three"), None));
    }

    #[tokio::test]
    async fn only_its_session_takes_a_stream_up_and_only_in_time() {
        let replays = Replays::new(PATIENCE);
        let (replay, reader) = open(&replays);
        let id = write(&replay, "one").await;
        let now = Instant::now();
        for (session, last) in [("other", id.as_str()), ("s", "x-0"), ("s", ""), ("s", &format!("{}-9", replay.id))] {
            assert!(replays.resume(&Principal::anonymous(), session, last, now).is_none(), "{session} {last}");
        }
        drop(reader);
        replays.end(&replay, now);
        assert!(replays.resume(&Principal::anonymous(), "s", &id, now).is_some());
        assert!(replays.resume(&Principal::anonymous(), "s", &id, now + PATIENCE).is_none());
        assert!(replays.lock().by_id.is_empty());
        assert!(Replays::new(Duration::ZERO).open("s", GovernedSkill::default(), now).is_none());
    }

    #[tokio::test]
    async fn a_second_connection_takes_the_place_of_the_first() {
        let replays = Replays::new(PATIENCE);
        let (replay, mut first) = open(&replays);
        let id = write(&replay, "one").await;
        let mut second = replays.resume(&Principal::anonymous(), "s", &id, Instant::now()).unwrap();
        assert_eq!(first.next().await, None);
        drop(first);
        assert!(replay.lock().is_read, "the second still reads");
        write(&replay, "two").await;
        assert_eq!(second.next().await.unwrap(), "two");
    }

    #[tokio::test]
    async fn a_call_is_abandoned_if_nobody_reads_it_and_not_before() {
        let soon = Duration::from_millis(1);
        let replays = Replays::new(PATIENCE);
        let (replay, reader) = open(&replays);
        let id = write(&replay, "one").await;
        // However long somebody reads, it is not.
        let stays = async || tokio::time::timeout(soon * 50, replay.abandoned(soon)).await.is_err();
        assert!(stays().await);
        drop(reader);
        replay.abandoned(soon).await;
        let again = replays.resume(&Principal::anonymous(), "s", &id, Instant::now()).unwrap();
        assert!(stays().await, "somebody reads again");
        drop(again);
        replay.abandoned(soon).await;
    }

    #[tokio::test]
    async fn a_writer_waits_for_its_reader_and_what_was_read_is_forgotten() {
        let replays = Replays::new(PATIENCE);
        let (replay, mut reader) = open(&replays);
        let large = "x".repeat(MAX_BYTES);
        let first = write(&replay, &large).await;
        let mut second = Box::pin(write(&replay, &large));
        assert!(futures_util::poll!(&mut second).is_pending());
        assert_eq!(reader.next().await.unwrap().len(), MAX_BYTES);
        second.await;
        reader.next().await.unwrap();
        write(&replay, "small").await;
        assert!(replay.lock().events.iter().map(Bytes::len).sum::<usize>() <= MAX_BYTES + 5);
        assert!(replays.resume(&Principal::anonymous(), "s", &first, Instant::now()).is_none(), "it is no longer kept");
    }

    #[test]
    fn memory_stays_bounded() {
        let (replays, now) = (Replays::new(PATIENCE), Instant::now());
        for _ in 0..3 * MAX_STREAMS {
            let (replay, _reader) = replays.open("s", GovernedSkill::default(), now).unwrap();
            replays.end(&replay, now);
        }
        assert!(replays.lock().by_id.len() <= MAX_STREAMS);
        let streams: Vec<_> = (0..2 * MAX_STREAMS).map(|_| replays.open("s", GovernedSkill::default(), now)).collect();
        assert!(streams.last().unwrap().is_none() && streams[0].is_some());
    }
}
