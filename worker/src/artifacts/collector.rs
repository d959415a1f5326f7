//! Assembles one call's artifacts and enforces their limits.
//!
//! An artifact that exceeds a limit is dropped with a warning in the result. It never makes the call fail.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use openskill_proto::limits::{
    MAX_ARTIFACT_BYTES, MAX_CALL_ARTIFACTS, MAX_CALL_ARTIFACTS_BYTES, MAX_INLINE_ARTIFACT_BYTES,
    MAX_INLINE_ARTIFACTS_BYTES,
};
use openskill_proto::v1::Artifact;
use openskill_proto::v1::artifact::Content;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::label::{file_name, media_type};
use super::store::{MAX_UNFINISHED_BYTES, Store, Stored};

/// The artifacts of one call.
#[derive(Debug, Default)]
pub(crate) struct Collector {
    store: Arc<Store>,
    principal: String,
    skill_id: String,
    state: Mutex<State>,
}

/// A piece of an artifact. The first chunk sets the artifact's name.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Chunk {
    /// The same in all chunks of an artifact.
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) media_type: String,
    pub(crate) data: Vec<u8>,
    /// Whether another chunk follows.
    pub(crate) more: bool,
}

#[derive(Debug, Default)]
struct State {
    /// The artifacts, in the order in which they began.
    entries: Vec<Entry>,
    /// The total size of all entries, in bytes.
    bytes: usize,
    /// The size of the content that is passed by value, in bytes.
    inline_bytes: usize,
    /// The number of artifacts that were refused, because there were too many or their ids were in use.
    refused: usize,
    warnings: Vec<String>,
}

#[derive(Debug)]
struct Entry {
    id: String,
    name: String,
    progress: Progress,
}

#[derive(Debug)]
enum Progress {
    /// `share` is the reservation for `data`.
    Open {
        media_type: String,
        data: Vec<u8>,
        share: Option<OwnedSemaphorePermit>,
    },
    Complete(Artifact),
    Dropped,
}

impl Collector {
    /// Creates the collector of one call. Large artifacts go to `store`, where `principal` may read them.
    pub(crate) fn new(store: Arc<Store>, principal: &str, skill_id: &str) -> Self {
        Self { store, principal: principal.to_owned(), skill_id: skill_id.to_owned(), state: Mutex::default() }
    }

    /// Adds a chunk. Returns the artifact if the chunk completes it.
    pub(crate) fn add(&self, chunk: Chunk) -> Option<Artifact> {
        self.add_to(&mut self.state.lock(), chunk)
    }

    /// Adds a complete artifact, with a new id.
    pub(crate) fn add_whole(&self, name: &str, media_type: &str, data: Vec<u8>) -> Option<Artifact> {
        let mut state = self.state.lock();
        let (id, name, media_type) = (state.free_id(), name.to_owned(), media_type.to_owned());
        self.add_to(&mut state, Chunk { id, name, media_type, data, more: false })
    }

    /// Returns the complete artifacts, in the order in which they began.
    pub(crate) fn complete_ones(&self) -> Vec<Artifact> {
        let state = self.state.lock();
        let complete = |entry: &Entry| match &entry.progress {
            Progress::Complete(artifact) => Some(artifact.clone()),
            Progress::Open { .. } | Progress::Dropped => None,
        };
        state.entries.iter().filter_map(complete).collect()
    }

    /// Ends the call. Returns its artifacts, and warnings about dropped ones.
    pub(crate) fn finish(&self) -> (Vec<Artifact>, Vec<String>) {
        let State { entries, refused, mut warnings, .. } = std::mem::take(&mut *self.state.lock());
        let mut complete = Vec::with_capacity(entries.len());
        for Entry { name, progress, .. } in entries {
            match progress {
                Progress::Complete(artifact) if self.is_kept(&artifact) => complete.push(artifact),
                Progress::Complete(_) => warnings.push(dropped_warning(&name, "later artifacts replaced it in memory")),
                Progress::Open { .. } => warnings.push(dropped_warning(&name, "its last part did not arrive")),
                Progress::Dropped => {}
            }
        }
        if refused > 0 {
            let reason = format!("a call has at most {MAX_CALL_ARTIFACTS}, each with its own id");
            warnings.push(format!("{refused} artifacts of the skill were dropped: {reason}"));
        }
        (complete, warnings)
    }

    fn add_to(&self, state: &mut State, chunk: Chunk) -> Option<Artifact> {
        let index = state.open_entry(&chunk)?;
        let (media_type, mut data) = state.append(index, chunk, &self.store.unfinished)?;
        data.shrink_to_fit();
        Some(self.complete(state, index, media_type, data.into()))
    }

    /// Completes an artifact, whose content is passed by value if small and as a handle if large.
    fn complete(&self, state: &mut State, index: usize, media_type: String, data: Bytes) -> Artifact {
        let size = data.len();
        let entry = &mut state.entries[index];
        let is_inline = size <= MAX_INLINE_ARTIFACT_BYTES && state.inline_bytes + size <= MAX_INLINE_ARTIFACTS_BYTES;
        let content = if is_inline {
            state.inline_bytes += size;
            Content::Data(data)
        } else {
            let (principal, skill_id, name) = (self.principal.clone(), self.skill_id.clone(), entry.name.clone());
            let stored = Stored { principal, skill_id, name, media_type: media_type.clone(), data };
            Content::Handle(self.store.put(stored, Instant::now()))
        };
        let (id, name) = (entry.id.clone(), entry.name.clone());
        let artifact =
            Artifact { id, name, media_type, size_bytes: size as u64, content: Some(content), ..Artifact::default() };
        entry.progress = Progress::Complete(artifact.clone());
        artifact
    }

    /// Returns whether the artifact's handle is still valid.
    fn is_kept(&self, artifact: &Artifact) -> bool {
        match &artifact.content {
            Some(Content::Handle(handle)) => self.store.holds(handle),
            _ => true,
        }
    }
}

impl State {
    /// Finds or creates the open entry of this chunk. Returns `None` if the chunk must be ignored.
    fn open_entry(&mut self, chunk: &Chunk) -> Option<usize> {
        if let Some(index) = self.entries.iter().position(|it| it.id == chunk.id) {
            return match self.entries[index].progress {
                Progress::Open { .. } => Some(index),
                Progress::Dropped => None,
                Progress::Complete(_) => self.refuse(chunk),
            };
        }
        if self.entries.len() >= MAX_CALL_ARTIFACTS {
            return self.refuse(chunk);
        }
        let progress = Progress::Open { media_type: media_type(&chunk.media_type), data: Vec::new(), share: None };
        self.entries.push(Entry { id: chunk.id.clone(), name: file_name(&chunk.name), progress });
        Some(self.entries.len() - 1)
    }

    /// Counts a refused artifact when its last chunk arrives.
    fn refuse(&mut self, chunk: &Chunk) -> Option<usize> {
        self.refused += usize::from(!chunk.more);
        None
    }

    /// Appends a chunk to an open entry. Returns the media type and the content if the chunk is the last. Drops an
    /// artifact that exceeds a limit.
    fn append(&mut self, index: usize, chunk: Chunk, budget: &Arc<Semaphore>) -> Option<(String, Vec<u8>)> {
        let entry = &mut self.entries[index];
        let Progress::Open { media_type, data, share } = &mut entry.progress else { return None };
        let size = chunk.data.len();
        let reason = if data.len() + size > MAX_ARTIFACT_BYTES {
            format!("it is larger than {MAX_ARTIFACT_BYTES} bytes")
        } else if self.bytes + size > MAX_CALL_ARTIFACTS_BYTES {
            format!("the artifacts of one call may have {MAX_CALL_ARTIFACTS_BYTES} bytes in total")
        } else if chunk.more && !grow(share, size, budget) {
            // The last chunk needs no share, because it completes the artifact.
            format!(
                "the unfinished artifacts of all calls of the worker may have {MAX_UNFINISHED_BYTES} bytes in total"
            )
        } else {
            self.bytes += size;
            if data.is_empty() {
                *data = chunk.data;
            } else {
                data.extend_from_slice(&chunk.data);
            }
            return (!chunk.more).then(|| (std::mem::take(media_type), std::mem::take(data)));
        };
        self.bytes -= data.len();
        entry.progress = Progress::Dropped;
        self.warnings.push(dropped_warning(&entry.name, &reason));
        None
    }

    fn free_id(&self) -> String {
        let is_free = |id: &String| self.entries.iter().all(|it| it.id != *id);
        (self.entries.len() + 1..).map(|number| format!("artifact-{number}")).find(is_free).unwrap_or_default()
    }
}

/// Reserves this many more bytes of the budget. Returns false, and reserves nothing, if this exceeds it.
fn grow(share: &mut Option<OwnedSemaphorePermit>, bytes: usize, budget: &Arc<Semaphore>) -> bool {
    let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
    let Ok(more) = Arc::clone(budget).try_acquire_many_owned(bytes) else { return false };
    match share {
        Some(share) => share.merge(more),
        None => *share = Some(more),
    }
    true
}

fn dropped_warning(name: &str, reason: &str) -> String {
    format!("the artifact '{name}' was dropped: {reason}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use openskill_proto::v1::ReadArtifactRequest;

    fn chunk(id: &str, data: &[u8], more: bool) -> Chunk {
        let (name, media_type) = (format!("{id}.png"), "image/png".to_owned());
        Chunk { id: id.to_owned(), name, media_type, data: data.to_vec(), more }
    }

    #[test]
    fn chunks_are_put_together_also_when_they_alternate() {
        let collector = Collector::default();
        assert_eq!(collector.add(chunk("a", b"one ", true)), None);
        assert_eq!(collector.add(chunk("b", b"1", true)), None);
        let first = collector.add(chunk("a", b"two", false)).unwrap();
        assert_eq!((first.name.as_str(), first.media_type.as_str(), first.size_bytes), ("a.png", "image/png", 7));
        assert_eq!(first.content, Some(Content::Data("one two".into())));
        collector.add(chunk("b", b"2", false)).unwrap();
        let (artifacts, warnings) = collector.finish();
        assert_eq!((artifacts.len(), artifacts[0].clone(), warnings), (2, first, vec![]));
    }

    #[test]
    fn a_large_artifact_travels_as_a_handle_of_its_principal() {
        let store = Arc::new(Store::new("w1"));
        let collector = Collector::new(Arc::clone(&store), "ada", "draws");
        let content = vec![7; MAX_INLINE_ARTIFACT_BYTES + 1];
        let artifact = collector.add(chunk("a", &content, false)).unwrap();
        let Some(Content::Handle(handle)) = artifact.content else { panic!("{artifact:?}") };
        let range = ReadArtifactRequest { handle, offset: 0, length: 0 };
        assert_eq!(store.read(&range, "ada", Instant::now()).unwrap().data, content);
        assert!(store.read(&range, "eve", Instant::now()).is_none());
    }

    #[test]
    fn only_so_much_travels_by_value() {
        let collector = Collector::default();
        let content = vec![7; MAX_INLINE_ARTIFACT_BYTES];
        let by_value = |id: &str| {
            let artifact = collector.add(chunk(id, &content, false)).unwrap();
            matches!(artifact.content, Some(Content::Data(_)))
        };
        assert_eq!(["a", "b", "c", "d", "e"].map(by_value), [true, true, true, true, false]);
    }

    #[test]
    fn an_artifact_over_a_bound_is_dropped_with_a_warning_and_frees_its_share() {
        let collector = Collector::default();
        let half = vec![0; MAX_ARTIFACT_BYTES / 2 + 1];
        assert_eq!(collector.add(chunk("a", &half, true)), None);
        assert_eq!(collector.add(chunk("a", &half, true)), None);
        assert_eq!(collector.add(chunk("a", b"the rest", false)), None);
        assert_eq!(collector.state.lock().bytes, 0);
        let large = vec![0; MAX_ARTIFACT_BYTES];
        let fits = ["b", "c", "d", "e"].map(|id| collector.add(chunk(id, &large, false)).is_some());
        assert_eq!(fits, [true, true, true, false]);
        let (artifacts, warnings) = collector.finish();
        assert_eq!(artifacts.len(), 3);
        assert!(warnings[0].contains("'a.png' was dropped: it is larger"), "{warnings:?}");
        assert!(warnings[1].contains("'e.png' was dropped: the artifacts of one call"), "{warnings:?}");
    }

    #[test]
    fn an_artifact_that_others_of_its_call_evicted_is_dropped_with_a_warning() {
        let store = Arc::new(Store::new("w1"));
        let data = Bytes::from(vec![0; 8 << 20]);
        for number in 0..31 {
            let (principal, skill_id, name) = (format!("holder {number}"), "draws".to_owned(), "a.bin".to_owned());
            let held = Stored { principal, skill_id, name, media_type: "a/b".to_owned(), data: data.clone() };
            store.put(held, Instant::now());
        }
        let collector = Collector::new(store, "ada", "draws");
        let large = vec![0; MAX_ARTIFACT_BYTES];
        for id in ["a", "b"] {
            assert!(collector.add(chunk(id, &large, false)).is_some());
        }
        let (artifacts, warnings) = collector.finish();
        assert_eq!(artifacts.iter().map(|it| it.name.as_str()).collect::<Vec<_>>(), ["b.png"]);
        assert!(warnings[0].contains("'a.png' was dropped: "), "{warnings:?}");
    }

    #[test]
    fn an_unfinished_artifact_is_dropped_with_a_warning() {
        let collector = Collector::default();
        collector.add(chunk("a", b"half", true));
        let (artifacts, warnings) = collector.finish();
        assert!(artifacts.is_empty() && warnings[0].contains("its last part did not arrive"), "{warnings:?}");
    }

    #[test]
    fn unfinished_artifacts_of_all_calls_share_a_budget() {
        let store = Arc::new(Store::new("w1"));
        let [one, two] = ["ada", "eve"].map(|principal| Collector::new(Arc::clone(&store), principal, "draws"));
        let mut others = None;
        assert!(grow(&mut others, MAX_UNFINISHED_BYTES - 4, &store.unfinished));
        assert_eq!(one.add(chunk("a", b"1234", true)), None);
        assert_eq!(two.add(chunk("b", b"5", true)), None);
        assert!(two.add(chunk("c", b"whole", false)).is_some());
        // The artifact is complete, so its share is free.
        assert!(one.add(chunk("a", b"6", false)).is_some());
        assert_eq!(two.add(chunk("d", b"789", true)), None);
        let (artifacts, warnings) = two.finish();
        assert_eq!(artifacts.len(), 1);
        assert!(warnings[0].contains("'b.png' was dropped: the unfinished artifacts of all calls"), "{warnings:?}");
        // A call that is dropped frees its share, like one that ends.
        assert_eq!(two.add(chunk("e", b"1234", true)), None);
        drop(two);
        assert!(grow(&mut others, 4, &store.unfinished) && !grow(&mut others, 1, &store.unfinished));
    }

    #[test]
    fn a_call_has_only_so_many_artifacts_and_each_id_once() {
        let collector = Collector::default();
        for number in 0..MAX_CALL_ARTIFACTS {
            assert!(collector.add(chunk(&number.to_string(), b"x", false)).is_some());
        }
        assert_eq!(collector.add(chunk("more", b"x", true)), None);
        assert_eq!(collector.add(chunk("more", b"x", false)), None);
        assert_eq!(collector.add(chunk("0", b"x", false)), None);
        let (artifacts, warnings) = collector.finish();
        assert_eq!(artifacts.len(), MAX_CALL_ARTIFACTS);
        assert!(warnings[0].starts_with("2 artifacts"), "{warnings:?}");
    }

    #[test]
    fn a_whole_artifact_gets_an_id_that_is_free() {
        let collector = Collector::default();
        collector.add(chunk("artifact-2", b"x", false));
        let artifact = collector.add_whole("a.txt", "text/plain", b"x".to_vec()).unwrap();
        assert_eq!(artifact.id, "artifact-3");
    }
}
