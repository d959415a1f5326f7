//! The resources of a server that clients watch, and those that have changed.

use std::collections::{BTreeMap, HashSet};

use openskill_proto::v1::ResourceUpdate;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::lists::MAX_KEY_BYTES;

/// The maximum number of watched resources per server.
const MAX_WATCHED: usize = 1000;

/// The watched resources, with the number of changes to each.
#[derive(Debug, Default)]
pub(super) struct Subscriptions(Mutex<BTreeMap<String, u64>>);

impl Subscriptions {
    /// Watches a resource. Returns false if too many are watched.
    pub(super) fn add(&self, uri: &str) -> bool {
        let mut watched = self.0.lock();
        if !watched.contains_key(uri) && (watched.len() >= MAX_WATCHED || uri.is_empty() || uri.len() > MAX_KEY_BYTES) {
            return false;
        }
        watched.entry(uri.to_owned()).or_default();
        true
    }

    /// Records a change to a resource. Returns whether the resource is watched.
    pub(super) fn note_change(&self, uri: &str) -> bool {
        self.0.lock().get_mut(uri).map(|count| *count += 1).is_some()
    }

    pub(super) fn uris(&self) -> Vec<String> {
        self.0.lock().keys().cloned().collect()
    }

    /// Returns the state of each watched resource, for gateways.
    pub(super) fn updates(&self, owner: &str) -> Vec<ResourceUpdate> {
        let update = |(uri, count): (&String, &u64)| ResourceUpdate {
            owner: owner.to_owned(),
            uri: uri.clone(),
            revision: count.to_string(),
        };
        self.0.lock().iter().map(update).collect()
    }
}

/// The resources that the server has reported as changed.
#[derive(Debug, Default)]
pub(super) struct ChangedResources {
    uris: Mutex<HashSet<String>>,
    pub(super) some: Notify,
}

impl ChangedResources {
    pub(super) fn add(&self, uri: String) {
        let mut uris = self.uris.lock();
        if uris.len() < MAX_WATCHED && uri.len() <= MAX_KEY_BYTES {
            uris.insert(uri);
            drop(uris);
            self.some.notify_one();
        }
    }

    pub(super) fn take(&self) -> HashSet<String> {
        std::mem::take(&mut *self.uris.lock())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_watched_counts_and_its_number_is_bounded() {
        let subscriptions = Subscriptions::default();
        assert!(subscriptions.add("a:b") && !subscriptions.note_change("a:c") && subscriptions.note_change("a:b"));
        let [update] = &subscriptions.updates("s")[..] else { panic!() };
        assert_eq!((update.owner.as_str(), update.uri.as_str(), update.revision.as_str()), ("s", "a:b", "1"));
        assert!((0..MAX_WATCHED - 1).all(|it| subscriptions.add(&format!("a:{it}"))));
        assert!(!subscriptions.add("a:more") && subscriptions.add("a:b") && !subscriptions.add(""));
    }

    #[test]
    fn changes_are_taken_once() {
        let changed = ChangedResources::default();
        ["a:b", "a:b", "a:c"].into_iter().for_each(|it| changed.add(it.to_owned()));
        assert_eq!((changed.take().len(), changed.take().len()), (2, 0));
    }
}
