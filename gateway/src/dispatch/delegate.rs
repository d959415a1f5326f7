//! A skill that is an agent: a turn of the agent in this process, on its thread. Dropping the call ends it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use openskill_agent::delegation::{Answer, Task};
use openskill_agent::entry::{End, Used};
use openskill_agent::error::AgentError;
use openskill_agent::skills::{Caller, Owner};
use openskill_proto::v1::execute_event::Event;
use openskill_proto::v1::{AgentDefinition, AgentUse, Blame, ErrorCode, ExecuteResult, Progress, SkillError};
use serde_json::json;
use tokio::sync::mpsc;

use crate::call::outcome::Outcome;
use crate::dispatch::context::CallContext;

/// The runner's key.
const RUNNER: &str = "agent";

/// How much later than the deadline the gateway gives up.
const GRACE: Duration = Duration::from_millis(150);

/// How many calls of an agent may wait to be shown as progress.
const PROGRESS_BUFFER: usize = 16;

/// Runs the agent to its answer, until the deadline at the latest.
pub(super) async fn delegate(context: &CallContext, definition: &Arc<AgentDefinition>) -> Outcome {
    let Some(agent) = context.shard.gateway.agent() else {
        return Outcome::failed(SkillError::unavailable("the gateway's agent is not running: try again"));
    };
    if !context.call.secret_values.is_empty() {
        let message = "a secret can't be given to an agent, whose model would read it: call the tool that needs it";
        return Outcome::failed(SkillError::new(ErrorCode::InvalidArgument, message));
    }
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
    // It ends by itself at the deadline, and says then what it used.
    let until = context.deadline + GRACE;
    match tokio::time::timeout_at(until.into(), answering).await {
        Ok(Ok(answer)) => {
            let used = used(&answer);
            ran(context, result(context, answer), Some(used))
        }
        Ok(Err(AgentError::Invalid(reason))) => Outcome::failed(SkillError::new(ErrorCode::InvalidArgument, reason)),
        Ok(Err(error @ (AgentError::TooManyTurns(_) | AgentError::Full(_)))) => {
            Outcome::failed(SkillError::overloaded(error.to_string()))
        }
        Ok(Err(error)) => {
            if openskill_log::admits("an agent did not end") {
                // The reason may name files of the host.
                tracing::warn!(%error, skill_id = context.call.skill_id, "an agent did not end");
            }
            let message = "the agent stopped before it answered: what it called may have had effects";
            ran(context, Err(SkillError::unavailable(message).with_blame(Blame::Gateway)), None)
        }
        Err(_) => ran(context, Err(overdue(context)), None),
    }
}

fn task(context: &CallContext, definition: &AgentDefinition) -> Task {
    let (call, skill) = (&context.call, &context.entry.skill);
    Task {
        skill_id: skill.id.clone(),
        definition: definition.clone(),
        read_only: skill.read_only,
        // The preparation is JSON, and JSON is UTF-8.
        arguments: String::from_utf8_lossy(&context.arguments).into_owned(),
        session: call.session_id.clone(),
        caller: Caller {
            owner: Owner {
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

/// Shows a caller that listens what the agent calls.
async fn relay(context: &CallContext, skill_id: &str) {
    if let Some(events) = &context.events {
        let event = Event::Progress(Progress { fraction: -1.0, message: format!("calls {skill_id}") });
        context.record.note_relayed(&event);
        events.relay(event).await;
    }
}

/// What the caller gets.
fn result(context: &CallContext, answer: Answer) -> Result<ExecuteResult, SkillError> {
    let used = answer.used;
    let ended = answer.ended.ok_or_else(|| overdue(context))?;
    let failed = |message: String| Err(SkillError::new(ErrorCode::ExecutionError, message));
    let calls = format!("{} calls of tools and {} requests to its model", used.tool_calls, used.iterations);
    let (data, text) = match ended.end {
        End::Completed => (json!({ "answer": ended.text }), format!("the agent answered after {calls}")),
        End::Limit if ended.text.is_empty() && ended.limit == "timeout_ms" => return Err(overdue(context)),
        End::Limit if ended.text.is_empty() => {
            return failed(format!(
                "the agent reached its limit {} before it could answer, after {calls}",
                ended.limit
            ));
        }
        End::Limit => (
            json!({ "answer": ended.text, "limit": ended.limit }),
            format!("the agent reached its limit {} after {calls}: the answer may be incomplete", ended.limit),
        ),
        End::Failed => return failed(format!("the agent failed: {}", ended.error)),
        End::Cancelled => return Err(SkillError::new(ErrorCode::Cancelled, "the agent was cancelled")),
    };
    Ok(ExecuteResult {
        success: true,
        data_json: data.to_string().into(),
        text,
        truncated: ended.end == End::Limit,
        ..ExecuteResult::default()
    })
}

fn used(answer: &Answer) -> AgentUse {
    let Used { input_tokens, output_tokens, iterations, tool_calls, cost_micros } = answer.used;
    AgentUse { input_tokens, output_tokens, iterations, tool_calls, cost_micros, untrusted: answer.is_tainted }
}

fn overdue(context: &CallContext) -> SkillError {
    let error = SkillError::new(ErrorCode::Timeout, "the agent did not answer before its deadline");
    if context.call.shortens(context.granted) { error.with_blame(Blame::Caller) } else { error }
}

/// The outcome of an agent that began: what it called may have had effects.
fn ran(context: &CallContext, result: Result<ExecuteResult, SkillError>, agent: Option<AgentUse>) -> Outcome {
    let result = result.unwrap_or_else(|error| ExecuteResult { error: Some(error), ..ExecuteResult::default() });
    let (version, runner) = (context.entry.skill.version.clone(), RUNNER.to_owned());
    let result = ExecuteResult { version, runner, ..result };
    Outcome { attempts: 1, may_have_run: true, agent, ..Outcome::of(result) }
}
