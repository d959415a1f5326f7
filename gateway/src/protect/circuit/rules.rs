//! Thresholds and times of circuits: the gateway's, and what a skill's manifest says in their place.

use std::time::Duration;

use openskill_proto::v1::Skill;

/// When the circuits of a skill open, and when they try again.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rules {
    /// Of each session's own circuit.
    pub session: SessionRules,
    /// Of the skill's circuit, for all callers.
    pub skill: SkillRules,
}

/// A session's circuit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionRules {
    /// So many failures in a row open it. 0: there is none.
    pub threshold: u32,
    /// How long it is open before a probe.
    pub recovery: Duration,
}

/// A skill's circuit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SkillRules {
    /// The share of failures that opens it, above 0 and up to 1.
    pub failure_rate: f64,
    /// Fewer calls than this within the window open nothing. 0: there is none.
    pub minimum_calls: u32,
    /// The time that counts.
    pub window: Duration,
    /// How long it is open before a probe.
    pub recovery: Duration,
}

impl SessionRules {
    pub(crate) fn is_on(&self) -> bool {
        self.threshold > 0
    }
}

impl SkillRules {
    pub(crate) fn is_on(&self) -> bool {
        self.minimum_calls > 0
    }
}

impl Default for Rules {
    /// What the settings' defaults say.
    fn default() -> Self {
        Self {
            session: SessionRules { threshold: 3, recovery: Duration::from_secs(300) },
            skill: SkillRules {
                failure_rate: 0.5,
                minimum_calls: 20,
                window: Duration::from_secs(30),
                recovery: Duration::from_secs(30),
            },
        }
    }
}

impl Rules {
    /// With what the skill's manifest says in their place.
    pub(crate) fn for_skill(mut self, skill: &Skill) -> Self {
        let Some(own) = &skill.circuit_rules else { return self };
        let seconds = |it: Option<u32>, or: Duration| it.map_or(or, |it| Duration::from_secs(it.max(1).into()));
        self.session.threshold = own.failure_threshold.unwrap_or(self.session.threshold);
        self.session.recovery = seconds(own.recovery_timeout_s, self.session.recovery);
        self.skill.failure_rate = own.failure_rate.filter(|it| *it > 0.0).unwrap_or(self.skill.failure_rate);
        self.skill.minimum_calls = own.minimum_calls.unwrap_or(self.skill.minimum_calls);
        self.skill.window = seconds(own.window_s, self.skill.window);
        self.skill.recovery = seconds(own.skill_recovery_timeout_s, self.skill.recovery);
        self
    }
}
