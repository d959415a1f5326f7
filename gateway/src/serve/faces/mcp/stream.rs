//! How the result of a call reaches its client: a JSON answer; or server-sent events, if the skill says something before the result
//! or stays silent for long.
//!
//! Dropping the stream drops the call: its processes end. The stream of a session may be [taken up again](resumed), so there the
//! call goes on for a while.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::Body;
use axum::http::StatusCode;
use axum::response::Response;
use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream;
use openskill_proto::v1::invoke_event::Event;
use openskill_proto::v1::{InputRequired, Progress};
use tokio::time::Instant;

use super::answer::{self, Accepts};
use super::jsonrpc::{self, Code, Fault, notification, string};
use super::questions::{self, Answers, Asks};
use super::reply::Reply;
use super::resumed::{self, Resumable};
use super::running::{Arrived, Running};
pub(super) use super::sse::{BEAT, beat, event};
use super::tasks::{self, Going};
use crate::mcp::clients::{Cancellable, Level};
use crate::mcp::replay::Replay;

/// How much the progress grows if the skill does not say how far it is. It has to grow with each notification.
const STEP: f64 = 0.001;

/// What a client wants to hear while its call runs.
pub(super) struct Voice {
    /// JSON.
    progress_token: Option<String>,
    level: Option<Level>,
    skill_id: String,
    /// What was reported last, of 100.
    progress: Option<f64>,
}

/// A call and everything that its answer takes.
pub(super) struct Call {
    pub(super) running: Running,
    pub(super) reply: Reply,
    pub(super) voice: Voice,
    pub(super) cancellable: Option<Cancellable>,
    pub(super) asks: Asks,
    /// How many questions were asked.
    pub(super) asked: usize,
    /// Answers that came with the request, before their questions.
    pub(super) given: Answers,
    /// Questions that are asked together with the one that comes next.
    pub(super) together: Vec<(String, InputRequired)>,
    /// When it becomes a task, if it is to become one.
    pub(super) task_at: Option<Instant>,
    /// Who may take its stream up again.
    pub(super) resumable: Option<Resumable>,
}

/// What comes next of a call.
enum Next {
    /// A notification.
    Said(String),
    /// The message that ends it.
    Ended(Result<String, Fault>),
    Cancelled,
    /// It goes on as a task.
    Due,
    /// Nothing for a while.
    Silence,
}

impl Voice {
    pub(super) fn new(progress_token: Option<String>, level: Option<Level>, skill_id: &str) -> Self {
        Self { progress_token, level, skill_id: skill_id.to_owned(), progress: None }
    }

    /// Whether anything but the result is sent.
    pub(super) fn is_heard(&self) -> bool {
        self.progress_token.is_some() || self.level.is_some()
    }

    /// The notification of an event, if the client wants it.
    fn of(&mut self, event: Event) -> Option<String> {
        match event {
            Event::Progress(it) => self.progress(&it),
            Event::Partial(it) => {
                let token = self.progress_token.clone()?;
                let (now, data) = (self.grown(None), it.data_json);
                let params = format!(
                    "{{\"progressToken\":{token},\"progress\":{now},\"_meta\":{{\"openskill.dev/partial\":{data}}}}}"
                );
                Some(notification("notifications/progress", &params))
            }
            Event::Log(line) if self.level.is_some_and(|it| it.admits(&line)) => {
                let level = if Level::named(&line.level).is_some() { line.level.as_str() } else { "info" };
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
        // What says nothing new is not worth a notification.
        if progress.message.is_empty() && said.is_some() && self.progress >= said {
            return None;
        }
        let now = self.grown(said);
        let total = if is_known { ",\"total\":100" } else { "" };
        let message = if progress.message.is_empty() {
            String::new()
        } else {
            format!(",\"message\":{}", string(&progress.message))
        };
        let params = format!("{{\"progressToken\":{token},\"progress\":{now}{total}{message}}}");
        Some(notification("notifications/progress", &params))
    }

    /// The progress to report: what the skill says, if that is more than before.
    fn grown(&mut self, said: Option<f64>) -> f64 {
        let now = match (self.progress, said) {
            (None, said) => said.unwrap_or_default(),
            (Some(before), Some(said)) if said > before => said,
            (Some(before), _) => before + STEP,
        };
        self.progress = Some(now);
        now
    }
}

impl Call {
    /// Waits for what comes next, at most for a [`BEAT`].
    async fn next(&mut self) -> Next {
        let beat_at = Instant::now() + BEAT;
        loop {
            let cancelled = cancelled(self.cancellable.as_ref());
            let (task_at, is_due) = (self.task_at.unwrap_or(beat_at), self.task_at.is_some());
            let arrived = tokio::select! {
                biased;
                () = cancelled => return Next::Cancelled,
                arrived = self.running.next() => arrived,
                () = tokio::time::sleep_until(task_at), if is_due => return Next::Due,
                () = tokio::time::sleep_until(beat_at) => return Next::Silence,
            };
            match arrived {
                Arrived::Result(result) => return Next::Ended(self.reply.message(result).await),
                Arrived::Broken(message) => return Next::Ended(Err(Fault::new(Code::Internal, message))),
                Arrived::Event(Event::InputRequired(question)) => {
                    if let Some(next) = Box::pin(self.ask(question)).await {
                        return next;
                    }
                }
                Arrived::Event(event) => {
                    if let Some(said) = self.voice.of(event) {
                        return Next::Said(said);
                    }
                }
            }
        }
    }

    /// Asks the user in the client's way. None if this client is not asked, or not yet.
    async fn ask(&mut self, question: InputRequired) -> Option<Next> {
        let (way, is_last) = match &self.asks {
            Asks::Never => return None,
            Asks::OnStream(way) | Asks::ByResult(way) => (way, !question.more),
        };
        let (shard, principal) = (&way.shard, &way.principal);
        let is_dismissed = questions::dismiss_secret(shard, principal, &question).await;
        if let Asks::OnStream(_) = &self.asks {
            return (!is_dismissed).then(|| Next::Said(questions::request(&question)));
        }
        self.asked += 1;
        let key = questions::key(&question, self.asked, &self.together);
        let is_answered = match self.given.remove(&key) {
            Some(answer) if !is_dismissed => questions::delivered(shard, principal, &question, &answer).await,
            _ => is_dismissed,
        };
        if !is_answered {
            self.together.push((key, question));
        }
        if !is_last || self.together.is_empty() {
            return None;
        }
        let gone = Running::Heard(stream::empty().boxed());
        let Running::Heard(events) = std::mem::replace(&mut self.running, gone) else { return None };
        let asked = questions::ask(way, events, std::mem::take(&mut self.together));
        Some(Next::Ended(asked.map(|result| jsonrpc::result(&self.reply.id, &result))))
    }

    /// Makes a task of it: the message for its client, or the call if there is no room for another task.
    async fn promote(self) -> Result<String, Box<Self>> {
        let Self { running, reply, voice, cancellable, asks, asked, given, together, task_at: _, resumable } = self;
        tasks::promote(Going { running, reply, asked, together }).await.map_err(|going| {
            let Going { running, reply, asked, together } = *going;
            let task_at = None;
            Box::new(Self { running, reply, voice, cancellable, asks, asked, given, together, task_at, resumable })
        })
    }

    fn ended(&self, ended: Result<String, Fault>) -> String {
        ended.unwrap_or_else(|fault| jsonrpc::error(Some(&self.reply.id), &fault))
    }
}

/// Waits until the client of a call cancels it.
async fn cancelled(cancellable: Option<&Cancellable>) {
    match cancellable {
        Some(it) => it.cancelled().await,
        None => std::future::pending().await,
    }
}

/// The answer to a call, as soon as it is known what it begins with. `call` is boxed, because each of the nested futures would
/// hold a copy.
///
/// # Errors
/// There is no such tool, and nothing was sent before.
pub(super) async fn answer(mut call: Box<Call>, accepts: Accepts) -> Result<Response, Fault> {
    loop {
        let first = match call.next().await {
            Next::Ended(ended) if accepts.json => return Ok(answer::json(StatusCode::OK, ended?)),
            Next::Ended(ended) => {
                return Ok(answer::events(Body::from(event(&ended?))));
            }
            Next::Cancelled => return Err(Fault::new(Code::Cancelled, "the request was cancelled")),
            Next::Due => match Box::pin(call.promote()).await {
                Ok(created) if accepts.json => return Ok(answer::json(StatusCode::OK, created)),
                Ok(created) => return Ok(answer::events(Body::from(event(&created)))),
                Err(back) => {
                    call = back;
                    continue;
                }
            },
            Next::Silence if !accepts.events => continue,
            Next::Silence => None,
            Next::Said(message) => Some(message),
        };
        if let Some(resumable) = call.resumable.take()
            && let Some((writer, reader)) = resumable.open(call.reply.skill())
        {
            writer.spawn(|replay| write(replay, first, call));
            return Ok(answer::events(Body::from_stream(resumed::events(reader))));
        }
        let first = first.map_or_else(beat, |it| event(&it));
        return Ok(answer::events(Body::from_stream(stream(first, call))));
    }
}

/// Writes the stream of a call, whoever reads it.
async fn write(replay: Arc<Replay>, first: Option<String>, mut call: Box<Call>) {
    if let Some(first) = first {
        let _ = resumed::say(&replay, &first).await;
    }
    loop {
        match call.next().await {
            Next::Said(message) => {
                let is_cancelled = tokio::select! {
                    biased;
                    () = cancelled(call.cancellable.as_ref()) => true,
                    _ = resumed::say(&replay, &message) => false,
                };
                if is_cancelled {
                    return;
                }
            }
            // Readers know themselves when they have read nothing for long.
            Next::Silence => {}
            // Clients with sessions take no tasks.
            Next::Due => call.task_at = None,
            Next::Ended(ended) => {
                if !resumed::say(&replay, &call.ended(ended)).await {
                    let _ = resumed::say(&replay, &call.ended(Err(Reply::dropped()))).await;
                }
                return;
            }
            // The client waits for no answer.
            Next::Cancelled => return,
        }
    }
}

/// What is left of a stream.
enum Rest {
    First(Bytes, Box<Call>),
    Running(Box<Call>),
    Done,
}

fn stream(first: Bytes, call: Box<Call>) -> impl futures_util::Stream<Item = Result<Bytes, Infallible>> {
    stream::unfold(Rest::First(first, call), |rest| async move {
        let mut call = match rest {
            Rest::First(first, call) => return Some((Ok(first), Rest::Running(call))),
            Rest::Running(call) => call,
            Rest::Done => return None,
        };
        match call.next().await {
            Next::Said(message) => Some((Ok(event(&message)), Rest::Running(call))),
            Next::Silence => Some((Ok(beat()), Rest::Running(call))),
            Next::Ended(ended) => Some((Ok(event(&call.ended(ended))), Rest::Done)),
            // The client waits for no answer.
            Next::Cancelled => None,
            Next::Due => match call.promote().await {
                Ok(created) => Some((Ok(event(&created)), Rest::Done)),
                // There is no room for it: it goes on as it began.
                Err(call) => Some((Ok(beat()), Rest::Running(call))),
            },
        }
    })
}

#[cfg(test)]
mod tests {
    use openskill_proto::v1::{Log, Partial};
    use serde_json::{Value, json};

    use super::*;

    fn params(voice: &mut Voice, event: Event) -> Option<Value> {
        let text = voice.of(event)?;
        let message: Value = serde_json::from_str(&text).unwrap();
        Some(message["params"].clone())
    }

    fn progress(fraction: f64, message: &str) -> Event {
        Event::Progress(Progress { fraction, message: message.to_owned() })
    }

    #[test]
    fn progress_is_of_a_hundred_and_always_grows() {
        let mut voice = Voice::new(Some("\"t\"".to_owned()), None, "echo");
        let mut said = Vec::new();
        for event in
            [progress(0.0, ""), progress(0.5, "half"), progress(0.5, ""), progress(0.2, "again"), progress(1.0, "")]
        {
            said.extend(params(&mut voice, event));
        }
        let numbers: Vec<_> = said.iter().map(|it| it["progress"].as_f64().unwrap()).collect();
        assert!(numbers.is_sorted_by(|one, other| one < other) && numbers.len() == 4, "{numbers:?}");
        assert_eq!(
            (&said[0], &said[1]["message"]),
            (&json!({"progressToken": "t", "progress": 0, "total": 100}), &json!("half"))
        );
        let unknown = params(&mut voice, progress(-1.0, "on and on")).unwrap();
        assert!(unknown.get("total").is_none() && unknown["progress"].as_f64().unwrap() > 100.0);
        let part = params(&mut voice, Event::Partial(Partial { data_json: "[1]".to_owned() })).unwrap();
        assert_eq!(part["_meta"]["openskill.dev/partial"], json!([1]));
    }

    #[test]
    fn nobody_hears_what_it_did_not_ask_for() {
        let log = || Event::Log(Log { level: "info".to_owned(), message: "working".to_owned() });
        assert_eq!(Voice::new(None, None, "echo").of(log()), None);
        assert_eq!(Voice::new(None, Some(Level::Warning), "echo").of(log()), None);
        assert_eq!(Voice::new(None, Some(Level::Debug), "echo").of(progress(0.5, "half")), None);
        let said = params(&mut Voice::new(None, Some(Level::Debug), "echo"), log()).unwrap();
        assert_eq!(said, json!({"level": "info", "logger": "echo", "data": "working"}));
    }
}
