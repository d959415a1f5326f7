//! Calls as tasks: they go on without their requests; `tasks/get`, `tasks/update` and `tasks/cancel`.

use openskill_identity::shares::Share;
use openskill_proto::timestamp::Timestamp;
use openskill_proto::v1::invoke_event::Event;
use openskill_proto::v1::{ErrorCode, InputRequired, SkillResult};
use serde_json::{Value, json};

use super::hello::server_info;
use super::jsonrpc::{self, Code, Fault, Params};
use super::questions::{self, Answers};
use super::reply::Reply;
use super::resources::overloaded;
use super::running::{Arrived, Running};
use super::shelf::{self, Viewer};
use super::task_rules::{not_declared, takes_tasks};
use crate::call::principal::Principal;
use crate::gateway::Shard;
use crate::mcp::tasks::record::{End, Record};
use crate::mcp::tasks::{Running as Task, Seen};
use crate::state::limits::SharedLimit;

/// How many copies of a task there are at a time: as it is stored, as it is read, and as it is written.
const COPIES: usize = 3;

/// How often a client should ask, in milliseconds.
const POLL_MS: u64 = 1_000;

/// A call that goes on as a task.
pub(super) struct Going {
    pub(super) running: Running,
    pub(super) reply: Reply,
    /// How many questions were asked.
    pub(super) asked: usize,
    /// Questions that nobody was asked yet.
    pub(super) together: Vec<(String, InputRequired)>,
}

/// Makes a task of a call. Returns the message for its client, or the call if there is no room for another task.
pub(super) async fn promote(call: Going) -> Result<String, Box<Going>> {
    let (shard, principal, owner) = (call.reply.shard.clone(), call.reply.principal.clone(), call.reply.owner.clone());
    let Ok(task) = shard.gateway.mcp.tasks.begin(&owner, call.reply.skill()).await else { return Err(Box::new(call)) };
    let created = match shard.gateway.mcp.tasks.get(&owner, task.id()).await {
        Ok(Some(seen)) => jsonrpc::result(&call.reply.id, &written(task.id(), &seen, "task")),
        _ => return Err(Box::new(call)),
    };
    let tracker = shard.gateway.tasks.clone();
    tracker.spawn(drive(call, task, shard, principal));
    Ok(created)
}

/// Runs the call of a task until it ends, or its owner cancels it: then it is dropped, and its processes end.
async fn drive(mut call: Going, task: Task, shard: Shard, principal: Principal) {
    for (key, question) in std::mem::take(&mut call.together) {
        task.ask(key, question);
    }
    let end = loop {
        let arrived = tokio::select! {
            biased;
            () = task.cancelled() => break End::Cancelled,
            arrived = call.running.next() => arrived,
        };
        match arrived {
            Arrived::Result(result) => break ended(&call.reply, result).await,
            Arrived::Broken(message) => break failed(&Fault::new(Code::Internal, message)),
            Arrived::Event(Event::InputRequired(question)) => {
                ask(&mut call, &task, question, (&shard, &principal)).await
            }
            Arrived::Event(Event::Progress(progress)) if !progress.message.is_empty() => task.say(progress.message),
            Arrived::Event(_) => {}
        }
    };
    drop(call);
    task.end(end, too_large).await;
}

async fn ask(call: &mut Going, task: &Task, question: InputRequired, (shard, principal): (&Shard, &Principal)) {
    if questions::dismiss_secret(shard, principal, &question).await {
        return;
    }
    call.asked += 1;
    // Keys of a task are never used twice.
    let key = if question.key.is_empty() { "question" } else { &question.key };
    task.ask(format!("{key}-{}", call.asked), question);
}

async fn ended(reply: &Reply, result: SkillResult) -> End {
    if let Some(error) = result.error.as_ref().filter(|it| it.code() == ErrorCode::Internal) {
        return failed(&Fault::new(Code::Internal, error.message.clone()));
    }
    match reply.result(result).await {
        Ok(result) => End::Completed(result),
        Err(fault) => failed(&fault),
    }
}

fn failed(fault: &Fault) -> End {
    let mut error = json!({ "code": fault.code.number(), "message": fault.message });
    if let Ok(data) = serde_json::from_str::<Value>(&fault.data) {
        error["data"] = data;
    }
    End::Failed(error.to_string())
}

fn too_large() -> String {
    let text = "the result is too large to be kept: call the tool again without tasks";
    json!({ "content": [{ "type": "text", "text": text }], "isError": true, "resultType": "complete" }).to_string()
}

/// A task as its owner gets it, as JSON. Its result may be large, and is copied as it was stored.
fn written(id: &str, seen: &Seen, result_type: &str) -> String {
    let Record { created_ms, updated_ms, ttl_ms, end, .. } = &seen.record;
    let time = |ms: u64| Timestamp(ms * 1000).to_string();
    let status = match end {
        None if seen.questions.is_empty() => "working",
        None => "input_required",
        Some(End::Completed(_)) => "completed",
        Some(End::Failed(_)) => "failed",
        Some(End::Cancelled) => "cancelled",
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
    if let Some(End::Completed(json) | End::Failed(json)) = end {
        text.pop();
        text.extend([",\"", if status == "failed" { "error" } else { "result" }, "\":", json, "}"]);
    }
    text
}

/// A method of tasks. None: there is no such method.
///
/// # Errors
/// The client does not declare the extension, there is no such task of this viewer, or its policy no longer allows the skill.
pub(super) async fn method(
    shard: &Shard,
    method: &str,
    params: &mut Params,
    viewer: Viewer<'_>,
) -> Option<Result<String, Fault>> {
    if !matches!(method, "tasks/get" | "tasks/update" | "tasks/cancel") {
        return None;
    }
    if !takes_tasks(params) {
        return Some(Err(not_declared()));
    }
    let Some(id) = params.task_id.take() else {
        return Some(Err(Fault::new(Code::InvalidParams, "params.taskId is missing")));
    };
    Some(match method {
        "tasks/get" => get(shard, &id, viewer).await.map(|(seen, _share)| written(&id, &seen, "complete")),
        "tasks/update" => match params.input_responses.take() {
            Some(answers) => update(shard, &id, &answers, viewer).await,
            None => Err(Fault::new(Code::InvalidParams, "params.inputResponses is missing")),
        },
        _ => cancel(shard, &id, viewer),
    })
}

/// A task, and what it takes of its viewer's share until it is written.
async fn get(shard: &Shard, id: &str, viewer: Viewer<'_>) -> Result<(Seen, Share), Fault> {
    let (limits, tasks, owner) = (&shard.gateway.limits, &shard.gateway.mcp.tasks, viewer.owner());
    let size = tasks.size(&owner, viewer.principal, id).ok_or_else(unknown)?;
    let share = limits.reserve(SharedLimit::Responses, &viewer.principal.shared_name(), COPIES * size).await;
    let share = share.ok_or_else(|| shelf::fault(overloaded()))?;
    let found = tasks.get(&owner, id).await.map_err(|error| Fault::new(Code::Internal, error.to_string()))?;
    Ok((found.ok_or_else(unknown)?, share))
}

fn cancel(shard: &Shard, id: &str, viewer: Viewer<'_>) -> Result<String, Fault> {
    let (tasks, owner) = (&shard.gateway.mcp.tasks, viewer.owner());
    let is_its = tasks.size(&owner, viewer.principal, id).is_some();
    if is_its && tasks.cancel(&owner, id) { Ok(acknowledged()) } else { Err(unknown()) }
}

/// Hands answers to the call of a task. What it did not ask for is ignored; what does not fit is still asked for.
async fn update(shard: &Shard, id: &str, answers: &Answers, viewer: Viewer<'_>) -> Result<String, Fault> {
    for (key, question) in get(shard, id, viewer).await?.0.questions {
        if let Some(answer) = answers.get(&key)
            && questions::delivered(shard, viewer.principal, &question, answer).await
        {
            shard.gateway.mcp.tasks.answered(id, &key);
        }
    }
    Ok(acknowledged())
}

fn acknowledged() -> String {
    let info = server_info();
    json!({ "resultType": "complete", "_meta": { "io.modelcontextprotocol/serverInfo": info } }).to_string()
}

fn unknown() -> Fault {
    Fault::new(Code::InvalidParams, "there is no such task, or it has expired")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::principal::GovernedSkill;
    use crate::mcp::owner::Owner;

    fn seen(end: Option<End>, questions: Vec<(String, InputRequired)>) -> Seen {
        let record = Record {
            owner: Owner::default(),
            skill: GovernedSkill::default(),
            created_ms: 1_800_000_000_000,
            updated_ms: 1_800_000_001_000,
            ttl_ms: 5,
            end,
        };
        Seen { record, message: "half".to_owned(), questions }
    }

    #[test]
    fn a_task_is_written_as_the_extension_says() {
        let written = |seen: &Seen, kind| serde_json::from_str::<Value>(&super::written("t", seen, kind)).unwrap();
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
        let task = written(&seen(Some(End::Completed("{\"content\":[]}".to_owned())), Vec::new()), "complete");
        assert_eq!((&task["status"], &task["result"]), (&json!("completed"), &json!({"content": []})));
        let task = written(&seen(Some(failed(&unknown())), Vec::new()), "complete");
        assert_eq!((&task["status"], &task["error"]["code"]), (&json!("failed"), &json!(-32602)));
        assert_eq!(written(&seen(Some(End::Cancelled), Vec::new()), "complete")["status"], "cancelled");
    }
}
