//! The callers of a gate: a flow for each principal and session, with its calls that wait and what it has used.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ahash::HashMap;
use slab::Slab;

use super::pace::{CallerPaces, Skill};

/// How many flows are remembered. Past that, flows without a call are forgotten.
const MAX_FLOWS: usize = 4096;

/// A flow that was without a call for longer is the first to be forgotten.
const IDLE: Duration = Duration::from_secs(60);

/// One caller: a session of a principal. Calls without a session are one flow for each principal.
#[derive(Debug)]
pub(super) struct Flow<W> {
    name: String,
    pub(super) principal: String,
    pub(super) running: usize,
    pub(super) waiting: VecDeque<Waiting<W>>,
    /// The place time that it has used, in seconds of virtual time. See [`super::book`].
    pub(super) served: f64,
    pub(super) paces: CallerPaces,
    /// When it last had a call.
    seen: Instant,
}

/// A call at a gate. Never used for another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ticket {
    pub(super) index: usize,
    pub(super) number: u64,
}

/// A call that waits for a place.
#[derive(Debug)]
pub(super) struct Waiting<W> {
    pub(super) ticket: Ticket,
    pub(super) skill: Arc<Skill>,
    /// The order of arrival over all flows.
    pub(super) number: u64,
    pub(super) waiter: W,
}

impl<W> Flow<W> {
    pub(super) fn is_active(&self) -> bool {
        self.running > 0 || !self.waiting.is_empty()
    }
}

/// The flows of a gate.
#[derive(Debug)]
pub(super) struct Flows<W> {
    by_name: HashMap<String, usize>,
    flows: Slab<Flow<W>>,
    /// Kept so that looking a flow up does not allocate.
    scratch: String,
}

impl<W> Flows<W> {
    pub(super) fn new() -> Self {
        Self { by_name: HashMap::default(), flows: Slab::new(), scratch: String::new() }
    }

    /// The flow of a caller, new if it is not known.
    pub(super) fn of(&mut self, principal: &str, session: &str, now: Instant) -> usize {
        self.scratch.clear();
        // A session id has no control characters, so no two callers have the same name.
        self.scratch.extend([session, "\0", principal]);
        if let Some(index) = self.by_name.get(&self.scratch) {
            self.flows[*index].seen = now;
            return *index;
        }
        if self.flows.len() >= MAX_FLOWS {
            self.forget(now);
        }
        let (name, principal) = (self.scratch.clone(), principal.to_owned());
        let (waiting, paces) = (VecDeque::new(), CallerPaces::default());
        let flow = Flow { name: name.clone(), principal, running: 0, waiting, served: 0.0, paces, seen: now };
        let index = self.flows.insert(flow);
        self.by_name.insert(name, index);
        index
    }

    /// Forgets the flows that had no call for a while; if that is not enough, all that have none now.
    fn forget(&mut self, now: Instant) {
        for age in [IDLE, Duration::ZERO] {
            let by_name = &mut self.by_name;
            self.flows.retain(|_, flow| {
                let stays = flow.is_active() || now.saturating_duration_since(flow.seen) < age;
                if !stays {
                    by_name.remove(&flow.name);
                }
                stays
            });
            if self.flows.len() <= MAX_FLOWS / 2 {
                return;
            }
        }
    }

    pub(super) fn get(&self, index: usize) -> &Flow<W> {
        &self.flows[index]
    }

    pub(super) fn get_mut(&mut self, index: usize) -> &mut Flow<W> {
        &mut self.flows[index]
    }

    /// The flows that have calls waiting.
    pub(super) fn waiting(&self) -> impl Iterator<Item = (usize, &Flow<W>)> {
        self.flows.iter().filter(|(_, flow)| !flow.waiting.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_without_calls_are_forgotten_and_those_with_calls_are_not() {
        let (mut flows, now) = (Flows::<()>::new(), Instant::now());
        let busy = flows.of("", "busy", now);
        flows.get_mut(busy).running = 1;
        for number in 0..10 * MAX_FLOWS {
            flows.of("", &number.to_string(), now);
        }
        assert!(flows.flows.len() <= MAX_FLOWS && flows.by_name.len() == flows.flows.len());
        assert_eq!(flows.of("", "busy", now), busy);
        assert_ne!(flows.of("other", "busy", now), busy);
    }
}
