//! Series by skill. Only so many skills have series of their own, so that a catalog of ten thousand skills does not become
//! a million series; the others share one for each runner.
//!
//! Whoever has a list of skills asks for the series of each once, and keeps it beside the skill: a call looks nothing up.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::errors::Errors;
use crate::instruments::{Counter, Histogram};
use crate::metric::OTHER;

/// Runners that are named in the series which skills share.
const MOST_RUNNERS: usize = 16;

/// The most skills that may have series of their own: with [`SERIES`] each, fewer than 200,000 in all.
pub const MOST_SKILLS: usize = 4000;

/// The most series of one skill: calls, circuit, a histogram with its sum and count, and errors.
pub const SERIES: usize = 2 + crate::buckets::BUCKETS + 2 + crate::errors::MOST_KINDS + 1;

/// What is counted of one skill, or of all that share a series.
#[derive(Debug)]
pub struct SkillSeries {
    skill: Box<str>,
    runner: Box<str>,
    /// Calls that ended.
    pub calls: Counter,
    /// How long those took that ran.
    pub durations: Histogram,
    /// How those ended that failed.
    pub errors: Errors,
}

/// The series of all skills.
#[derive(Debug)]
pub struct Skills {
    most: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    own: HashMap<Box<str>, Arc<SkillSeries>>,
    /// By runner.
    shared: BTreeMap<Box<str>, Arc<SkillSeries>>,
}

impl SkillSeries {
    fn new(skill: &str, runner: &str) -> Arc<Self> {
        let (skill, runner) = (skill.into(), runner.into());
        let (calls, durations, errors) = (Counter::default(), Histogram::default(), Errors::default());
        Arc::new(Self { skill, runner, calls, durations, errors })
    }

    /// The labels `skill` and `runner`.
    pub fn labels(&self) -> [&str; 2] {
        [&self.skill, &self.runner]
    }
}

impl Skills {
    /// At most `most` skills get series of their own, and never more than [`MOST_SKILLS`].
    pub fn new(most: usize) -> Self {
        Self { most: most.min(MOST_SKILLS), state: Mutex::default() }
    }

    /// The series of a skill: its own if there is room. A skill that another runner runs now begins anew.
    pub fn get(&self, skill: &str, runner: &str) -> Arc<SkillSeries> {
        let mut state = self.lock();
        match state.own.get(skill) {
            Some(series) if *series.runner == *runner => return Arc::clone(series),
            // One that is called like what others share would have the same labels.
            None if state.own.len() >= self.most || skill == OTHER => return state.shared(runner),
            _ => {}
        }
        let series = SkillSeries::new(skill, runner);
        state.own.insert(skill.into(), Arc::clone(&series));
        series
    }

    /// Forgets the series of the skills that are not `wanted` any more, which makes room for others.
    pub fn keep(&self, wanted: impl Fn(&str) -> bool) {
        self.lock().own.retain(|skill, _| wanted(skill));
    }

    /// All series there are, sorted by skill; those that skills share come last.
    pub fn all(&self) -> Vec<Arc<SkillSeries>> {
        let state = self.lock();
        let mut own: Vec<_> = state.own.values().cloned().collect();
        let shared: Vec<_> = state.shared.values().cloned().collect();
        drop(state);
        own.sort_unstable_by(|one, other| one.skill.cmp(&other.skill));
        own.into_iter().chain(shared).collect()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn shared(&mut self, runner: &str) -> Arc<SkillSeries> {
        let is_known = self.shared.contains_key(runner) || self.shared.len() < MOST_RUNNERS;
        let runner = if is_known { runner } else { OTHER };
        Arc::clone(self.shared.entry(runner.into()).or_insert_with(|| SkillSeries::new(OTHER, runner)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(skills: &Skills) -> Vec<String> {
        skills.all().iter().map(|it| it.labels().join("/")).collect()
    }

    #[test]
    fn skills_past_the_bound_share_the_series_of_their_runner() {
        let skills = Skills::new(2);
        for (skill, runner) in [("b", "http"), ("a", "http"), ("c", "http"), ("d", "docker"), ("e", "http")] {
            skills.get(skill, runner).calls.inc();
        }
        assert_eq!(names(&skills), ["a/http", "b/http", "_other/docker", "_other/http"]);
        assert_eq!(skills.get("c", "http").calls.get(), 2);
        let skills = Skills::new(2);
        drop((skills.get(OTHER, "http"), skills.get("a", "http")));
        assert_eq!(names(&skills), ["a/http", "_other/http"], "a skill with this name has none of its own");
    }

    #[test]
    fn a_skill_keeps_its_series_until_it_is_gone_or_another_runner_runs_it() {
        let skills = Skills::new(1);
        skills.get("a", "http").calls.inc();
        assert_eq!(skills.get("a", "http").calls.get(), 1);
        assert_eq!(skills.get("a", "docker").calls.get(), 0);
        skills.keep(|skill| skill == "b");
        assert_eq!(names(&skills), [""; 0]);
        skills.get("b", "http");
        assert_eq!(names(&skills), ["b/http"]);
    }

    #[test]
    fn ten_thousand_skills_of_any_runner_stay_below_two_hundred_thousand_series() {
        let skills = Skills::new(usize::MAX);
        for number in 0..10_000 {
            skills.get(&format!("skill-{number}"), &format!("runner-{number}"));
        }
        let all = skills.all().len();
        assert_eq!(all, MOST_SKILLS + MOST_RUNNERS + 1);
        assert!(all * SERIES < 200_000, "{}", all * SERIES);
    }
}
