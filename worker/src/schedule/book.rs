//! Who runs next at a gate. Pure: it takes `now`, and neither locks nor sleeps.
//!
//! The gate has places. While one is free, whoever comes gets it. When none is free, calls wait in their flow, and a place
//! that becomes free goes to the flow
//!
//! 1. whose principal has the fewest calls running,
//! 2. then, that has the fewest calls running itself,
//! 3. then, that has used the least place time.
//!
//! So flows that want more than there is hold equally many places, and nobody owns a place that others could use. Place
//! time is compared in virtual time, as in generalized processor sharing (Parekh and Gallager 1993): it advances by what
//! each active flow is due, and a flow that comes back starts at the present, with neither credit nor an old debt.
//!
//! A place can't be taken back from a call, so fair turns alone would let a short call wait for a long one to end. Some
//! places are reserved: beyond the others, for calls that are expected to be short, of flows that hold less than an even
//! share. A call that proves to be longer gives its reserved place back and counts among the others. They are then
//! one too many, and the next place that becomes free is not granted.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ahash::HashMap;
use slab::Slab;

use super::flows::{Flow, Flows, Ticket, Waiting};
use super::pace::{SHORT, Skill};
use super::stagger;

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
    /// The queue is full, and nobody has more calls in it than this caller.
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
    /// Virtual time, in seconds, and when it was advanced.
    virtual_time: f64,
    advanced: Instant,
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
            virtual_time: 0.0,
            advanced: now,
        }
    }

    /// Calls that run.
    pub(super) fn running(&self) -> usize {
        self.open + self.reserved.len()
    }

    /// How many calls the flow of this running call has running, itself included.
    pub(super) fn running_beside(&self, ticket: Ticket) -> usize {
        self.calls.get(ticket.index).map_or(1, |call| self.flows.get(call.flow).running)
    }

    /// Whether a call that runs has to give its reserved place back before another may have one.
    pub(super) fn is_reserve_full(&self) -> bool {
        !self.reserved.is_empty() && self.reserved.len() >= self.bounds.reserved
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
        let may_run = |flow: &Flow<W>| is_open || self.may_reserve(flow, &flow.waiting[0].skill);
        let (index, _) = self.flows.waiting().filter(|(_, flow)| may_run(flow)).min_by(|(_, one), (_, other)| {
            let rank = |flow: &Flow<W>| (self.flows.running_of_principal(flow), flow.running);
            let number = |flow: &Flow<W>| flow.waiting[0].ticket.number;
            rank(one).cmp(&rank(other)).then(one.served.total_cmp(&other.served)).then(number(one).cmp(&number(other)))
        })?;
        let Waiting { ticket, waiter, skill, deadline } = self.flows.pop_first(index)?;
        self.waiting -= 1;
        let left = deadline.saturating_duration_since(now);
        // With its place, a long call may wait a little more until it starts.
        let pace = self.flows.get(index).expected(&skill).filter(|pace| *pace > SHORT);
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

    /// A call that still waits stops waiting. Does nothing if it runs, or was evicted.
    pub(super) fn give_up(&mut self, ticket: Ticket, now: Instant) {
        let is_waiting = |call: &Call| call.number == ticket.number && call.phase == Phase::Waiting;
        if self.calls.get(ticket.index).is_some_and(is_waiting) {
            self.leave(ticket, Ending::CutShort, now);
        }
    }

    fn finish(&mut self, call: &Call, ending: Ending, now: Instant) {
        if call.phase == Phase::Waiting {
            self.flows.remove(call.flow, call.number);
            self.waiting -= 1;
        }
        let flow = self.flows.get_mut(call.flow);
        match call.phase {
            Phase::Waiting => {}
            Phase::Running { since, place } => {
                let ran = now.saturating_duration_since(since);
                flow.served += ran.as_secs_f64();
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
                self.flows.end(call.flow);
            }
        }
        self.settle(call.flow);
    }

    /// Notes a new call of a flow.
    fn note(&mut self, flow: usize, skill: &Arc<Skill>) -> Ticket {
        let (number, it) = (self.numbers, self.flows.get_mut(flow));
        self.numbers += 1;
        if !it.is_active() {
            self.active += 1;
            it.served = it.served.max(self.virtual_time);
        }
        let index = self.calls.insert(Call { number, flow, skill: Arc::clone(skill), phase: Phase::Waiting });
        Ticket { index, number }
    }

    fn start(&mut self, ticket: Ticket, place: Kind, now: Instant) {
        let call = &mut self.calls[ticket.index];
        call.phase = Phase::Running { since: now, place };
        self.flows.start(call.flow);
        match place {
            Kind::Open => self.open += 1,
            Kind::Reserved => self.reserved.push(ticket),
        }
    }

    /// Whether a call of this flow may have a reserved place.
    fn may_reserve(&self, flow: &Flow<W>, skill: &Skill) -> bool {
        let Bounds { places, reserved, .. } = self.bounds;
        // What long calls took from the reserve has a bound too.
        let has_room = self.reserved.len() < reserved && self.running() < places + 2 * reserved;
        let is_modest = flow.running == 0 || (flow.running + 1) * self.active <= places;
        has_room && is_modest && flow.expected(skill).unwrap_or_default() <= SHORT
    }

    /// Refuses a call that would wait past its deadline.
    fn is_late(&self, index: usize, arrival: Arrival<'_>, now: Instant) -> Option<Refusal> {
        let pace = self.flows.get(index).expected(arrival.skill)?;
        let starts_in = self.place_time_before(index, arrival.skill, pace) / self.bounds.places as f64;
        // A quarter more: a call that passes its deadline half way has wasted what another could have used.
        let waits = Duration::try_from_secs_f64(starts_in * 1.25).unwrap_or(Duration::MAX);
        let needs = waits.saturating_add(pace);
        let left = arrival.deadline.saturating_duration_since(now);
        (needs > left).then(|| Refusal::Late { retry_after: needs - left })
    }

    /// The place time, in seconds, of the calls that start before the next call of a flow, and of that call. It is a call of
    /// `skill` and may run for `pace`. Principals take turns, and their flows do. The flow's own calls count by their usual
    /// time; all waiting calls of another flow count as its first one.
    fn place_time_before(&self, index: usize, skill: &Skill, pace: Duration) -> f64 {
        let flow = self.flows.get(index);
        let usual = flow.paces.typical().or_else(|| skill.pace.mean()).unwrap_or(pace);
        // A short call need not wait for long ones of others: the reserve serves it in between.
        let most = if pace <= SHORT && self.bounds.reserved > 0 { usual } else { Duration::MAX };
        let mine = flow.waiting.len() + 1;
        let (mut turns, mut time) = (mine, usual.as_secs_f64() * mine as f64);
        // The waiting calls of each other principal, and their place time.
        let mut principals = HashMap::<usize, (usize, f64)>::default();
        for (_, other) in self.flows.waiting().filter(|(other, _)| *other != index) {
            let average = other.average(&other.waiting[0].skill).unwrap_or(usual).min(most).as_secs_f64();
            if other.principal == flow.principal {
                let before = other.waiting.len().min(mine);
                turns += before;
                time += average * before as f64;
            } else {
                let (calls, all) = principals.entry(other.principal).or_default();
                *calls += other.waiting.len();
                *all += average * other.waiting.len() as f64;
            }
        }
        time + principals.values().map(|(calls, all)| all * turns.min(*calls) as f64 / *calls as f64).sum::<f64>()
    }

    /// Makes room in the queue: the newest call of the flow that has most waiting, if that is more than this one would have.
    fn evict(&mut self, newcomer: usize) -> Option<W> {
        let (longest, flow) = self.flows.waiting().max_by_key(|(_, flow)| flow.waiting.len())?;
        if flow.waiting.len() <= self.flows.get(newcomer).waiting.len() + 1 {
            return None;
        }
        let Waiting { ticket, waiter, .. } = self.flows.pop_last(longest)?;
        let call = self.calls.remove(ticket.index);
        self.finish(&call, Ending::CutShort, self.advanced);
        Some(waiter)
    }

    /// Advances virtual time, and takes reserved places back from calls that are not short.
    fn advance(&mut self, now: Instant) {
        let elapsed = now.saturating_duration_since(self.advanced).as_secs_f64();
        if self.active > 0 {
            self.virtual_time += elapsed * self.running() as f64 / self.active as f64;
        }
        self.advanced = self.advanced.max(now);
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
