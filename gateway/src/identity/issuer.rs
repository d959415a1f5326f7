//! One issuer of tokens, and its public keys as they were read last.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use openskill_identity::jwt::issuers::Issuer;
use openskill_identity::jwt::jwk::Key;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

/// Between two readings that tokens with unknown keys cause: nobody can make the gateway read again and again.
pub(super) const MIN_INTERVAL: Duration = Duration::from_secs(10);

/// How long a request waits for keys that are being read.
const PATIENCE: Duration = Duration::from_secs(6);

/// An issuer.
#[derive(Debug)]
pub(crate) struct LiveIssuer {
    pub(super) issuer: Issuer,
    keys: ArcSwap<Vec<LiveKey>>,
    /// When keys are to be read, and whether they are being read now.
    reading: Mutex<Reading>,
    /// Asks for another reading.
    pub(super) wanted: Notify,
    /// Counts readings that ended.
    ended_readings: watch::Sender<u64>,
    /// Cancelled when the file no longer has this issuer as it is.
    pub(super) ended: CancellationToken,
}

/// A key in use.
#[derive(Debug, Clone)]
pub(super) struct LiveKey {
    pub(super) key: Arc<Key>,
    /// Cancelled when the issuer has it no longer.
    pub(super) ended: CancellationToken,
}

#[derive(Debug, Default)]
struct Reading {
    is_under_way: bool,
    begun: Option<Instant>,
}

impl LiveIssuer {
    pub(super) fn new(issuer: Issuer) -> Arc<Self> {
        Arc::new(Self {
            issuer,
            keys: ArcSwap::default(),
            reading: Mutex::default(),
            wanted: Notify::new(),
            ended_readings: watch::Sender::new(0),
            ended: CancellationToken::new(),
        })
    }

    /// The keys now. None if they were never read, or too long ago.
    pub(super) fn keys(&self) -> Arc<Vec<LiveKey>> {
        self.keys.load_full()
    }

    /// Takes the keys of a reading. Tokens of keys that are gone end with their streams.
    pub(super) fn replace(&self, keys: Vec<Key>) {
        let before = self.keys();
        let live = keys.into_iter().map(|key| {
            let same = before.iter().find(|it| *it.key == key);
            same.cloned().unwrap_or_else(|| LiveKey { key: Arc::new(key), ended: self.ended.child_token() })
        });
        let live: Vec<_> = live.collect();
        let is_gone = |old: &&LiveKey| !live.iter().any(|new| Arc::ptr_eq(&new.key, &old.key));
        let gone: Vec<_> = before.iter().filter(is_gone).map(|it| it.ended.clone()).collect();
        self.keys.store(Arc::new(live));
        gone.iter().for_each(CancellationToken::cancel);
    }

    pub(super) fn reading_began(&self) {
        *self.lock() = Reading { is_under_way: true, begun: Some(Instant::now()) };
    }

    pub(super) fn reading_ended(&self) {
        self.lock().is_under_way = false;
        self.ended_readings.send_modify(|count| *count += 1);
    }

    /// Whether a reading is under way, or may begin because of an unknown key.
    pub(super) fn may_learn(&self) -> bool {
        let reading = self.lock();
        reading.is_under_way || reading.begun.is_none_or(|it| it.elapsed() >= MIN_INTERVAL)
    }

    /// Waits until the keys were read again, for a bounded time.
    pub(crate) async fn learned(&self) {
        let mut readings = self.ended_readings.subscribe();
        readings.mark_unchanged();
        if !self.lock().is_under_way {
            self.wanted.notify_one();
        }
        let _ = tokio::time::timeout(PATIENCE, readings.changed()).await;
    }

    /// The file of keys' authorities, for the log.
    pub(super) fn ca(&self) -> Option<&PathBuf> {
        self.issuer.ca.as_ref()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Reading> {
        self.reading.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
