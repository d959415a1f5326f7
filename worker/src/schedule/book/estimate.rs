//! Estimates from earlier calls when a waiting call would end.

use std::time::{Duration, Instant};

use ahash::HashMap;

use super::{Arrival, GateCalls, GateRefusal};
use crate::schedule::pace::Skill;

impl<W> GateCalls<W> {
    /// Refuses a call that would not end before its deadline.
    pub(super) fn is_late(&self, index: usize, arrival: Arrival<'_>, now: Instant) -> Option<GateRefusal> {
        // Use the average, because one long call must not block all other calls of its skill.
        let pace = self.flows.get(index).average(arrival.skill)?;
        let starts_in = self.place_time_before(index, arrival.skill, pace) / self.bounds.places as f64;
        // Add a quarter. A call that passes its deadline half way wastes time that another call could use.
        let waits = Duration::try_from_secs_f64(starts_in * 1.25).unwrap_or(Duration::MAX);
        let needs = waits.saturating_add(pace);
        let left = arrival.deadline.saturating_duration_since(now);
        (needs > left).then(|| GateRefusal::Late { retry_after: needs - left })
    }

    /// Returns the place time, in seconds, of the calls that start before a flow's next call, and of that call. It
    /// is a call of `skill` that usually runs for `pace`. Principals take turns, and so do their flows. The flow's
    /// own calls count with their usual time. All waiting calls of another flow count like its first one.
    fn place_time_before(&self, index: usize, skill: &Skill, pace: Duration) -> f64 {
        let flow = self.flows.get(index);
        let usual = flow.paces.typical().or_else(|| skill.pace.mean()).unwrap_or(pace);
        // A reserved place serves a short call in between, so it need not wait for others' long calls.
        let most = if flow.expects_short(skill) && self.bounds.reserved > 0 { usual } else { Duration::MAX };
        let mine = flow.waiting.len() + 1;
        let (mut turns, mut time) = (mine, usual.as_secs_f64() * mine as f64);
        // The number and place time of each other principal's waiting calls.
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
}
