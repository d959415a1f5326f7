//! Decides which calls run on this worker, and in which order the others wait. `docs/fair-shares.md` explains this
//! to operators.
//!
//! A call passes two gates. The first one exists only for skills with a `concurrency` limit. Calls that wait there
//! hold nothing that other skills need. The second gate belongs to the worker, and its places are the slots. Both
//! follow the rules of [`book`]: each principal gets an even share of the places, and each of its sessions an even
//! part of that share. Gateways need no coordination, because the worker sees the calls of all gateways.

mod book;
mod flows;
mod gate;
mod pace;
mod place_time;
mod principals;
mod stagger;

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio_util::task::task_tracker::TaskTrackerToken;

pub(crate) use book::GateRefusal;
use book::{Arrival, GateBounds};
use gate::{Gate, GatePermit};
pub(crate) use pace::Skill;
use stagger::Stagger;

/// Schedules a worker's calls.
#[derive(Debug)]
pub(crate) struct Scheduler {
    worker: Arc<Gate>,
    concurrency: usize,
    starts: Mutex<Stagger>,
}

/// A skill's concurrency limit, with its queue.
#[derive(Debug, Clone)]
pub(crate) struct SkillLimit {
    gate: Arc<Gate>,
    /// Tracks how long calls hold a place of this limit. The wait for the worker counts here, but does not make
    /// the skill slow.
    skill: Arc<Skill>,
}

/// A request for a slot.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Request<'a> {
    pub(crate) principal: &'a str,
    pub(crate) session: &'a str,
    pub(crate) skill: &'a Arc<Skill>,
    /// The skill's limit, if it has one.
    pub(crate) limit: Option<&'a SkillLimit>,
    pub(crate) deadline: Instant,
}

/// The right to run. Everything that works on a call holds a clone. Dropping the last clone frees the slot.
#[derive(Debug, Clone)]
pub struct Slot {
    places: Arc<Places>,
    /// Tells that the run of an operation has parts that have not ended.
    _part: Option<TaskTrackerToken>,
}

/// The places of a call at the worker's gate and at its skill's gate.
#[derive(Debug)]
struct Places {
    of_worker: GatePermit,
    of_skill: Option<GatePermit>,
}

/// Marks a call as cut short if dropped before [`RunGuard::complete`], so that its time does not count as its
/// pace.
pub(crate) struct RunGuard(Weak<Places>);

impl Slot {
    /// Returns the nice value for the call's processes. If a caller has n running calls, each gets 1/n of the
    /// weight of a single call. So callers also get even shares of the processors, and a burst of calls does not
    /// delay other callers.
    pub(crate) fn nice(&self) -> u8 {
        nice(self.places.of_worker.admission.running)
    }

    /// Holds `part` for as long as the slot.
    pub(crate) fn with_part(self, part: Option<TaskTrackerToken>) -> Self {
        Self { _part: part, ..self }
    }

    /// Starts to watch the call. Drop the guard before the call's slot.
    pub(crate) fn watch(&self) -> RunGuard {
        RunGuard(Arc::downgrade(&self.places))
    }
}

impl RunGuard {
    /// Records that the call ended on its own.
    pub(crate) fn complete(mut self) {
        self.0 = Weak::new();
    }
}

impl Drop for RunGuard {
    fn drop(&mut self) {
        if let Some(places) = self.0.upgrade() {
            places.set_whole(false);
        }
    }
}

impl Places {
    fn set_whole(&self, is_whole: bool) {
        self.of_worker.set_whole(is_whole);
        self.of_skill.iter().for_each(|of_skill| of_skill.set_whole(is_whole));
    }
}

/// Converts a number of running calls to a nice value. Each value has 1/1.25 of the previous one's weight
/// (sched(7)).
fn nice(running: usize) -> u8 {
    ((running.max(1) as f64).ln() / 1.25_f64.ln()).round().min(19.0) as u8
}

impl SkillLimit {
    /// Creates a limit: at most `concurrency` calls of the skill run concurrently, and `queue` more wait.
    pub(crate) fn new(concurrency: usize, queue: usize) -> Self {
        let bounds = GateBounds { places: concurrency, reserved: 0, most_waiting: queue };
        Self { gate: Gate::new(bounds), skill: Arc::default() }
    }
}

impl Scheduler {
    /// Creates a scheduler: `concurrency` calls run concurrently, up to `reserve` more if they are short, and
    /// `queue` more wait.
    pub(crate) fn new(concurrency: usize, reserve: usize, queue: usize) -> Self {
        let bounds = GateBounds { places: concurrency, reserved: reserve, most_waiting: queue };
        Self { worker: Gate::new(bounds), concurrency, starts: Mutex::default() }
    }

    /// Waits for a slot. Also returns how long the call waited for the worker. This excludes the wait for the
    /// skill's limit, which is unrelated to the worker's load.
    ///
    /// # Errors
    /// Returns [`GateRefusal`] if the call is refused.
    pub(crate) async fn slot(&self, request: Request<'_>) -> Result<(Slot, Duration), GateRefusal> {
        let Request { principal, session, skill, limit, deadline } = request;
        let arrival = Arrival { principal, session, skill, deadline };
        let of_skill = match limit {
            Some(SkillLimit { gate, skill }) => Some(gate.enter(Arrival { skill, ..arrival }).await?),
            None => None,
        };
        let asked = Instant::now();
        let of_worker = self.worker.enter(arrival).await?;
        self.stagger(of_worker.admission.expected).await;
        let slot = Slot { places: Arc::new(Places { of_worker, of_skill }), _part: None };
        slot.places.set_whole(true);
        Ok((slot, asked.elapsed()))
    }

    /// Briefly delays a call that has a slot and is expected to run for this long.
    async fn stagger(&self, expected: Option<Duration>) {
        let start = {
            let mut starts = self.starts.lock();
            starts.start(expected, self.concurrency, Instant::now())
        };
        if let Some(start) = start {
            tokio::time::sleep_until(start.into()).await;
        }
    }

    /// Waits for a slot for an invented caller, for tests.
    #[cfg(test)]
    pub(crate) async fn any_slot(&self) -> Slot {
        let (skill, deadline) = (Arc::default(), Instant::now() + Duration::from_secs(60));
        let request = Request { principal: "", session: "", skill: &skill, limit: None, deadline };
        self.slot(request).await.map(|(slot, _)| slot).unwrap()
    }

    /// Returns the number of calls that hold a slot and that wait for one. Excludes calls that wait for a skill's
    /// limit.
    pub(crate) fn load(&self) -> (usize, usize) {
        self.worker.load()
    }

    /// Returns the number of calls that hold a slot or wait for one. Excludes calls that wait for a skill's limit.
    pub(crate) fn in_flight(&self) -> usize {
        let (running, waiting) = self.load();
        running + waiting
    }
}

#[cfg(test)]
mod tests;
