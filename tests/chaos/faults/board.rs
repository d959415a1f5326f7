//! The faults of each worker with their times, and so the faults that a call met.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::call::Called;
use crate::random::Random;
use crate::stage::{WORKERS, worker_id};

/// A fault has after-effects for this long.
const MARGIN: Duration = Duration::from_millis(500);

/// The worst fault that a call met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lot {
    /// Nothing.
    Spared,
    /// Its last worker had a fault.
    WorkerHit,
    /// The gateway was down, or the connection was reset.
    CutOff,
}

/// From the fault until its after-effects are over.
#[derive(Debug, Clone, Copy)]
struct Spell {
    from: Instant,
    to: Option<Instant>,
}

impl Spell {
    fn touches(&self, from: Instant, to: Instant) -> bool {
        self.from <= to && self.to.is_none_or(|it| it >= from)
    }
}

#[derive(Debug, Default)]
pub(super) struct Board(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// The workers that take calls, as the gateway last reported.
    up: BTreeSet<usize>,
    hits: Vec<(usize, Spell)>,
    gateway: Vec<Spell>,
    kills: Vec<Instant>,
    resets: Vec<(usize, Instant)>,
}

impl State {
    fn is_hit(&self, worker: usize) -> bool {
        let now = Instant::now();
        self.hits.iter().any(|(it, spell)| *it == worker && spell.touches(now, now))
    }

    fn spared(&self) -> Vec<usize> {
        (0..WORKERS).filter(|worker| !self.is_hit(*worker)).collect()
    }
}

impl Board {
    pub(super) fn up(&self, workers: BTreeSet<usize>) {
        self.0.lock().unwrap().up = workers;
    }

    /// A worker that may get a fault, because another one takes calls meanwhile.
    pub(super) fn claim(&self, random: &mut Random) -> Option<usize> {
        let mut state = self.0.lock().unwrap();
        let spared = state.spared();
        let others_up = |victim: usize| spared.iter().any(|it| *it != victim && state.up.contains(it));
        let candidates: Vec<_> = spared.iter().copied().filter(|it| others_up(*it)).collect();
        let victim = *candidates.get(random.below(candidates.len()))?;
        state.hits.push((victim, Spell { from: Instant::now(), to: None }));
        Some(victim)
    }

    /// The fault is over.
    pub(super) fn release(&self, worker: usize) {
        let mut state = self.0.lock().unwrap();
        for (it, spell) in &mut state.hits {
            if *it == worker && spell.to.is_none() {
                spell.to = Some(Instant::now() + MARGIN);
            }
        }
    }

    pub(super) fn gateway_goes(&self, killed: bool) {
        let mut state = self.0.lock().unwrap();
        let now = Instant::now();
        state.gateway.push(Spell { from: now, to: None });
        if killed {
            state.kills.push(now);
        }
    }

    pub(super) fn gateway_is_back(&self) {
        if let Some(last) = self.0.lock().unwrap().gateway.last_mut() {
            last.to = Some(Instant::now() + MARGIN);
        }
    }

    pub(super) fn reset(&self, proxy: usize) {
        self.0.lock().unwrap().resets.push((proxy, Instant::now()));
    }

    pub(super) fn gateway_kills(&self) -> Vec<Instant> {
        self.0.lock().unwrap().kills.clone()
    }

    /// `first_proxied` is the first link that can be reset.
    pub(super) fn lot(&self, call: &Called, first_proxied: usize) -> Lot {
        let state = self.0.lock().unwrap();
        let (from, to) = (call.begun, call.ended);
        let was_reset = |(proxy, at): &(usize, Instant)| call.link == first_proxied + proxy && (from..=to).contains(at);
        if state.gateway.iter().any(|spell| spell.touches(from, to)) || state.resets.iter().any(was_reset) {
            return Lot::CutOff;
        }
        let here = |worker: usize| worker_id(worker) == call.worker;
        let hit = state.hits.iter().any(|(worker, spell)| here(*worker) && spell.touches(from, to));
        if hit { Lot::WorkerHit } else { Lot::Spared }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_always_a_worker_that_is_let_be() {
        let (board, mut random) = (Board::default(), Random::new(1, "test"));
        assert_eq!(board.claim(&mut random), None);
        board.up((0..WORKERS).collect());
        let claimed: Vec<_> = std::iter::from_fn(|| board.claim(&mut random)).collect();
        assert_eq!(claimed.len(), WORKERS - 1);
        board.release(claimed[0]);
        // The after-effects last as long as the margin.
        assert_eq!(board.claim(&mut random), None);
    }
}
