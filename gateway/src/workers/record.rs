//! How a worker behaved recently, shared by the shards: ejection, health, concurrency limit.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::ejection::{Ejection, Epoch, Verdict};
use super::limit::Limit;

/// One worker's record.
#[derive(Debug)]
pub(crate) struct Record {
    book: Mutex<Book>,
    /// A copy of the limit that is read without the lock.
    limit: AtomicU32,
    /// It did not answer its last health check.
    unhealthy: AtomicBool,
}

#[derive(Debug)]
struct Book {
    ejection: Ejection,
    limit: Limit,
}

impl Default for Record {
    fn default() -> Self {
        let limit = Limit::new(1, Instant::now());
        Self {
            limit: AtomicU32::new(limit.current()),
            book: Mutex::new(Book { ejection: Ejection::default(), limit }),
            unhealthy: AtomicBool::new(false),
        }
    }
}

/// Whether a worker can take a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    Available,
    /// It failed too often, or does not answer health checks.
    Ejected,
}

/// How one call went at the worker.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CallReport {
    /// When it began.
    pub(crate) epoch: Epoch,
    pub(crate) verdict: Verdict,
    /// How long the call queued there for a slot, if it reports it.
    pub(crate) queued: Option<Duration>,
    /// The worker was overloaded and refused it.
    pub(crate) was_full: bool,
    /// Calls in flight there when it came, itself included.
    pub(crate) in_flight: u32,
}

impl Record {
    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets everything: the worker's process is a new one.
    pub(crate) fn reset(&self, capacity: u32, now: Instant) {
        let mut book = self.book();
        let limit = Limit::new(capacity, now);
        self.limit.store(limit.current(), Ordering::Relaxed);
        *book = Book { ejection: book.ejection.reset(), limit };
        self.unhealthy.store(false, Ordering::Relaxed);
    }

    /// The concurrency limit.
    pub(crate) fn limit(&self) -> u32 {
        self.limit.load(Ordering::Relaxed)
    }

    /// Whether a call may go there. How busy it is does not count: whom it refuses then is for the worker to decide, which
    /// knows the calls of all callers and gateways.
    pub(crate) fn standing(&self, now: Instant) -> Standing {
        let ejected = self.unhealthy.load(Ordering::Relaxed) || !self.book().ejection.admits(now);
        if ejected { Standing::Ejected } else { Standing::Available }
    }

    /// Whether a call may go there. If it is the probe of an ejected worker, no other may.
    pub(crate) fn claim(&self, now: Instant) -> bool {
        self.book().ejection.claim(now)
    }

    /// A call goes there.
    pub(crate) fn begin(&self, now: Instant) -> Epoch {
        self.book().ejection.begin(now)
    }

    /// The worker's slots.
    pub(crate) fn capacity(&self) -> u32 {
        self.book().limit.capacity()
    }

    /// Reports how a call ended. True if the worker is ejected from now on.
    pub(crate) fn end(&self, ended: CallReport, now: Instant, may_eject: impl FnOnce() -> bool) -> bool {
        let mut book = self.book();
        if let Some(queued) = ended.queued {
            book.limit.observe(queued, ended.in_flight, now);
        }
        if ended.was_full {
            book.limit.refused(ended.in_flight, now);
        }
        self.limit.store(book.limit.current(), Ordering::Relaxed);
        // Counting the ejected workers locks every book, this one too.
        let is_due = book.ejection.is_due(ended.epoch, ended.verdict);
        drop(book);
        let may_eject = is_due && may_eject();
        self.book().ejection.end(ended.epoch, ended.verdict, now, may_eject)
    }

    /// Notes whether it answered a health check. True if that changed.
    pub(crate) fn set_healthy(&self, healthy: bool) -> bool {
        self.unhealthy.swap(!healthy, Ordering::Relaxed) == healthy
    }

    /// Why it is ejected, if it is.
    pub(crate) fn ejection_reason(&self, now: Instant) -> Option<String> {
        if self.unhealthy.load(Ordering::Relaxed) {
            return Some("it does not answer health checks".to_owned());
        }
        let book = self.book();
        let remaining = book.ejection.remaining(now)?;
        Some(match book.ejection.is_probed() {
            true => "too many consecutive failures; a probe is in flight".to_owned(),
            false => format!("too many consecutive failures; the next probe is in {} ms", remaining.as_millis()),
        })
    }
}
