//! Keeps artifacts that are too large to pass by value in memory until they expire. Clients read them in ranges.
//!
//! The store is bounded. When a new artifact needs memory, the oldest artifact of the principal with the most
//! memory is evicted, but never the new one. So a principal can't evict artifacts of principals with less memory,
//! except to fit its newest artifact.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use openskill_proto::limits::MAX_RANGE_BYTES;
use openskill_proto::trace::{hex, random_id};
use openskill_proto::v1::{ReadArtifactRequest, ReadArtifactResponse};
use parking_lot::Mutex;
use tokio::sync::Semaphore;

/// The maximum total size of a worker's artifacts, in bytes.
const MAX_STORE_BYTES: usize = 256 * 1024 * 1024;

/// The maximum total size of a worker's incomplete artifacts, in bytes.
pub(super) const MAX_UNFINISHED_BYTES: usize = 256 * 1024 * 1024;

/// How long an artifact is kept.
const LIFETIME: Duration = Duration::from_secs(600);

/// Each artifact's cost in addition to its content, which limits the number of empty artifacts.
const OVERHEAD_BYTES: usize = 1024;

/// The artifacts of one worker, by handle.
#[derive(Debug)]
pub(crate) struct Store {
    instance_id: String,
    held: Mutex<HeldArtifacts>,
    /// The budget for calls' incomplete artifacts: a permit for each byte.
    pub(super) unfinished: Arc<Semaphore>,
}

/// An artifact's content and label.
#[derive(Debug, Clone)]
pub(super) struct Stored {
    /// The only principal that may read the artifact.
    pub(super) principal: String,
    /// The skill that produced the artifact. The gateway checks the reader's policy for this skill.
    pub(super) skill_id: String,
    pub(super) name: String,
    pub(super) media_type: String,
    pub(super) data: Bytes,
}

#[derive(Debug, Default)]
struct HeldArtifacts {
    by_handle: HashMap<String, Stored>,
    by_principal: HashMap<String, Holding>,
    bytes: usize,
}

/// The artifacts of one principal.
#[derive(Debug, Default)]
struct Holding {
    /// The artifacts' expiry times, oldest first, because all artifacts are kept equally long.
    expiries: VecDeque<(Instant, String)>,
    bytes: usize,
}

impl Default for Store {
    fn default() -> Self {
        Self::new("")
    }
}

impl Store {
    /// Creates a store. Each handle begins with `instance_id`, so that a gateway finds the worker that has the
    /// artifact.
    pub(crate) fn new(instance_id: &str) -> Self {
        let unfinished = Arc::new(Semaphore::new(MAX_UNFINISHED_BYTES));
        Self { instance_id: instance_id.to_owned(), held: Mutex::default(), unfinished }
    }

    /// Stores an artifact, and returns its handle: `<instance_id>/<32 random hex digits>`.
    pub(super) fn put(&self, artifact: Stored, now: Instant) -> String {
        let handle = format!("{}/{}", self.instance_id, hex(&random_id::<16>()));
        let mut held = self.held.lock();
        held.expire(now);
        held.insert(handle.clone(), artifact, now + LIFETIME);
        while held.bytes > MAX_STORE_BYTES && held.evict(&handle) {}
        handle
    }

    /// Returns whether an artifact is still available.
    pub(super) fn holds(&self, handle: &str) -> bool {
        self.held.lock().by_handle.contains_key(handle)
    }

    /// Reads a range of at most [`MAX_RANGE_BYTES`] of an artifact. The range is empty beyond the end. Returns
    /// `None` if the artifact does not exist, has expired, or belongs to another principal.
    pub(crate) fn read(
        &self,
        range: &ReadArtifactRequest,
        principal: &str,
        now: Instant,
    ) -> Option<ReadArtifactResponse> {
        let mut held = self.held.lock();
        held.expire(now);
        let artifact = held.by_handle.get(&range.handle).filter(|it| it.principal == principal)?.clone();
        drop(held);
        let size = artifact.data.len();
        let wanted = if range.length == 0 { u64::MAX } else { range.length };
        let begin = usize::try_from(range.offset).map_or(size, |offset| offset.min(size));
        let length = usize::try_from(wanted).unwrap_or(usize::MAX).min(MAX_RANGE_BYTES).min(size - begin);
        Some(ReadArtifactResponse {
            data: artifact.data.slice(begin..begin + length),
            size_bytes: size as u64,
            media_type: artifact.media_type,
            name: artifact.name,
            skill_id: artifact.skill_id,
            ..ReadArtifactResponse::default()
        })
    }

    /// Frees the memory of expired artifacts.
    pub(crate) fn expire(&self, now: Instant) {
        self.held.lock().expire(now);
    }
}

impl HeldArtifacts {
    fn insert(&mut self, handle: String, artifact: Stored, expires: Instant) {
        let cost = cost(&artifact);
        let holding = self.by_principal.entry(artifact.principal.clone()).or_default();
        holding.expiries.push_back((expires, handle.clone()));
        holding.bytes += cost;
        self.bytes += cost;
        self.by_handle.insert(handle, artifact);
    }

    fn expire(&mut self, now: Instant) {
        let is_due = |holding: &Holding| holding.expiries.front().is_some_and(|(expires, _)| *expires <= now);
        let due = self.by_principal.iter().filter(|(_, holding)| is_due(holding));
        for principal in due.map(|(principal, _)| principal.clone()).collect::<Vec<_>>() {
            while self.by_principal.get(&principal).is_some_and(is_due) {
                self.remove_oldest(&principal);
            }
        }
    }

    /// Evicts the oldest artifact of the principal with the most memory, but not `newest`. Returns false if no
    /// other artifact exists.
    fn evict(&mut self, newest: &str) -> bool {
        let has_other =
            |holding: &Holding| holding.expiries.front().is_some_and(|(_, oldest)| oldest.as_str() != newest);
        let others = self.by_principal.iter().filter(|(_, holding)| has_other(holding));
        let heaviest = others.max_by_key(|(principal, holding)| (holding.bytes, *principal));
        let Some((principal, _)) = heaviest else { return false };
        self.remove_oldest(&principal.clone());
        true
    }

    fn remove_oldest(&mut self, principal: &str) {
        let Some(holding) = self.by_principal.get_mut(principal) else { return };
        let oldest = holding.expiries.pop_front();
        if let Some(artifact) = oldest.and_then(|(_, handle)| self.by_handle.remove(&handle)) {
            holding.bytes -= cost(&artifact);
            self.bytes -= cost(&artifact);
        }
        if holding.expiries.is_empty() {
            self.by_principal.remove(principal);
        }
    }
}

fn cost(artifact: &Stored) -> usize {
    artifact.data.len() + OVERHEAD_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(data: impl Into<Bytes>) -> Stored {
        let (principal, name, media_type) = ("ada".to_owned(), "a.bin".to_owned(), "a/b".to_owned());
        Stored { principal, skill_id: "draws".to_owned(), name, media_type, data: data.into() }
    }

    fn range(handle: &str, offset: u64, length: u64) -> ReadArtifactRequest {
        ReadArtifactRequest { handle: handle.to_owned(), offset, length }
    }

    #[test]
    fn an_artifact_is_read_in_ranges() {
        let (store, now) = (Store::new("w1"), Instant::now());
        let content: Vec<u8> = (0..MAX_RANGE_BYTES + 10).map(|it| it as u8).collect();
        let handle = store.put(stored(content.clone()), now);
        let read = |offset, length| store.read(&range(&handle, offset, length), "ada", now).unwrap().data;
        assert_eq!(read(3, 4), content[3..7]);
        assert_eq!(read(0, 0), content[..MAX_RANGE_BYTES]);
        assert_eq!(read(MAX_RANGE_BYTES as u64, u64::MAX), content[MAX_RANGE_BYTES..]);
        assert_eq!((read(u64::MAX, 1).len(), read(content.len() as u64, 1).len()), (0, 0));
        let whole = store.read(&range(&handle, 0, 1), "ada", now).unwrap();
        assert_eq!((whole.size_bytes, whole.name.as_str()), (content.len() as u64, "a.bin"));
    }

    #[test]
    fn a_handle_is_unguessable_and_of_use_to_its_principal_alone() {
        let (store, now) = (Store::new("w1"), Instant::now());
        let handle = store.put(stored("x"), now);
        let (instance, key) = handle.split_once('/').unwrap();
        assert!(instance == "w1" && key.len() == 32 && handle != store.put(stored("x"), now));
        assert!(store.read(&range(&handle, 0, 0), "eve", now).is_none());
        assert!(store.read(&range(&handle, 0, 0), "", now).is_none());
        assert!(store.read(&range(key, 0, 0), "ada", now).is_none());
    }

    #[test]
    fn an_artifact_expires_and_its_memory_is_freed() {
        let (store, now) = (Store::new("w1"), Instant::now());
        let handle = store.put(stored("x"), now);
        assert!(store.read(&range(&handle, 0, 0), "ada", now + LIFETIME - Duration::from_secs(1)).is_some());
        store.expire(now + LIFETIME);
        assert_eq!(store.held.lock().bytes, 0);
        assert!(store.read(&range(&handle, 0, 0), "ada", now).is_none());
    }

    #[test]
    fn a_principal_that_fills_the_store_evicts_what_it_holds_itself() {
        let (store, now) = (Store::new("w1"), Instant::now());
        let modest = store.put(stored("x"), now);
        let large = Bytes::from(vec![0; MAX_STORE_BYTES / 4]);
        for _ in 0..8 {
            store.put(Stored { principal: "eve".to_owned(), ..stored(large.clone()) }, now);
        }
        assert!(store.read(&range(&modest, 0, 1), "ada", now).is_some());
        store.expire(now + LIFETIME);
        let held = store.held.lock();
        assert_eq!((held.bytes, held.by_handle.len(), held.by_principal.len()), (0, 0, 0));
    }

    #[test]
    fn a_new_artifact_is_kept_though_it_is_larger_than_what_others_hold() {
        let (store, now) = (Store::new("w1"), Instant::now());
        let small = Bytes::from(vec![0; MAX_STORE_BYTES / 32]);
        let put = |principal: &str, data: &Bytes| {
            store.put(Stored { principal: principal.to_owned(), ..stored(data.clone()) }, now)
        };
        (0..32).for_each(|number| drop(put(&format!("holder {number}"), &small)));
        let large = Bytes::from(vec![0; MAX_STORE_BYTES / 24]);
        let handles = [put("eve", &large), put("eve", &large)];
        assert_eq!(handles.map(|it| store.holds(&it)), [false, true], "of its own, the oldest goes");
        let held = store.held.lock();
        assert!(held.bytes <= MAX_STORE_BYTES && held.by_principal.len() == 31, "{}", held.by_principal.len());
    }

    #[test]
    fn a_full_store_evicts_the_oldest() {
        let (store, now) = (Store::new("w1"), Instant::now());
        let content = Bytes::from(vec![0; MAX_STORE_BYTES / 4]);
        let handles: Vec<_> = (0..4).map(|_| store.put(stored(content.clone()), now)).collect();
        let is_held = |handle: &String| store.read(&range(handle, 0, 1), "ada", now).is_some();
        assert_eq!(handles.iter().map(is_held).collect::<Vec<_>>(), [false, true, true, true]);
        assert!(store.held.lock().bytes <= MAX_STORE_BYTES);
    }
}
