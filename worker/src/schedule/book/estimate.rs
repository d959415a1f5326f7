//! When a call that has to wait would end, by what is known of the calls before it.

use std::time::{Duration, Instant};

use ahash::HashMap;

use super::{Arrival, Book, Refusal};
use crate::schedule::pace::Skill;

impl<W> Book<W> {
    /// Refuses a call that would wait past its deadline.
    pub(super) fn is_late(&self, index: usize, arrival: Arrival<'_>, now: Instant) -> Option<Refusal> {
        // The average: one call that took long must not keep all others from a skill.
        let pace = self.flows.get(index).average(arrival.skill)?;
        let starts_in = self.place_time_before(index, arrival.skill, pace) / self.bounds.places as f64;
        // A quarter more: a call that passes its deadline half way has wasted what another could have used.
        let waits = Duration::try_from_secs_f64(starts_in * 1.25).unwrap_or(Duration::MAX);
        let needs = waits.saturating_add(pace);
        let left = arrival.deadline.saturating_duration_since(now);
        (needs > left).then(|| Refusal::Late { retry_after: needs - left })
    }

    /// The place time, in seconds, of the calls that start before the next call of a flow, and of that call. It is a call of
    /// `skill` and usually runs for `pace`. Principals take turns, and their flows do. The flow's own calls count by their usual
    /// time; all waiting calls of another flow count as its first one.
    fn place_time_before(&self, index: usize, skill: &Skill, pace: Duration) -> f64 {
        let flow = self.flows.get(index);
        let usual = flow.paces.typical().or_else(|| skill.pace.mean()).unwrap_or(pace);
        // A short call need not wait for long ones of others: the reserve serves it in between.
        let most = if flow.expects_short(skill) && self.bounds.reserved > 0 { usual } else { Duration::MAX };
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
}
