//! `analyze_tool_needs`: finds the tools that a task needs. The gateway runs it, because only the gateway knows the
//! skills of all workers, and which of them are paused.
//!
//! A worker announces the skill with the runner [`RUNNER`], but gets none of its calls.
//!
//! - [`analysis`]: matches the words of a task with tools; pure

use std::time::Instant;

use openskill_proto::v1::{ErrorCode, ExecuteResult, Skill, SkillError};
use serde::Deserialize;

use super::disabled::check_disabled;
use crate::call::outcome::Outcome;
use crate::dispatch::context::CallContext;
use crate::protect::circuit::Session;

mod analysis;

use analysis::{Obstacle, Tool, analyze};

/// The runner of skills that the gateway itself runs.
const RUNNER: &str = "gateway:tool_needs";

/// Whether the gateway itself runs a skill.
pub(crate) fn is_own(skill: &Skill) -> bool {
    skill.runner == RUNNER
}

/// Runs a call against the current catalog.
pub(crate) fn answer(context: &CallContext) -> Outcome {
    let result =
        needs(context).unwrap_or_else(|error| ExecuteResult { error: Some(error), ..ExecuteResult::default() });
    let (version, runner) = (context.entry.skill.version.clone(), RUNNER.to_owned());
    Outcome { attempts: 1, ..Outcome::from_result(ExecuteResult { version, runner, ..result }) }
}

fn needs(context: &CallContext) -> Result<ExecuteResult, SkillError> {
    #[derive(Deserialize)]
    struct NeedsArguments {
        task_description: String,
    }
    let invalid = |error| SkillError::new(ErrorCode::InvalidArgument, format!("task_description: {error}"));
    let NeedsArguments { task_description: task } = serde_json::from_slice(&context.arguments).map_err(invalid)?;
    let (gateway, call, now) = (&context.shard.gateway, &context.call, Instant::now());
    let session = Session { principal: &call.principal, id: &call.session_id };
    let snapshot = gateway.catalog.snapshot_for(&call.principal);
    let tools: Vec<Tool<'_>> = snapshot
        .values()
        .filter(|it| !is_own(&it.skill))
        .map(|entry| {
            let obstacle = check_disabled(gateway, entry, session, now).map(|it| Obstacle {
                tool: it.skill_id,
                reason: it.reason,
                retry_after_ms: (!entry.candidates.is_empty()).then_some(it.retry_after_ms),
            });
            Tool { id: &entry.skill.id, toolset: &entry.skill.toolset, document: entry.document(), obstacle }
        })
        .collect();
    let needs = analyze(&task, &tools);
    let data = serde_json::to_vec(&needs).map_err(|error| SkillError::new(ErrorCode::Internal, error.to_string()))?;
    Ok(ExecuteResult { success: true, data_json: data.into(), text: needs.summary(), ..ExecuteResult::default() })
}
