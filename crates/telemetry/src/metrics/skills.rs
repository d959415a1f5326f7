//! Series by skill. A limited number of skills have separate series, so that a catalog of ten thousand skills does
//! not become a million series. The other skills of each runner share series.
//!
//! The owner of a skill list looks up each skill's series once and stores them with the skill, so calls need no
//! lookup.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::metrics::instruments::{BUCKETS, Counter, Histogram};
use crate::metrics::metric::OTHER;

/// The maximum number of runners with shared series.
const MOST_RUNNERS: usize = 16;

/// The maximum number of skills with separate series. With [`SERIES`] each, they have fewer than 200,000 series.
pub const MOST_SKILLS: usize = 4000;

/// The maximum number of series of one skill: calls, circuit, a histogram with its sum and count, and errors.
pub const SERIES: usize = 2 + BUCKETS + 2 + MOST_KINDS + 1;

/// The series of one skill, or of all skills that share them.
#[derive(Debug)]
pub struct SkillSeries {
    skill: Box<str>,
    runner: Box<str>,
    /// Completed calls, successful or not.
    pub calls: Counter,
    /// The durations of calls that ran.
    pub durations: Histogram,
    /// Errors of failed calls.
    pub errors: Errors,
}

/// The series of all skills, separate and shared.
#[derive(Debug)]
pub struct SkillMetrics {
    most: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    own: HashMap<Box<str>, Arc<SkillSeries>>,
    /// The shared series by runner.
    shared: BTreeMap<Box<str>, Arc<SkillSeries>>,
}

impl SkillSeries {
    fn new(skill: &str, runner: &str) -> Arc<Self> {
        let (skill, runner) = (skill.into(), runner.into());
        let (calls, durations, errors) = (Counter::default(), Histogram::default(), Errors::default());
        Arc::new(Self { skill, runner, calls, durations, errors })
    }

    /// Returns the values of the labels `skill` and `runner`.
    pub fn labels(&self) -> [&str; 2] {
        [&self.skill, &self.runner]
    }
}

impl SkillMetrics {
    /// Creates series for at most `most` separate skills, and never more than [`MOST_SKILLS`].
    pub fn new(most: usize) -> Self {
        Self { most: most.min(MOST_SKILLS), state: Mutex::default() }
    }

    /// Returns the series of a skill: separate ones if there is room, otherwise the shared ones of its runner. If
    /// the skill's runner has changed, its counts start at zero.
    pub fn get(&self, skill: &str, runner: &str) -> Arc<SkillSeries> {
        let mut state = self.state.lock();
        match state.own.get(skill) {
            Some(series) if *series.runner == *runner => return Arc::clone(series),
            // A skill named like the shared series would have the same labels.
            None if state.own.len() >= self.most || skill == OTHER => return state.shared_series(runner),
            _ => {}
        }
        let series = SkillSeries::new(skill, runner);
        state.own.insert(skill.into(), Arc::clone(&series));
        series
    }

    /// Removes the series of skills that are no longer `wanted`, to make room for others.
    pub fn keep(&self, wanted: impl Fn(&str) -> bool) {
        self.state.lock().own.retain(|skill, _| wanted(skill));
    }

    /// Returns all series, sorted by skill. Shared series come last.
    pub fn all(&self) -> Vec<Arc<SkillSeries>> {
        let state = self.state.lock();
        let mut own: Vec<_> = state.own.values().cloned().collect();
        let shared: Vec<_> = state.shared.values().cloned().collect();
        drop(state);
        own.sort_unstable_by(|one, other| one.skill.cmp(&other.skill));
        own.into_iter().chain(shared).collect()
    }
}

impl State {
    /// Returns the series that the skills of a runner share.
    fn shared_series(&mut self, runner: &str) -> Arc<SkillSeries> {
        let is_known = self.shared.contains_key(runner) || self.shared.len() < MOST_RUNNERS;
        let runner = if is_known { runner } else { OTHER };
        Arc::clone(self.shared.entry(runner.into()).or_insert_with(|| SkillSeries::new(OTHER, runner)))
    }
}

/// The maximum number of separately counted pairs of code and blame per skill. All other pairs share one count,
/// because a skill chooses its own codes.
pub const MOST_KINDS: usize = 24;

/// The number of occurrences of each error, by code and blame. Only failed calls are counted here, so a lock is cheap
/// enough.
#[derive(Debug, Default)]
pub struct Errors(Mutex<Vec<ErrorCount>>);

/// A code, a blame, and the number of errors with both.
pub type ErrorCount = (&'static str, &'static str, u64);

impl Errors {
    /// Adds one to the count of an error.
    pub fn add(&self, code: &'static str, blame: &'static str) {
        let mut kinds = self.0.lock();
        let known = |kinds: &[ErrorCount], code, blame| kinds.iter().position(|it| (it.0, it.1) == (code, blame));
        let at = known(&kinds, code, blame);
        let (code, blame) = if at.is_none() && kinds.len() >= MOST_KINDS { (OTHER, OTHER) } else { (code, blame) };
        match at.or_else(|| known(&kinds, code, blame)) {
            Some(at) => kinds[at].2 += 1,
            None => kinds.push((code, blame, 1)),
        }
    }

    /// Returns the counts of all errors that occurred.
    pub fn read(&self) -> Vec<ErrorCount> {
        self.0.lock().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(skills: &SkillMetrics) -> Vec<String> {
        skills.all().iter().map(|it| it.labels().join("/")).collect()
    }

    #[test]
    fn skills_past_the_bound_share_the_series_of_their_runner() {
        let skills = SkillMetrics::new(2);
        for (skill, runner) in [("b", "http"), ("a", "http"), ("c", "http"), ("d", "docker"), ("e", "http")] {
            skills.get(skill, runner).calls.inc();
        }
        assert_eq!(names(&skills), ["a/http", "b/http", "_other/docker", "_other/http"]);
        assert_eq!(skills.get("c", "http").calls.get(), 2);
        let skills = SkillMetrics::new(2);
        drop((skills.get(OTHER, "http"), skills.get("a", "http")));
        assert_eq!(names(&skills), ["a/http", "_other/http"], "a skill with this name has none of its own");
    }

    #[test]
    fn a_skill_keeps_its_series_until_it_is_gone_or_another_runner_runs_it() {
        let skills = SkillMetrics::new(1);
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
        let skills = SkillMetrics::new(usize::MAX);
        for number in 0..10_000 {
            skills.get(&format!("skill-{number}"), &format!("runner-{number}"));
        }
        let all = skills.all().len();
        assert_eq!(all, MOST_SKILLS + MOST_RUNNERS + 1);
        assert!(all * SERIES < 200_000, "{}", all * SERIES);
    }

    #[test]
    fn errors_are_counted_by_kind_and_those_past_the_bound_together() {
        const CODES: [&str; 30] = ["x"; 30];
        let errors = Errors::default();
        for _ in 0..2 {
            errors.add("TIMEOUT", "skill");
            errors.add("TIMEOUT", "caller");
        }
        assert_eq!(errors.read(), [("TIMEOUT", "skill", 2), ("TIMEOUT", "caller", 2)]);
        for (at, code) in CODES.iter().enumerate() {
            let code: &'static str = Box::leak(format!("{code}{at}").into_boxed_str());
            errors.add(code, "skill");
        }
        let read = errors.read();
        assert_eq!(read.len(), MOST_KINDS + 1);
        assert_eq!(read.last(), Some(&(OTHER, OTHER, 32 - MOST_KINDS as u64)));
    }
}
