//! The settings of an `agent` skill: its instructions, its skills, and its limits. The gateway runs it.

use std::collections::BTreeSet;

use openskill_proto::v1::{AgentDefinition, TurnLimits};
use serde::Deserialize;
use serde_json::Value;

use super::checks::{ID_RULE, ManifestFault, refuse, valid_id};

/// The maximum number of skills that an agent may call.
const MAX_TOOLS: usize = 64;

/// The maximum length of a model's name, in bytes.
const MAX_MODEL_BYTES: usize = 256;

/// The maximum length of the instructions, in bytes.
const MAX_PROMPT_BYTES: usize = 16 * 1024;

/// The settings as the manifest contains them.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawAgent {
    prompt: String,
    tools: Vec<String>,
    model: String,
    limits: RawLimits,
    acts_on_untrusted: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct RawLimits {
    max_tool_calls: Option<u32>,
    max_iterations: Option<u32>,
    max_tokens: Option<u64>,
    max_cost_micros: Option<u64>,
    max_validation_retries: Option<u32>,
}

/// Returns the definition's approximate size, in bytes.
pub(super) fn size(agent: &AgentDefinition) -> usize {
    64 + agent.prompt.len() + agent.model.len() + agent.tools.iter().map(|it| it.len() + 8).sum::<usize>()
}

/// Validates the settings of the agent with this skill id, and converts them to the definition that is sent to the
/// gateway.
pub(super) fn resolve(raw: RawAgent, id: &str) -> Result<AgentDefinition, ManifestFault> {
    let fault = |reason: String| ManifestFault::new("agent", reason);
    if raw.prompt.trim().is_empty() {
        return refuse("agent", "prompt must tell the agent what to do");
    }
    if raw.prompt.len() > MAX_PROMPT_BYTES || raw.prompt.chars().any(|it| it.is_control() && it != '\n' && it != '\t') {
        let reason = format!("prompt must be at most {MAX_PROMPT_BYTES} bytes and must not contain control characters");
        return refuse("agent", reason);
    }
    if raw.model.len() > MAX_MODEL_BYTES || raw.model.chars().any(char::is_control) {
        return refuse("agent", format!("model must be at most {MAX_MODEL_BYTES} bytes, such as 'provider:model'"));
    }
    check_tools(id, &raw.tools).map_err(fault)?;
    let limits = Some(limits(&raw.limits).map_err(fault)?);
    let RawAgent { prompt, tools, model, acts_on_untrusted, .. } = raw;
    Ok(AgentDefinition { prompt, tools, model, limits, acts_on_untrusted })
}

/// Returns the argument schema of an agent that declares none.
pub(super) fn task_schema() -> Value {
    schema(include_str!("agent/task.schema.json"))
}

/// Returns the data schema that all agents share.
pub(super) fn answer_schema() -> Value {
    schema(include_str!("agent/answer.schema.json"))
}

fn schema(text: &str) -> Value {
    // A test parses both schemas.
    serde_json::from_str(text).unwrap_or_default()
}

/// Rejects secret arguments, because an agent's model reads all arguments.
pub(super) fn check_schema(schema: Option<&Value>) -> Result<(), ManifestFault> {
    if schema.is_some_and(marks_a_secret) {
        let reason =
            "an agent's model reads its arguments, so none can be secret: let a tool of the agent take the secret";
        return refuse("agent", reason);
    }
    Ok(())
}

fn marks_a_secret(schema: &Value) -> bool {
    match schema {
        Value::Object(fields) => {
            fields.get("writeOnly") == Some(&Value::Bool(true)) || fields.values().any(marks_a_secret)
        }
        Value::Array(items) => items.iter().any(marks_a_secret),
        _ => false,
    }
}

fn check_tools(id: &str, tools: &[String]) -> Result<(), String> {
    if tools.len() > MAX_TOOLS {
        return Err(format!("tools must be at most {MAX_TOOLS} ids of skills"));
    }
    let mut seen = BTreeSet::new();
    for tool in tools {
        if !valid_id(tool) {
            return Err(format!("tools: '{tool}' is not a valid skill id: use {}", ID_RULE));
        }
        if tool == id {
            return Err("tools: an agent can't call itself".to_owned());
        }
        if !seen.insert(tool) {
            return Err(format!("tools: '{tool}' is given twice"));
        }
    }
    Ok(())
}

fn limits(raw: &RawLimits) -> Result<TurnLimits, String> {
    let small = |name: &str, given: Option<u32>, most: u32| match given {
        Some(limit) if limit == 0 || limit > most => Err(format!("limits.{name} must be 1 to {most}")),
        limit => Ok(limit.unwrap_or_default()),
    };
    let large = |name: &str, given: Option<u64>| match given {
        Some(0) => Err(format!("limits.{name} must be at least 1: leave it out for no separate limit")),
        limit => Ok(limit.unwrap_or_default()),
    };
    Ok(TurnLimits {
        max_tool_calls: small("max_tool_calls", raw.max_tool_calls, 50)?,
        max_iterations: small("max_iterations", raw.max_iterations, 100)?,
        max_tokens: large("max_tokens", raw.max_tokens)?,
        // The manifest's deadline applies instead.
        timeout_ms: 0,
        max_cost_micros: large("max_cost_micros", raw.max_cost_micros)?,
        max_validation_retries: small("max_validation_retries", raw.max_validation_retries, 10)?,
    })
}

#[cfg(test)]
mod tests;
