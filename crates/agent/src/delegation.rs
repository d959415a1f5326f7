//! The task of a sub-agent. A sub-agent is a skill that the agent runs as a turn. Does no I/O.
//!
//! A sub-agent's turn has no user. The skill's definition provides its instructions, tools and model. Its limits
//! are the strictest of the definition's limits, the agent's own, and what remains of the calling turn's. So a
//! nested sub-agent never has a larger budget than its caller.

use std::time::Duration;

use openskill_model::Models;
use openskill_proto::v1;

use crate::config::AgentConfig;
use crate::entry::{Delegated, Limits, Mode, Started, TurnEnded, TurnUsage};
use crate::skills::Caller;

/// The maximum nesting depth of sub-agents.
pub const MAX_DEPTH: u32 = 3;

/// The fraction of a sub-agent's time after which it must answer. The rest is reserved for the final answer.
const WORKING_TIME: f64 = 0.75;

/// The name of the argument that limits the number of tool calls.
const MAX_STEPS: &str = "max_steps";

/// The name of the argument that enables pictures for the model.
const USE_VISION: &str = "use_vision";

/// A call of a skill that is a sub-agent.
#[derive(Debug, Clone)]
pub struct SubAgentTask {
    /// The skill id.
    pub skill_id: String,
    /// The definition of the sub-agent.
    pub definition: v1::AgentDefinition,
    /// Whether the skill is read-only. A read-only sub-agent calls only read-only skills.
    pub read_only: bool,
    /// The arguments of the call, as a JSON object.
    pub arguments: String,
    /// The session for the sub-agent's calls. Empty means a new session.
    pub session: String,
    /// The caller of the skill, with its trace context.
    pub caller: Caller,
    /// What remains of the calling turn's limits.
    pub delegation: v1::Delegation,
    /// How long the caller waits for the result.
    pub time: Duration,
}

/// The outcome of a sub-agent.
#[derive(Debug, Clone, PartialEq)]
pub struct SubAgentResult {
    /// How the turn ended. `None` means that it timed out.
    pub ended: Option<TurnEnded>,
    /// The usage of the sub-agent, including nested sub-agents.
    pub used: TurnUsage,
    /// Whether the sub-agent read untrusted text.
    pub is_tainted: bool,
}

/// Returns the human-readable reason why this sub-agent can't run here, or `None` if it can.
pub fn refusal(models: &Models, definition: &v1::AgentDefinition) -> Option<String> {
    match models.pick(&definition.model) {
        Ok(Some(_)) => None,
        Ok(None) => Some(format!("no model is configured: set {}", openskill_model::NoModel::at_all("").variable)),
        Err(error) => Some(error.to_string()),
    }
}

impl SubAgentTask {
    /// Builds the first entry of the sub-agent's turn.
    ///
    /// # Errors
    /// The human-readable reason why the turn can't begin.
    pub(crate) fn into_started(self, config: &AgentConfig, models: &Models) -> Result<Started, String> {
        let depth = self.delegation.depth.max(1);
        if depth > MAX_DEPTH {
            return Err(format!("sub-agents are nested at most {MAX_DEPTH} deep: do the task without another agent"));
        }
        let model = match models.pick(&self.definition.model) {
            Ok(Some(model)) => model.name().to_owned(),
            _ => return Err(refusal(models, &self.definition).unwrap_or_default()),
        };
        let limits = self.limits(config);
        let is_read_only = self.read_only || self.delegation.read_only;
        let sees_pictures = argument(&self.arguments, USE_VISION).is_some_and(|it| it == true);
        Ok(Started {
            text: message(&self.arguments),
            model,
            mode: if is_read_only { Mode::ReadOnly } else { Mode::Ask },
            limits,
            toolset: String::new(),
            trace_id: self.caller.trace_id,
            credential: self.caller.owner.credential,
            delegated: Some(Delegated {
                agent: self.skill_id,
                prompt: self.definition.prompt,
                tools: self.definition.tools,
                depth,
                session: self.session,
                tainted: self.delegation.tainted,
                acts_on_untrusted: self.definition.acts_on_untrusted,
                sees_pictures,
            }),
        })
    }

    fn limits(&self, config: &AgentConfig) -> Limits {
        let own = config.limits_within(self.definition.limits.unwrap_or_default());
        let left = &self.delegation;
        // 0 means unlimited.
        let bound = |own: u64, left: Option<u64>| match left {
            Some(left) if own == 0 => left.max(1),
            Some(left) => own.min(left.max(1)),
            None => own,
        };
        let time = self.time.mul_f64(WORKING_TIME).as_millis();
        // A sub-agent without tools makes no calls.
        let calls = if self.definition.tools.is_empty() { u32::MAX } else { own.max_tool_calls };
        let calls = calls.min(max_steps(&self.arguments));
        let calls_left = if self.definition.tools.is_empty() { None } else { left.max_tool_calls };
        Limits {
            max_tool_calls: calls.min(calls_left.unwrap_or(u32::MAX)),
            max_iterations: own.max_iterations.min(left.max_iterations.unwrap_or(u32::MAX)),
            max_tokens: bound(own.max_tokens, left.max_tokens),
            timeout_ms: own.timeout_ms.min(u64::try_from(time).unwrap_or(u64::MAX)).max(1),
            max_cost_micros: bound(own.max_cost_micros, left.max_cost_micros),
            max_validation_retries: own.max_validation_retries,
        }
    }
}

/// Returns the maximum number of calls from the argument `max_steps`, if it is present.
fn max_steps(arguments: &str) -> u32 {
    let steps = argument(arguments, MAX_STEPS).and_then(|it| it.as_u64());
    steps.map_or(u32::MAX, |it| u32::try_from(it).unwrap_or(u32::MAX).max(1))
}

/// Returns the argument with this name.
fn argument(arguments: &str, name: &str) -> Option<serde_json::Value> {
    let mut fields: serde_json::Map<String, serde_json::Value> = serde_json::from_str(arguments).ok()?;
    fields.remove(name)
}

/// Returns the message for the model: the text if it is the only argument, otherwise the whole JSON object.
fn message(arguments: &str) -> String {
    let fields: Option<serde_json::Map<String, serde_json::Value>> = serde_json::from_str(arguments).ok();
    let text = fields.filter(|it| it.len() == 1).and_then(|it| it.into_iter().next());
    match text {
        Some((_, serde_json::Value::String(text))) => text,
        _ => arguments.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(delegation: v1::Delegation) -> SubAgentTask {
        SubAgentTask {
            skill_id: "researcher".to_owned(),
            definition: v1::AgentDefinition {
                tools: vec!["echo".to_owned()],
                limits: Some(v1::TurnLimits { max_tool_calls: 9, max_tokens: 1000, ..v1::TurnLimits::default() }),
                ..v1::AgentDefinition::default()
            },
            read_only: false,
            arguments: r#"{"task":"look"}"#.to_owned(),
            session: String::new(),
            caller: Caller::default(),
            delegation,
            time: Duration::from_secs(8),
        }
    }

    #[test]
    fn limits_are_the_strictest_of_the_definition_and_what_is_left() {
        let config = AgentConfig::default();
        let own = task(v1::Delegation::default()).limits(&config);
        assert_eq!((own.max_tool_calls, own.max_iterations, own.max_tokens, own.max_cost_micros), (9, 10, 1000, 0));
        assert_eq!(own.timeout_ms, 6000);
        let left = v1::Delegation {
            max_tool_calls: Some(2),
            max_iterations: Some(3),
            max_tokens: Some(400),
            max_cost_micros: Some(50),
            ..v1::Delegation::default()
        };
        let less = task(left).limits(&config);
        assert_eq!((less.max_tool_calls, less.max_iterations, less.max_tokens, less.max_cost_micros), (2, 3, 400, 50));
        let more = v1::Delegation { max_tool_calls: Some(40), max_tokens: Some(5000), ..v1::Delegation::default() };
        let more = task(more).limits(&config);
        assert_eq!((more.max_tool_calls, more.max_tokens), (9, 1000), "what is left grants nothing");
        let steps = |arguments: &str| {
            let asked = SubAgentTask { arguments: arguments.to_owned(), ..task(v1::Delegation::default()) };
            asked.limits(&config).max_tool_calls
        };
        assert_eq!(steps(r#"{"task":"look","max_steps":4}"#), 4);
        assert_eq!(steps(r#"{"task":"look","max_steps":99}"#), 9, "an argument grants nothing either");
    }

    #[test]
    fn one_text_is_the_message_and_anything_else_is_json() {
        assert_eq!(message(r#"{"task":"look\nhere"}"#), "look\nhere");
        assert_eq!(
            message(r#"{"task":"look","n":12345678901234567890123}"#),
            r#"{"task":"look","n":12345678901234567890123}"#
        );
        assert_eq!(message(r#"{"n":1}"#), r#"{"n":1}"#);
    }

    #[test]
    fn without_a_model_the_reason_names_what_to_set() {
        let reason = refusal(&Models::none(), &v1::AgentDefinition::default()).unwrap_or_default();
        assert!(reason.contains("OPENAI_API_KEY"), "{reason}");
        let error = task(v1::Delegation::default()).into_started(&AgentConfig::default(), &Models::none());
        assert_eq!(error.map(|_| ()), Err(reason));
        let deep = task(v1::Delegation { depth: 4, ..v1::Delegation::default() });
        let error = deep.into_started(&AgentConfig::default(), &Models::none()).map(|_| ()).unwrap_err();
        assert!(error.contains("3 deep"), "{error}");
    }
}
