//! Tracks how long calls take, to tell short calls from long ones before they run.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The maximum expected time of a short call.
pub(super) const SHORT: Duration = Duration::from_millis(500);

/// How much a shorter call lowers its skill's pace: one sixteenth of the difference. A longer call raises it at
/// once, because a skill's calls have different arguments, and one long call shows how long the next may take.
const SKILL_WEIGHT: u32 = 16;

/// How much a call changes its caller's pace: a quarter of the difference, in both directions.
const CALLER_WEIGHT: u32 = 4;

/// The maximum number of remembered skills per caller.
const MAX_SKILLS: usize = 8;

/// The scheduler's state for a skill.
#[derive(Debug)]
pub(crate) struct Skill {
    /// Unique among the skills of this process.
    pub(super) number: u64,
    pub(super) pace: SkillPace,
}

impl Default for Skill {
    fn default() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self { number: NEXT.fetch_add(1, Ordering::Relaxed), pace: SkillPace::default() }
    }
}

/// How long a skill's calls take, over all callers, in microseconds. Zero before the first call.
#[derive(Debug, Default)]
pub(super) struct SkillPace {
    /// The time that the next call may take.
    pace: AtomicU64,
    /// The moving average over calls that ended on their own.
    mean: AtomicU64,
}

impl SkillPace {
    /// Returns how long the next call may take, or `None` before the first call.
    pub(super) fn read(&self) -> Option<Duration> {
        read(&self.pace)
    }

    /// Returns the average duration of a call, or `None` before the first call has ended.
    pub(super) fn mean(&self) -> Option<Duration> {
        read(&self.mean)
    }

    /// Records that a call has run for this long and has not ended, or was cut short.
    pub(super) fn raise(&self, running: Duration) {
        self.pace.fetch_max(micros(running), Ordering::Relaxed);
    }

    /// Records that a call ended on its own. If two calls end at once, one of them may not count, because these
    /// are estimates.
    pub(super) fn observe(&self, ran: Duration) {
        let (ran, weight) = (micros(ran).max(1), u64::from(SKILL_WEIGHT));
        let before = self.pace.load(Ordering::Relaxed);
        let after = if ran >= before { ran } else { before - (before - ran).div_ceil(weight) };
        self.pace.store(after, Ordering::Relaxed);
        let mean = match self.mean.load(Ordering::Relaxed) {
            0 => ran,
            before if ran >= before => before + (ran - before) / weight,
            before => before - (before - ran) / weight,
        };
        self.mean.store(mean, Ordering::Relaxed);
    }
}

fn read(micros: &AtomicU64) -> Option<Duration> {
    Some(Duration::from_micros(micros.load(Ordering::Relaxed))).filter(|it| !it.is_zero())
}

/// How long one caller's calls take, by skill.
#[derive(Debug, Default)]
pub(super) struct CallerPaces {
    /// Skills with their paces, least recently used first.
    of_skills: Vec<(u64, Duration)>,
    /// The caller's pace over all skills.
    typical: Option<Duration>,
}

impl CallerPaces {
    /// Returns a skill's pace, or `None` before its first call.
    pub(super) fn skill_pace(&self, skill: u64) -> Option<Duration> {
        self.of_skills.iter().find(|(id, _)| *id == skill).map(|(_, pace)| *pace)
    }

    /// Returns the pace over all skills, or `None` before the first call.
    pub(super) fn typical(&self) -> Option<Duration> {
        self.typical
    }

    pub(super) fn observe(&mut self, skill: u64, ran: Duration) {
        let moved = |pace: Duration| (pace * (CALLER_WEIGHT - 1) + ran) / CALLER_WEIGHT;
        self.typical = Some(self.typical.map_or(ran, moved));
        self.put(skill, self.skill_pace(skill).map_or(ran, moved));
    }

    /// Records that a call has run for this long and has not ended, or was cut short. A skill's first call counts
    /// only if it is long. Otherwise the skill's general pace is the better estimate.
    pub(super) fn raise(&mut self, skill: u64, running: Duration) {
        if self.skill_pace(skill).map_or(running > SHORT, |pace| pace < running) {
            self.put(skill, running);
        }
    }

    fn put(&mut self, skill: u64, pace: Duration) {
        self.of_skills.retain(|(id, _)| *id != skill);
        if self.of_skills.len() >= MAX_SKILLS {
            self.of_skills.remove(0);
        }
        self.of_skills.push((skill, pace));
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_long_call_makes_a_skill_long_and_many_short_ones_make_it_short() {
        let (pace, short) = (SkillPace::default(), Duration::from_millis(1));
        assert_eq!(pace.read(), None);
        pace.observe(short);
        assert_eq!(pace.read(), Some(short));
        pace.observe(Duration::from_secs(5));
        assert_eq!(pace.read(), Some(Duration::from_secs(5)));
        (0..100).for_each(|_| pace.observe(short));
        assert!(pace.read() < Some(SHORT), "{:?}", pace.read());
    }

    #[test]
    fn one_long_call_changes_the_average_of_a_skill_little() {
        let (pace, short) = (SkillPace::default(), Duration::from_millis(1));
        pace.observe(short);
        pace.observe(Duration::from_secs(5));
        assert_eq!(pace.mean().map(|it| it.as_millis()), Some(1 + 4999 / u128::from(SKILL_WEIGHT)));
        (0..100).for_each(|_| pace.observe(short));
        assert!(pace.mean() < Some(short * 2), "{:?}", pace.mean());
    }

    #[test]
    fn a_call_that_is_cut_short_soon_does_not_make_its_caller_quick() {
        let mut paces = CallerPaces::default();
        paces.raise(0, Duration::ZERO);
        paces.raise(0, SHORT);
        assert_eq!(paces.skill_pace(0), None);
        paces.raise(0, SHORT * 2);
        assert_eq!(paces.skill_pace(0), Some(SHORT * 2));
        paces.observe(1, Duration::from_millis(1));
        paces.raise(1, Duration::from_millis(2));
        assert_eq!(paces.skill_pace(1), Some(Duration::from_millis(2)));
    }

    #[test]
    fn a_caller_is_known_by_its_latest_skills() {
        let mut paces = CallerPaces::default();
        for skill in 0..20 {
            paces.observe(skill, Duration::from_millis(skill));
        }
        assert_eq!(paces.skill_pace(0), None);
        assert_eq!(paces.skill_pace(19), Some(Duration::from_millis(19)));
        assert_eq!(paces.of_skills.len(), MAX_SKILLS);
    }
}
