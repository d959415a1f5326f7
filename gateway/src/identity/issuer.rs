//! An issuer of tokens, with the public keys from the last read.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use openskill_identity::jwt::issuers::Issuer;
use openskill_identity::jwt::jwk::PublicKey;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

/// The minimum time between two reads that unknown keys cause, so that callers can't make the gateway read
/// constantly.
pub(super) const MIN_INTERVAL: Duration = Duration::from_secs(10);

/// How long a request waits while keys are being read.
const PATIENCE: Duration = Duration::from_secs(6);

#[derive(Debug)]
pub(crate) struct LiveIssuer {
    pub(super) issuer: Issuer,
    keys: ArcSwap<Vec<LiveKey>>,
    /// The state of reading keys.
    reading: Mutex<Reading>,
    /// Requests another read of the keys.
    pub(super) wanted: Notify,
    /// Counts finished reads.
    ended_readings: watch::Sender<u64>,
    /// Cancelled when the file of issuers no longer contains this issuer, or changes it.
    pub(super) ended: CancellationToken,
}

/// A key in use.
#[derive(Debug, Clone)]
pub(super) struct LiveKey {
    pub(super) key: Arc<PublicKey>,
    /// Cancelled when the issuer no longer publishes the key.
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

    /// The current keys. Empty if they were never read, or the last read was too long ago.
    pub(super) fn keys(&self) -> Arc<Vec<LiveKey>> {
        self.keys.load_full()
    }

    /// Replaces the keys. Ends the tokens, and their streams, whose keys are gone.
    pub(super) fn replace(&self, keys: Vec<PublicKey>) {
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
        *self.reading.lock() = Reading { is_under_way: true, begun: Some(Instant::now()) };
    }

    pub(super) fn reading_ended(&self) {
        self.reading.lock().is_under_way = false;
        self.ended_readings.send_modify(|count| *count += 1);
    }

    /// Whether a read is in progress, or may start because of an unknown key.
    pub(super) fn may_learn(&self) -> bool {
        let reading = self.reading.lock();
        reading.is_under_way || reading.begun.is_none_or(|it| it.elapsed() >= MIN_INTERVAL)
    }

    /// Requests another read of the keys, and waits for it up to a timeout.
    pub(crate) async fn wait_for_refresh(&self) {
        let mut readings = self.ended_readings.subscribe();
        readings.mark_unchanged();
        if !self.reading.lock().is_under_way {
            self.wanted.notify_one();
        }
        let _ = tokio::time::timeout(PATIENCE, readings.changed()).await;
    }
}
