//! A gate's flows. Each principal and session has one, with its waiting calls and its usage.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ahash::HashMap;
use slab::Slab;

use super::pace::{CallerPaces, SHORT, Skill};
use super::place_time::{PlaceTime, Seconds};
use super::principals::{PrincipalUsage, Principals};

/// The maximum number of remembered flows. Beyond it, flows without calls are forgotten, down to half of it.
const MAX_FLOWS: usize = 4096;

/// Flows that had no calls for this long are forgotten first.
const IDLE: Duration = Duration::from_secs(60);

/// The calls of one session of a principal. A principal's calls without a session share one flow.
#[derive(Debug)]
pub(super) struct Flow<W> {
    name: String,
    /// The number of the flow's principal in [`Principals`].
    pub(super) principal: usize,
    pub(super) waiting: VecDeque<WaitingCall<W>>,
    /// The usage of the flow's calls, in its principal's virtual time.
    pub(super) used: PlaceTime,
    pub(super) paces: CallerPaces,
    /// The last time at which one of its calls arrived or ended.
    pub(super) seen: Instant,
}

/// Identifies a call at a gate. Tickets are never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ticket {
    pub(super) index: usize,
    /// The position in the order of arrival over all flows.
    pub(super) number: u64,
}

/// A call that waits for a place.
#[derive(Debug)]
pub(super) struct WaitingCall<W> {
    pub(super) ticket: Ticket,
    pub(super) skill: Arc<Skill>,
    pub(super) deadline: Instant,
    pub(super) waiter: W,
}

impl<W> Flow<W> {
    /// Returns how long a skill's call is expected to run. `None` if no call of the skill has ended yet.
    pub(super) fn expected_time(&self, skill: &Skill) -> Option<Duration> {
        self.paces.skill_pace(skill.number).or_else(|| skill.pace.read())
    }

    /// Returns how long a skill's calls run on average. `None` if no call of the skill has ended yet.
    pub(super) fn average(&self, skill: &Skill) -> Option<Duration> {
        self.paces.skill_pace(skill.number).or_else(|| skill.pace.mean())
    }

    /// Returns whether a skill's call is expected to be short. This is the assumption for an unknown skill.
    pub(super) fn expects_short(&self, skill: &Skill) -> bool {
        self.expected_time(skill).unwrap_or_default() <= SHORT
    }

    pub(super) fn is_active(&self) -> bool {
        self.used.running() > 0 || !self.waiting.is_empty()
    }
}

/// The flows of a gate.
#[derive(Debug)]
pub(super) struct Flows<W> {
    by_name: HashMap<String, usize>,
    flows: Slab<Flow<W>>,
    principals: Principals,
    /// The indexes of flows with waiting calls.
    queued: Vec<usize>,
    /// A buffer that saves an allocation when a flow is looked up.
    scratch: String,
}

impl<W> Flows<W> {
    pub(super) fn new() -> Self {
        let (by_name, principals) = Default::default();
        Self { by_name, flows: Slab::new(), principals, queued: Vec::new(), scratch: String::new() }
    }

    /// Returns the index of a caller's flow, or creates one.
    pub(super) fn flow_index(&mut self, principal: &str, session: &str, now: Instant) -> usize {
        self.scratch.clear();
        // Session ids contain no control characters, so callers' names are unique.
        self.scratch.extend([session, "\0", principal]);
        if let Some(index) = self.by_name.get(&self.scratch) {
            self.flows[*index].seen = now;
            return *index;
        }
        if self.flows.len() >= MAX_FLOWS {
            self.forget(now);
        }
        let (name, principal) = (self.scratch.clone(), self.principals.add_flow(principal));
        let (waiting, used, paces) = Default::default();
        let flow = Flow { name: name.clone(), principal, waiting, used, paces, seen: now };
        let index = self.flows.insert(flow);
        self.by_name.insert(name, index);
        index
    }

    /// Forgets flows that had no calls for a while. If that is insufficient, each principal keeps an even share of
    /// the idle flows, the most recently used ones. So a principal with many sessions does not displace others'
    /// sessions.
    fn forget(&mut self, now: Instant) {
        let idle = self.flows.iter().filter(|(_, flow)| !flow.is_active());
        let is_old = |flow: &Flow<W>| now.saturating_duration_since(flow.seen) >= IDLE;
        self.remove_all(idle.filter(|(_, flow)| is_old(flow)).map(|(index, _)| index).collect());
        if self.flows.len() <= MAX_FLOWS / 2 {
            return;
        }
        let share = MAX_FLOWS / 2 / self.principals.len();
        let mut idle: Vec<_> = self.flows.iter().filter(|(_, flow)| !flow.is_active()).collect();
        idle.sort_unstable_by_key(|(_, flow)| (flow.principal, Reverse(flow.seen)));
        let of_principals = idle.chunk_by(|(_, one), (_, other)| one.principal == other.principal);
        self.remove_all(of_principals.flat_map(|it| it.iter().skip(share)).map(|(index, _)| *index).collect());
    }

    fn remove_all(&mut self, flows: Vec<usize>) {
        for index in flows {
            let flow = self.flows.remove(index);
            self.by_name.remove(&flow.name);
            self.principals.remove_flow(flow.principal);
        }
    }

    pub(super) fn get(&self, index: usize) -> &Flow<W> {
        &self.flows[index]
    }

    pub(super) fn get_mut(&mut self, index: usize) -> &mut Flow<W> {
        &mut self.flows[index]
    }

    /// Records that a call of the flow arrived while others wait, or that it has to wait itself. A flow without
    /// waiting calls starts at the virtual time. `running`: the flows of the running calls.
    pub(super) fn arrive(&mut self, index: usize, running: impl Iterator<Item = usize> + Clone, now: Seconds) {
        let number = self.flows[index].principal;
        self.advance(index, now);
        if self.queued.is_empty() {
            self.level_principals(running.clone(), now);
        }
        if self.principals.get(number).waiting == 0 {
            self.level_flows(number, running, now);
        }
        let (flow, time) = (&mut self.flows[index], self.principals.time);
        let principal = self.principals.get_mut(number);
        if principal.waiting == 0 {
            principal.used.raise(time, now);
        }
        if flow.waiting.is_empty() {
            flow.used.raise(principal.time, now);
        }
    }

    /// Makes principals with running calls even. No call waited until now, so their usage is not a debt.
    fn level_principals(&mut self, running: impl Iterator<Item = usize> + Clone, now: Seconds) {
        for index in running.clone() {
            let used = self.principal(&self.flows[index]).used.used_until(now);
            self.principals.advance(used);
        }
        let time = self.principals.time;
        for index in running {
            self.principals.get_mut(self.flows[index].principal).used.raise(time, now);
        }
    }

    /// Makes the flows of a principal without waiting calls even, like [`Self::level_principals`].
    fn level_flows(&mut self, number: usize, running: impl Iterator<Item = usize> + Clone, now: Seconds) {
        let principal = self.principals.get_mut(number);
        for index in running.clone() {
            let flow = &self.flows[index];
            if flow.principal == number {
                principal.advance(flow.used.used_until(now));
            }
        }
        for index in running {
            let flow = &mut self.flows[index];
            if flow.principal == number {
                flow.used.raise(principal.time, now);
            }
        }
    }

    /// Advances the virtual time of the principals, and of this flow's principal, to the least usage among waiting
    /// ones.
    pub(super) fn advance(&mut self, index: usize, now: Seconds) {
        let number = self.flows[index].principal;
        let waiting = || self.queued.iter().map(|index| &self.flows[*index]);
        let least = waiting().map(|flow| self.principal(flow).used.used_until(now)).reduce(f64::min);
        let siblings = waiting().filter(|flow| flow.principal == number);
        let least_of_siblings = siblings.map(|flow| flow.used.used_until(now)).reduce(f64::min);
        least.into_iter().for_each(|it| self.principals.advance(it));
        least_of_siblings.into_iter().for_each(|it| self.principals.get_mut(number).advance(it));
    }

    /// Records that a flow's call starts.
    pub(super) fn start(&mut self, index: usize, now: Seconds) {
        let flow = &mut self.flows[index];
        flow.used.start(now);
        self.principals.get_mut(flow.principal).used.start(now);
    }

    /// Records that a flow's call ends.
    pub(super) fn end(&mut self, index: usize, started: Seconds, now: Seconds) {
        let flow = &mut self.flows[index];
        let principal = self.principals.get_mut(flow.principal);
        flow.used.end(started, now);
        principal.used.end(started, now);
        // Usage while no call waited is not a debt.
        if principal.waiting == 0 {
            principal.advance(flow.used.used_until(now));
        }
        let used = principal.used.used_until(now);
        if self.queued.is_empty() {
            self.principals.advance(used);
        }
    }

    pub(super) fn principal(&self, flow: &Flow<W>) -> &PrincipalUsage {
        self.principals.get(flow.principal)
    }

    /// Iterates over the flows with waiting calls.
    pub(super) fn waiting(&self) -> impl Iterator<Item = (usize, &Flow<W>)> {
        self.queued.iter().map(|index| (*index, &self.flows[*index]))
    }

    /// Appends a waiting call to its flow.
    pub(super) fn push(&mut self, index: usize, call: WaitingCall<W>) {
        let flow = &mut self.flows[index];
        if flow.waiting.is_empty() {
            self.queued.push(index);
        }
        flow.waiting.push_back(call);
        self.principals.get_mut(flow.principal).waiting += 1;
    }

    /// Removes the flow's call that has waited longest.
    pub(super) fn pop_first(&mut self, index: usize) -> Option<WaitingCall<W>> {
        self.take(index, VecDeque::pop_front)
    }

    /// Removes the flow's call that arrived last.
    pub(super) fn pop_last(&mut self, index: usize) -> Option<WaitingCall<W>> {
        self.take(index, VecDeque::pop_back)
    }

    /// Removes the flow's waiting call with this number.
    pub(super) fn remove(&mut self, index: usize, number: u64) {
        self.take(index, |waiting| {
            let at = waiting.iter().position(|it| it.ticket.number == number)?;
            waiting.remove(at)
        });
    }

    fn take(
        &mut self,
        index: usize,
        take: impl FnOnce(&mut VecDeque<WaitingCall<W>>) -> Option<WaitingCall<W>>,
    ) -> Option<WaitingCall<W>> {
        let flow = &mut self.flows[index];
        let call = take(&mut flow.waiting)?;
        self.principals.get_mut(flow.principal).waiting -= 1;
        if flow.waiting.is_empty() {
            self.queued.retain(|it| *it != index);
        }
        Some(call)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_without_calls_are_forgotten_and_those_with_calls_are_not() {
        let now = Instant::now();
        let mut flows = Flows::<()>::new();
        let busy = flows.flow_index("", "busy", now);
        flows.start(busy, Seconds::between(now, now));
        for number in 0..10 * MAX_FLOWS {
            flows.flow_index("", &number.to_string(), now);
        }
        assert!(flows.flows.len() <= MAX_FLOWS && flows.by_name.len() == flows.flows.len());
        assert_eq!(flows.flow_index("", "busy", now), busy);
        assert_ne!(flows.flow_index("other", "busy", now), busy);
    }

    #[test]
    fn a_principal_with_many_sessions_does_not_push_out_those_of_others() {
        let now = Instant::now();
        let mut flows = Flows::<()>::new();
        let quiet = flows.flow_index("quiet", "", now);
        for number in 0..10 * MAX_FLOWS {
            flows.flow_index("many", &number.to_string(), now);
        }
        assert!(flows.flows.len() <= MAX_FLOWS, "{}", flows.flows.len());
        assert_eq!(flows.flow_index("quiet", "", now), quiet);
    }

    #[test]
    fn a_principal_is_known_while_it_has_a_flow_and_new_when_it_comes_back() {
        let now = Instant::now();
        let mut flows = Flows::<()>::new();
        let [one, two, other] =
            [("a", "1"), ("a", "2"), ("b", "1")].map(|(name, session)| flows.flow_index(name, session, now));
        let (began, ended) = (Seconds::between(now, now), Seconds::between(now, now + IDLE));
        [one, one, two, other].into_iter().for_each(|it| flows.start(it, began));
        flows.end(one, began, ended);
        let running = |flows: &Flows<()>, it| flows.principal(flows.get(it)).used.running();
        assert_eq!([one, two, other].map(|it| running(&flows, it)), [2, 2, 1]);
        flows.end(other, began, ended);
        let later = now + IDLE * 2;
        for number in 0..MAX_FLOWS {
            flows.flow_index("c", &number.to_string(), later);
        }
        assert_eq!(flows.principals.names(), ["a", "c"], "b has no call, and is forgotten");
        assert_eq!(running(&flows, one), 2);
        let again = flows.flow_index("b", "1", later);
        let principal = flows.principal(flows.get(again));
        assert_eq!((principal.used.running(), principal.used.used_until(ended), principal.waiting), (0, 0.0, 0));
    }
}
