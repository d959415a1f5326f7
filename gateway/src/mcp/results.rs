//! Results that are too long for a client to get at once. Each is its caller's alone, for a while, and their room is bounded.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use openskill_proto::trace::{hex, random_id};

/// How long a result is kept.
pub(crate) const LIFETIME: Duration = Duration::from_secs(15 * 60);

/// How much is kept of all results, in bytes. The oldest make room.
const MAX_BYTES: usize = 64 * 1024 * 1024;

/// A result.
#[derive(Debug)]
pub(crate) struct Long {
    owner: String,
    /// Its type.
    pub(crate) media_type: &'static str,
    /// All of it.
    pub(crate) text: String,
}

/// All results that are kept.
#[derive(Debug, Default)]
pub(crate) struct Results(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    by_id: HashMap<String, Arc<Long>>,
    /// The oldest first.
    order: VecDeque<(Instant, String)>,
    bytes: usize,
}

impl Results {
    /// Keeps a text for its owner. Returns its id; none if there is no room for it.
    pub(crate) fn keep(&self, owner: &str, media_type: &'static str, text: String, now: Instant) -> Option<String> {
        if text.len() > MAX_BYTES {
            return None;
        }
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.bytes += text.len();
        kept.forget(now);
        let id = hex(&random_id::<16>());
        kept.by_id.insert(id.clone(), Arc::new(Long { owner: owner.to_owned(), media_type, text }));
        kept.order.push_back((now, id.clone()));
        Some(id)
    }

    /// A result of this owner. None if it is not kept, or somebody else's.
    pub(crate) fn get(&self, owner: &str, id: &str, now: Instant) -> Option<Arc<Long>> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.forget(now);
        kept.by_id.get(id).filter(|it| it.owner == owner).cloned()
    }
}

impl Kept {
    fn forget(&mut self, now: Instant) {
        while let Some((at, id)) = self.order.front() {
            if now.saturating_duration_since(*at) < LIFETIME && self.bytes <= MAX_BYTES {
                return;
            }
            self.bytes -= self.by_id.remove(id).map_or(0, |it| it.text.len());
            self.order.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_is_its_owners_alone_and_for_a_while() {
        let (results, now) = (Results::default(), Instant::now());
        let id = results.keep("ada", "text/plain", "long".to_owned(), now).unwrap();
        assert_eq!(results.get("ada", &id, now).unwrap().text, "long");
        assert!(results.get("bob", &id, now).is_none() && results.get("ada", "x", now).is_none());
        assert!(results.get("ada", &id, now + LIFETIME).is_none());
    }

    #[test]
    fn the_oldest_make_room() {
        let (results, now) = (Results::default(), Instant::now());
        let keep = |bytes: usize| results.keep("", "text/plain", "x".repeat(bytes), now);
        let (first, second) = (keep(MAX_BYTES / 2).unwrap(), keep(MAX_BYTES / 2).unwrap());
        let third = keep(1).unwrap();
        let is_kept = |id: &str| results.get("", id, now).is_some();
        assert!(!is_kept(&first) && is_kept(&second) && is_kept(&third));
        assert!(keep(MAX_BYTES + 1).is_none() && is_kept(&third));
    }
}
