//! The callers of a gate: a flow for each principal and session, with its calls that wait and what it has used.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ahash::HashMap;
use slab::Slab;

use super::pace::{CallerPaces, Skill};
use super::principals::Principals;

/// How many flows are remembered. Past that, flows without a call are forgotten.
const MAX_FLOWS: usize = 4096;

/// A flow that was without a call for longer is the first to be forgotten.
const IDLE: Duration = Duration::from_secs(60);

/// One caller: a session of a principal. Calls without a session are one flow for each principal.
#[derive(Debug)]
pub(super) struct Flow<W> {
    name: String,
    /// The number of its principal in [`Principals`].
    pub(super) principal: usize,
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
    /// The order of arrival over all flows.
    pub(super) number: u64,
}

/// A call that waits for a place.
#[derive(Debug)]
pub(super) struct Waiting<W> {
    pub(super) ticket: Ticket,
    pub(super) skill: Arc<Skill>,
    pub(super) deadline: Instant,
    pub(super) waiter: W,
}

impl<W> Flow<W> {
    /// How long a call of a skill is expected to run. None: no call of the skill has ended.
    pub(super) fn expected(&self, skill: &Skill) -> Option<Duration> {
        self.paces.of_skill(skill.number).or_else(|| skill.pace.read())
    }

    /// How long calls of a skill run on average. None: no call of the skill has ended.
    pub(super) fn average(&self, skill: &Skill) -> Option<Duration> {
        self.paces.of_skill(skill.number).or_else(|| skill.pace.mean())
    }

    pub(super) fn is_active(&self) -> bool {
        self.running > 0 || !self.waiting.is_empty()
    }
}

/// The flows of a gate.
#[derive(Debug)]
pub(super) struct Flows<W> {
    by_name: HashMap<String, usize>,
    flows: Slab<Flow<W>>,
    principals: Principals,
    /// Those with calls waiting, in no order.
    queued: Vec<usize>,
    /// Kept so that looking a flow up does not allocate.
    scratch: String,
}

impl<W> Flows<W> {
    pub(super) fn new() -> Self {
        let (by_name, principals) = Default::default();
        Self { by_name, flows: Slab::new(), principals, queued: Vec::new(), scratch: String::new() }
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
        let (name, principal) = (self.scratch.clone(), self.principals.add_flow(principal));
        let (waiting, paces) = (VecDeque::new(), CallerPaces::default());
        let flow = Flow { name: name.clone(), principal, running: 0, waiting, served: 0.0, paces, seen: now };
        let index = self.flows.insert(flow);
        self.by_name.insert(name, index);
        index
    }

    /// Forgets the flows that had no call for a while; if that is not enough, all that have none now.
    fn forget(&mut self, now: Instant) {
        for age in [IDLE, Duration::ZERO] {
            let (by_name, principals) = (&mut self.by_name, &mut self.principals);
            self.flows.retain(|_, flow| {
                let stays = flow.is_active() || now.saturating_duration_since(flow.seen) < age;
                if !stays {
                    by_name.remove(&flow.name);
                    principals.remove_flow(flow.principal);
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

    /// A call of a flow starts.
    pub(super) fn start(&mut self, index: usize) {
        let flow = &mut self.flows[index];
        flow.running += 1;
        self.principals.start(flow.principal);
    }

    /// A running call of a flow ends.
    pub(super) fn end(&mut self, index: usize) {
        let flow = &mut self.flows[index];
        flow.running -= 1;
        self.principals.end(flow.principal);
    }

    /// How many calls of a flow's principal run.
    pub(super) fn running_of_principal(&self, flow: &Flow<W>) -> usize {
        self.principals.running(flow.principal)
    }

    /// The flows that have calls waiting.
    pub(super) fn waiting(&self) -> impl Iterator<Item = (usize, &Flow<W>)> {
        self.queued.iter().map(|index| (*index, &self.flows[*index]))
    }

    /// A call waits, as the last of its flow.
    pub(super) fn push(&mut self, index: usize, call: Waiting<W>) {
        let waiting = &mut self.flows[index].waiting;
        if waiting.is_empty() {
            self.queued.push(index);
        }
        waiting.push_back(call);
    }

    /// The call of a flow that has waited longest, which waits no more.
    pub(super) fn pop_first(&mut self, index: usize) -> Option<Waiting<W>> {
        let call = self.flows[index].waiting.pop_front();
        self.settle(index);
        call
    }

    /// The call of a flow that came last, which waits no more.
    pub(super) fn pop_last(&mut self, index: usize) -> Option<Waiting<W>> {
        let call = self.flows[index].waiting.pop_back();
        self.settle(index);
        call
    }

    /// A call waits no more.
    pub(super) fn remove(&mut self, index: usize, number: u64) {
        self.flows[index].waiting.retain(|it| it.ticket.number != number);
        self.settle(index);
    }

    fn settle(&mut self, index: usize) {
        if self.flows[index].waiting.is_empty() {
            self.queued.retain(|it| *it != index);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_without_calls_are_forgotten_and_those_with_calls_are_not() {
        let (mut flows, now) = (Flows::<()>::new(), Instant::now());
        let busy = flows.of("", "busy", now);
        flows.start(busy);
        for number in 0..10 * MAX_FLOWS {
            flows.of("", &number.to_string(), now);
        }
        assert!(flows.flows.len() <= MAX_FLOWS && flows.by_name.len() == flows.flows.len());
        assert_eq!(flows.of("", "busy", now), busy);
        assert_ne!(flows.of("other", "busy", now), busy);
    }

    #[test]
    fn a_principal_is_known_while_it_has_a_flow() {
        let (mut flows, now) = (Flows::<()>::new(), Instant::now());
        let [one, two, other] =
            [("a", "1"), ("a", "2"), ("b", "1")].map(|(name, session)| flows.of(name, session, now));
        [one, one, two, other].into_iter().for_each(|it| flows.start(it));
        flows.end(one);
        let running = |it| flows.running_of_principal(flows.get(it));
        assert_eq!([one, two, other].map(running), [2, 2, 1]);
        flows.end(other);
        let later = now + IDLE * 2;
        for number in 0..MAX_FLOWS {
            flows.of("c", &number.to_string(), later);
        }
        assert_eq!(flows.principals.len(), 2, "b has no call, and is forgotten");
    }
}
