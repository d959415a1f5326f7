//! Which sessions there are, and who uses them. Knows nothing of processes: `P` is whatever is kept.
//!
//! ```text
//! (none) ──take──> leased ──give back──> idle ──take──> leased ...
//!                    └──dropped──> gone    └──closed, evicted, idle for long, old, of an old version──> gone
//! ```
//!
//! A session that is for one call has no name. Those and the named ones are counted apart, each against the same bounds, so
//! that neither takes the room of the other. Only named sessions that are idle are evicted, and only for named ones.

use std::cmp::Reverse;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::key::{Key, Owner};

/// Limits on the number and the lifetime of sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Named sessions of one caller, and as many that are for one call.
    pub per_caller: usize,
    /// Named sessions of the worker, and as many that are for one call.
    pub per_worker: usize,
    /// How long a session may be idle.
    pub idle: Duration,
    /// The maximum age of a session. It ends between two calls.
    pub age: Duration,
}

impl Bounds {
    /// Sessions of one principal, whatever call sessions it uses. Anonymous callers are not one principal: they may use all,
    /// and are evicted in favor of each other.
    pub(crate) fn per_principal(&self) -> usize {
        self.per_worker.div_ceil(2)
    }
}

/// What a new session depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Terms {
    /// Identifies a skill and one version of its manifest. A session is never reused by another maker.
    pub(crate) maker: u64,
    /// How many sessions of one owner and this maker fit into the memory limit.
    pub(crate) together: usize,
}

/// The sessions of a worker.
pub(crate) struct Book<P> {
    bounds: Bounds,
    state: Mutex<State<P>>,
    /// Notified when a session is given back or removed.
    freed: Notify,
}

struct State<P> {
    entries: Vec<Entry<P>>,
    last: u64,
    closed: bool,
}

struct Entry<P> {
    number: u64,
    key: Key,
    maker: u64,
    /// None: it is leased.
    idle: Option<P>,
    created: Instant,
    used: Instant,
    cells: u64,
    /// Cancelled when the session is closed while it is leased.
    stop: CancellationToken,
}

/// Why there is no session for a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Another call is using it.
    Busy,
    /// The caller has reached its limit, and none of its sessions can be evicted.
    CallerFull,
    /// The caller's sessions can already use all of their memory limit.
    MemoryFull,
    /// The principal has reached its limit.
    PrincipalFull,
    /// The worker has reached its limit.
    WorkerFull,
    /// The worker is shutting down.
    Closed,
}

/// A session in use. Dropping it ends the session.
pub(crate) struct Lease<P> {
    book: Arc<Book<P>>,
    number: u64,
    /// `None` for a new session, which has no process yet.
    pub(crate) process: Option<P>,
    /// How many calls it has had.
    pub(crate) cells: u64,
    /// Cancelled when somebody closes the session.
    pub(crate) stop: CancellationToken,
    /// The session ends with this call.
    pub(crate) fleeting: bool,
}

/// A session as its owner sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Listed {
    pub(crate) name: String,
    pub(crate) busy: bool,
    pub(crate) cells: u64,
    pub(crate) age: Duration,
    /// Time since its last call ended; zero while a call runs.
    pub(crate) idle: Duration,
}

impl<P> Book<P> {
    pub(crate) fn new(bounds: Bounds) -> Arc<Self> {
        let state = State { entries: Vec::new(), last: 0, closed: false };
        Arc::new(Self { bounds, state: Mutex::new(state), freed: Notify::new() })
    }

    /// Leases the session of this key and maker, or creates one. Waits until `until` while another call uses it or a limit is
    /// reached: the process of a call that was answered may still be ending.
    ///
    /// # Errors
    /// The session is in use, or a limit is reached.
    pub(crate) async fn take(self: &Arc<Self>, key: &Key, terms: Terms, until: Instant) -> Result<Lease<P>, Refusal> {
        loop {
            let mut freed = std::pin::pin!(self.freed.notified());
            // Registered before the check, so that no notification in between is missed.
            freed.as_mut().enable();
            let refusal = match self.try_take(key, terms, Instant::now()) {
                Ok(lease) => return Ok(lease),
                Err(Refusal::Closed) => return Err(Refusal::Closed),
                Err(refusal) => refusal,
            };
            if tokio::time::timeout_at(until.into(), freed).await.is_err() {
                return Err(refusal);
            }
        }
    }

    fn try_take(self: &Arc<Self>, key: &Key, terms: Terms, now: Instant) -> Result<Lease<P>, Refusal> {
        // Declared before the guard, so that evicted sessions are dropped after the lock is released.
        let mut evicted = Vec::new();
        let mut state = self.lock();
        if state.closed {
            return Err(Refusal::Closed);
        }
        let is_it = |it: &Entry<P>| it.key == *key && it.maker == terms.maker;
        let there = key.name.as_ref().and_then(|_| state.entries.iter().position(is_it));
        if let Some(at) = there.filter(|at| state.entries[*at].is_over(&self.bounds, now)) {
            evicted.push(state.entries.swap_remove(at));
        } else if let Some(at) = there {
            let entry = &mut state.entries[at];
            let process = entry.idle.take().ok_or(Refusal::Busy)?;
            return Ok(self.lease(entry, Some(process)));
        }
        while let Some(refusal) = state.full(key, terms, &self.bounds) {
            let victim = state.victim(key, terms, refusal).ok_or(refusal)?;
            evicted.push(state.entries.swap_remove(victim));
        }
        state.last += 1;
        let (number, stop) = (state.last, CancellationToken::new());
        let (key, maker) = (key.clone(), terms.maker);
        state.entries.push(Entry { number, key, maker, idle: None, created: now, used: now, cells: 0, stop });
        state.entries.last_mut().map(|entry| self.lease(entry, None)).ok_or(Refusal::Closed)
    }

    fn lease(self: &Arc<Self>, entry: &mut Entry<P>, process: Option<P>) -> Lease<P> {
        entry.cells += 1;
        Lease {
            book: Arc::clone(self),
            number: entry.number,
            process,
            cells: entry.cells,
            stop: entry.stop.clone(),
            fleeting: entry.key.name.is_none(),
        }
    }

    /// Whether there is a session of this key and maker.
    pub(crate) fn holds(&self, key: &Key, maker: u64) -> bool {
        self.lock().entries.iter().any(|it| it.key == *key && it.maker == maker)
    }

    /// The named sessions of a caller, oldest first.
    pub(crate) fn list(&self, owner: &Owner, now: Instant) -> Vec<Listed> {
        let state = self.lock();
        let mut own: Vec<_> = state.entries.iter().filter(|it| it.key.owner == *owner).collect();
        own.sort_by_key(|it| it.number);
        let listed = |it: &Entry<P>| {
            let busy = it.idle.is_none();
            let idle = if busy { Duration::ZERO } else { now.saturating_duration_since(it.used) };
            let age = now.saturating_duration_since(it.created);
            Some(Listed { name: it.key.name.clone()?, busy, cells: it.cells, age, idle })
        };
        own.into_iter().filter_map(listed).collect()
    }

    /// Ends a session, even one that is in use. Returns whether it existed.
    pub(crate) fn close(&self, owner: &Owner, name: &str) -> bool {
        let closed = self.remove(|it| it.key.owner == *owner && it.key.name.as_deref() == Some(name));
        !closed.is_empty()
    }

    /// Ends the sessions of a caller that were idle for this long or have expired. Returns their names.
    pub(crate) fn clean(&self, owner: &Owner, idle: Duration, now: Instant) -> Vec<String> {
        let unused = |it: &Entry<P>| it.idle.is_some() && now.saturating_duration_since(it.used) >= idle;
        let bounds = self.bounds;
        let mut closed = self.remove(|it| it.key.owner == *owner && (unused(it) || it.is_over(&bounds, now)));
        closed.sort();
        closed
    }

    /// Ends idle sessions that have expired or whose process is dead. Returns how many.
    pub(crate) fn expire(&self, now: Instant, is_alive: impl Fn(&P) -> bool) -> usize {
        let bounds = self.bounds;
        self.remove(|it| it.is_over(&bounds, now) || it.idle.as_ref().is_some_and(|idle| !is_alive(idle))).len()
    }

    /// Ends the sessions whose maker is gone. A session in use ends with its call.
    pub(crate) fn clear(&self, is_gone: impl Fn(u64) -> bool) {
        self.take_out(|it| is_gone(it.maker));
    }

    /// Ends all sessions and refuses new ones.
    pub(crate) fn shut(&self) {
        self.lock().closed = true;
        self.remove(|_| true);
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.lock().entries.len()
    }

    /// How many of them have a call.
    pub(crate) fn busy(&self) -> usize {
        self.lock().entries.iter().filter(|it| it.idle.is_none()).count()
    }

    pub(crate) fn bounds(&self) -> Bounds {
        self.bounds
    }

    /// Removes entries and ends their sessions, even those in use. Returns their names.
    fn remove(&self, which: impl Fn(&Entry<P>) -> bool) -> Vec<String> {
        let removed = self.take_out(which);
        removed.iter().for_each(|it| it.stop.cancel());
        removed.into_iter().map(|it| it.key.name.unwrap_or_default()).collect()
    }

    /// Removes entries, which the caller drops without the lock. Wakes calls that wait.
    fn take_out(&self, which: impl Fn(&Entry<P>) -> bool) -> Vec<Entry<P>> {
        let removed: Vec<_> = self.lock().entries.extract_if(.., |it| which(it)).collect();
        if !removed.is_empty() {
            self.freed.notify_waiters();
        }
        removed
    }

    fn lock(&self) -> MutexGuard<'_, State<P>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<P> State<P> {
    /// The limit that one more session would exceed.
    fn full(&self, key: &Key, terms: Terms, bounds: &Bounds) -> Option<Refusal> {
        let owner = &key.owner;
        let of_kind = |it: &&Entry<P>| it.key.name.is_some() == key.name.is_some();
        let count =
            |which: &dyn Fn(&Entry<P>) -> bool| self.entries.iter().filter(of_kind).filter(|it| which(it)).count();
        let together = self.entries.iter().filter(|it| it.is_beside(owner, terms)).count();
        let of_principal = count(&|it| it.key.owner.principal == owner.principal);
        match () {
            () if together >= terms.together => Some(Refusal::MemoryFull),
            () if count(&|it| it.key.owner == *owner) >= bounds.per_caller => Some(Refusal::CallerFull),
            () if !owner.principal.is_empty() && of_principal >= bounds.per_principal() => Some(Refusal::PrincipalFull),
            () if count(&|_| true) >= bounds.per_worker => Some(Refusal::WorkerFull),
            () => None,
        }
    }

    /// The session to evict: of the candidates, the least recently used one of the owner with the most.
    fn victim(&self, key: &Key, terms: Terms, refusal: Refusal) -> Option<usize> {
        // A call that keeps no state never evicts state.
        key.name.as_ref()?;
        let asks = &key.owner;
        let count = |which: &dyn Fn(&Owner) -> bool| {
            self.entries.iter().filter(|it| it.key.name.is_some() && which(&it.key.owner)).count()
        };
        let of_principal = |of: &Owner| count(&|it| it.principal == of.principal);
        let of_owner = |of: &Owner| count(&|it| it == of);
        let makes_room = |it: &Entry<P>| {
            let owner = &it.key.owner;
            let is_own = owner == asks;
            let of_same = owner.principal == asks.principal;
            match refusal {
                Refusal::MemoryFull => it.is_beside(asks, terms),
                Refusal::CallerFull => is_own,
                // Owners with more sessions than the one that asks.
                Refusal::PrincipalFull | Refusal::WorkerFull if of_same => is_own || of_owner(owner) > of_owner(asks),
                Refusal::WorkerFull => of_principal(owner) > of_principal(asks),
                Refusal::PrincipalFull | Refusal::Busy | Refusal::Closed => false,
            }
        };
        let idle = self.entries.iter().enumerate().filter(|(_, it)| it.key.name.is_some() && it.idle.is_some());
        let last = |it: &Entry<P>| (of_principal(&it.key.owner), of_owner(&it.key.owner), Reverse(it.used));
        idle.filter(|(_, it)| makes_room(it)).max_by_key(|(_, it)| last(it)).map(|(at, _)| at)
    }
}

impl<P> Entry<P> {
    /// Whether it shares a memory limit with sessions of this owner and maker.
    fn is_beside(&self, owner: &Owner, terms: Terms) -> bool {
        self.key.owner == *owner && self.maker == terms.maker
    }

    /// Whether it has expired. A session in use has not.
    fn is_over(&self, bounds: &Bounds, now: Instant) -> bool {
        let since = |then| now.saturating_duration_since(then);
        self.idle.is_some() && (since(self.used) >= bounds.idle || since(self.created) >= bounds.age)
    }
}

impl<P> Lease<P> {
    /// Does not count among the calls of the session.
    pub(crate) fn is_no_call(&mut self) {
        let mut state = self.book.lock();
        if let Some(entry) = state.entries.iter_mut().find(|it| it.number == self.number) {
            entry.cells = entry.cells.saturating_sub(1);
            self.cells = entry.cells;
        }
    }

    /// Gives the session back for the next call, unless it was closed. Returns whether it is kept.
    pub(crate) fn give_back(mut self, process: P, now: Instant) -> bool {
        let mut state = self.book.lock();
        // Dropped after the lock is released.
        let mut process = Some(process);
        if let Some(entry) = state.entries.iter_mut().find(|it| it.number == self.number) {
            entry.used = now;
            entry.idle = process.take();
        }
        drop(state);
        self.number = 0;
        self.book.freed.notify_waiters();
        process.is_none()
    }
}

impl<P> Drop for Lease<P> {
    fn drop(&mut self) {
        if self.number != 0 {
            let number = self.number;
            self.book.remove(|it| it.number == number);
        }
    }
}

#[cfg(test)]
mod tests;
