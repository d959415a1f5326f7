//! Circuits by key, in a bounded place. Nothing is kept for a key whose circuit is as good as new, which is nearly every
//! key.

use std::time::{Duration, Instant};

use openskill_proto::v1::CircuitState;

use super::breaker::{Admitted, Breaker, Pass, Verdict};
use super::count::Count;
use crate::recent::Recent;
use crate::segments::{SEGMENTS, Segments};

/// The circuits.
#[derive(Debug)]
pub(crate) struct Store<C> {
    segments: Segments<Recent<Breaker<C>>>,
}

/// A circuit as it is listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Listed {
    pub(crate) state: CircuitState,
    pub(crate) failures: u32,
    pub(crate) retry_after: Duration,
}

impl<C: Count> Store<C> {
    /// A store that remembers about the last `least` circuits that were used, and twice as many at most.
    pub(crate) fn new(least: usize) -> Self {
        Self { segments: Segments::new(|| Recent::new(least / SEGMENTS)) }
    }

    /// Lets a call through, or says how long until one may try. `changed` hears of a circuit that was open until now,
    /// before anybody else can change it again.
    pub(crate) fn admit(&self, key: &str, now: Instant, changed: impl FnOnce(CircuitState)) -> Result<Pass, Duration> {
        let mut segment = self.segments.of(key);
        let Some(breaker) = segment.use_mut(key) else { return Ok(Pass::FIRST) };
        let Admitted { pass, now_half_open } = breaker.admit(now)?;
        if now_half_open {
            changed(CircuitState::HalfOpen);
        }
        Ok(pass)
    }

    /// Takes a pass back. `changed` hears of the circuit's new state, if there is one.
    pub(crate) fn report(
        &self,
        key: &str,
        pass: Pass,
        verdict: Verdict,
        rules: &C::Rules,
        now: Instant,
        changed: impl FnOnce(CircuitState),
    ) {
        let mut segment = self.segments.of(key);
        if let Some(breaker) = segment.use_mut(key) {
            breaker.report(pass, verdict, rules, now).map(changed);
            if breaker.is_blank() {
                segment.remove(key);
            }
            return;
        }
        let mut breaker = Breaker::default();
        breaker.report(pass, verdict, rules, now).map(changed);
        if !breaker.is_blank() {
            segment.insert(key.to_owned(), breaker);
        }
    }

    pub(crate) fn retry_after(&self, key: &str, now: Instant) -> Option<Duration> {
        self.segments.of(key).peek(key)?.retry_after(now)
    }

    /// The circuits whose keys are wanted.
    pub(crate) fn list(&self, now: Instant, wanted: impl Fn(&str) -> bool) -> Vec<(String, Listed)> {
        let mut all = Vec::new();
        for segment in self.segments.all() {
            all.extend(segment.iter().filter(|(key, _)| wanted(key)).map(|(key, breaker)| {
                let retry_after = match breaker.state() {
                    CircuitState::Open => breaker.retry_after(now).unwrap_or_default(),
                    _ => Duration::ZERO,
                };
                (key.clone(), Listed { state: breaker.state(), failures: breaker.failures(now), retry_after })
            }));
        }
        all
    }

    /// Closes the circuits that are wanted. `closed` hears of those that were not closed; says how many.
    pub(crate) fn reset(&self, wanted: impl Fn(&str) -> bool, closed: impl Fn(&str)) -> usize {
        let mut count = 0;
        for mut segment in self.segments.all() {
            for (key, breaker) in segment.iter_mut() {
                if wanted(key) && breaker.reset() {
                    closed(key);
                    count += 1;
                }
            }
        }
        count
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.segments.all().map(|segment| segment.iter().count()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::super::count::Consecutive;
    use super::super::rules::SessionRules;
    use super::*;

    const RULES: SessionRules = SessionRules { threshold: 3, recovery: Duration::from_secs(300) };

    fn fail(store: &Store<Consecutive>, key: &str, times: usize) {
        for _ in 0..times {
            let pass = store.admit(key, Instant::now(), |_| ()).unwrap();
            store.report(key, pass, Verdict::Failure, &RULES, Instant::now(), |_| ());
        }
    }

    #[test]
    fn a_million_sessions_that_fail_take_a_bounded_place() {
        let store = Store::<Consecutive>::new(512);
        for session in 0..100_000 {
            fail(&store, &session.to_string(), 1);
        }
        assert!(store.len() <= 1024, "{}", store.len());
    }

    #[test]
    fn what_is_in_use_stays_while_others_come_and_go() {
        let store = Store::<Consecutive>::new(512);
        fail(&store, "mine", 3);
        for session in 0..50_000 {
            fail(&store, &session.to_string(), 1);
            assert!(session % 8 != 0 || store.admit("mine", Instant::now(), |_| ()).is_err());
        }
    }

    #[test]
    fn sessions_that_succeed_take_no_place() {
        let store = Store::<Consecutive>::new(512);
        fail(&store, "one", 2);
        for session in ["one", "two"] {
            let pass = store.admit(session, Instant::now(), |_| ()).unwrap();
            store.report(session, pass, Verdict::Success, &RULES, Instant::now(), |_| ());
        }
        assert_eq!(store.len(), 0);
    }
}
