//! What a principal currently uses, through all its keys.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use openskill_identity::policy::Limits;
use parking_lot::Mutex;

use super::rate::{Bucket, Spent};

/// How long a session id counts as in use after its last call: as long as workers keep an idle session by default.
const SESSION_IDLE: Duration = Duration::from_secs(900);

/// The suggested delay until another call of the same principal may have ended.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// What one principal uses.
#[derive(Debug)]
pub(crate) struct Usage {
    /// The origin of the bucket's clock.
    begun: Instant,
    calls: AtomicUsize,
    bytes: AtomicUsize,
    pace: Mutex<Pace>,
}

/// What its rate and its sessions allow a principal.
#[derive(Debug, Default)]
struct Pace {
    bucket: Bucket,
    /// Session ids in use, with the time of last use. Empty if sessions are not limited.
    sessions: HashMap<Box<str>, Instant>,
}

/// The tokens that a principal took here since other gateways heard of it.
#[derive(Debug, Clone)]
pub(crate) struct SpentTokens {
    pub(crate) principal: String,
    pub(crate) usage: Arc<Usage>,
    /// When the first one was taken.
    pub(crate) since: Instant,
    /// How long the bucket takes to fill up what was taken.
    pub(crate) debt: Duration,
    /// When the bucket will be full.
    pub(crate) full_at: Instant,
}

/// What a call uses of its principal's limits, released on drop.
#[derive(Debug)]
pub(crate) struct ActiveUsage {
    usage: Arc<Usage>,
    bytes: usize,
}

/// A limit of a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Limit {
    Rate,
    InFlight,
    Bytes,
    Sessions,
}

/// Why a call was refused: it exceeds a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LimitExceeded {
    pub(crate) limit: Limit,
    /// How long to wait. None if waiting does not help.
    pub(crate) retry_after: Option<Duration>,
}

impl Limit {
    /// The name in metrics and logs.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Rate => "principal_rate",
            Self::InFlight => "principal_in_flight",
            Self::Bytes => "principal_bytes",
            Self::Sessions => "principal_sessions",
        }
    }
}

impl Default for Usage {
    fn default() -> Self {
        let [calls, bytes] = [0; 2].map(AtomicUsize::new);
        Self { begun: Instant::now(), calls, bytes, pace: Mutex::default() }
    }
}

impl Usage {
    /// Begins a call of a session, with arguments of `bytes` bytes. A refused call uses nothing.
    pub(crate) fn begin(
        self: &Arc<Self>,
        limits: &Limits,
        session: &str,
        bytes: usize,
        now: Instant,
    ) -> Result<ActiveUsage, LimitExceeded> {
        let exceeded = |limit, retry_after: Duration| LimitExceeded { limit, retry_after: Some(retry_after) };
        let calls = self.calls.fetch_add(1, Ordering::AcqRel);
        let in_flight = self.bytes.fetch_add(bytes, Ordering::AcqRel);
        // From here on, dropping it undoes the counts.
        let active = ActiveUsage { usage: Arc::clone(self), bytes };
        if limits.in_flight.is_some_and(|limit| calls >= limit) {
            return Err(exceeded(Limit::InFlight, RETRY_AFTER));
        }
        if limits.bytes.is_some_and(|limit| in_flight.saturating_add(bytes) > limit) {
            // Arguments larger than the whole limit never fit, so waiting does not help.
            let fits = limits.bytes.is_some_and(|limit| bytes <= limit);
            return Err(LimitExceeded { limit: Limit::Bytes, retry_after: fits.then_some(RETRY_AFTER) });
        }
        let mut pace = self.pace.lock();
        let Pace { bucket, sessions } = &mut *pace;
        let limit = limits.sessions.filter(|_| !session.is_empty());
        if let Some(limit) = limit {
            make_room(sessions, session, limit, now)?;
        }
        if let Some(rate) = limits.rate {
            let since = now.saturating_duration_since(self.begun);
            bucket.take(rate, since).map_err(|wait| exceeded(Limit::Rate, wait))?;
        }
        if limit.is_some() {
            sessions.insert(session.into(), now);
        }
        Ok(active)
    }

    /// Returns the tokens that `principal` took since this was last called. None if it took none.
    pub(crate) fn take_spent(self: &Arc<Self>, principal: &str) -> Option<SpentTokens> {
        let Spent { since, debt, full_at } = self.pace.lock().bucket.take_spent()?;
        let (since, full_at) = (self.begun + since, self.begun + full_at);
        Some(SpentTokens { principal: principal.to_owned(), usage: Arc::clone(self), since, debt, full_at })
    }

    /// Follows the bucket that all gateways share, and that will be full at `full_at` without what was taken here since
    /// [`Self::take_spent`].
    pub(crate) fn follow_rate(&self, full_at: Instant) {
        self.pace.lock().bucket.follow(full_at.saturating_duration_since(self.begun));
    }
}

/// Removes idle sessions if this one would exceed the limit.
fn make_room(
    sessions: &mut HashMap<Box<str>, Instant>,
    session: &str,
    limit: usize,
    now: Instant,
) -> Result<(), LimitExceeded> {
    if sessions.contains_key(session) || sessions.len() < limit {
        return Ok(());
    }
    let idle = |used: Instant| now.saturating_duration_since(used);
    sessions.retain(|_, used| idle(*used) < SESSION_IDLE);
    if sessions.len() < limit {
        return Ok(());
    }
    if limit == 0 {
        return Err(LimitExceeded { limit: Limit::Sessions, retry_after: None });
    }
    let longest = sessions.values().map(|used| idle(*used)).max();
    let retry_after = longest.map(|longest| SESSION_IDLE.saturating_sub(longest));
    Err(LimitExceeded { limit: Limit::Sessions, retry_after })
}

impl Drop for ActiveUsage {
    fn drop(&mut self) {
        self.usage.bytes.fetch_sub(self.bytes, Ordering::AcqRel);
        self.usage.calls.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use openskill_identity::policy::Rate;

    use super::*;

    fn refused(begun: Result<ActiveUsage, LimitExceeded>) -> Limit {
        begun.unwrap_err().limit
    }

    #[test]
    fn calls_and_bytes_in_flight_are_given_back() {
        let (usage, now) = (Arc::new(Usage::default()), Instant::now());
        let limits = Limits { in_flight: Some(2), bytes: Some(100), ..Limits::default() };
        let begin = |bytes| usage.begin(&limits, "", bytes, now);
        let first = begin(60).unwrap();
        assert_eq!(refused(begin(41)), Limit::Bytes);
        assert_eq!(begin(101).unwrap_err().retry_after, None, "it never fits");
        let second = begin(40).unwrap();
        assert_eq!(refused(begin(0)), Limit::InFlight);
        drop(first);
        drop(second);
        assert!(begin(100).is_ok());
        assert_eq!((usage.calls.load(Ordering::Relaxed), usage.bytes.load(Ordering::Relaxed)), (0, 0));
    }

    #[test]
    fn a_session_more_than_allowed_is_refused_until_one_is_idle() {
        let (usage, now) = (Arc::new(Usage::default()), Instant::now());
        let limits = Limits { sessions: Some(2), ..Limits::default() };
        let begin = |session, at| usage.begin(&limits, session, 0, at);
        for session in ["a", "b", "a", ""] {
            begin(session, now).unwrap();
        }
        let third = begin("c", now + Duration::from_secs(60)).unwrap_err();
        assert_eq!((third.limit, third.retry_after), (Limit::Sessions, Some(SESSION_IDLE - Duration::from_secs(60))));
        begin("a", now + Duration::from_secs(60)).unwrap();
        assert!(begin("c", now + SESSION_IDLE).is_ok(), "b is idle");
        assert_eq!(refused(begin("b", now + SESSION_IDLE)), Limit::Sessions);
        let none = Limits { sessions: Some(0), ..Limits::default() };
        assert_eq!(usage.begin(&none, "z", 0, now).unwrap_err().retry_after, None, "it may have none");
        assert!(usage.begin(&none, "", 0, now).is_ok());
    }

    #[test]
    fn a_call_that_another_limit_refuses_takes_no_token() {
        let (usage, now) = (Arc::new(Usage::default()), Instant::now());
        let rate = Some(Rate { per_second: 0.01, burst: 2 });
        let limits = Limits { rate, in_flight: Some(1), ..Limits::default() };
        let begin = || usage.begin(&limits, "", 0, now);
        let first = begin().unwrap();
        assert!((0..5).all(|_| refused(begin()) == Limit::InFlight));
        drop(first);
        assert!(begin().is_ok());
        assert_eq!(refused(begin()), Limit::Rate);
    }
}
