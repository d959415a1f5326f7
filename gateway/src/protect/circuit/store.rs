//! Stores circuits by key, up to a maximum number. Most circuits have no state and take no memory.

use std::time::{Duration, Instant};

use openskill_proto::v1::CircuitState;

use super::breaker::{Breaker, Pass, Verdict};
use super::count::Count;
use crate::state::fair::FairRecent;
use crate::state::striped::{STRIPES, Striped};

#[derive(Debug)]
pub(crate) struct CircuitStore<C> {
    stripes: Striped<FairRecent<Breaker<C>>>,
}

impl<C: Count> CircuitStore<C> {
    /// Stores about `capacity` circuits. When full, evicts the least recently used circuit of the principal that
    /// has the most.
    pub(crate) fn new(capacity: usize) -> Self {
        Self { stripes: Striped::new(|| FairRecent::new(capacity / STRIPES)) }
    }

    /// Admits a call, or returns how long it should wait. Calls `changed`, while the circuit is locked, if an open
    /// circuit becomes half-open.
    pub(crate) fn admit(&self, key: &str, now: Instant, changed: impl FnOnce(CircuitState)) -> Result<Pass, Duration> {
        let mut stripe = self.stripes.lock(key);
        let Some(breaker) = stripe.use_mut(key) else { return Ok(Pass::FIRST) };
        let before = breaker.state();
        let pass = breaker.admit(now)?;
        if breaker.state() != before {
            changed(CircuitState::HalfOpen);
        }
        Ok(pass)
    }

    /// Reports how an admitted call ended. Calls `changed` with the circuit's new state, if it changed.
    pub(crate) fn report(
        &self,
        key: &str,
        pass: Pass,
        verdict: Verdict,
        rules: &C::Rules,
        now: Instant,
        changed: impl FnOnce(CircuitState),
    ) {
        let mut stripe = self.stripes.lock(key);
        if let Some(breaker) = stripe.use_mut(key) {
            breaker.report(pass, verdict, rules, now).map(changed);
            if breaker.is_blank() {
                stripe.remove(key);
            }
            return;
        }
        let mut breaker = Breaker::default();
        breaker.report(pass, verdict, rules, now).map(changed);
        if !breaker.is_blank() {
            stripe.insert(key, breaker);
        }
    }

    pub(crate) fn retry_after(&self, key: &str, now: Instant) -> Option<Duration> {
        self.stripes.lock(key).peek(key)?.retry_after(now)
    }

    /// Calls `tell` with each circuit that has state, and its key.
    pub(crate) fn for_each(&self, mut tell: impl FnMut(&str, &Breaker<C>)) {
        self.stripes.all().for_each(|stripe| stripe.iter().for_each(|(key, breaker)| tell(key, breaker)));
    }

    /// The same with each circuit, to change it.
    pub(crate) fn for_each_mut(&self, mut change: impl FnMut(&str, &mut Breaker<C>)) {
        self.stripes.all().for_each(|mut stripe| stripe.iter_mut().for_each(|(key, breaker)| change(key, breaker)));
    }

    /// Changes a circuit that has state. None if it has none.
    pub(crate) fn change<R>(&self, key: &str, change: impl FnOnce(&mut Breaker<C>) -> R) -> Option<R> {
        self.stripes.lock(key).use_mut(key).map(change)
    }

    /// Changes a circuit, which has state from then on.
    pub(crate) fn change_or_insert<R>(&self, key: &str, change: impl FnOnce(&mut Breaker<C>) -> R) -> R {
        let mut stripe = self.stripes.lock(key);
        if let Some(breaker) = stripe.use_mut(key) {
            return change(breaker);
        }
        let mut breaker = Breaker::default();
        let changed = change(&mut breaker);
        stripe.insert(key, breaker);
        changed
    }

    /// Closes the circuits whose keys match. Calls `closed` for each one that was not closed, and returns their
    /// number.
    pub(crate) fn reset(&self, wanted: impl Fn(&str) -> bool, closed: impl Fn(&str)) -> usize {
        let mut count = 0;
        for mut stripe in self.stripes.all() {
            for (key, breaker) in stripe.iter_mut() {
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
        self.stripes.all().map(|stripe| stripe.iter().count()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::super::count::Consecutive;
    use super::super::rules::SessionRules;
    use super::*;

    const RULES: SessionRules = SessionRules { threshold: 3, recovery: Duration::from_secs(300) };

    fn fail(store: &CircuitStore<Consecutive>, key: &str, times: usize) {
        for _ in 0..times {
            let pass = store.admit(key, Instant::now(), |_| ()).unwrap();
            store.report(key, pass, Verdict::Failure, &RULES, Instant::now(), |_| ());
        }
    }

    #[test]
    fn memory_stays_bounded_with_many_failing_sessions() {
        let store = CircuitStore::<Consecutive>::new(512);
        for session in 0..100_000 {
            fail(&store, &session.to_string(), 1);
        }
        assert!(store.len() <= 512, "{}", store.len());
    }

    #[test]
    fn a_circuit_in_use_is_not_evicted() {
        let store = CircuitStore::<Consecutive>::new(512);
        fail(&store, "mine", 3);
        for session in 0..50_000 {
            fail(&store, &session.to_string(), 1);
            assert!(session % 8 != 0 || store.admit("mine", Instant::now(), |_| ()).is_err());
        }
    }

    #[test]
    fn sessions_that_succeed_take_no_memory() {
        let store = CircuitStore::<Consecutive>::new(512);
        fail(&store, "one", 2);
        for session in ["one", "two"] {
            let pass = store.admit(session, Instant::now(), |_| ()).unwrap();
            store.report(session, pass, Verdict::Success, &RULES, Instant::now(), |_| ());
        }
        assert_eq!(store.len(), 0);
    }
}
