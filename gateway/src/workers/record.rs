//! How a worker has done of late, shared by the shards: whether it fails, whether it answers, how many calls it may have.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::ejection::{Conduct, Ejection, Era};
use super::limit::Limit;

/// One worker's record.
#[derive(Debug)]
pub(crate) struct Record {
    book: Mutex<Book>,
    /// The limit, for those that only read it.
    limit: AtomicU32,
    /// It did not answer when it was asked for its health.
    silent: AtomicBool,
}

#[derive(Debug)]
struct Book {
    ejection: Ejection,
    limit: Limit,
    /// How long calls ran there of late, whatever their skill: how soon a place is free.
    usual_run: Duration,
}

impl Default for Record {
    fn default() -> Self {
        let limit = Limit::new(1, Instant::now());
        Self {
            limit: AtomicU32::new(limit.current()),
            book: Mutex::new(Book { ejection: Ejection::default(), limit, usual_run: Duration::ZERO }),
            silent: AtomicBool::new(false),
        }
    }
}

/// Whether a worker is a choice for a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    Fit,
    /// It has as many calls as it may have, or the call would wait there past its deadline.
    Full,
    /// It fails, or does not answer.
    Out,
}

/// How one call went at the worker.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ended {
    /// When it began.
    pub(crate) era: Era,
    pub(crate) conduct: Conduct,
    /// How long the call waited there for a free place, if it says.
    pub(crate) waited: Option<Duration>,
    /// How long it then ran, if it came that far.
    pub(crate) ran: Option<Duration>,
    /// The worker had no place for it.
    pub(crate) was_full: bool,
    /// Calls there when it came, with it.
    pub(crate) in_flight: u32,
}

impl Book {
    /// How long a call is likely to wait for a place behind `in_flight` others, and a quarter more: too late is worse
    /// than too careful, since a call that is ended half way has cost what another could have used.
    fn wait_of(&self, in_flight: u32) -> Duration {
        let capacity = self.limit.capacity();
        let ahead = (in_flight + 1).saturating_sub(capacity);
        self.usual_run.saturating_mul(ahead) / capacity * 5 / 4
    }
}

impl Record {
    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The worker's process is a new one.
    pub(crate) fn begin_anew(&self, capacity: u32, now: Instant) {
        let mut book = self.book();
        let limit = Limit::new(capacity, now);
        self.limit.store(limit.current(), Ordering::Relaxed);
        *book = Book { ejection: book.ejection.anew(), limit, usual_run: Duration::ZERO };
        self.silent.store(false, Ordering::Relaxed);
    }

    /// How many calls it may have at once.
    pub(crate) fn limit(&self) -> u32 {
        self.limit.load(Ordering::Relaxed)
    }

    /// Whether a call that may wait so long may go there, beside `in_flight` others. Without `adaptive` only the worker
    /// itself says when it is full.
    pub(crate) fn standing(&self, in_flight: u32, may_wait: Duration, adaptive: bool, now: Instant) -> Standing {
        let book = self.book();
        // Admission keeps the sum of all limits, but for modest sessions; one worker may have half as much again.
        let too_many = in_flight >= book.limit.current() + book.limit.current() / 2;
        let too_late = book.wait_of(in_flight) > may_wait;
        if adaptive && (too_many || too_late) {
            return Standing::Full;
        }
        if self.silent.load(Ordering::Relaxed) || !book.ejection.is_in(now) { Standing::Out } else { Standing::Fit }
    }

    /// Whether a call may go there; if it is the one that tries an ejected worker, no other may.
    pub(crate) fn claim(&self, now: Instant) -> bool {
        self.book().ejection.claim(now)
    }

    /// A call goes there.
    pub(crate) fn begin(&self, now: Instant) -> Era {
        self.book().ejection.begin(now)
    }

    /// How many calls the worker runs at once.
    pub(crate) fn capacity(&self) -> u32 {
        self.book().limit.capacity()
    }

    /// A call came back. True if the worker is left out from now on.
    pub(crate) fn end(&self, ended: Ended, now: Instant, may_eject: impl FnOnce() -> bool) -> bool {
        let mut book = self.book();
        if let Some(ran) = ended.ran {
            book.usual_run = if book.usual_run.is_zero() { ran } else { (book.usual_run * 7 + ran) / 8 };
        }
        if let Some(waited) = ended.waited {
            book.limit.observe(waited, ended.in_flight, now);
        }
        if ended.was_full {
            book.limit.refused(ended.in_flight, now);
        }
        self.limit.store(book.limit.current(), Ordering::Relaxed);
        // Counting the others looks at every book, this one too.
        let out = book.ejection.is_due(ended.era, ended.conduct);
        drop(book);
        let may_eject = out && may_eject();
        self.book().ejection.end(ended.era, ended.conduct, now, may_eject)
    }

    /// Whether it answered when it was asked for its health. True if that is news.
    pub(crate) fn answers(&self, answers: bool) -> bool {
        self.silent.swap(!answers, Ordering::Relaxed) == answers
    }

    /// Why it is left out, if it is.
    pub(crate) fn why_out(&self, now: Instant) -> Option<String> {
        if self.silent.load(Ordering::Relaxed) {
            return Some("it does not answer when it is asked for its health".to_owned());
        }
        let book = self.book();
        let out_for = book.ejection.out_for(now)?;
        Some(match book.ejection.is_tried() {
            true => "it failed too often in a row; a call tries it now".to_owned(),
            false => format!("it failed too often in a row; a call tries it again in {} ms", out_for.as_millis()),
        })
    }
}
