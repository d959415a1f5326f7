//! The rules that gateways and agents apply to a skill's calls.

use std::collections::BTreeMap;

use openskill_proto::v1::{ArgumentPolicy, ArgumentRules, CircuitRules, RetryRules, TaskRules, TaskSupport};
use serde::Deserialize;
use serde_json::Value;

use super::checks::{ManifestFault, refuse};

/// The maximum number of aliases per skill.
const MAX_ALIASES: usize = 1000;

/// The maximum time before a call becomes a task, in milliseconds.
const MAX_AFTER_MS: u32 = 86_400_000;

/// The maximum number of calls or failures of a circuit breaker, and its maximum time in seconds (one day).
const MOST_CALLS: u32 = 1_000_000;
const MOST_SECONDS: u32 = 86_400;

/// The maximum number of runs of an operation.
const MAX_ATTEMPTS: u32 = 100;

/// The property that calls have in common that go to the same worker.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Affinity {
    /// No property. Each call goes to the worker with the lower expected latency.
    #[default]
    None,
    /// The session. Calls without a session go to any worker.
    Session,
    /// The caller: the principal, and the session if the call has one. A principal's calls without a session share
    /// a worker too.
    Caller,
}

/// Hints for agents that use a skill: what they must know before they call it for a user.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ToolHints {
    /// Whether each call needs the user's approval. `None` requires it only for a destructive skill.
    pub approval: Option<Approval>,
    /// Whether an identical call right after the first one is intended.
    pub repeatable: bool,
    /// Whether results contain text from untrusted sources.
    pub untrusted: bool,
    /// Whether the skill changes nothing and sends none of its arguments to others.
    pub read_only: bool,
}

/// Whether calls need the user's approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Approval {
    /// No call needs approval.
    Never,
    /// Each call needs approval.
    Ask,
}

impl ToolHints {
    /// Returns whether each call needs the user's approval.
    pub(crate) fn asks(self, destructive: bool) -> bool {
        self.approval.map_or(destructive, |it| it == Approval::Ask)
    }
}

/// Alternative names that models use for parameters, each with the parameter's name.
pub(super) type Aliases = BTreeMap<String, String>;

/// The rules for arguments that do not match the schema, as the manifest contains them.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawArguments {
    policy: Policy,
    aliases: Aliases,
    drop_unknown: Option<bool>,
    fill_defaults: Option<bool>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Policy {
    #[default]
    Repair,
    Strict,
}

impl RawArguments {
    /// Resolves a skill's rules. They are strict by default for a destructive skill, because dropping an unknown
    /// key could widen a deletion that the key restricts. `aliases`: those of the schema's short form.
    pub(super) fn resolve(
        self,
        mut aliases: Aliases,
        schema: Option<&Value>,
        destructive: bool,
    ) -> Result<ArgumentRules, ManifestFault> {
        for (alias, name) in self.aliases {
            if let Some(other) = aliases.insert(alias.clone(), name.clone()).filter(|other| *other != name) {
                return refuse("arguments", format!("the alias '{alias}' stands for '{name}' and for '{other}'"));
            }
        }
        check_aliases(&aliases, schema).map_err(|reason| ManifestFault::new("arguments", reason))?;
        let policy = match self.policy {
            Policy::Repair => ArgumentPolicy::Repair,
            Policy::Strict => ArgumentPolicy::Strict,
        };
        Ok(ArgumentRules {
            policy: policy.into(),
            aliases: aliases.into_iter().collect(),
            drop_unknown: self.drop_unknown.unwrap_or(!destructive),
            fill_defaults: self.fill_defaults.unwrap_or(!destructive),
        })
    }
}

fn check_aliases(aliases: &Aliases, schema: Option<&Value>) -> Result<(), String> {
    if aliases.len() > MAX_ALIASES {
        return Err(format!("at most {MAX_ALIASES} aliases are allowed"));
    }
    let properties = schema.and_then(|schema| schema.get("properties")).and_then(Value::as_object);
    for (alias, name) in aliases {
        let is_parameter = |name: &str| properties.is_some_and(|it| it.contains_key(name));
        if alias.is_empty() || alias.len() > 128 || alias.chars().any(char::is_control) {
            return Err("an alias must be 1 to 128 bytes and must not contain control characters".to_owned());
        }
        if is_parameter(alias) {
            return Err(format!("the alias '{alias}' is a parameter itself"));
        }
        if !is_parameter(name) {
            return Err(format!("the alias '{alias}' stands for '{name}', which is not a parameter"));
        }
    }
    Ok(())
}

/// The settings of a skill's circuit breakers, as the manifest contains them.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawCircuit {
    failure_threshold: Option<u32>,
    recovery_timeout_s: Option<u32>,
    failure_rate: Option<f64>,
    minimum_calls: Option<u32>,
    window_s: Option<u32>,
    skill_recovery_timeout_s: Option<u32>,
}

impl RawCircuit {
    /// Validates the rules. 0 calls disable the circuit breaker. 0 seconds are invalid.
    pub(super) fn resolve(self) -> Result<CircuitRules, ManifestFault> {
        for (name, value, least, most) in [
            ("failure_threshold", self.failure_threshold, 0, MOST_CALLS),
            ("minimum_calls", self.minimum_calls, 0, MOST_CALLS),
            ("recovery_timeout_s", self.recovery_timeout_s, 1, MOST_SECONDS),
            ("window_s", self.window_s, 1, MOST_SECONDS),
            ("skill_recovery_timeout_s", self.skill_recovery_timeout_s, 1, MOST_SECONDS),
        ] {
            if value.is_some_and(|value| !(least..=most).contains(&value)) {
                return refuse("circuit", format!("{name} must be {least} to {most}"));
            }
        }
        if self.failure_rate.is_some_and(|rate| !(rate > 0.0 && rate <= 1.0)) {
            return refuse("circuit", "failure_rate must be above 0 and at most 1");
        }
        Ok(CircuitRules {
            failure_threshold: self.failure_threshold,
            recovery_timeout_s: self.recovery_timeout_s,
            failure_rate: self.failure_rate,
            minimum_calls: self.minimum_calls,
            window_s: self.window_s,
            skill_recovery_timeout_s: self.skill_recovery_timeout_s,
        })
    }
}

/// Whether a skill's calls become tasks of MCP clients, as the manifest says it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawTask {
    #[serde(default)]
    support: Support,
    after_ms: Option<u32>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Support {
    #[default]
    Optional,
    Forbidden,
    Required,
}

impl RawTask {
    pub(super) fn resolve(self) -> Result<TaskRules, ManifestFault> {
        if self.after_ms.is_some_and(|it| it > MAX_AFTER_MS) {
            return refuse("task", format!("after_ms must be at most {MAX_AFTER_MS}"));
        }
        if self.support == Support::Forbidden && self.after_ms.is_some() {
            return refuse("task", "after_ms has no effect where support is forbidden");
        }
        let support = match self.support {
            Support::Optional => TaskSupport::Optional,
            Support::Forbidden => TaskSupport::Forbidden,
            Support::Required => TaskSupport::Required,
        };
        Ok(TaskRules { support: support.into(), after_ms: self.after_ms })
    }
}

/// How operations are tried again, as the manifest says it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawRetry {
    attempts: u32,
    after_ms: Option<u32>,
    max_after_ms: Option<u32>,
}

impl RawRetry {
    pub(super) fn resolve(self) -> Result<RetryRules, ManifestFault> {
        let after_ms = self.after_ms.unwrap_or(1_000);
        let max_after_ms = self.max_after_ms.unwrap_or(after_ms.max(3_600_000));
        if !(1..=MAX_ATTEMPTS).contains(&self.attempts) {
            return refuse("retry", format!("attempts must be 1 to {MAX_ATTEMPTS}"));
        }
        if after_ms == 0 || after_ms > max_after_ms || max_after_ms > MAX_AFTER_MS {
            return refuse("retry", format!("after_ms must be 1 to max_after_ms, which is at most {MAX_AFTER_MS}"));
        }
        Ok(RetryRules { attempts: self.attempts, after_ms, max_after_ms })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_between_runs_are_bounded_and_have_defaults() {
        let resolve = |attempts, after_ms, max_after_ms| RawRetry { attempts, after_ms, max_after_ms }.resolve().ok();
        assert_eq!(resolve(5, None, None), Some(RetryRules { attempts: 5, after_ms: 1_000, max_after_ms: 3_600_000 }));
        let long = 2 * 3_600_000;
        assert_eq!(resolve(2, Some(long), None), Some(RetryRules { attempts: 2, after_ms: long, max_after_ms: long }));
        for (attempts, after_ms, max_after_ms) in
            [(0, None, None), (101, None, None), (2, Some(0), None), (2, Some(10), Some(9)), (2, None, Some(u32::MAX))]
        {
            assert!(resolve(attempts, after_ms, max_after_ms).is_none(), "{attempts} {after_ms:?} {max_after_ms:?}");
        }
    }
}
