//! The resources of a server that somebody subscribed to, and how often each changed.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use openskill_proto::v1::ResourceUpdate;
use tokio::sync::Notify;

/// How many resources of one server are watched.
const MAX_WATCHED: usize = 1000;

/// The longest URI, in bytes.
const MAX_URI_BYTES: usize = 2048;

/// Watched resources.
#[derive(Debug, Default)]
pub(super) struct Subscriptions(Mutex<BTreeMap<String, u64>>);

impl Subscriptions {
    /// Watches a resource. False if there is no room.
    pub(super) fn add(&self, uri: &str) -> bool {
        let mut watched = self.lock();
        if !watched.contains_key(uri) && (watched.len() >= MAX_WATCHED || uri.is_empty() || uri.len() > MAX_URI_BYTES) {
            return false;
        }
        watched.entry(uri.to_owned()).or_default();
        true
    }

    /// Notes that a resource has changed. Whether it is watched.
    pub(super) fn changed(&self, uri: &str) -> bool {
        self.lock().get_mut(uri).map(|count| *count += 1).is_some()
    }

    pub(super) fn uris(&self) -> Vec<String> {
        self.lock().keys().cloned().collect()
    }

    /// The state of each, for gateways.
    pub(super) fn updates(&self, owner: &str) -> Vec<ResourceUpdate> {
        let update = |(uri, count): (&String, &u64)| ResourceUpdate {
            owner: owner.to_owned(),
            uri: uri.clone(),
            revision: count.to_string(),
        };
        self.lock().iter().map(update).collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Resources that the server at the other end of a connection says have changed.
#[derive(Debug, Default)]
pub(super) struct Changed {
    uris: Mutex<HashSet<String>>,
    pub(super) some: Notify,
}

impl Changed {
    pub(super) fn add(&self, uri: String) {
        let mut uris = self.uris.lock().unwrap_or_else(PoisonError::into_inner);
        if uris.len() < MAX_WATCHED && uri.len() <= MAX_URI_BYTES {
            uris.insert(uri);
            drop(uris);
            self.some.notify_one();
        }
    }

    pub(super) fn take(&self) -> HashSet<String> {
        std::mem::take(&mut *self.uris.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_watched_counts_and_its_number_is_bounded() {
        let subscriptions = Subscriptions::default();
        assert!(subscriptions.add("a:b") && !subscriptions.changed("a:c") && subscriptions.changed("a:b"));
        let [update] = &subscriptions.updates("s")[..] else { panic!() };
        assert_eq!((update.owner.as_str(), update.uri.as_str(), update.revision.as_str()), ("s", "a:b", "1"));
        assert!((0..MAX_WATCHED - 1).all(|it| subscriptions.add(&format!("a:{it}"))));
        assert!(!subscriptions.add("a:more") && subscriptions.add("a:b") && !subscriptions.add(""));
    }

    #[test]
    fn changes_are_taken_once() {
        let changed = Changed::default();
        ["a:b", "a:b", "a:c"].into_iter().for_each(|it| changed.add(it.to_owned()));
        assert_eq!((changed.take().len(), changed.take().len()), (2, 0));
    }
}
