//! The settings of a skill's circuit breakers.

use openskill_proto::v1::CircuitRules;
use serde::Deserialize;

/// The settings as the manifest contains them.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Circuit {
    failure_threshold: Option<u32>,
    recovery_timeout_s: Option<u32>,
    failure_rate: Option<f64>,
    minimum_calls: Option<u32>,
    window_s: Option<u32>,
    skill_recovery_timeout_s: Option<u32>,
}

/// The maximum number of calls or failures, and the maximum time in seconds (one day).
const MOST_CALLS: u32 = 1_000_000;
const MOST_SECONDS: u32 = 86_400;

/// Validates the rules. 0 calls disable the circuit breaker. 0 seconds are invalid.
pub(super) fn resolve(raw: Circuit) -> Result<CircuitRules, (&'static str, String)> {
    let counts = [("failure_threshold", raw.failure_threshold), ("minimum_calls", raw.minimum_calls)];
    let times = [
        ("recovery_timeout_s", raw.recovery_timeout_s),
        ("window_s", raw.window_s),
        ("skill_recovery_timeout_s", raw.skill_recovery_timeout_s),
    ];
    let bounds = counts.map(|(name, it)| (name, it, 0, MOST_CALLS)).into_iter();
    for (name, value, least, most) in bounds.chain(times.map(|(name, it)| (name, it, 1, MOST_SECONDS))) {
        if value.is_some_and(|value| !(least..=most).contains(&value)) {
            return Err(("circuit", format!("{name} must be {least} to {most}")));
        }
    }
    if raw.failure_rate.is_some_and(|rate| !(rate > 0.0 && rate <= 1.0)) {
        return Err(("circuit", "failure_rate must be above 0 and at most 1".to_owned()));
    }
    Ok(CircuitRules {
        failure_threshold: raw.failure_threshold,
        recovery_timeout_s: raw.recovery_timeout_s,
        failure_rate: raw.failure_rate,
        minimum_calls: raw.minimum_calls,
        window_s: raw.window_s,
        skill_recovery_timeout_s: raw.skill_recovery_timeout_s,
    })
}
