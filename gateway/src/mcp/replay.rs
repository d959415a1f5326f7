//! Streams of calls that clients of older revisions can resume: each event has an id, and is kept for a limited
//! time.
//!
//! A call writes events independently of readers. Its client reads them over a connection. If the connection
//! breaks, the client continues over another one, after the last event that it received. Everything is bounded and
//! counts towards the principal: a writer waits for a slow reader, a call without a reader for too long is
//! abandoned, and read events are dropped, the oldest first.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use openskill_identity::shares::{Pool, Share};
use openskill_proto::trace::{hex, random_id};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;

use super::shares::ExpiringStore;
use crate::call::principal::{GovernedSkill, Principal};
use crate::state::limits::{ASK_AGAIN, Limits, PATIENCE, SharedLimit};

/// The maximum number of unread bytes that a stream buffers, and of read bytes that it keeps. It keeps at least one
/// event, regardless of size.
const MAX_BYTES: usize = 256 * 1024;

/// The maximum total bytes of streams whose calls have ended.
const MAX_ENDED_BYTES: usize = SharedLimit::EndedStreams.bound();

/// The resumable streams of all sessions.
#[derive(Debug)]
pub(crate) struct Replays {
    streams: Mutex<Streams>,
    /// How long a call continues without a reader, and how long its stream is kept after its end. If zero, streams
    /// are not kept.
    patience: Duration,
    /// Limits the number of streams. A call without a share of it can't be resumed.
    places: Pool,
    bytes: Pool,
    /// Accounts for the bytes of streams whose calls have ended.
    ended_bytes: Pool,
}

#[derive(Debug, Default)]
struct Streams {
    running: HashMap<String, Arc<Replay>>,
    /// The streams whose calls have ended.
    ended: ExpiringStore<Arc<Replay>>,
}

/// The stream of one call.
#[derive(Debug)]
pub(crate) struct Replay {
    id: String,
    /// The session that the stream belongs to.
    session: String,
    /// The skill of its call.
    skill: GovernedSkill,
    principal: Arc<str>,
    _place: Share,
    /// Readers watch it for events, and the writer for readers.
    state: watch::Sender<State>,
}

#[derive(Debug)]
struct State {
    events: VecDeque<Bytes>,
    /// Accounts for the memory of the events.
    share: Share,
    /// The number of the first event that is kept.
    first: u64,
    /// The number of the next event to read.
    next: u64,
    is_over: bool,
    /// Counts readers. Only the latest one may read.
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
    /// `patience` is how long a call continues without a reader. If zero, streams are not kept.
    pub(crate) fn new(patience: Duration, limits: &Limits) -> Self {
        let pool = |limit| limits.pool(limit).clone();
        Self {
            streams: Mutex::default(),
            patience,
            places: pool(SharedLimit::ResumableStreams),
            bytes: pool(SharedLimit::Responses),
            ended_bytes: pool(SharedLimit::EndedStreams),
        }
    }

    pub(crate) fn patience(&self) -> Duration {
        self.patience
    }

    /// Opens the stream of a session's call of `skill`, with its first reader. None if streams are not kept, or the
    /// principal has too many.
    pub(crate) fn open(
        &self,
        principal: Arc<str>,
        session: &str,
        skill: GovernedSkill,
        now: Instant,
    ) -> Option<(Arc<Replay>, Reader)> {
        let mut streams = self.lock();
        streams.ended.shrink(now, self.patience, MAX_ENDED_BYTES);
        if self.patience.is_zero() {
            return None;
        }
        let place = loop {
            match self.places.take(Arc::clone(&principal), 1) {
                Some(place) => break place,
                // Make room by forgetting an ended stream.
                None => streams.ended.remove_oldest(&principal).then_some(())?,
            }
        };
        let id = hex(&random_id::<12>());
        let share = self.bytes.share(Arc::clone(&principal));
        let state =
            State { events: VecDeque::new(), share, first: 0, next: 0, is_over: false, reader: 0, is_read: false };
        let (session, state) = (session.to_owned(), watch::Sender::new(state));
        let replay = Arc::new(Replay { id: id.clone(), session, skill, principal, _place: place, state });
        streams.running.insert(id, Arc::clone(&replay));
        let reader = replay.reader(0)?;
        Some((replay, reader))
    }

    /// Resumes a session's stream after the event with id `last`. None if the stream is not kept, or this principal
    /// may no longer call its skill.
    pub(crate) fn resume(&self, principal: &Principal, session: &str, last: &str, now: Instant) -> Option<Reader> {
        let (id, number) = last.rsplit_once('-')?;
        let after = number.parse::<u64>().ok()?.checked_add(1)?;
        let mut streams = self.lock();
        streams.ended.shrink(now, self.patience, MAX_ENDED_BYTES);
        let replay = streams.running.get(id).or_else(|| streams.ended.values().find(|it| it.id == id));
        replay.filter(|it| it.session == session && principal.may_have(&it.skill))?.reader(after)
    }

    /// Records that the call of a stream has ended. The stream is kept until it expires.
    pub(crate) fn end(&self, replay: &Replay, now: Instant) {
        let bytes = replay.end(self.ended_bytes.share(Arc::clone(&replay.principal)));
        let mut streams = self.lock();
        if let Some(replay) = streams.running.remove(&replay.id) {
            streams.ended.push(now, Arc::clone(&replay.principal), bytes, replay);
        }
        streams.ended.shrink(now, self.patience, MAX_ENDED_BYTES);
    }

    fn lock(&self) -> MutexGuard<'_, Streams> {
        self.streams.lock()
    }
}

impl Replay {
    /// Adds an event, which `write` creates from its id. Waits while too much is unread. If the principal's share
    /// stays full for too long, drops the event and returns false.
    pub(crate) async fn push(&self, write: impl FnOnce(&str) -> Bytes) -> bool {
        // `wait_for` fails only without a sender.
        drop(self.state.subscribe().wait_for(State::has_room).await);
        let event = write(&format!("{}-{}", self.id, self.state.borrow().events_written()));
        let until = Instant::now() + PATIENCE;
        while !self.state.send_if_modified(|state| state.add(&event)) {
            if Instant::now() >= until {
                return false;
            }
            tokio::time::sleep(ASK_AGAIN).await;
        }
        true
    }

    /// Waits until the stream has had no reader for `patience`.
    pub(crate) async fn wait_until_abandoned(&self, patience: Duration) {
        let mut state = self.state.subscribe();
        loop {
            drop(state.wait_for(|it| !it.is_read).await);
            let next_reader = state.wait_for(|it| it.is_read);
            if tokio::time::timeout(patience, next_reader).await.is_err() {
                return;
            }
        }
    }

    /// Creates a reader that starts at this event and replaces any other reader. None if the event is no longer
    /// kept.
    fn reader(self: &Arc<Self>, from: u64) -> Option<Reader> {
        let mut number = None;
        self.state.send_if_modified(|state| {
            let is_kept = (state.first..=state.events_written()).contains(&from);
            if is_kept {
                state.reader += 1;
                (state.next, state.is_read) = (from, true);
                number = Some(state.reader);
            }
            is_kept
        });
        Some(Reader { replay: Arc::clone(self), number: number? })
    }

    /// Ends the stream. From now on, its events count towards `share`, that of ended streams. Returns their size.
    fn end(&self, mut share: Share) -> usize {
        let mut size = 0;
        self.state.send_modify(|state| {
            state.is_over = true;
            size = state.events.iter().map(Bytes::len).sum();
            share.count(size);
            state.share = share;
        });
        size
    }
}

impl State {
    /// The number of kept events that were read.
    fn events_read(&self) -> usize {
        (self.next - self.first) as usize
    }

    /// The number of events that were written.
    fn events_written(&self) -> u64 {
        self.first + self.events.len() as u64
    }

    /// Adds an event, if the principal's share has room for it.
    fn add(&mut self, event: &Bytes) -> bool {
        let has_room = self.share.grow(event.len());
        if has_room {
            self.events.push_back(event.clone());
            self.forget();
        }
        has_room
    }

    fn has_room(&self) -> bool {
        self.events.iter().skip(self.events_read()).map(Bytes::len).sum::<usize>() < MAX_BYTES
    }

    /// Returns the next event for a reader. None if there is none yet, or another connection took over.
    fn read(&mut self, reader: u64) -> Option<Bytes> {
        let event = self.events.get(self.events_read()).filter(|_| self.reader == reader).cloned()?;
        self.next += 1;
        Some(event)
    }

    /// Drops read events, the oldest first, until the rest is within the limit.
    fn forget(&mut self) {
        let mut kept: usize = self.events.iter().map(Bytes::len).sum();
        while kept > MAX_BYTES && self.events_read() > 0 {
            let length = self.events.pop_front().map_or(0, |it| it.len());
            kept -= length;
            self.share.shrink(length);
            self.first += 1;
        }
    }
}

impl Reader {
    /// Returns the next event. None at the end of the stream, or if another connection took over.
    pub(crate) async fn next(&mut self) -> Option<Bytes> {
        let number = self.number;
        let is_decided = |it: &State| it.reader != number || it.is_over || it.events_read() < it.events.len();
        drop(self.replay.state.subscribe().wait_for(is_decided).await);
        let mut event = None;
        self.replay.state.send_if_modified(|state| {
            event = state.read(number);
            event.is_some()
        });
        event
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.replay.state.send_if_modified(|state| {
            let is_latest = state.reader == self.number;
            if is_latest {
                state.is_read = false;
            }
            is_latest
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);

    fn open(replays: &Replays) -> (Arc<Replay>, Reader) {
        replays.open("ada".into(), "s", GovernedSkill::default(), Instant::now()).unwrap()
    }

    fn count(replays: &Replays) -> usize {
        let streams = replays.lock();
        streams.running.len() + streams.ended.values().count()
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
        let replays = Replays::new(PATIENCE, &Limits::default());
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
        let replays = Replays::new(PATIENCE, &Limits::default());
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
        assert_eq!(count(&replays), 0);
        let none = Replays::new(Duration::ZERO, &Limits::default());
        assert!(none.open("ada".into(), "s", GovernedSkill::default(), now).is_none());
    }

    #[tokio::test]
    async fn a_second_connection_takes_the_place_of_the_first() {
        let replays = Replays::new(PATIENCE, &Limits::default());
        let (replay, mut first) = open(&replays);
        let id = write(&replay, "one").await;
        let mut second = replays.resume(&Principal::anonymous(), "s", &id, Instant::now()).unwrap();
        assert_eq!(first.next().await, None);
        drop(first);
        assert!(replay.state.borrow().is_read, "the second still reads");
        write(&replay, "two").await;
        assert_eq!(second.next().await.unwrap(), "two");
    }

    #[tokio::test]
    async fn a_call_is_abandoned_if_nobody_reads_it_and_not_before() {
        let soon = Duration::from_millis(1);
        let replays = Replays::new(PATIENCE, &Limits::default());
        let (replay, reader) = open(&replays);
        let id = write(&replay, "one").await;
        // A stream with a reader is never abandoned.
        let stays = async || tokio::time::timeout(soon * 50, replay.wait_until_abandoned(soon)).await.is_err();
        assert!(stays().await);
        drop(reader);
        replay.wait_until_abandoned(soon).await;
        let again = replays.resume(&Principal::anonymous(), "s", &id, Instant::now()).unwrap();
        assert!(stays().await, "somebody reads again");
        drop(again);
        replay.wait_until_abandoned(soon).await;
    }

    #[tokio::test]
    async fn a_writer_waits_for_its_reader_and_what_was_read_is_forgotten() {
        let replays = Replays::new(PATIENCE, &Limits::default());
        let (replay, mut reader) = open(&replays);
        let large = "x".repeat(MAX_BYTES);
        let first = write(&replay, &large).await;
        let mut second = Box::pin(write(&replay, &large));
        assert!(futures_util::poll!(&mut second).is_pending());
        assert_eq!(reader.next().await.unwrap().len(), MAX_BYTES);
        second.await;
        reader.next().await.unwrap();
        write(&replay, "small").await;
        assert!(replay.state.borrow().events.iter().map(Bytes::len).sum::<usize>() <= MAX_BYTES + 5);
        assert!(replays.resume(&Principal::anonymous(), "s", &first, Instant::now()).is_none(), "it is no longer kept");
    }

    #[test]
    fn a_principal_with_many_streams_leaves_places_to_others_and_what_ended_makes_room() {
        let (replays, now) = (Replays::new(PATIENCE, &Limits::default()), Instant::now());
        for _ in 0..SharedLimit::ResumableStreams.bound() {
            let (replay, _reader) = replays.open("greedy".into(), "s", GovernedSkill::default(), now).unwrap();
            replays.end(&replay, now);
        }
        assert!(count(&replays) < SharedLimit::ResumableStreams.bound());
        let streams: Vec<_> =
            std::iter::from_fn(|| replays.open("greedy".into(), "s", GovernedSkill::default(), now)).collect();
        assert!(streams.len() < SharedLimit::ResumableStreams.bound());
        assert!(replays.open("honest".into(), "s", GovernedSkill::default(), now).is_some());
    }

    #[tokio::test]
    async fn what_is_kept_counts_and_the_principal_that_has_most_loses_its_oldest() {
        let (limits, now) = (Limits::default(), Instant::now());
        let (replays, pool) = (Replays::new(PATIENCE, &limits), limits.pool(SharedLimit::EndedStreams));
        let keep = async |principal: &str, bytes: usize| {
            let (replay, reader) = replays.open(principal.into(), "s", GovernedSkill::default(), now).unwrap();
            assert!(replay.push(|_| vec![0; bytes].into()).await);
            replays.end(&replay, now);
            drop(reader);
            let id = replay.id.clone();
            move |replays: &Replays| replays.lock().ended.values().any(|it| it.id == id)
        };
        let small = keep("honest", 1000).await;
        let first = keep("greedy", MAX_ENDED_BYTES / 2).await;
        assert_eq!(pool.in_use(), 1000 + MAX_ENDED_BYTES / 2);
        let second = keep("greedy", MAX_ENDED_BYTES / 2).await;
        assert!(small(&replays) && !first(&replays) && second(&replays));
        assert_eq!((pool.in_use(), limits.pool(SharedLimit::Responses).in_use()), (1000 + MAX_ENDED_BYTES / 2, 0));
        let (replay, _reader) = replays.open("greedy".into(), "s", GovernedSkill::default(), now).unwrap();
        let huge = vec![0; SharedLimit::Responses.bound() + 1].into();
        assert!(!replay.state.send_if_modified(|it| it.add(&huge)), "there is no room for it");
    }
}
