//! Runs a skill that is an agent: one turn on the agent's thread of this process. Dropping the call cancels the
//! turn.

use std::sync::Arc;
use std::time::{Duration, Instant};

use openskill_agent::delegation::{SubAgentResult, SubAgentTask};
use openskill_agent::entry::{EndReason, TurnUsage};
use openskill_agent::error::AgentError;
use openskill_agent::skills::{Caller, UserIdentity};
use openskill_proto::v1::execute_event::Event;
use openskill_proto::v1::{AgentDefinition, AgentUse, Blame, ErrorCode, ExecuteResult, Progress, SkillError};
use serde_json::json;
use tokio::sync::mpsc;

use crate::call::outcome::Outcome;
use crate::dispatch::context::CallContext;

/// The runner that results name.
const RUNNER: &str = "agent";

/// How long after the deadline the gateway gives up.
const GRACE: Duration = Duration::from_millis(150);

/// The maximum number of an agent's calls that are buffered as progress.
const PROGRESS_BUFFER: usize = 16;

/// Runs the agent until it answers, or until shortly after the deadline.
pub(super) async fn delegate(context: &CallContext, definition: &Arc<AgentDefinition>) -> Outcome {
    let Some(agent) = context.shard.gateway.agent() else {
        return Outcome::from_error(SkillError::unavailable("the gateway's agent is not running: try again"));
    };
    if !context.call.secret_values.is_empty() {
        let message = "a secret can't be given to an agent, whose model would read it: call the tool that needs it";
        return Outcome::from_error(SkillError::new(ErrorCode::InvalidArgument, message));
    }
    context.call.stage.begin_attempt(1, None);
    let (progress, mut called) = mpsc::channel(PROGRESS_BUFFER);
    let answering = agent.delegate(task(context, definition), progress);
    tokio::pin!(answering);
    let answering = async {
        loop {
            tokio::select! {
                answer = &mut answering => return answer,
                Some(skill_id) = called.recv() => relay(context, &skill_id).await,
            }
        }
    };
    // The agent stops at the deadline, and then reports its usage.
    let until = context.deadline + GRACE;
    match tokio::time::timeout_at(until.into(), answering).await {
        Ok(Ok(answer)) => {
            let used = agent_use(&answer);
            ran(context, result(context, answer), Some(used))
        }
        Ok(Err(AgentError::Invalid(reason))) => {
            Outcome::from_error(SkillError::new(ErrorCode::InvalidArgument, reason))
        }
        Ok(Err(error @ (AgentError::TooManyTurns(_) | AgentError::Full(_)))) => {
            Outcome::from_error(SkillError::overloaded(error.to_string()))
        }
        Ok(Err(error)) => {
            if openskill_telemetry::log::admits("an agent did not end") {
                // Log the reason instead of returning it: it may name files of the host.
                tracing::warn!(%error, skill_id = context.call.skill_id, "an agent did not end");
            }
            let message = "the agent stopped before it answered: its calls may have had effects";
            ran(context, Err(SkillError::unavailable(message).with_blame(Blame::Gateway)), None)
        }
        Err(_) => ran(context, Err(overdue(context)), None),
    }
}

fn task(context: &CallContext, definition: &AgentDefinition) -> SubAgentTask {
    let (call, skill) = (&context.call, &context.entry.skill);
    SubAgentTask {
        skill_id: skill.id.clone(),
        definition: definition.clone(),
        read_only: skill.read_only,
        // The preparation produced JSON, which is UTF-8.
        arguments: String::from_utf8_lossy(&context.arguments).into_owned(),
        session: call.session_id.clone(),
        caller: Caller {
            owner: UserIdentity {
                principal: call.principal.name().to_owned(),
                credential: call.principal.credential().to_owned(),
            },
            trace_id: call.trace.id.clone(),
            parent: Some(context.record.context_of_agent()),
        },
        delegation: call.delegation.unwrap_or_default(),
        time: context.deadline.saturating_duration_since(Instant::now()),
    }
}

/// Reports the agent's calls as progress to a caller that streams.
async fn relay(context: &CallContext, skill_id: &str) {
    if let Some(events) = &context.events {
        let event = Event::Progress(Progress { fraction: -1.0, message: format!("calling {skill_id}") });
        context.record.note_relayed(&event);
        events.relay(event).await;
    }
}

/// Converts the agent's answer to the call's result.
fn result(context: &CallContext, answer: SubAgentResult) -> Result<ExecuteResult, SkillError> {
    let used = answer.used;
    let ended = answer.ended.ok_or_else(|| overdue(context))?;
    let failed = |message: String| Err(SkillError::new(ErrorCode::ExecutionError, message));
    let calls = format!("{} tool calls and {} model requests", used.tool_calls, used.iterations);
    let (data, text) = match ended.end {
        EndReason::Completed => (json!({ "answer": ended.text }), format!("the agent answered after {calls}")),
        EndReason::Limit if ended.text.is_empty() && ended.limit == "timeout_ms" => return Err(overdue(context)),
        EndReason::Limit if ended.text.is_empty() => {
            return failed(format!(
                "the agent reached its limit {} before it could answer, after {calls}",
                ended.limit
            ));
        }
        EndReason::Limit => (
            json!({ "answer": ended.text, "limit": ended.limit }),
            format!("the agent reached its limit {} after {calls}: the answer may be incomplete", ended.limit),
        ),
        EndReason::Failed => return failed(format!("the agent failed: {}", ended.error)),
        EndReason::Cancelled => return Err(SkillError::new(ErrorCode::Cancelled, "the agent was cancelled")),
    };
    Ok(ExecuteResult {
        success: true,
        data_json: data.to_string().into(),
        text,
        truncated: ended.end == EndReason::Limit,
        ..ExecuteResult::default()
    })
}

fn agent_use(answer: &SubAgentResult) -> AgentUse {
    let TurnUsage { input_tokens, output_tokens, iterations, tool_calls, cost_micros } = answer.used;
    AgentUse { input_tokens, output_tokens, iterations, tool_calls, cost_micros, untrusted: answer.is_tainted }
}

fn overdue(context: &CallContext) -> SkillError {
    let error = SkillError::new(ErrorCode::Timeout, "the agent did not answer before its deadline");
    if context.call.shortens(context.granted) { error.with_blame(Blame::Caller) } else { error }
}

/// Builds the outcome of an agent that started. Its calls may have had effects.
fn ran(context: &CallContext, result: Result<ExecuteResult, SkillError>, agent: Option<AgentUse>) -> Outcome {
    let result = result.unwrap_or_else(|error| ExecuteResult { error: Some(error), ..ExecuteResult::default() });
    let (version, runner) = (context.entry.skill.version.clone(), RUNNER.to_owned());
    let result = ExecuteResult { version, runner, ..result };
    Outcome { attempts: 1, may_have_run: true, agent, ..Outcome::from_result(result) }
}
