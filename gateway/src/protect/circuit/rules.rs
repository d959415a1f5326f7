//! Thresholds and timeouts of circuits: the gateway's defaults, with a manifest's overrides.

use std::time::Duration;

use openskill_proto::v1::Skill;

/// When the circuits of a skill open, and when they probe.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rules {
    /// Rules for the circuit of each session.
    pub session: SessionRules,
    /// Rules for the circuit that all callers of the skill share.
    pub skill: SkillRules,
}

/// Rules for a session's circuit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionRules {
    /// The number of consecutive failures that opens it. 0 disables the circuit.
    pub threshold: u32,
    /// How long it stays open before a probe.
    pub recovery: Duration,
}

/// Rules for a skill's circuit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SkillRules {
    /// The failure rate that opens it, above 0 and up to 1.
    pub failure_rate: f64,
    /// The minimum number of calls within the window that can open it. 0 disables the circuit.
    pub minimum_calls: u32,
    /// The length of the sliding window.
    pub window: Duration,
    /// How long it stays open before a probe.
    pub recovery: Duration,
}

impl Default for Rules {
    /// The defaults of the gateway's settings.
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
    /// Applies the overrides of the skill's manifest.
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
