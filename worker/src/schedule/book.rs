//! Who runs next at a gate. Pure: it takes `now`, and neither locks nor sleeps.
//!
//! The gate has places. While one is free, whoever comes gets it. When none is free, calls wait in their flow, and a place
//! that becomes free goes to the flow
//!
//! 1. whose principal has the fewest calls running,
//! 2. then, whose principal has used the least place time,
//! 3. then, that has the fewest calls running itself,
//! 4. then, that has used the least place time.
//!
//! So principals that want more than there is hold equally many places, and so do the flows of one principal, and nobody owns
//! a place that others could use.
//!
//! Place time is compared in virtual time, as in start-time fair queuing (Goyal, Vin and Cheng 1996). Virtual time advances
//! to the least place time of those that wait. Whoever has no call waiting starts at the virtual time with its next one: time
//! without calls gives no credit. When the first call waits, those that have calls running start even: what they used while
//! nobody waited is no debt.
//!
//! A place can't be taken back from a call, so fair turns alone would let a short call wait for a long one to end. Some
//! places are reserved: beyond the others, for calls that are expected to be short, of flows that hold less than an even
//! share. A call that proves to be longer gives its reserved place back and counts among the others. They are then
//! one too many, and the next place that becomes free is not granted.

use std::sync::Arc;
use std::time::{Duration, Instant};

use slab::Slab;

use super::flows::{Flow, Flows, Ticket, Waiting};
use super::pace::{SHORT, Skill};
use super::place_time::{PlaceTime, Seconds};
use super::stagger;

mod estimate;

/// The bounds of a gate.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    pub(super) places: usize,
    /// Places beyond those, for short calls.
    pub(super) reserved: usize,
    pub(super) most_waiting: usize,
}

/// A call that comes to a gate.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arrival<'a> {
    pub(super) principal: &'a str,
    pub(super) session: &'a str,
    pub(super) skill: &'a Arc<Skill>,
    pub(super) deadline: Instant,
}

/// What a call that got a place is told.
#[derive(Debug, Clone, Copy)]
pub(super) struct Admission {
    /// How many calls its caller has running, this one included.
    pub(super) running: usize,
    /// How long it may run. None: no call of its skill has ended.
    pub(super) expected: Option<Duration>,
}

/// What becomes of it. `G` is what learns of the grant.
#[derive(Debug)]
pub(super) enum Arrived<W, G> {
    Runs(Ticket),
    /// `evicted` made room for it.
    Waits {
        ticket: Ticket,
        granted: G,
        evicted: Option<W>,
    },
    Refused(Refusal),
}

/// What becomes of a call that waited.
#[derive(Debug)]
pub(super) enum Next<W> {
    Runs(Ticket, W),
    Refused(W, Refusal),
}

/// Why a call neither runs nor waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The queue is full, and neither another principal nor another session of this one has at least two more calls in it.
    Full,
    /// The call would not end before its deadline. After this time the same call may be accepted.
    Late { retry_after: Duration },
}

/// How a call left its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// It ended by itself: what it took is its pace.
    Whole,
    /// It was cancelled, or its deadline passed: it would have taken at least as long.
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

/// The calls of a gate. `W` is what waits for a place.
#[derive(Debug)]
pub(super) struct Book<W> {
    bounds: Bounds,
    /// Calls that hold an open place; more than there are after reserved ones proved to be long.
    open: usize,
    /// Calls that hold a reserved place.
    reserved: Vec<Ticket>,
    waiting: usize,
    flows: Flows<W>,
    /// Flows that have a call.
    active: usize,
    calls: Slab<Call>,
    numbers: u64,
    began: Instant,
    /// The latest time that it was told.
    now: Instant,
}

impl<W> Book<W> {
    pub(super) fn new(bounds: Bounds, now: Instant) -> Self {
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

    /// Calls that run.
    pub(super) fn running(&self) -> usize {
        self.open + self.reserved.len()
    }

    /// How many calls the flow of this running call has running, itself included, and how long the call is expected to run.
    pub(super) fn admission(&self, ticket: Ticket) -> Admission {
        let Some(call) = self.calls.get(ticket.index) else { return Admission { running: 1, expected: None } };
        let flow = self.flows.get(call.flow);
        Admission { running: flow.used.running(), expected: flow.expected(&call.skill) }
    }

    /// Whether a reserved place that becomes free may go to this call, which waits.
    pub(super) fn may_become_reserved(&self, ticket: Ticket) -> bool {
        let is_short = |call: &Call| self.flows.get(call.flow).expects_short(&call.skill);
        self.bounds.reserved > 0 && self.calls.get(ticket.index).is_some_and(is_short)
    }

    /// Calls that run or wait.
    pub(super) fn len(&self) -> usize {
        self.running() + self.waiting
    }

    /// A call comes. `waiter` is called if it has to wait: it makes what waits, and what learns of the grant.
    pub(super) fn arrive<G>(
        &mut self,
        arrival: Arrival<'_>,
        waiter: impl FnOnce() -> (W, G),
        now: Instant,
    ) -> Arrived<W, G> {
        self.advance(now);
        let index = self.flows.of(arrival.principal, arrival.session, now);
        let place = match () {
            // A call that waits goes first.
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
            return Arrived::Runs(ticket);
        }
        if let Some(refusal) = self.is_late(index, arrival, now) {
            return Arrived::Refused(refusal);
        }
        let evicted = if self.waiting < self.bounds.most_waiting { None } else { self.evict(index) };
        if self.waiting >= self.bounds.most_waiting {
            return Arrived::Refused(Refusal::Full);
        }
        self.compete(index);
        let ticket = self.note(index, arrival.skill);
        let (waiter, granted) = waiter();
        let (skill, deadline) = (Arc::clone(arrival.skill), arrival.deadline);
        self.flows.push(index, Waiting { ticket, skill, deadline, waiter });
        self.waiting += 1;
        Arrived::Waits { ticket, granted, evicted }
    }

    /// The call that runs next, if a place is free for one that waits. Calls of others may have gone before a call that came
    /// in time: a long one that can't end before its deadline any more is refused, and leaves the place to the next.
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
        let Waiting { ticket, waiter, skill, deadline } = self.flows.pop_first(index)?;
        self.waiting -= 1;
        let left = deadline.saturating_duration_since(now);
        // With its place, a long call may wait a little more until it starts.
        let pace = self.flows.get(index).average(&skill).filter(|pace| *pace > SHORT);
        match pace.map(|pace| pace + pace / stagger::PART).filter(|needs| *needs > left) {
            None => {
                self.start(ticket, if is_open { Kind::Open } else { Kind::Reserved }, now);
                Some(Next::Runs(ticket, waiter))
            }
            Some(needs) => {
                self.calls.remove(ticket.index);
                self.settle(index);
                Some(Next::Refused(waiter, Refusal::Late { retry_after: needs - left }))
            }
        }
    }

    /// The flow whose turn it is, of those whose next call may run.
    fn choose(&self, is_open: bool) -> Option<usize> {
        let now = self.seconds();
        let may_run = |flow: &Flow<W>| is_open || self.may_reserve(flow, &flow.waiting[0].skill);
        let candidates = || self.flows.waiting().filter(|(_, flow)| may_run(flow));
        let by_use = |one: &PlaceTime, other: &PlaceTime| {
            one.running().cmp(&other.running()).then(one.used(now).total_cmp(&other.used(now)))
        };
        let by_arrival = |one: &Flow<W>, other: &Flow<W>| {
            let number = |flow: &Flow<W>| flow.waiting[0].ticket.number;
            number(one).cmp(&number(other))
        };
        // The principal first: its sessions compete with each other only.
        let (_, first) = candidates().min_by(|(_, one), (_, other)| {
            let used = |flow| &self.flows.principal(flow).used;
            by_use(used(one), used(other)).then(by_arrival(one, other))
        })?;
        let siblings = candidates().filter(|(_, flow)| flow.principal == first.principal);
        let of_flows = |one: &Flow<W>, other: &Flow<W>| by_use(&one.used, &other.used).then(by_arrival(one, other));
        siblings.min_by(|(_, one), (_, other)| of_flows(one, other)).map(|(index, _)| index)
    }

    /// A call of the flow has left.
    fn settle(&mut self, flow: usize) {
        if !self.flows.get(flow).is_active() {
            self.active -= 1;
        }
    }

    /// A call ended, or stopped waiting. Does nothing for a call that was evicted.
    pub(super) fn leave(&mut self, ticket: Ticket, ending: Ending, now: Instant) {
        self.advance(now);
        if self.calls.get(ticket.index).is_some_and(|call| call.number == ticket.number) {
            let call = self.calls.remove(ticket.index);
            self.finish(&call, ending, now);
        }
    }

    /// A call that still waits stops waiting. False if it runs, or was evicted.
    pub(super) fn give_up(&mut self, ticket: Ticket, now: Instant) -> bool {
        let is_waiting = |call: &Call| call.number == ticket.number && call.phase == Phase::Waiting;
        let gives_up = self.calls.get(ticket.index).is_some_and(is_waiting);
        if gives_up {
            self.leave(ticket, Ending::CutShort, now);
        }
        gives_up
    }

    fn finish(&mut self, call: &Call, ending: Ending, now: Instant) {
        if call.phase == Phase::Waiting {
            self.flows.remove(call.flow, call.number);
            self.waiting -= 1;
        }
        let flow = self.flows.get_mut(call.flow);
        flow.seen = now;
        match call.phase {
            Phase::Waiting => {}
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

    /// A flow competes with others for places.
    fn compete(&mut self, flow: usize) {
        let now = self.seconds();
        let is_running = |call: &&Call| call.phase != Phase::Waiting;
        let running = self.calls.iter().map(|(_, call)| call).filter(is_running).map(|call| call.flow);
        self.flows.arrive(flow, running, now);
    }

    /// Notes a new call of a flow.
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

    /// Whether a reserved place is free.
    fn has_reserve(&self) -> bool {
        let Bounds { places, reserved, .. } = self.bounds;
        // What long calls took from the reserve has a bound too.
        self.reserved.len() < reserved && self.running() < places + 2 * reserved
    }

    /// Whether a call of this flow may have a reserved place.
    fn may_reserve(&self, flow: &Flow<W>, skill: &Skill) -> bool {
        let running = flow.used.running();
        let is_modest = running == 0 || (running + 1) * self.active <= self.bounds.places;
        self.has_reserve() && is_modest && flow.expects_short(skill)
    }

    /// Makes room in the queue for a call of a flow, if that leaves it even: by the newest call of the longest flow of the
    /// principal that has most waiting, or else of the newcomer's own principal.
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
        let Waiting { ticket, waiter, .. } = self.flows.pop_last(longest)?;
        let call = self.calls.remove(ticket.index);
        self.finish(&call, Ending::CutShort, self.now);
        Some(waiter)
    }

    /// Takes reserved places back from calls that are not short.
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
