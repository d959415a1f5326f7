//! Tracks all sessions and who uses them. Does not know processes: `P` is the object that is kept.
//!
//! ```text
//! (none) ──take──> leased ──give back──> idle ──take──> leased ...
//!                    └──dropped──> gone    └──closed, evicted, idle for long, old, of an old version──> gone
//! ```
//!
//! A session for only one call has no name. These and the named ones are counted separately, each against the same
//! limits, so that neither kind displaces the other. Only idle named sessions are evicted, and only for named
//! ones.

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::key::{Key, SessionOwner};

/// Limits the number and lifetime of sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionBounds {
    /// The maximum number of a caller's named sessions, and of its sessions for one call.
    pub per_caller: usize,
    /// The maximum number of a worker's named sessions, and of its sessions for one call.
    pub per_worker: usize,
    /// How long a session may be idle before it ends.
    pub idle: Duration,
    /// The maximum age of a session. It ends between two calls.
    pub age: Duration,
}

impl SessionBounds {
    /// Returns the maximum number of a principal's sessions over all its conversations. Anonymous callers are not
    /// one principal: they may use all sessions, and are evicted in favor of each other.
    pub fn per_principal(&self) -> usize {
        self.per_worker.div_ceil(2)
    }
}

/// The properties of a skill that new sessions depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms {
    /// Identifies a version of a skill's manifest. A session is never reused by another maker.
    pub maker: u64,
    /// The number of an owner's sessions with this maker that fit into the memory limit.
    pub together: usize,
}

/// All sessions of a worker.
pub struct SessionBook<P> {
    bounds: SessionBounds,
    state: Mutex<State<P>>,
    /// Notified when a session is returned or removed.
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
    /// `None` while the session is leased.
    idle: Option<P>,
    created: Instant,
    used: Instant,
    cells: u64,
    /// Cancelled when the session is closed while it is leased.
    stop: CancellationToken,
}

/// The reasons why a call gets no session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionRefusal {
    /// Another call is using the session.
    Busy,
    /// The caller has reached its limit, and none of its sessions can be evicted.
    CallerFull,
    /// The caller's sessions may already use their whole memory limit.
    MemoryFull,
    /// The principal has reached its limit.
    PrincipalFull,
    /// The worker has reached its limit.
    WorkerFull,
    /// The worker is shutting down.
    Closed,
}

/// A session that a call uses. Dropping it ends the session.
pub struct Lease<P> {
    book: Arc<SessionBook<P>>,
    number: u64,
    /// The kept process. `None` for a new session.
    pub process: Option<P>,
    /// The number of calls that it has had.
    pub cells: u64,
    /// Cancelled when the session is closed.
    pub stop: CancellationToken,
    /// Whether the session ends with this call.
    pub fleeting: bool,
}

/// A session as its owner sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionSummary {
    /// The name that the caller gave it.
    pub name: String,
    /// Whether a call is using it.
    pub busy: bool,
    /// The number of calls that it has had.
    pub cells: u64,
    /// The time since it was created.
    pub age: Duration,
    /// The time since its last call ended. Zero while a call runs.
    pub idle: Duration,
}

impl<P> SessionBook<P> {
    /// Creates a book without sessions.
    pub fn new(bounds: SessionBounds) -> Arc<Self> {
        let state = State { entries: Vec::new(), last: 0, closed: false };
        Arc::new(Self { bounds, state: Mutex::new(state), freed: Notify::new() })
    }

    /// Leases the session with this key and maker, or creates it. Waits until `until` while another call uses it
    /// or a limit is reached, because the process of a call that was answered may still be ending.
    ///
    /// # Errors
    /// Fails if the session is in use or a limit is reached.
    pub async fn take(self: &Arc<Self>, key: &Key, terms: Terms, until: Instant) -> Result<Lease<P>, SessionRefusal> {
        loop {
            let mut freed = std::pin::pin!(self.freed.notified());
            // Register before the check, so that no notification in between is missed.
            freed.as_mut().enable();
            let refusal = match self.try_take(key, terms, Instant::now()) {
                Ok(lease) => return Ok(lease),
                Err(SessionRefusal::Closed) => return Err(SessionRefusal::Closed),
                Err(refusal) => refusal,
            };
            if tokio::time::timeout_at(until.into(), freed).await.is_err() {
                return Err(refusal);
            }
        }
    }

    fn try_take(self: &Arc<Self>, key: &Key, terms: Terms, now: Instant) -> Result<Lease<P>, SessionRefusal> {
        // Declared before the lock guard, so that evicted sessions are dropped after the lock is released.
        let mut evicted = Vec::new();
        let mut state = self.state.lock();
        if state.closed {
            return Err(SessionRefusal::Closed);
        }
        let is_it = |it: &Entry<P>| it.key == *key && it.maker == terms.maker;
        let there = key.name.as_ref().and_then(|_| state.entries.iter().position(is_it));
        if let Some(at) = there.filter(|at| state.entries[*at].is_over(&self.bounds, now)) {
            evicted.push(state.entries.swap_remove(at));
        } else if let Some(at) = there {
            let entry = &mut state.entries[at];
            let process = entry.idle.take().ok_or(SessionRefusal::Busy)?;
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
        state.entries.last_mut().map(|entry| self.lease(entry, None)).ok_or(SessionRefusal::Closed)
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

    /// Returns whether a session with this key and maker exists.
    pub fn holds(&self, key: &Key, maker: u64) -> bool {
        self.state.lock().entries.iter().any(|it| it.key == *key && it.maker == maker)
    }

    /// Lists a caller's named sessions, oldest first.
    pub fn list(&self, owner: &SessionOwner, now: Instant) -> Vec<SessionSummary> {
        let state = self.state.lock();
        let mut own: Vec<_> = state.entries.iter().filter(|it| it.key.owner == *owner).collect();
        own.sort_by_key(|it| it.number);
        let listed = |it: &Entry<P>| {
            let busy = it.idle.is_none();
            let idle = if busy { Duration::ZERO } else { now.saturating_duration_since(it.used) };
            let age = now.saturating_duration_since(it.created);
            Some(SessionSummary { name: it.key.name.clone()?, busy, cells: it.cells, age, idle })
        };
        own.into_iter().filter_map(listed).collect()
    }

    /// Ends a session, even while a call uses it. Returns whether it existed.
    pub fn close(&self, owner: &SessionOwner, name: &str) -> bool {
        let closed = self.remove(|it| it.key.owner == *owner && it.key.name.as_deref() == Some(name));
        !closed.is_empty()
    }

    /// Ends a caller's sessions that were idle for this long or have expired. Returns their names.
    pub fn clean(&self, owner: &SessionOwner, idle: Duration, now: Instant) -> Vec<String> {
        let unused = |it: &Entry<P>| it.idle.is_some() && now.saturating_duration_since(it.used) >= idle;
        let bounds = self.bounds;
        let mut closed = self.remove(|it| it.key.owner == *owner && (unused(it) || it.is_over(&bounds, now)));
        closed.sort();
        closed
    }

    /// Ends idle sessions that have expired or whose process is dead. Returns the number of ended sessions.
    pub fn expire(&self, now: Instant, is_alive: impl Fn(&P) -> bool) -> usize {
        let bounds = self.bounds;
        self.remove(|it| it.is_over(&bounds, now) || it.idle.as_ref().is_some_and(|idle| !is_alive(idle))).len()
    }

    /// Ends the sessions whose maker no longer exists. A session in use ends with its call.
    pub fn clear(&self, is_gone: impl Fn(u64) -> bool) {
        self.take_out(|it| is_gone(it.maker));
    }

    /// Ends all sessions, and rejects new ones.
    pub fn shut(&self) {
        self.state.lock().closed = true;
        self.remove(|_| true);
    }

    /// Returns the number of sessions.
    pub fn count(&self) -> usize {
        self.state.lock().entries.len()
    }

    /// Returns the number of sessions that calls use.
    pub fn busy(&self) -> usize {
        self.state.lock().entries.iter().filter(|it| it.idle.is_none()).count()
    }

    /// Returns the limits on the number and lifetime of sessions.
    pub fn bounds(&self) -> SessionBounds {
        self.bounds
    }

    /// Removes entries and ends their sessions, even while calls use them. Returns their names.
    fn remove(&self, which: impl Fn(&Entry<P>) -> bool) -> Vec<String> {
        let removed = self.take_out(which);
        removed.iter().for_each(|it| it.stop.cancel());
        removed.into_iter().map(|it| it.key.name.unwrap_or_default()).collect()
    }

    /// Removes entries, which the caller drops after the lock is released. Wakes waiting calls.
    fn take_out(&self, which: impl Fn(&Entry<P>) -> bool) -> Vec<Entry<P>> {
        let removed: Vec<_> = self.state.lock().entries.extract_if(.., |it| which(it)).collect();
        if !removed.is_empty() {
            self.freed.notify_waiters();
        }
        removed
    }
}

impl<P> State<P> {
    /// Returns the limit that one more session would exceed, if any.
    fn full(&self, key: &Key, terms: Terms, bounds: &SessionBounds) -> Option<SessionRefusal> {
        let owner = &key.owner;
        let of_kind = |it: &&Entry<P>| it.key.name.is_some() == key.name.is_some();
        let count =
            |which: &dyn Fn(&Entry<P>) -> bool| self.entries.iter().filter(of_kind).filter(|it| which(it)).count();
        let together = self.entries.iter().filter(|it| it.is_beside(owner, terms)).count();
        let of_principal = count(&|it| it.key.owner.principal == owner.principal);
        match () {
            () if together >= terms.together => Some(SessionRefusal::MemoryFull),
            () if count(&|it| it.key.owner == *owner) >= bounds.per_caller => Some(SessionRefusal::CallerFull),
            () if !owner.principal.is_empty() && of_principal >= bounds.per_principal() => {
                Some(SessionRefusal::PrincipalFull)
            }
            () if count(&|_| true) >= bounds.per_worker => Some(SessionRefusal::WorkerFull),
            () => None,
        }
    }

    /// Chooses the session to evict: among the candidates, the least recently used one of the owner with the most
    /// sessions.
    fn victim(&self, key: &Key, terms: Terms, refusal: SessionRefusal) -> Option<usize> {
        // A call that keeps no state must not evict another's state.
        key.name.as_ref()?;
        let asks = &key.owner;
        let count = |which: &dyn Fn(&SessionOwner) -> bool| {
            self.entries.iter().filter(|it| it.key.name.is_some() && which(&it.key.owner)).count()
        };
        let of_principal = |of: &SessionOwner| count(&|it| it.principal == of.principal);
        let of_owner = |of: &SessionOwner| count(&|it| it == of);
        let makes_room = |it: &Entry<P>| {
            let owner = &it.key.owner;
            let is_own = owner == asks;
            let of_same = owner.principal == asks.principal;
            match refusal {
                SessionRefusal::MemoryFull => it.is_beside(asks, terms),
                SessionRefusal::CallerFull => is_own,
                // Candidates are sessions of owners with more sessions than the new one's owner.
                SessionRefusal::PrincipalFull | SessionRefusal::WorkerFull if of_same => {
                    is_own || of_owner(owner) > of_owner(asks)
                }
                SessionRefusal::WorkerFull => of_principal(owner) > of_principal(asks),
                SessionRefusal::PrincipalFull | SessionRefusal::Busy | SessionRefusal::Closed => false,
            }
        };
        let idle = self.entries.iter().enumerate().filter(|(_, it)| it.key.name.is_some() && it.idle.is_some());
        let last = |it: &Entry<P>| (of_principal(&it.key.owner), of_owner(&it.key.owner), Reverse(it.used));
        idle.filter(|(_, it)| makes_room(it)).max_by_key(|(_, it)| last(it)).map(|(at, _)| at)
    }
}

impl<P> Entry<P> {
    /// Returns whether it shares a memory limit with this owner's sessions of this maker.
    fn is_beside(&self, owner: &SessionOwner, terms: Terms) -> bool {
        self.key.owner == *owner && self.maker == terms.maker
    }

    /// Returns whether it has expired. A session in use never has.
    fn is_over(&self, bounds: &SessionBounds, now: Instant) -> bool {
        let since = |then| now.saturating_duration_since(then);
        self.idle.is_some() && (since(self.used) >= bounds.idle || since(self.created) >= bounds.age)
    }
}

impl<P> Lease<P> {
    /// Does not count this lease as one of the session's calls.
    pub fn is_no_call(&mut self) {
        let mut state = self.book.state.lock();
        if let Some(entry) = state.entries.iter_mut().find(|it| it.number == self.number) {
            entry.cells = entry.cells.saturating_sub(1);
            self.cells = entry.cells;
        }
    }

    /// Returns the session for the next call. Returns false if it was closed and is not kept.
    pub fn give_back(mut self, process: P, now: Instant) -> bool {
        let mut state = self.book.state.lock();
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
