//! Delivers the result of a call: as a JSON response, or as server-sent events if the skill sends events before the
//! result or takes long.
//!
//! Dropping the stream drops the call and ends its processes. The stream of a session can be [resumed](sse), so its
//! call continues until the stream expires.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::Body;
use axum::http::StatusCode;
use axum::response::Response;
use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use openskill_proto::v1::invoke_event::Event;
use openskill_proto::v1::{InputRequired, Progress};
use tokio::time::Instant;

use super::jsonrpc::{self, Code, RpcError, notification, string};
use super::questions::{self, Answers, ElicitationMode};
use super::reply::ToolReply;
use super::response::{self, Accepts};
use super::sse::{self, BEAT, ResumableStream, beat, event};
use super::tasks::{self, PendingCall};
use crate::mcp::clients::{Cancellable, Level};
use crate::mcp::parked::{CallUpdate, FollowedCall, RunningCall};
use crate::mcp::replay::Replay;

/// How much the progress increases if the skill does not report a value. Each notification must report more than
/// the one before.
const STEP: f64 = 0.001;

/// The notifications that a client wants while its call runs.
pub(super) struct Notifications {
    /// The token as JSON. None if the client does not want progress.
    progress_token: Option<String>,
    /// The minimum level. None if the client does not want log messages.
    level: Option<Level>,
    skill_id: String,
    /// The last reported progress, out of 100.
    progress: Option<f64>,
}

/// A call, with everything that its response needs.
pub(super) struct StreamedCall {
    pub(super) pending: PendingCall,
    pub(super) notifications: Notifications,
    pub(super) cancellable: Option<Cancellable>,
    pub(super) elicitation: ElicitationMode,
    /// Answers that came with the request, before their questions were asked.
    pub(super) early_answers: Answers,
    /// When the call becomes a task. None: never.
    pub(super) task_at: Option<Instant>,
    /// How to resume its stream. None if it can't be resumed.
    pub(super) resumable: Option<ResumableStream>,
}

/// What happens next in a call.
enum Next {
    /// The client must get this notification.
    Notification(String),
    /// The call ended with this message.
    Ended(Result<String, RpcError>),
    Cancelled,
    /// The call must become a task now.
    Due,
    /// Nothing happened for a [`BEAT`].
    Silence,
}

impl Notifications {
    pub(super) fn new(progress_token: Option<String>, level: Option<Level>, skill_id: &str) -> Self {
        Self { progress_token, level, skill_id: skill_id.to_owned(), progress: None }
    }

    /// Whether the client wants any notification.
    pub(super) fn wants_any(&self) -> bool {
        self.progress_token.is_some() || self.level.is_some()
    }

    /// Renders the notification for an event, if the client wants it.
    fn render(&mut self, event: Event) -> Option<String> {
        match event {
            Event::Progress(it) => self.progress(&it),
            Event::Partial(it) => {
                let token = self.progress_token.clone()?;
                let (now, data) = (self.next_progress(None), it.data_json);
                let params = format!(
                    "{{\"progressToken\":{token},\"progress\":{now},\"_meta\":{{\"openskill.dev/partial\":{data}}}}}"
                );
                Some(notification("notifications/progress", &params))
            }
            Event::Log(line) if self.level.is_some_and(|it| it.admits(&line)) => {
                let level = if Level::from_name(&line.level).is_some() { line.level.as_str() } else { "info" };
                let (logger, data) = (string(&self.skill_id), string(&line.message));
                let params = format!("{{\"level\":\"{level}\",\"logger\":{logger},\"data\":{data}}}");
                Some(notification("notifications/message", &params))
            }
            _ => None,
        }
    }

    fn progress(&mut self, progress: &Progress) -> Option<String> {
        let token = self.progress_token.clone()?;
        let is_known = progress.fraction.is_finite() && progress.fraction >= 0.0;
        let said = is_known.then(|| (progress.fraction.min(1.0) * 100.0 * 1000.0).round() / 1000.0);
        // Skip a report without news.
        if progress.message.is_empty() && said.is_some() && self.progress >= said {
            return None;
        }
        let now = self.next_progress(said);
        let total = if is_known { ",\"total\":100" } else { "" };
        let message = if progress.message.is_empty() {
            String::new()
        } else {
            format!(",\"message\":{}", string(&progress.message))
        };
        let params = format!("{{\"progressToken\":{token},\"progress\":{now}{total}{message}}}");
        Some(notification("notifications/progress", &params))
    }

    /// Returns the progress to report, and remembers it: the skill's value if it is higher than the last one, otherwise
    /// the last one plus [`STEP`].
    fn next_progress(&mut self, said: Option<f64>) -> f64 {
        let now = match (self.progress, said) {
            (None, said) => said.unwrap_or_default(),
            (Some(before), Some(said)) if said > before => said,
            (Some(before), _) => before + STEP,
        };
        self.progress = Some(now);
        now
    }
}

impl StreamedCall {
    /// Waits for the next step, for at most a [`BEAT`].
    async fn next(&mut self) -> Next {
        let beat_at = Instant::now() + BEAT;
        loop {
            let cancelled = wait_until_cancelled(self.cancellable.as_ref());
            let (task_at, is_due) = (self.task_at.unwrap_or(beat_at), self.task_at.is_some());
            let arrived = tokio::select! {
                biased;
                () = cancelled => return Next::Cancelled,
                arrived = self.pending.running.next() => arrived,
                () = tokio::time::sleep_until(task_at), if is_due => return Next::Due,
                () = tokio::time::sleep_until(beat_at) => return Next::Silence,
            };
            match arrived {
                CallUpdate::Result(result) => return Next::Ended(self.pending.reply.message(result).await),
                CallUpdate::Broken(message) => return Next::Ended(Err(RpcError::new(Code::Internal, message))),
                CallUpdate::Event(Event::InputRequired(question)) => {
                    if let Some(next) = Box::pin(self.ask(question)).await {
                        return next;
                    }
                }
                CallUpdate::Event(event) => {
                    if let Some(said) = self.notifications.render(event) {
                        return Next::Notification(said);
                    }
                }
            }
        }
    }

    /// Asks the user, in the way that the client supports. None if the client was not asked, or will be later.
    async fn ask(&mut self, question: InputRequired) -> Option<Next> {
        if let ElicitationMode::Never = self.elicitation {
            return None;
        }
        let PendingCall { running, reply, question_count, open_questions } = &mut self.pending;
        let (shard, principal, is_last) = (&reply.shard, &reply.principal, !question.more);
        let is_dismissed = questions::dismiss_secret(shard, principal, &question).await;
        let ElicitationMode::ByResult(fingerprint) = self.elicitation else {
            return (!is_dismissed).then(|| Next::Notification(questions::request(&question)));
        };
        *question_count += 1;
        let key = questions::key(&question, *question_count, open_questions);
        let is_answered = match self.early_answers.remove(&key) {
            Some(answer) if !is_dismissed => questions::deliver(shard, principal, &question, &answer).await,
            _ => is_dismissed,
        };
        if !is_answered {
            open_questions.push((key, question));
        }
        if !is_last || open_questions.is_empty() {
            return None;
        }
        let gone = RunningCall::WithEvents(FollowedCall { events: stream::empty().boxed(), call: None });
        let RunningCall::WithEvents(followed) = std::mem::replace(running, gone) else { return None };
        let result = questions::ask(shard, principal, fingerprint, followed, std::mem::take(open_questions));
        Some(Next::Ended(result.map(|result| jsonrpc::result(&reply.id, &result))))
    }

    /// Turns the call into a task. Returns the message for its client. Returns the call if it can't become one.
    async fn promote(self) -> Result<String, Box<Self>> {
        match tasks::promote(self.pending).await {
            Ok(created) => Ok(created),
            Err(pending) => Err(Box::new(Self { pending: *pending, task_at: None, ..self })),
        }
    }

    fn final_message(&self, ended: Result<String, RpcError>) -> String {
        ended.unwrap_or_else(|fault| jsonrpc::error(Some(&self.pending.reply.id), &fault))
    }
}

/// Waits until the client of a call cancels it.
async fn wait_until_cancelled(cancellable: Option<&Cancellable>) {
    match cancellable {
        Some(it) => it.wait_until_cancelled().await,
        None => std::future::pending().await,
    }
}

/// Responds to a call, once it is known whether the response is JSON or a stream. `call` is boxed because otherwise
/// each of the nested futures would contain a copy.
///
/// # Errors
/// The tool does not exist, and no event was sent.
pub(super) async fn answer(mut call: Box<StreamedCall>, accepts: Accepts) -> Result<Response, RpcError> {
    loop {
        let first = match call.next().await {
            Next::Ended(ended) if accepts.json => return Ok(response::json(StatusCode::OK, ended?)),
            Next::Ended(ended) => {
                return Ok(response::events(Body::from(event(&ended?))));
            }
            Next::Cancelled => return Err(RpcError::new(Code::Cancelled, "the request was cancelled")),
            Next::Due => match Box::pin(call.promote()).await {
                Ok(created) if accepts.json => return Ok(response::json(StatusCode::OK, created)),
                Ok(created) => return Ok(response::events(Body::from(event(&created)))),
                Err(back) => {
                    call = back;
                    continue;
                }
            },
            Next::Silence if !accepts.events => continue,
            Next::Silence => None,
            Next::Notification(message) => Some(message),
        };
        if let Some(resumable) = call.resumable.take()
            && let Some((writer, reader)) = resumable.open(call.pending.reply.skill())
        {
            writer.spawn(|replay| write(replay, first, call));
            return Ok(response::events(Body::from_stream(sse::events(reader))));
        }
        let first = first.map_or_else(beat, |it| event(&it));
        return Ok(response::events(Body::from_stream(stream(first, call))));
    }
}

/// Writes the stream of a call to `replay`, where its readers find it.
async fn write(replay: Arc<Replay>, first: Option<String>, mut call: Box<StreamedCall>) {
    if let Some(first) = first {
        let _ = sse::say(&replay, &first).await;
    }
    loop {
        match call.next().await {
            Next::Notification(message) => {
                let is_cancelled = tokio::select! {
                    biased;
                    () = wait_until_cancelled(call.cancellable.as_ref()) => true,
                    _ = sse::say(&replay, &message) => false,
                };
                if is_cancelled {
                    return;
                }
            }
            // Readers send their own keepalives.
            Next::Silence => {}
            // Clients with sessions do not support tasks.
            Next::Due => call.task_at = None,
            Next::Ended(ended) => {
                if !sse::say(&replay, &call.final_message(ended)).await {
                    let _ = sse::say(&replay, &call.final_message(Err(ToolReply::dropped_result()))).await;
                }
                return;
            }
            // The client does not expect a response.
            Next::Cancelled => return,
        }
    }
}

/// Streams a call, after its first event.
fn stream(first: Bytes, call: Box<StreamedCall>) -> impl futures_util::Stream<Item = Result<Bytes, Infallible>> {
    let rest = stream::unfold(Some(call), |call| async move {
        let mut call = call?;
        Some(match call.next().await {
            Next::Notification(message) => (Ok(event(&message)), Some(call)),
            Next::Silence => (Ok(beat()), Some(call)),
            Next::Ended(ended) => (Ok(event(&call.final_message(ended))), None),
            // The client does not expect a response.
            Next::Cancelled => return None,
            Next::Due => match call.promote().await {
                Ok(created) => (Ok(event(&created)), None),
                // It can't become a task: the call continues on this stream.
                Err(call) => (Ok(beat()), Some(call)),
            },
        })
    });
    stream::iter([Ok(first)]).chain(rest)
}

#[cfg(test)]
mod tests {
    use openskill_proto::v1::{Log, Partial};
    use serde_json::{Value, json};

    use super::*;

    fn params(notifications: &mut Notifications, event: Event) -> Option<Value> {
        let text = notifications.render(event)?;
        let message: Value = serde_json::from_str(&text).unwrap();
        Some(message["params"].clone())
    }

    fn progress(fraction: f64, message: &str) -> Event {
        Event::Progress(Progress { fraction, message: message.to_owned() })
    }

    #[test]
    fn progress_is_of_a_hundred_and_always_grows() {
        let mut notifications = Notifications::new(Some("\"t\"".to_owned()), None, "echo");
        let mut said = Vec::new();
        for event in
            [progress(0.0, ""), progress(0.5, "half"), progress(0.5, ""), progress(0.2, "again"), progress(1.0, "")]
        {
            said.extend(params(&mut notifications, event));
        }
        let numbers: Vec<_> = said.iter().map(|it| it["progress"].as_f64().unwrap()).collect();
        assert!(numbers.is_sorted_by(|one, other| one < other) && numbers.len() == 4, "{numbers:?}");
        assert_eq!(
            (&said[0], &said[1]["message"]),
            (&json!({"progressToken": "t", "progress": 0, "total": 100}), &json!("half"))
        );
        let unknown = params(&mut notifications, progress(-1.0, "on and on")).unwrap();
        assert!(unknown.get("total").is_none() && unknown["progress"].as_f64().unwrap() > 100.0);
        let part = params(&mut notifications, Event::Partial(Partial { data_json: "[1]".to_owned() })).unwrap();
        assert_eq!(part["_meta"]["openskill.dev/partial"], json!([1]));
    }

    #[test]
    fn nobody_hears_what_it_did_not_ask_for() {
        let log = || Event::Log(Log { level: "info".to_owned(), message: "working".to_owned() });
        assert_eq!(Notifications::new(None, None, "echo").render(log()), None);
        assert_eq!(Notifications::new(None, Some(Level::Warning), "echo").render(log()), None);
        assert_eq!(Notifications::new(None, Some(Level::Debug), "echo").render(progress(0.5, "half")), None);
        let said = params(&mut Notifications::new(None, Some(Level::Debug), "echo"), log()).unwrap();
        assert_eq!(said, json!({"level": "info", "logger": "echo", "data": "working"}));
    }
}
