//! An in-memory index of recent calls: the data for lists, and the locations of the events. Bounded by calls and by
//! bytes.

use std::collections::VecDeque;
use std::sync::Arc;

use openskill_proto::v1::{TraceFilter, TraceSummary};

use super::folder::Segment;

/// The maximum number of calls in the index.
const MAX_CALLS: usize = 50_000;

/// The maximum number of bytes of events that are kept in memory, because they are not in a file.
const MAX_MEMORY_BYTES: usize = 32 * 1024 * 1024;

/// What lists show of a call. Ids are already hashed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Summary {
    pub(super) trace_id: Box<str>,
    pub(super) call_id: Box<str>,
    pub(super) skill_id: Arc<str>,
    /// Empty for the anonymous principal.
    pub(super) principal: Arc<str>,
    /// Empty if the call has no session.
    pub(super) session_id: Box<str>,
    pub(super) received_us: u64,
    pub(super) duration_us: u64,
    pub(super) code: &'static str,
    pub(super) attempts: u32,
    pub(super) repairs: u32,
    pub(super) worker_id: Arc<str>,
}

/// Where a call's recorded events are.
#[derive(Debug, Clone)]
pub(super) enum EventLocation {
    Memory(Arc<[u8]>),
    File { segment: Arc<Segment>, start: u64, bytes: usize },
}

/// A recorded call, as the index stores it.
#[derive(Debug)]
pub(super) struct IndexEntry {
    /// Increases with each call.
    pub(super) number: u64,
    pub(super) summary: Summary,
    pub(super) location: EventLocation,
}

/// Selects the calls for a reader.
#[derive(Debug)]
pub(super) struct Choice {
    /// The filter. Its session id may be the hash that lists show.
    pub(super) wanted: TraceFilter,
    /// The hash of the filter's session id, in case that is the original id.
    pub(super) session: Box<str>,
    /// The only principal whose calls the reader may see. None: all principals.
    pub(super) only: Option<String>,
}

/// The recent calls, latest last.
#[derive(Debug, Default)]
pub(super) struct CallIndex {
    entries: VecDeque<IndexEntry>,
    next: u64,
    in_memory: usize,
}

impl Summary {
    pub(super) fn to_wire(&self) -> TraceSummary {
        TraceSummary {
            trace_id: self.trace_id.to_string(),
            call_id: self.call_id.to_string(),
            skill_id: self.skill_id.to_string(),
            principal: self.principal.to_string(),
            session_id: self.session_id.to_string(),
            received_us: self.received_us,
            duration_us: self.duration_us,
            code: self.code.to_owned(),
            attempts: self.attempts,
            repairs: self.repairs,
            worker_id: self.worker_id.to_string(),
        }
    }
}

impl EventLocation {
    fn memory(&self) -> usize {
        if let Self::Memory(_) = self { self.bytes() } else { 0 }
    }

    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Memory(lines) => lines.len(),
            Self::File { bytes, .. } => *bytes,
        }
    }

    fn is_in(&self, gone: &[Arc<Segment>]) -> bool {
        matches!(self, Self::File { segment, .. } if gone.iter().any(|it| Arc::ptr_eq(segment, it)))
    }
}

impl Choice {
    pub(super) fn has(&self, call: &Summary) -> bool {
        let wanted = &self.wanted;
        let is = |wanted: &str, actual: &str| wanted.is_empty() || wanted == actual;
        let is_sent = !self.session.is_empty() && self.session == call.session_id;
        let is_shown = wanted.session_id.is_empty() || *call.session_id == *wanted.session_id;
        self.may_see(call)
            && is(&wanted.skill_id, &call.skill_id)
            && is(&wanted.code, call.code)
            && is(&wanted.principal, &call.principal)
            && (is_shown || is_sent)
            && call.duration_us >= wanted.min_duration_us
            && call.received_us >= wanted.since_us
            && (wanted.until_us == 0 || call.received_us < wanted.until_us)
    }

    /// Whether the reader may see the call at all.
    pub(super) fn may_see(&self, call: &Summary) -> bool {
        self.only.as_deref().is_none_or(|only| only == &*call.principal)
    }
}

impl CallIndex {
    pub(super) fn push(&mut self, summary: Summary, location: EventLocation) {
        self.in_memory += location.memory();
        self.entries.push_back(IndexEntry { number: self.next, summary, location });
        self.next += 1;
        while self.entries.len() > MAX_CALLS {
            self.forget_oldest();
        }
        while self.in_memory > MAX_MEMORY_BYTES {
            match self.entries.front() {
                Some(IndexEntry { location: EventLocation::File { .. }, .. }) | None => self.spare_files(),
                Some(_) => self.forget_oldest(),
            }
        }
    }

    fn forget_oldest(&mut self) {
        if let Some(oldest) = self.entries.pop_front() {
            self.in_memory -= oldest.location.memory();
        }
    }

    /// Forgets the oldest calls whose events are in memory. Keeps calls in files, regardless of age, because their
    /// events take no memory. Scans all calls, so it frees much at once in order to run rarely.
    fn spare_files(&mut self) {
        let mut in_memory = self.in_memory;
        self.entries.retain(|entry| {
            let goes = entry.location.memory() > 0 && in_memory > MAX_MEMORY_BYTES / 4 * 3;
            in_memory -= if goes { entry.location.memory() } else { 0 };
            !goes
        });
        self.in_memory = in_memory;
    }

    /// Forgets the calls whose events were in removed files.
    pub(super) fn forget(&mut self, gone: &[Arc<Segment>]) {
        if !gone.is_empty() {
            self.entries.retain(|entry| !entry.location.is_in(gone));
        }
    }

    /// Returns the latest calls with numbers below `below`, at most `limit`, and the `below` of the next page.
    pub(super) fn page(&self, choice: &Choice, below: u64, limit: usize) -> (Vec<TraceSummary>, Option<u64>) {
        let older = self.entries.iter().rev().skip_while(|entry| entry.number >= below);
        let mut chosen = older.filter(|entry| choice.has(&entry.summary));
        let (mut calls, mut last) = (Vec::new(), 0);
        for entry in chosen.by_ref().take(limit) {
            calls.push(entry.summary.to_wire());
            last = entry.number;
        }
        let has_more = !calls.is_empty() && chosen.next().is_some();
        (calls, has_more.then_some(last))
    }

    /// Returns the event locations of the calls that `is_wanted` accepts, earliest first.
    pub(super) fn locations(&self, is_wanted: impl Fn(&Summary) -> bool) -> Vec<EventLocation> {
        self.entries.iter().filter(|it| is_wanted(&it.summary)).map(|it| it.location.clone()).collect()
    }
}

#[cfg(test)]
impl Summary {
    /// A successful call of `echo`.
    pub(super) fn sample(trace_id: &str) -> Self {
        Self {
            trace_id: trace_id.into(),
            call_id: "c".into(),
            skill_id: "echo".into(),
            principal: "".into(),
            session_id: "".into(),
            received_us: 10,
            duration_us: 20,
            code: "OK",
            attempts: 1,
            repairs: 0,
            worker_id: "w".into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(bytes: usize) -> EventLocation {
        EventLocation::Memory(vec![0; bytes].into())
    }

    fn all() -> Choice {
        Choice { wanted: TraceFilter::default(), session: "".into(), only: None }
    }

    fn ids(calls: &[TraceSummary]) -> Vec<&str> {
        calls.iter().map(|it| it.trace_id.as_str()).collect()
    }

    #[test]
    fn pages_begin_with_the_latest_call_and_end_with_the_first() {
        let mut index = CallIndex::default();
        ["a", "b", "c", "d", "e"].into_iter().for_each(|id| index.push(Summary::sample(id), place(1)));
        let (calls, next) = index.page(&all(), u64::MAX, 2);
        assert_eq!((ids(&calls), next), (vec!["e", "d"], Some(3)));
        // A call that ends between two pages changes neither.
        index.push(Summary::sample("f"), place(1));
        let (calls, next) = index.page(&all(), 3, 2);
        assert_eq!((ids(&calls), next), (vec!["c", "b"], Some(1)));
        assert_eq!(index.page(&all(), 1, 2).1, None);
    }

    #[test]
    fn each_filter_chooses() {
        let other = Summary {
            skill_id: "other".into(),
            principal: "p".into(),
            session_id: "s".into(),
            received_us: 100,
            duration_us: 200,
            code: "TIMEOUT",
            ..Summary::sample("o")
        };
        let mut index = CallIndex::default();
        [Summary::sample("a"), other].into_iter().for_each(|it| index.push(it, place(1)));
        let base = TraceFilter::default;
        for wanted in [
            TraceFilter { skill_id: "other".to_owned(), ..base() },
            TraceFilter { code: "TIMEOUT".to_owned(), ..base() },
            TraceFilter { principal: "p".to_owned(), ..base() },
            TraceFilter { session_id: "s".to_owned(), ..base() },
            TraceFilter { min_duration_us: 21, ..base() },
            TraceFilter { since_us: 11, ..base() },
        ] {
            let choice = Choice { wanted, ..all() };
            assert_eq!(ids(&index.page(&choice, u64::MAX, 10).0), ["o"], "{choice:?}");
        }
        let wanted = TraceFilter { session_id: "as it was sent".to_owned(), ..base() };
        let sent = Choice { wanted, session: "s".into(), only: None };
        assert_eq!(ids(&index.page(&sent, u64::MAX, 10).0), ["o"]);
        let until = Choice { wanted: TraceFilter { until_us: 100, ..base() }, ..all() };
        assert_eq!(ids(&index.page(&until, u64::MAX, 10).0), ["a"]);
        let own = Choice { only: Some(String::new()), ..all() };
        assert_eq!(ids(&index.page(&own, u64::MAX, 10).0), ["a"], "the anonymous principal sees its own calls");
    }

    #[test]
    fn calls_in_memory_do_not_push_out_calls_in_files() {
        let base = std::env::temp_dir().join(format!("openskill-index-{}", rand::random::<u64>()));
        let folder = std::sync::Arc::new(super::super::folder::TraceFolder::open(&base).unwrap());
        std::fs::remove_dir_all(&base).unwrap();
        let segment = Segment::new(&folder, "trace-1.jsonl".to_owned());
        let in_file = || EventLocation::File { segment: Arc::clone(&segment), start: 0, bytes: 10 };
        let mut index = CallIndex::default();
        (0..5).for_each(|_| index.push(Summary::sample("file"), in_file()));
        (0..20).for_each(|_| index.push(Summary::sample("memory"), place(MAX_MEMORY_BYTES / 8)));
        let (calls, _) = index.page(&all(), u64::MAX, 100);
        let count = |id: &str| ids(&calls).into_iter().filter(|it| *it == id).count();
        assert!(index.in_memory <= MAX_MEMORY_BYTES && (6..=8).contains(&count("memory")), "{}", index.in_memory);
        assert_eq!(count("file"), 5);
    }

    #[test]
    fn calls_and_memory_are_bounded() {
        let mut index = CallIndex::default();
        (0..MAX_CALLS + 10).for_each(|_| index.push(Summary::sample("a"), place(0)));
        assert_eq!(index.entries.len(), MAX_CALLS);
        (0..10).for_each(|_| index.push(Summary::sample("b"), place(MAX_MEMORY_BYTES / 4)));
        assert_eq!((index.entries.len(), index.in_memory), (4, MAX_MEMORY_BYTES));
    }
}
