//! Turns calls into tasks, which are operations and outlive their requests. Implements `tasks/get`, `tasks/update` and `tasks/cancel`.

use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, StreamExt as _};
use openskill_proto::timestamp::Timestamp;
use openskill_proto::v1::invoke_event::Event;
use openskill_proto::v1::{ErrorCode, InputRequired, InvokeEvent, SkillError, TaskSupport};
use openskill_store::operation::State;
use serde_json::{Value, json};

use super::client::server_info;
use super::jsonrpc::{self, Code, Id, Params, RpcError, invalid_params};
use super::offerings::{self, Viewer};
use super::questions::{self, Answers};
use super::reply::ToolReply;
use crate::catalog::entry::Entry;
use crate::gateway::Shard;
use crate::long_running::tasks::Task;
use crate::mcp::parked::{FollowedCall, RunningCall};
use crate::mcp::revision::Revision;
use crate::mcp::session::TASKS;

/// The interval at which clients should poll, in milliseconds.
const POLL_MS: u64 = 1_000;

/// A call that has not ended, with what its response needs.
pub(super) struct PendingCall {
    pub(super) running: RunningCall,
    pub(super) reply: ToolReply,
    /// The number of questions asked so far.
    pub(super) question_count: usize,
    /// Questions that are not sent yet. They go out together with the next one.
    pub(super) open_questions: Vec<(String, InputRequired)>,
}

impl PendingCall {
    pub(super) fn new(running: RunningCall, reply: ToolReply) -> Self {
        Self { running, reply, question_count: 0, open_questions: Vec::new() }
    }
}

/// How a task ended.
enum TaskOutcome {
    /// The result of its call, as a JSON object.
    Completed(String),
    /// A protocol error, as a JSON object.
    Failed(String),
    Cancelled,
}

/// Turns a call into a task. Returns the message for its client. Returns the call if it can't become one.
pub(super) async fn promote(mut call: PendingCall) -> Result<String, Box<PendingCall>> {
    let (shard, long_running) = (call.reply.shard.clone(), Arc::clone(&call.reply.shard.gateway.long_running));
    let adopted = match (&call.running, &call.reply.entry) {
        (RunningCall::WithEvents(FollowedCall { call: Some(own), .. }), Some(entry)) => {
            long_running.adopt(own, &entry.skill, &call.reply.owner.view).await.ok()
        }
        _ => None,
    };
    let Some(adopted) = adopted else { return Err(Box::new(call)) };
    let asked = std::mem::take(&mut call.open_questions)
        .into_iter()
        .map(|(_, question)| Ok(InvokeEvent { call_id: String::new(), event: Some(Event::InputRequired(question)) }));
    let RunningCall::WithEvents(FollowedCall { events, .. }) = call.running else { return Err(Box::new(call)) };
    let (operation, questions) = (adopted.operation.clone(), Vec::new());
    let task = Task { operation, result: None, questions, message: String::new() };
    let created = jsonrpc::result(&call.reply.id, &render(&shard, &task, None, "task"));
    shard.gateway.tasks.spawn(adopted.run(shard.clone(), stream::iter(asked).chain(events).boxed()));
    Ok(created)
}

/// Renders how a task ended, as for the request that reads it. None while it runs.
async fn outcome(reply: &ToolReply, task: &mut Task) -> Option<TaskOutcome> {
    let result = task.result.take()?;
    if task.operation.state == State::Cancelled {
        return Some(TaskOutcome::Cancelled);
    }
    if let Some(error) = result.error.as_ref().filter(|it| it.code() == ErrorCode::Internal) {
        return Some(failure(&RpcError::new(Code::Internal, error.message.clone())));
    }
    Some(match reply.result(result).await {
        Ok(result) => TaskOutcome::Completed(result),
        Err(fault) => failure(&fault),
    })
}

fn failure(fault: &RpcError) -> TaskOutcome {
    let mut error = json!({ "code": fault.code as i32, "message": fault.message });
    if let Ok(data) = serde_json::from_str::<Value>(&fault.data) {
        error["data"] = data;
    }
    TaskOutcome::Failed(error.to_string())
}

/// Renders a task for its owner, as JSON. Its result may be large, and is copied without parsing.
fn render(shard: &Shard, task: &Task, end: Option<TaskOutcome>, result_type: &str) -> String {
    let operation = &task.operation;
    let time = |ms: i64| Timestamp(ms.max(0).cast_unsigned() * 1000).to_string();
    let updated_ms = operation.ended_ms.or(operation.started_ms).unwrap_or(operation.created_ms);
    let ttl_ms = u64::try_from(shard.gateway.config.operations.keep_tasks.as_millis()).unwrap_or(u64::MAX);
    let status = match end {
        None if task.questions.is_empty() => "working",
        None => "input_required",
        Some(TaskOutcome::Completed(_)) => "completed",
        Some(TaskOutcome::Failed(_)) => "failed",
        Some(TaskOutcome::Cancelled) => "cancelled",
    };
    let mut fields = json!({
        "resultType": result_type,
        "taskId": operation.id,
        "status": status,
        "createdAt": time(operation.created_ms),
        "lastUpdatedAt": time(updated_ms),
        "ttlMs": ttl_ms,
        "pollIntervalMs": POLL_MS,
        "_meta": { "io.modelcontextprotocol/serverInfo": server_info() },
    });
    if !task.message.is_empty() {
        fields["statusMessage"] = task.message.as_str().into();
    }
    if status == "input_required" {
        fields["inputRequests"] = questions::requests(&task.questions).into();
    }
    let mut text = fields.to_string();
    if let Some(TaskOutcome::Completed(json) | TaskOutcome::Failed(json)) = end {
        text.pop();
        text.extend([",\"", if status == "failed" { "error" } else { "result" }, "\":", &json, "}"]);
    }
    text
}

/// A `tasks/get`, `tasks/update` or `tasks/cancel` request.
pub(super) struct TaskRequest<'a> {
    pub(super) shard: &'a Shard,
    pub(super) id: &'a Id,
    pub(super) revision: Revision,
    pub(super) viewer: Viewer<'a>,
}

impl TaskRequest<'_> {
    /// Handles the request. Returns its result.
    ///
    /// # Errors
    /// The client does not declare the extension, the viewer has no such task, or its policy no longer allows the
    /// skill.
    pub(super) async fn answer(self, method: &str, params: &mut Params) -> Result<String, RpcError> {
        if !takes_tasks(params) {
            return Err(not_declared());
        }
        let id = params.task_id.take().ok_or_else(|| invalid_params("params.taskId is missing"))?;
        match method {
            "tasks/get" => self.get(&id, params).await,
            "tasks/update" => {
                let answers = params.input_responses.take();
                let answers = answers.ok_or_else(|| invalid_params("params.inputResponses is missing"))?;
                self.update(&id, &answers).await
            }
            _ => self.cancel(&id).await,
        }
    }

    async fn get(self, id: &str, params: &Params) -> Result<String, RpcError> {
        let mut task = self.task(id).await?;
        let abilities = params.meta.as_ref().and_then(|it| Some(it.capabilities.as_ref()?.abilities()));
        let (principal, gateway) = (self.viewer.principal, &self.shard.gateway);
        let reply = ToolReply {
            shard: self.shard.clone(),
            id: self.id.clone(),
            revision: self.revision,
            entry: gateway.catalog.get_for(&task.operation.skill_id, principal),
            principal: principal.clone(),
            owner: self.viewer.owner(),
            abilities: abilities.unwrap_or_default(),
        };
        let end = outcome(&reply, &mut task).await;
        Ok(render(self.shard, &task, end, "complete"))
    }

    /// Loads a task. Dismisses questions that must not be asked.
    async fn task(&self, id: &str) -> Result<Task, RpcError> {
        let (own, principal) = (&self.shard.gateway.long_running, self.viewer.principal);
        let mut task = own.task(principal, &self.viewer.view.name, id).await.map_err(fault)?;
        let asked = std::mem::take(&mut task.questions);
        for (key, question) in asked {
            if !questions::dismiss_secret(self.shard, principal, &question).await {
                task.questions.push((key, question));
            }
        }
        Ok(task)
    }

    async fn cancel(self, id: &str) -> Result<String, RpcError> {
        let (own, principal) = (&self.shard.gateway.long_running, self.viewer.principal);
        own.cancel_task(principal, &self.viewer.view.name, id).await.map_err(fault)?;
        Ok(acknowledgement())
    }

    /// Delivers answers to the call of a task. Ignores answers that match no question. A question with an invalid
    /// answer stays open.
    async fn update(self, id: &str, answers: &Answers) -> Result<String, RpcError> {
        for (key, question) in self.task(id).await?.questions {
            if let Some(answer) = answers.get(&key) {
                questions::deliver(self.shard, self.viewer.principal, &question, answer).await;
            }
        }
        Ok(acknowledgement())
    }
}

fn fault(error: SkillError) -> RpcError {
    if error.code() == ErrorCode::NotFound { unknown() } else { offerings::fault(error) }
}

fn acknowledgement() -> String {
    let info = server_info();
    json!({ "resultType": "complete", "_meta": { "io.modelcontextprotocol/serverInfo": info } }).to_string()
}

fn unknown() -> RpcError {
    invalid_params("there is no such task, or it has expired")
}

/// Returns how long a call runs before it becomes a task. None: it never does.
///
/// # Errors
/// The skill runs only as a task, and the client does not accept tasks.
pub(super) fn task_delay(
    shard: &Shard,
    params: &Params,
    revision: Revision,
    entry: Option<&Entry>,
) -> Result<Option<Duration>, RpcError> {
    let (Some(entry), true) = (entry, revision.is_stateless()) else { return Ok(None) };
    let rules = entry.skill.task.unwrap_or_default();
    if rules.support() == TaskSupport::Forbidden {
        return Ok(None);
    }
    if !takes_tasks(params) {
        return if rules.support() == TaskSupport::Required { Err(not_declared()) } else { Ok(None) };
    }
    let usual = shard.gateway.config.mcp_task_after;
    Ok(Some(rules.after_ms.map_or(usual, |it| Duration::from_millis(it.into()))))
}

/// Whether a client accepts a task in place of a result.
fn takes_tasks(params: &Params) -> bool {
    params.meta.as_ref().and_then(|it| it.capabilities.as_ref()).is_some_and(|it| it.takes_tasks())
}

/// Returns the error for a client that does not declare support for tasks.
fn not_declared() -> RpcError {
    let data = json!({ "requiredCapabilities": { "extensions": { TASKS: {} } } });
    RpcError::new(Code::MissingCapability, "the client does not declare support for tasks").with_data(data.to_string())
}
