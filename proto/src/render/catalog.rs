//! Renders skills and exported tools as JSON.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::json::to_text;
use crate::v1::{AgentDefinition, Dialect, ExportToolsResponse, Skill, SkillStatus, SkillVersion};

/// Renders a skill with its schemas.
pub fn skill(skill: &Skill) -> Value {
    let schema = |text: &str| serde_json::from_str::<Value>(text).unwrap_or_default();
    let mut json = json!({
        "id": skill.id,
        "version": skill.version,
        "description": skill.description,
        "runner": skill.runner,
        "toolset": skill.toolset,
        "status": skill_status(skill.status()),
        "status_reason": skill.status_reason,
        "workers": skill.workers,
        "timeout_ms": (skill.timeout_ms > 0).then_some(skill.timeout_ms),
        "idempotent": skill.idempotent,
        "destructive": skill.destructive,
        "approval": if skill.needs_approval() { "ask" } else { "never" },
        "repeatable": skill.repeatable,
        "untrusted": skill.untrusted,
        "read_only": skill.read_only,
        "session_affinity": skill.session_affinity,
        "caller_affinity": skill.caller_affinity,
        "input_schema": schema(&skill.input_schema_json),
        "output_schema": schema(&skill.output_schema_json),
        "examples": skill.example_inputs_json.iter().map(|text| schema(text)).collect::<Vec<_>>(),
        "failing_examples": skill.failing_examples.iter().map(|it| {
            json!({ "input": schema(&it.input_json), "code": it.code().as_str_name() })
        }).collect::<Vec<_>>(),
    });
    if let Some(it) = &skill.agent {
        json["agent"] = agent(it);
    }
    if !skill.versions.is_empty() {
        json["versions"] = skill.versions.iter().map(version).collect();
    }
    json
}

/// Renders a version of a skill.
pub fn version(version: &SkillVersion) -> Value {
    json!({
        "version": version.version,
        "workers": version.workers,
        "weight": version.weight,
        "status": skill_status(version.status()),
        "status_reason": version.status_reason,
    })
}

/// Returns the name of a status: `available` or `unavailable`.
pub fn skill_status(status: SkillStatus) -> &'static str {
    match status {
        SkillStatus::Available => "available",
        SkillStatus::Unavailable | SkillStatus::Unspecified => "unavailable",
    }
}

/// Renders an agent skill without its instructions.
fn agent(agent: &AgentDefinition) -> Value {
    let limits = agent.limits.unwrap_or_default();
    let set = |limit: u64| (limit > 0).then_some(limit);
    json!({
        "tools": agent.tools,
        "model": agent.model,
        "acts_on_untrusted": agent.acts_on_untrusted,
        "limits": {
            "max_tool_calls": set(limits.max_tool_calls.into()),
            "max_iterations": set(limits.max_iterations.into()),
            "max_tokens": set(limits.max_tokens),
            "max_cost_micros": set(limits.max_cost_micros),
            "max_validation_retries": set(limits.max_validation_retries.into()),
        },
    })
}

/// Renders exported tools in the dialect of the request.
pub fn tools(response: &ExportToolsResponse, dialect: Dialect) -> String {
    let tools: Vec<&RawValue> = response.tools_json.iter().filter_map(|text| serde_json::from_str(text).ok()).collect();
    #[derive(Serialize)]
    struct ToolsJson<'a> {
        dialect: &'a str,
        tools: Vec<&'a RawValue>,
        skill_ids: BTreeMap<&'a str, &'a str>,
        disabled: Vec<Value>,
        notes: &'a [String],
    }
    let disabled = response.disabled.iter().map(|it| {
        let retry_after_ms = (it.retry_after_ms > 0).then_some(it.retry_after_ms);
        json!({ "skill_id": it.skill_id, "reason": it.reason, "retry_after_ms": retry_after_ms })
    });
    to_text(&ToolsJson {
        dialect: dialect.name(),
        tools,
        skill_ids: response.skill_ids.iter().map(|(name, id)| (name.as_str(), id.as_str())).collect(),
        disabled: disabled.collect(),
        notes: &response.notes,
    })
}
