//! The scheduler: which of the calls at this worker run, and in which order the others wait. `docs/fair-shares.md` explains
//! it to operators.
//!
//! A call passes two gates. A skill with a `concurrency` of its own has the first, so calls that wait for that limit hold
//! nothing that other skills need. The worker is the second; its places are the slots. Both have the same rules, those of
//! [`book`]: each principal gets an even share of the places, and each of its sessions an even part of that. Gateways need
//! not agree on anything for that: the worker sees the calls of all of them.

mod book;
mod flows;
mod gate;
mod pace;
mod place_time;
mod principals;
#[cfg(test)]
mod simulation;
mod stagger;

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

pub(crate) use book::Refusal;
use book::{Arrival, Bounds};
use gate::{Gate, Place};
pub(crate) use pace::Skill;
use stagger::Stagger;

/// Schedules the calls of a worker.
#[derive(Debug)]
pub(crate) struct Scheduler {
    worker: Arc<Gate>,
    concurrency: usize,
    starts: Mutex<Stagger>,
}

/// A skill's own concurrency limit, with its queue.
#[derive(Debug, Clone)]
pub(crate) struct SkillLimit {
    gate: Arc<Gate>,
    /// How long its calls hold a place there: they also wait for the worker meanwhile, which does not make the skill slow.
    skill: Arc<Skill>,
}

/// A call that asks for a slot.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Request<'a> {
    pub(crate) principal: &'a str,
    pub(crate) session: &'a str,
    pub(crate) skill: &'a Arc<Skill>,
    /// The skill's own limit.
    pub(crate) limit: Option<&'a SkillLimit>,
    pub(crate) deadline: Instant,
}

/// The right to run now. Free again when its last clone is dropped: everything that works on the call holds one.
#[derive(Debug, Clone)]
pub struct Slot {
    places: Arc<Places>,
}

/// The worker's own, and the skill's.
#[derive(Debug)]
struct Places {
    of_worker: Place,
    of_skill: Option<Place>,
}

/// Marks a call as cut short when it is dropped before [`Running::ended`], so that its time is not taken for its pace.
pub(crate) struct Running(Weak<Places>);

impl Slot {
    /// The nice value for the processes of the call. A caller that has n calls running gives each 1/n of the weight that a
    /// single call has, so callers get even shares of the processors too, and a burst of starts does not delay others.
    pub(crate) fn nice(&self) -> u8 {
        nice(self.places.of_worker.admission().running)
    }

    /// Watches the call. To be dropped before the call's slot is.
    pub(crate) fn watch(&self) -> Running {
        Running(Arc::downgrade(&self.places))
    }
}

impl Running {
    /// The call ended by itself.
    pub(crate) fn ended(mut self) {
        self.0 = Weak::new();
    }
}

impl Drop for Running {
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

/// The kernel gives each nice value 1/1.25 of the weight of the one before (sched(7)).
fn nice(running: usize) -> u8 {
    ((running.max(1) as f64).ln() / 1.25_f64.ln()).round().min(19.0) as u8
}

impl SkillLimit {
    /// At most `concurrency` calls of the skill run at once, and `queue` more wait.
    pub(crate) fn new(concurrency: usize, queue: usize) -> Self {
        let bounds = Bounds { places: concurrency, reserved: 0, most_waiting: queue };
        Self { gate: Gate::new(bounds), skill: Arc::default() }
    }
}

impl Scheduler {
    /// `concurrency` calls run at once, and up to `reserve` more that are short; `queue` more wait.
    pub(crate) fn new(concurrency: usize, reserve: usize, queue: usize) -> Self {
        let bounds = Bounds { places: concurrency, reserved: reserve, most_waiting: queue };
        Self { worker: Gate::new(bounds), concurrency, starts: Mutex::default() }
    }

    /// Waits for a slot, and says how long the call waited for the worker. The wait for the skill's own limit comes first
    /// and says nothing of how busy the worker is.
    ///
    /// # Errors
    /// The call is refused. See [`Refusal`].
    pub(crate) async fn slot(&self, request: Request<'_>) -> Result<(Slot, Duration), Refusal> {
        let Request { principal, session, skill, limit, deadline } = request;
        let arrival = Arrival { principal, session, skill, deadline };
        let of_skill = match limit {
            Some(SkillLimit { gate, skill }) => Some(gate.enter(Arrival { skill, ..arrival }).await?),
            None => None,
        };
        let asked = Instant::now();
        let of_worker = self.worker.enter(arrival).await?;
        self.stagger(of_worker.admission().expected).await;
        let slot = Slot { places: Arc::new(Places { of_worker, of_skill }) };
        slot.places.set_whole(true);
        Ok((slot, asked.elapsed()))
    }

    /// Waits, with a slot, until a call that may run for this long may start: shortly.
    async fn stagger(&self, expected: Option<Duration>) {
        let start = {
            let mut starts = self.starts.lock().unwrap_or_else(PoisonError::into_inner);
            starts.start(expected, self.concurrency, Instant::now())
        };
        if let Some(start) = start {
            tokio::time::sleep_until(start.into()).await;
        }
    }

    /// A slot for a caller that tests make up, once one is free.
    #[cfg(test)]
    pub(crate) async fn any_slot(&self) -> Slot {
        let (skill, deadline) = (Arc::default(), Instant::now() + Duration::from_secs(60));
        let request = Request { principal: "", session: "", skill: &skill, limit: None, deadline };
        self.slot(request).await.map(|(slot, _)| slot).unwrap()
    }

    /// Calls that hold a slot, and calls that wait for one. Those that wait for a skill's own limit do not count.
    pub(crate) fn load(&self) -> (usize, usize) {
        self.worker.load()
    }

    /// Calls that hold a slot or wait for one. Those that wait for a skill's own limit do not count.
    pub(crate) fn in_flight(&self) -> usize {
        self.worker.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_calls_of_a_caller_have_the_weight_of_one() {
        assert_eq!(nice(1), 0);
        for rank in 1..=64_u8 {
            let weight = f64::from(rank) / 1.25_f64.powi(nice(rank.into()).into());
            assert!((0.89..=1.12).contains(&weight), "{rank} calls weigh {weight}");
        }
        assert_eq!(nice(10_000), 19);
    }

    #[tokio::test]
    async fn only_a_call_that_ended_by_itself_shows_how_long_its_skill_takes() {
        let (scheduler, skill): (_, Arc<Skill>) = (Scheduler::new(1, 0, 8), Arc::default());
        let deadline = Instant::now() + Duration::from_secs(60);
        let request = Request { principal: "", session: "", skill: &skill, limit: None, deadline };
        skill.pace.observe(Duration::from_secs(5));
        for _ in 0..3 {
            let (slot, _) = scheduler.slot(request).await.unwrap();
            drop(slot.watch());
        }
        assert_eq!(skill.pace.read(), Some(Duration::from_secs(5)));
        let (slot, _) = scheduler.slot(request).await.unwrap();
        slot.watch().ended();
        drop(slot);
        assert!(skill.pace.read() < Some(Duration::from_secs(5)));
    }

    #[tokio::test]
    async fn what_a_call_waits_for_the_worker_does_not_make_its_skill_slow() {
        let (scheduler, skill, limit) = (Scheduler::new(1, 0, 8), Arc::default(), SkillLimit::new(1, 8));
        let deadline = Instant::now() + Duration::from_secs(60);
        let request = Request { principal: "", session: "", skill: &skill, limit: Some(&limit), deadline };
        let other = scheduler.any_slot().await;
        let release = async {
            tokio::time::sleep(Duration::from_millis(20)).await;
            assert_eq!(scheduler.load(), (1, 1));
            let released = Instant::now();
            drop(other);
            released
        };
        let (slot, released) = tokio::join!(scheduler.slot(request), release);
        drop(slot.unwrap());
        skill.pace.read().into_iter().for_each(|pace| assert!(pace <= released.elapsed(), "{pace:?}"));
        assert!(skill.pace.read().is_some());
    }

    #[tokio::test]
    async fn the_next_call_of_a_busy_caller_yields_to_the_first_of_another() {
        let (scheduler, skill, deadline) =
            (Scheduler::new(8, 0, 8), Arc::default(), Instant::now() + Duration::from_secs(60));
        let request = |session| Request { principal: "", session, skill: &skill, limit: None, deadline };
        let mut slots = Vec::new();
        for session in ["busy", "busy", "busy", "quiet"] {
            slots.push(scheduler.slot(request(session)).await.unwrap().0);
        }
        assert_eq!(slots.iter().map(Slot::nice).collect::<Vec<_>>(), [0, 3, 5, 0]);
    }
}
