//! Decides which call runs next at a gate. Pure: the caller passes `now`, and nothing locks or sleeps.
//!
//! The gate has places. A call that arrives while a place is free gets it. Otherwise it waits in its flow. A place
//! that becomes free goes to the flow
//!
//! 1. whose principal has the fewest running calls,
//! 2. then whose principal has used the least place time,
//! 3. then which has the fewest running calls itself,
//! 4. then which has used the least place time itself.
//!
//! So principals that want more than is available hold equally many places, as do the flows of one principal. No
//! place stays free while others could use it.
//!
//! Place time is compared in virtual time, as in start-time fair queuing (Goyal, Vin and Cheng 1996). Virtual time
//! advances to the least place time among waiting principals or flows. A principal or flow without waiting calls
//! starts its next call at the virtual time, so it gets no credit for time without calls. When the first call has
//! to wait, those with running calls start even, because what they used while no call waited is not a debt.
//!
//! A place can't be taken away from a running call, so fair turns alone would make a short call wait until a long
//! one ends. So some extra places are reserved for calls that are expected to be short and whose flows hold less
//! than an even share. A call that turns out to be long returns its reserved place and counts among the others.
//! Then one call too many is running, so the next place that becomes free is not granted.

use std::sync::Arc;
use std::time::{Duration, Instant};

use slab::Slab;

use super::flows::{Flow, Flows, Ticket, WaitingCall};
use super::pace::{SHORT, Skill};
use super::place_time::{PlaceTime, Seconds};
use super::stagger;

mod estimate;

/// The capacity of a gate.
#[derive(Debug, Clone, Copy)]
pub(super) struct GateBounds {
    pub(super) places: usize,
    /// The number of additional places for short calls.
    pub(super) reserved: usize,
    pub(super) most_waiting: usize,
}

/// A call that arrives at a gate.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arrival<'a> {
    pub(super) principal: &'a str,
    pub(super) session: &'a str,
    pub(super) skill: &'a Arc<Skill>,
    pub(super) deadline: Instant,
}

/// Describes a call that gets a place.
#[derive(Debug, Clone, Copy)]
pub(super) struct Admission {
    /// The number of its caller's running calls, including this one.
    pub(super) running: usize,
    /// How long it is expected to run. `None` if no call of its skill has ended yet.
    pub(super) expected: Option<Duration>,
}

/// The result of an arrival. `G` receives the permit when it is granted.
#[derive(Debug)]
pub(super) enum ArrivalOutcome<W, G> {
    Runs(Ticket),
    /// The call waits. `evicted` is the call that it displaced from the queue, if any.
    Waits {
        ticket: Ticket,
        granted: G,
        evicted: Option<W>,
    },
    Refused(GateRefusal),
}

/// The end of a call's wait.
#[derive(Debug)]
pub(super) enum Next<W> {
    Runs(Ticket, W),
    Refused(W, GateRefusal),
}

/// The reasons why a call neither runs nor waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GateRefusal {
    /// The queue is full, and no other principal, and no other session of this principal, has at least two more
    /// calls in it.
    Full,
    /// The call would not end before its deadline. A retry after this time may succeed.
    Late { retry_after: Duration },
}

/// How a call freed its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// It ended on its own, so its duration is its pace.
    Whole,
    /// It was cancelled or its deadline passed. It would have taken at least as long.
    CutShort,
}

#[derive(Debug)]
struct Call {
    number: u64,
    flow: usize,
    skill: Arc<Skill>,
    phase: Phase,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Waiting,
    Running { since: Instant, place: Kind },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Open,
    Reserved,
}

/// All calls at a gate. `W` represents a waiting call.
#[derive(Debug)]
pub(super) struct GateCalls<W> {
    bounds: GateBounds,
    /// The number of calls that hold an open place. It exceeds the number of places after calls with reserved
    /// places turned out to be long.
    open: usize,
    /// The calls that hold a reserved place.
    reserved: Vec<Ticket>,
    waiting: usize,
    flows: Flows<W>,
    /// The number of flows with at least one call.
    active: usize,
    calls: Slab<Call>,
    numbers: u64,
    began: Instant,
    /// The latest time that a caller passed.
    now: Instant,
}

impl<W> GateCalls<W> {
    pub(super) fn new(bounds: GateBounds, now: Instant) -> Self {
        Self {
            bounds,
            open: 0,
            reserved: Vec::with_capacity(bounds.reserved),
            waiting: 0,
            flows: Flows::new(),
            active: 0,
            calls: Slab::new(),
            numbers: 0,
            began: now,
            now,
        }
    }

    fn seconds(&self) -> Seconds {
        Seconds::between(self.began, self.now)
    }

    /// Returns the number of running calls.
    pub(super) fn running(&self) -> usize {
        self.open + self.reserved.len()
    }

    /// Returns how many calls of the flow are running, including this one, and how long the call is expected to
    /// run.
    pub(super) fn admission(&self, ticket: Ticket) -> Admission {
        let Some(call) = self.calls.get(ticket.index) else { return Admission { running: 1, expected: None } };
        let flow = self.flows.get(call.flow);
        Admission { running: flow.used.running(), expected: flow.expected_time(&call.skill) }
    }

    /// Returns whether this waiting call may get a reserved place that becomes free.
    pub(super) fn may_become_reserved(&self, ticket: Ticket) -> bool {
        let is_short = |call: &Call| self.flows.get(call.flow).expects_short(&call.skill);
        self.bounds.reserved > 0 && self.calls.get(ticket.index).is_some_and(is_short)
    }

    /// Returns the number of calls that run or wait.
    pub(super) fn len(&self) -> usize {
        self.running() + self.waiting
    }

    /// Handles a call that arrives. If it has to wait, `waiter` creates its waiter and the receiver of the permit.
    pub(super) fn arrive<G>(
        &mut self,
        arrival: Arrival<'_>,
        waiter: impl FnOnce() -> (W, G),
        now: Instant,
    ) -> ArrivalOutcome<W, G> {
        self.advance(now);
        let index = self.flows.flow_index(arrival.principal, arrival.session, now);
        let place = match () {
            // Waiting calls have priority.
            () if self.waiting == 0 && self.open < self.bounds.places => Some(Kind::Open),
            () if self.may_reserve(self.flows.get(index), arrival.skill) => Some(Kind::Reserved),
            () => None,
        };
        if let Some(place) = place {
            if self.waiting > 0 {
                self.compete(index);
            }
            let ticket = self.note(index, arrival.skill);
            self.start(ticket, place, now);
            return ArrivalOutcome::Runs(ticket);
        }
        if let Some(refusal) = self.is_late(index, arrival, now) {
            return ArrivalOutcome::Refused(refusal);
        }
        let evicted = if self.waiting < self.bounds.most_waiting { None } else { self.evict(index) };
        if self.waiting >= self.bounds.most_waiting {
            return ArrivalOutcome::Refused(GateRefusal::Full);
        }
        self.compete(index);
        let ticket = self.note(index, arrival.skill);
        let (waiter, granted) = waiter();
        let (skill, deadline) = (Arc::clone(arrival.skill), arrival.deadline);
        self.flows.push(index, WaitingCall { ticket, skill, deadline, waiter });
        self.waiting += 1;
        ArrivalOutcome::Waits { ticket, granted, evicted }
    }

    /// Returns the call that runs next, if a place is free for a waiting call. Refuses a long call that can no
    /// longer end before its deadline, because other calls went first, and offers the place to the next call.
    pub(super) fn next(&mut self, now: Instant) -> Option<Next<W>> {
        if self.waiting == 0 {
            return None;
        }
        self.advance(now);
        let is_open = self.open < self.bounds.places;
        if !is_open && !self.has_reserve() {
            return None;
        }
        let index = self.choose(is_open)?;
        self.flows.advance(index, self.seconds());
        let WaitingCall { ticket, waiter, skill, deadline } = self.flows.pop_first(index)?;
        self.waiting -= 1;
        let left = deadline.saturating_duration_since(now);
        // A long call with a place may wait a little more before it starts.
        let pace = self.flows.get(index).average(&skill).filter(|pace| *pace > SHORT);
        match pace.map(|pace| pace + pace / stagger::PART).filter(|needs| *needs > left) {
            None => {
                self.start(ticket, if is_open { Kind::Open } else { Kind::Reserved }, now);
                Some(Next::Runs(ticket, waiter))
            }
            Some(needs) => {
                self.calls.remove(ticket.index);
                self.settle(index);
                Some(Next::Refused(waiter, GateRefusal::Late { retry_after: needs - left }))
            }
        }
    }

    /// Chooses the flow whose turn it is, among flows whose next call may run.
    fn choose(&self, is_open: bool) -> Option<usize> {
        let now = self.seconds();
        let may_run = |flow: &Flow<W>| is_open || self.may_reserve(flow, &flow.waiting[0].skill);
        let candidates = || self.flows.waiting().filter(|(_, flow)| may_run(flow));
        let by_use = |one: &PlaceTime, other: &PlaceTime| {
            one.running().cmp(&other.running()).then(one.used_until(now).total_cmp(&other.used_until(now)))
        };
        let by_arrival = |one: &Flow<W>, other: &Flow<W>| {
            let number = |flow: &Flow<W>| flow.waiting[0].ticket.number;
            number(one).cmp(&number(other))
        };
        // Compare principals first, because a principal's sessions compete only with each other.
        let (_, first) = candidates().min_by(|(_, one), (_, other)| {
            let used = |flow| &self.flows.principal(flow).used;
            by_use(used(one), used(other)).then(by_arrival(one, other))
        })?;
        let siblings = candidates().filter(|(_, flow)| flow.principal == first.principal);
        let of_flows = |one: &Flow<W>, other: &Flow<W>| by_use(&one.used, &other.used).then(by_arrival(one, other));
        siblings.min_by(|(_, one), (_, other)| of_flows(one, other)).map(|(index, _)| index)
    }

    /// Updates a flow after one of its calls left.
    fn settle(&mut self, flow: usize) {
        if !self.flows.get(flow).is_active() {
            self.active -= 1;
        }
    }

    /// Removes a call that ended or stopped waiting. Ignores an evicted call.
    pub(super) fn leave(&mut self, ticket: Ticket, ending: Ending, now: Instant) {
        self.advance(now);
        if self.calls.get(ticket.index).is_some_and(|call| call.number == ticket.number) {
            let call = self.calls.remove(ticket.index);
            self.finish(&call, ending, now);
        }
    }

    /// Removes a waiting call. Returns false if it runs or was evicted.
    pub(super) fn give_up(&mut self, ticket: Ticket, now: Instant) -> bool {
        let is_waiting = |call: &Call| call.number == ticket.number && call.phase == Phase::Waiting;
        let gives_up = self.calls.get(ticket.index).is_some_and(is_waiting);
        if gives_up {
            self.leave(ticket, Ending::CutShort, now);
        }
        gives_up
    }

    fn finish(&mut self, call: &Call, ending: Ending, now: Instant) {
        let flow = self.flows.get_mut(call.flow);
        flow.seen = now;
        match call.phase {
            Phase::Waiting => {
                self.flows.remove(call.flow, call.number);
                self.waiting -= 1;
            }
            Phase::Running { since, place } => {
                let ran = now.saturating_duration_since(since);
                match ending {
                    Ending::Whole => {
                        flow.paces.observe(call.skill.number, ran);
                        call.skill.pace.observe(ran);
                    }
                    Ending::CutShort => {
                        flow.paces.raise(call.skill.number, ran);
                        call.skill.pace.raise(ran);
                    }
                }
                match place {
                    Kind::Open => self.open -= 1,
                    Kind::Reserved => self.reserved.retain(|it| it.number != call.number),
                }
                self.flows.end(call.flow, Seconds::between(self.began, since), self.seconds());
            }
        }
        self.settle(call.flow);
    }

    /// Lets a flow compete with others for places.
    fn compete(&mut self, flow: usize) {
        let now = self.seconds();
        let is_running = |call: &&Call| call.phase != Phase::Waiting;
        let running = self.calls.iter().map(|(_, call)| call).filter(is_running).map(|call| call.flow);
        self.flows.arrive(flow, running, now);
    }

    /// Records a flow's new call.
    fn note(&mut self, flow: usize, skill: &Arc<Skill>) -> Ticket {
        let number = self.numbers;
        self.numbers += 1;
        if !self.flows.get(flow).is_active() {
            self.active += 1;
        }
        let index = self.calls.insert(Call { number, flow, skill: Arc::clone(skill), phase: Phase::Waiting });
        Ticket { index, number }
    }

    fn start(&mut self, ticket: Ticket, place: Kind, now: Instant) {
        let call = &mut self.calls[ticket.index];
        call.phase = Phase::Running { since: now, place };
        self.flows.start(call.flow, Seconds::between(self.began, now));
        match place {
            Kind::Open => self.open += 1,
            Kind::Reserved => self.reserved.push(ticket),
        }
    }

    /// Returns whether a reserved place is free.
    fn has_reserve(&self) -> bool {
        let GateBounds { places, reserved, .. } = self.bounds;
        // This also limits how many calls with reserved places may turn out to be long.
        self.reserved.len() < reserved && self.running() < places + 2 * reserved
    }

    /// Returns whether this flow's call may have a reserved place.
    fn may_reserve(&self, flow: &Flow<W>, skill: &Skill) -> bool {
        let running = flow.used.running();
        let is_modest = running == 0 || (running + 1) * self.active <= self.bounds.places;
        self.has_reserve() && is_modest && flow.expects_short(skill)
    }

    /// Makes room for a call in a full queue, if another principal, or another flow of its principal, has at least
    /// two more calls in it. Evicts the newest call of the longest such flow, and returns it.
    fn evict(&mut self, newcomer: usize) -> Option<W> {
        let newcomer = self.flows.get(newcomer);
        let of_principal = |flow: &Flow<W>| self.flows.principal(flow).waiting;
        let own = of_principal(newcomer);
        let newest = |flow: &Flow<W>| flow.waiting.back().map(|it| it.ticket.number);
        let length = |flow: &Flow<W>| (of_principal(flow), flow.waiting.len(), newest(flow));
        let (longest, flow) = self.flows.waiting().max_by_key(|(_, flow)| length(flow))?;
        let longest = if of_principal(flow) > own + 1 {
            longest
        } else {
            let siblings = self.flows.waiting().filter(|(_, flow)| flow.principal == newcomer.principal);
            let (longest, flow) = siblings.max_by_key(|(_, flow)| length(flow))?;
            (flow.waiting.len() > newcomer.waiting.len() + 1).then_some(longest)?
        };
        let WaitingCall { ticket, waiter, .. } = self.flows.pop_last(longest)?;
        let call = self.calls.remove(ticket.index);
        self.finish(&call, Ending::CutShort, self.now);
        Some(waiter)
    }

    /// Takes reserved places back from calls that turned out to be long.
    fn advance(&mut self, now: Instant) {
        self.now = self.now.max(now);
        let Self { reserved, calls, flows, open, .. } = self;
        reserved.retain(|ticket| {
            let Call { flow, skill, phase, .. } = &mut calls[ticket.index];
            let Phase::Running { since, place } = phase else { return true };
            let running = now.saturating_duration_since(*since);
            if running <= SHORT {
                return true;
            }
            *place = Kind::Open;
            *open += 1;
            skill.pace.raise(running);
            flows.get_mut(*flow).paces.raise(skill.number, running);
            false
        });
    }
}

#[cfg(test)]
mod tests;
