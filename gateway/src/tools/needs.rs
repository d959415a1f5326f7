//! `analyze_tool_needs`: which tools a task needs. The gateway answers it, because it alone knows the skills of all workers and
//! which of them are paused.
//!
//! A worker announces the skill with the runner [`RUNNER`]; nothing of a call reaches it.
//!
//! - [`analysis`]: the tools that fit the words of a task, and what none fits: pure

use std::time::Instant;

use openskill_proto::v1::{ErrorCode, ExecuteResult, Skill, SkillError};
use serde::Deserialize;

use super::disabled::disabled;
use crate::call::outcome::Outcome;
use crate::dispatch::context::CallContext;
use crate::protect::circuit::Session;

mod analysis;

use analysis::{State, Tool, analyze};

/// The runner of skills that are answered here.
const RUNNER: &str = "gateway:tool_needs";

/// Whether a skill is answered here.
pub(crate) fn is_own(skill: &Skill) -> bool {
    skill.runner == RUNNER
}

/// Answers a call from the catalog as it is now.
pub(crate) fn answer(context: &CallContext) -> Outcome {
    let result =
        needs(context).unwrap_or_else(|error| ExecuteResult { error: Some(error), ..ExecuteResult::default() });
    let (version, runner) = (context.entry.skill.version.clone(), RUNNER.to_owned());
    Outcome { attempts: 1, ..Outcome::of(ExecuteResult { version, runner, ..result }) }
}

fn needs(context: &CallContext) -> Result<ExecuteResult, SkillError> {
    #[derive(Deserialize)]
    struct Arguments {
        task_description: String,
    }
    let invalid = |error| SkillError::new(ErrorCode::InvalidArgument, format!("task_description: {error}"));
    let Arguments { task_description: task } = serde_json::from_slice(&context.arguments).map_err(invalid)?;
    let (gateway, call, now) = (&context.shard.gateway, &context.call, Instant::now());
    let session = Session { principal: &call.principal, id: &call.session_id };
    let snapshot = gateway.catalog.snapshot_for(&call.principal);
    let tools: Vec<Tool<'_>> = snapshot
        .values()
        .filter(|it| !is_own(&it.skill))
        .map(|entry| {
            let state = match disabled(gateway, entry, session, now) {
                None => State::Available,
                Some(it) if entry.candidates.is_empty() => State::Unavailable { reason: it.reason },
                Some(it) => State::Paused { reason: it.reason, retry_after_ms: it.retry_after_ms },
            };
            Tool { id: &entry.skill.id, toolset: &entry.skill.toolset, document: entry.document(), state }
        })
        .collect();
    let needs = analyze(&task, &tools);
    let data = serde_json::to_vec(&needs).map_err(|error| SkillError::new(ErrorCode::Internal, error.to_string()))?;
    Ok(ExecuteResult { success: true, data_json: data.into(), text: needs.summary(), ..ExecuteResult::default() })
}
