//! One call as a careful client makes it: retried only if the last attempt certainly did not run.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use openskill_proto::v1::invoke_event::Event;
use openskill_proto::v1::invoke_request::Arguments;
use openskill_proto::v1::{InvokeEvent, InvokeRequest, SkillResult};
use openskill_tests::system::code;
use tonic::{Code, Status, Streaming};

use crate::journal::{End, Journal};
use crate::link::{Link, LinkError};
use crate::random::Random;

/// A call that has not ended this long after its deadline counts as hanging.
const HANGS: Duration = Duration::from_secs(10);

/// Between two attempts.
const PAUSE: Duration = Duration::from_millis(50);

/// The number of sessions where it matters little. The gateway is fair between sessions.
const SESSIONS: usize = 64;

/// A random session.
pub(crate) fn any_session(random: &mut Random) -> String {
    format!("session-{}", random.below(SESSIONS))
}

/// What to call.
#[derive(Debug, Clone)]
pub(crate) struct Job {
    pub(crate) skill: &'static str,
    pub(crate) input: serde_json::Value,
    pub(crate) session: String,
    pub(crate) deadline: Duration,
    pub(crate) streamed: bool,
    /// No retry starts later than this after the first attempt.
    pub(crate) patience: Duration,
}

/// How a call ended.
#[derive(Debug, Clone)]
pub(crate) struct Called {
    pub(crate) id: String,
    pub(crate) skill: &'static str,
    pub(crate) end: End,
    /// The worker of the last attempt.
    pub(crate) worker: String,
    /// The link of the last attempt.
    pub(crate) link: usize,
    pub(crate) attempts: u32,
    pub(crate) begun: Instant,
    pub(crate) ended: Instant,
}

impl Called {
    pub(crate) fn is_ok(&self) -> bool {
        self.end == End::Ok
    }

    pub(crate) fn took(&self) -> Duration {
        self.ended.duration_since(self.begun)
    }
}

/// Makes calls over its links in turn, and records each in a journal.
#[derive(Debug, Clone)]
pub(crate) struct Caller(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    prefix: String,
    links: Vec<Arc<Link>>,
    turn: AtomicUsize,
    calls: AtomicU64,
    journal: Journal,
}

impl Caller {
    /// `prefix` starts the ids of all its calls.
    pub(crate) fn new(prefix: String, links: Vec<Arc<Link>>) -> Self {
        let (turn, calls, journal) = Default::default();
        Self(Arc::new(Inner { prefix, links, turn, calls, journal }))
    }

    pub(crate) fn prefix(&self) -> &str {
        &self.0.prefix
    }

    pub(crate) fn journal(&self) -> &Journal {
        &self.0.journal
    }

    /// The next link in turn.
    pub(crate) fn link(&self) -> (usize, &Arc<Link>) {
        let index = self.0.turn.fetch_add(1, Ordering::Relaxed) % self.0.links.len();
        (index, &self.0.links[index])
    }

    pub(crate) fn close(&self) {
        self.0.links.iter().for_each(|link| link.close());
    }

    pub(crate) fn next_id(&self) -> String {
        format!("{}{}", self.0.prefix, self.0.calls.fetch_add(1, Ordering::Relaxed))
    }

    pub(crate) async fn call(&self, job: Job) -> Called {
        self.call_as(self.next_id(), job).await
    }

    pub(crate) async fn call_as(&self, id: String, job: Job) -> Called {
        let begun = Instant::now();
        let mut attempts = 0;
        loop {
            attempts += 1;
            let (link, answer) = self.attempt(&id, attempts, &job).await;
            let Answer { ends, worker, .. } = answer;
            let end = ends.into_iter().next().unwrap_or_else(|| End::Broken("no end".to_owned()));
            if !end.was_not_run() || begun.elapsed() + PAUSE > job.patience {
                return Called { id, skill: job.skill, end, worker, link, attempts, begun, ended: Instant::now() };
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn attempt(&self, id: &str, number: u32, job: &Job) -> (usize, Answer) {
        let (index, link) = self.link();
        let pending = self.0.journal.begin(id, number, job.skill);
        let request = job.request(format!("{id}.{number}"));
        match tokio::time::timeout(job.deadline + HANGS, send(link, request, job.streamed)).await {
            Ok(answer) => {
                pending.end(answer.ends.clone(), answer.accepted);
                (index, answer)
            }
            Err(_) => {
                pending.hangs();
                (index, Answer::default())
            }
        }
    }
}

impl Job {
    pub(crate) fn request(&self, call_id: String) -> InvokeRequest {
        InvokeRequest {
            skill_id: self.skill.to_owned(),
            arguments: Some(Arguments::InputJson(self.input.to_string())),
            call_id,
            session_id: self.session.clone(),
            timeout_ms: self.deadline.as_millis().max(1) as u32,
            ..InvokeRequest::default()
        }
    }
}

/// The answer to one attempt.
#[derive(Debug, Default)]
struct Answer {
    ends: Vec<End>,
    accepted: bool,
    worker: String,
}

impl Answer {
    fn result(&mut self, result: &SkillResult) {
        self.worker = result.meta.as_ref().map(|meta| meta.worker_id.clone()).unwrap_or_default();
        self.ends.push(if result.success { End::Ok } else { End::Failed(code(result).to_owned()) });
    }

    /// After a result, a status adds nothing.
    fn status(&mut self, status: &Status) {
        if self.ends.is_empty() {
            self.ends.push(end_of(status));
        }
    }
}

async fn send(link: &Arc<Link>, request: InvokeRequest, streamed: bool) -> Answer {
    let mut answer = Answer::default();
    if streamed {
        match link.skills().invoke_stream(request).await {
            Ok(events) => follow(events.into_inner(), &mut answer).await,
            Err(status) => answer.status(&status),
        }
    } else {
        match link.skills().invoke(request).await {
            Ok(result) => answer.result(result.get_ref()),
            Err(status) => answer.status(&status),
        }
    }
    answer
}

/// Reads a stream to its end, so that a second result would be noticed.
async fn follow(mut events: Streaming<InvokeEvent>, answer: &mut Answer) {
    loop {
        match events.message().await {
            Ok(Some(InvokeEvent { event: Some(Event::Accepted(_)), .. })) => answer.accepted = true,
            Ok(Some(InvokeEvent { event: Some(Event::Result(result)), .. })) => answer.result(&result),
            Ok(Some(_)) => {}
            Ok(None) if answer.ends.is_empty() => {
                answer.ends.push(End::Broken("the stream ended without a result".to_owned()));
                return;
            }
            Ok(None) => return,
            Err(status) => return answer.status(&status),
        }
    }
}

/// What a status means for the call. Statuses of the gateway have details, those of the client library have none.
fn end_of(status: &Status) -> End {
    let source = std::error::Error::source(status).and_then(|source| source.downcast_ref::<LinkError>());
    let has_details = status.details().windows(9).any(|it| it == b"ErrorInfo");
    match (source, status.code()) {
        (Some(LinkError::NotSent(reason)), _) => End::NotSent(reason.clone()),
        (Some(LinkError::Lost(reason)), _) => End::Broken(reason.clone()),
        (None, Code::ResourceExhausted) if has_details => End::Refused("OVERLOADED".to_owned()),
        (None, Code::Unavailable) if has_details => End::Refused("UNAVAILABLE".to_owned()),
        (None, code) => End::Broken(format!("{code:?}: {}", status.message())),
    }
}
