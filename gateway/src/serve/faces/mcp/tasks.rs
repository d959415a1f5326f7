//! Runs calls as tasks, which outlive their requests. Implements `tasks/get`, `tasks/update` and `tasks/cancel`.

use std::time::Duration;

use openskill_identity::shares::Share;
use openskill_proto::timestamp::Timestamp;
use openskill_proto::v1::invoke_event::Event;
use openskill_proto::v1::{ErrorCode, InputRequired, SkillResult, TaskSupport};
use serde_json::{Value, json};

use super::client::server_info;
use super::jsonrpc::{self, Code, Params, RpcError, invalid_params};
use super::offerings::{self, Viewer};
use super::questions::{self, Answers};
use super::reply::ToolReply;
use super::resources::overload_error;
use crate::catalog::entry::Entry;
use crate::gateway::Shard;
use crate::mcp::parked::{CallUpdate, RunningCall};
use crate::mcp::revision::Revision;
use crate::mcp::session::TASKS;
use crate::mcp::tasks::record::{Record, TaskOutcome};
use crate::mcp::tasks::{RunningTask, Task, TaskRefusal};
use crate::state::limits::SharedLimit;

/// The number of concurrent copies of a task: the stored record, the parsed task, and the response.
const COPIES: usize = 3;

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

/// Turns a call into a task. Returns the message for its client. Returns the call if it can't become one.
pub(super) async fn promote(call: PendingCall) -> Result<String, Box<PendingCall>> {
    let (shard, owner) = (call.reply.shard.clone(), call.reply.owner.clone());
    let task = match shard.gateway.mcp.tasks.begin(&owner, call.reply.skill()).await {
        Ok(task) => task,
        Err(reason) => {
            // Clients can reach the limit at will.
            if let TaskRefusal::Store(error) = reason {
                tracing::error!(%error, "a call can't become a task");
            }
            return Err(Box::new(call));
        }
    };
    let Some(seen) = shard.gateway.mcp.tasks.get(&owner, task.id()) else { return Err(Box::new(call)) };
    let created = jsonrpc::result(&call.reply.id, &render(task.id(), &seen, "task"));
    shard.gateway.tasks.spawn(drive(call, task));
    Ok(created)
}

/// Runs the call of a task until it ends or its owner cancels it. Cancellation drops the call and ends its
/// processes.
async fn drive(mut call: PendingCall, task: RunningTask) {
    for (key, question) in std::mem::take(&mut call.open_questions) {
        task.ask(key, question);
    }
    let end = loop {
        let arrived = tokio::select! {
            biased;
            () = task.wait_until_cancelled() => break TaskOutcome::Cancelled,
            arrived = call.running.next() => arrived,
        };
        match arrived {
            CallUpdate::Result(result) => break outcome(&call.reply, result).await,
            CallUpdate::Broken(message) => break failure(&RpcError::new(Code::Internal, message)),
            CallUpdate::Event(Event::InputRequired(question)) => ask(&mut call, &task, question).await,
            CallUpdate::Event(Event::Progress(progress)) if !progress.message.is_empty() => task.say(progress.message),
            CallUpdate::Event(_) => {}
        }
    };
    drop(call);
    task.end(end, too_large).await;
}

async fn ask(call: &mut PendingCall, task: &RunningTask, question: InputRequired) {
    if questions::dismiss_secret(&call.reply.shard, &call.reply.principal, &question).await {
        return;
    }
    call.question_count += 1;
    // Keys of a task's questions must never repeat.
    let key = if question.key.is_empty() { "question" } else { &question.key };
    task.ask(format!("{key}-{}", call.question_count), question);
}

async fn outcome(reply: &ToolReply, result: SkillResult) -> TaskOutcome {
    if let Some(error) = result.error.as_ref().filter(|it| it.code() == ErrorCode::Internal) {
        return failure(&RpcError::new(Code::Internal, error.message.clone()));
    }
    match reply.result(result).await {
        Ok(result) => TaskOutcome::Completed(result),
        Err(fault) => failure(&fault),
    }
}

fn failure(fault: &RpcError) -> TaskOutcome {
    let mut error = json!({ "code": fault.code as i32, "message": fault.message });
    if let Ok(data) = serde_json::from_str::<Value>(&fault.data) {
        error["data"] = data;
    }
    TaskOutcome::Failed(error.to_string())
}

fn too_large() -> String {
    let text = "the result is too large to be kept: call the tool again without tasks";
    json!({ "content": [{ "type": "text", "text": text }], "isError": true, "resultType": "complete" }).to_string()
}

/// Renders a task for its owner, as JSON. Its result may be large, and is copied without parsing.
fn render(id: &str, seen: &Task, result_type: &str) -> String {
    let Record { created_ms, updated_ms, ttl_ms, end, .. } = &*seen.record;
    let time = |ms: u64| Timestamp(ms * 1000).to_string();
    let status = match end {
        None if seen.questions.is_empty() => "working",
        None => "input_required",
        Some(TaskOutcome::Completed(_)) => "completed",
        Some(TaskOutcome::Failed(_)) => "failed",
        Some(TaskOutcome::Cancelled) => "cancelled",
    };
    let mut task = json!({
        "resultType": result_type,
        "taskId": id,
        "status": status,
        "createdAt": time(*created_ms),
        "lastUpdatedAt": time(*updated_ms),
        "ttlMs": ttl_ms,
        "pollIntervalMs": POLL_MS,
        "_meta": { "io.modelcontextprotocol/serverInfo": server_info() },
    });
    if !seen.message.is_empty() {
        task["statusMessage"] = seen.message.as_str().into();
    }
    if status == "input_required" {
        task["inputRequests"] = questions::requests(&seen.questions).into();
    }
    let mut text = task.to_string();
    if let Some(TaskOutcome::Completed(json) | TaskOutcome::Failed(json)) = end {
        text.pop();
        text.extend([",\"", if status == "failed" { "error" } else { "result" }, "\":", json, "}"]);
    }
    text
}

/// Handles `tasks/get`, `tasks/update` or `tasks/cancel`.
///
/// # Errors
/// The client does not declare the extension, the viewer has no such task, or its policy no longer allows the
/// skill.
pub(super) async fn method(
    shard: &Shard,
    method: &str,
    params: &mut Params,
    viewer: Viewer<'_>,
) -> Result<String, RpcError> {
    if !takes_tasks(params) {
        return Err(not_declared());
    }
    let id = params.task_id.take().ok_or_else(|| invalid_params("params.taskId is missing"))?;
    match method {
        "tasks/get" => get(shard, &id, viewer).await.map(|(seen, _share)| render(&id, &seen, "complete")),
        "tasks/update" => {
            let answers = params.input_responses.take();
            let answers = answers.ok_or_else(|| invalid_params("params.inputResponses is missing"))?;
            update(shard, &id, &answers, viewer).await
        }
        _ => cancel(shard, &id, viewer),
    }
}

/// Loads a task, with a share of the viewer's limit that lasts until the task is sent.
async fn get(shard: &Shard, id: &str, viewer: Viewer<'_>) -> Result<(Task, Share), RpcError> {
    let (limits, tasks, owner) = (&shard.gateway.limits, &shard.gateway.mcp.tasks, viewer.owner());
    let size = tasks.size(&owner, viewer.principal, id).ok_or_else(unknown)?;
    let share = limits.reserve(SharedLimit::Responses, &viewer.principal.shared_name(), COPIES * size).await;
    let share = share.ok_or_else(|| offerings::fault(overload_error()))?;
    Ok((tasks.get(&owner, id).ok_or_else(unknown)?, share))
}

fn cancel(shard: &Shard, id: &str, viewer: Viewer<'_>) -> Result<String, RpcError> {
    let (tasks, owner) = (&shard.gateway.mcp.tasks, viewer.owner());
    let is_its = tasks.size(&owner, viewer.principal, id).is_some();
    if is_its && tasks.cancel(&owner, id) { Ok(acknowledgement()) } else { Err(unknown()) }
}

/// Delivers answers to the call of a task. Ignores answers that match no question. A question with an invalid
/// answer stays open.
async fn update(shard: &Shard, id: &str, answers: &Answers, viewer: Viewer<'_>) -> Result<String, RpcError> {
    for (key, question) in get(shard, id, viewer).await?.0.questions {
        if let Some(answer) = answers.get(&key)
            && questions::deliver(shard, viewer.principal, &question, answer).await
        {
            shard.gateway.mcp.tasks.remove_question(id, &key);
        }
    }
    Ok(acknowledgement())
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
    let usual = shard.gateway.mcp.tasks.times().after;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::principal::GovernedSkill;
    use crate::mcp::owner::Owner;

    fn seen(end: Option<TaskOutcome>, questions: Vec<(String, InputRequired)>) -> Task {
        let record = Record {
            owner: Owner::default(),
            skill: GovernedSkill::default(),
            created_ms: 1_800_000_000_000,
            updated_ms: 1_800_000_001_000,
            ttl_ms: 5,
            end,
        };
        let mut task = Task::new(record, None);
        (task.message, task.questions) = ("half".to_owned(), questions);
        task
    }

    #[test]
    fn a_task_is_written_as_the_extension_says() {
        let written = |seen: &Task, kind| serde_json::from_str::<Value>(&super::render("t", seen, kind)).unwrap();
        let task = written(&seen(None, Vec::new()), "task");
        assert_eq!(
            (&task["status"], &task["resultType"], &task["statusMessage"]),
            (&json!("working"), &json!("task"), &json!("half"))
        );
        assert_eq!(task["createdAt"], "2027-01-15T08:00:00.000000Z");
        let question = ("q".to_owned(), InputRequired::default());
        let task = written(&seen(None, vec![question]), "complete");
        assert_eq!(
            (&task["status"], &task["inputRequests"]["q"]["method"]),
            (&json!("input_required"), &json!("elicitation/create"))
        );
        let task = written(&seen(Some(TaskOutcome::Completed("{\"content\":[]}".to_owned())), Vec::new()), "complete");
        assert_eq!((&task["status"], &task["result"]), (&json!("completed"), &json!({"content": []})));
        let task = written(&seen(Some(failure(&unknown())), Vec::new()), "complete");
        assert_eq!((&task["status"], &task["error"]["code"]), (&json!("failed"), &json!(-32602)));
        assert_eq!(written(&seen(Some(TaskOutcome::Cancelled), Vec::new()), "complete")["status"], "cancelled");
    }
}
