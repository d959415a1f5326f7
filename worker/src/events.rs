//! What a call says while it runs: progress, log lines, parts of its answer, artifacts, questions.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Instant;

use bytes::Bytes;
use openskill_proto::limits::MAX_EVENTS;
use openskill_proto::v1::{Artifact, InputKind, InputRequired, Log, execute_event::Event};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

use crate::artifacts::{Chunk, Collector};
use crate::questions::ask::capability;
use crate::questions::{Answer, Ask, Asker};

mod answer;
mod line;

use answer::answer_line;
use line::{Line, Question};

/// How many answers wait for a skill to read them. Then its next question waits too.
const MAX_WAITING_ANSWERS: usize = 16;

/// How much of what a skill logs is kept for the result if nobody listens.
const MAX_UNHEARD: (usize, usize) = (200, 64 * 1024);

/// Where a call's events go. Cheap to clone. Without a listener artifacts and log lines are kept; other events are dropped.
#[derive(Debug, Clone, Default)]
pub struct EventSink(Arc<Call>);

#[derive(Debug, Default)]
struct Call {
    listener: Option<mpsc::Sender<Event>>,
    sent: AtomicUsize,
    dropped: AtomicUsize,
    artifacts: Collector,
    unheard: Mutex<Unheard>,
    /// An MCP server's result as it was sent, for a caller that speaks MCP.
    content: Content,
    /// None: nobody can answer a question of this call.
    asker: Option<Asker>,
    /// Made for the first question by line, or for the runner that takes them.
    answers: OnceLock<Answers>,
}

/// An MCP server's result, if the caller takes it.
#[derive(Debug, Default)]
struct Content {
    is_wanted: AtomicBool,
    json: Mutex<String>,
}

/// Log lines that wait for the result, and their length.
#[derive(Debug, Default)]
struct Unheard {
    lines: Vec<Log>,
    bytes: usize,
}

impl Unheard {
    fn keep(&mut self, line: Log) {
        self.bytes += line.message.len();
        if self.lines.len() < MAX_UNHEARD.0 && self.bytes <= MAX_UNHEARD.1 {
            self.lines.push(line);
        }
    }
}

/// The way back of a call: lines for the skill to read.
#[derive(Debug)]
struct Answers {
    sender: mpsc::Sender<Bytes>,
    /// None: a runner has taken it.
    receiver: Mutex<Option<mpsc::Receiver<Bytes>>>,
}

impl Call {
    fn answers(&self) -> &Answers {
        self.answers.get_or_init(|| {
            let (sender, receiver) = mpsc::channel(MAX_WAITING_ANSWERS);
            Answers { sender, receiver: Mutex::new(Some(receiver)) }
        })
    }
}

/// Withdraws the open questions of a call when it is dropped, however the call ends.
#[derive(Debug)]
pub(crate) struct OpenCall(EventSink);

impl EventSink {
    /// A sink that waits for its listener: a slow one slows the skill down, up to its deadline.
    pub fn new(listener: mpsc::Sender<Event>) -> Self {
        Self::of_call(Some(listener), Collector::default(), None)
    }

    /// The sink of a call. `asker` is there only if somebody can answer the call's questions.
    pub(crate) fn of_call(listener: Option<mpsc::Sender<Event>>, artifacts: Collector, asker: Option<Asker>) -> Self {
        Self(Arc::new(Call { listener, artifacts, asker, ..Call::default() }))
    }

    /// Ends the call's questions when it is dropped. Whoever runs the call holds it.
    pub(crate) fn open_call(&self) -> OpenCall {
        OpenCall(self.clone())
    }

    /// Sends one event. Past the call's [`MAX_EVENTS`] it is dropped, with a warning in the result.
    pub async fn send(&self, event: Event) {
        self.try_send(event).await;
    }

    /// Adds an artifact to the call's result, and tells the listener. Over a bound of
    /// [`limits`](openskill_proto::limits) it is dropped, with a warning in the result.
    pub async fn artifact(&self, name: &str, media_type: &str, data: Vec<u8>) {
        self.announce(self.keep(name, media_type, data)).await;
    }

    /// Asks the user a question and waits for the answer, at most until the call's deadline. `schema` is the JSON Schema of
    /// the answer's content, an object; without one any object is taken.
    pub async fn ask(&self, message: &str, schema: Option<Value>) -> Answer {
        self.ask_for(Ask::form(message, schema)).await
    }

    /// The same for any kind of question.
    pub async fn ask_for(&self, ask: Ask) -> Answer {
        let opened = match self.open(ask) {
            Ok((asked, answered)) => self.tell(asked, answered).await,
            Err(reason) => Err(reason),
        };
        match opened {
            Ok(answered) => answered.await.unwrap_or(Answer::Cancel),
            Err(reason) => Answer::Unavailable(reason),
        }
    }

    /// The answers to the questions that the skill asks by lines, each a line with its newline, ready to be written to it.
    /// Gives the receiver once: a runner takes it at the skill's first event, so that a run that never started leaves it to
    /// the next attempt. The channel is bounded; it never ends before the call does.
    pub fn answers(&self) -> Option<mpsc::Receiver<Bytes>> {
        self.0.answers().receiver.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Reads one line of the skill's event channel. A malformed line counts as a dropped event.
    pub(crate) async fn line(&self, line: &[u8]) {
        self.line_that_may_ask(line, || ()).await;
    }

    /// Like [`EventSink::line`]. If the line asks the user, the value that `asked` returns is dropped once that question ends,
    /// for whatever reason.
    pub(crate) async fn line_that_may_ask<G: Send + 'static>(&self, line: &[u8], asked: impl FnOnce() -> G) {
        if self.0.listener.is_none() && !line::is_collected(line) {
            return;
        }
        match line::parse(line) {
            Some(Line::Event(event)) => self.send(event).await,
            Some(Line::Artifact(chunk)) => self.chunk(chunk).await,
            Some(Line::Questions(questions)) => self.questions(questions, asked).await,
            None => self.drop_one(),
        }
    }

    /// Adds an artifact to the call's result without an event of its own, and gives it if it is within the bounds.
    pub(crate) fn keep(&self, name: &str, media_type: &str, data: Vec<u8>) -> Option<Artifact> {
        self.0.artifacts.add_whole(name, media_type, data)
    }

    /// The artifacts of the call so far.
    pub(crate) fn artifacts(&self) -> Vec<Artifact> {
        self.0.artifacts.complete_ones()
    }

    /// Counts an event that was dropped.
    pub(crate) fn drop_one(&self) {
        self.0.dropped.fetch_add(1, Ordering::Relaxed);
    }

    /// The end of the call: its artifacts, and what its caller should know of what was dropped.
    pub(crate) fn finish(&self) -> (Vec<Artifact>, Vec<String>) {
        let (artifacts, mut warnings) = self.0.artifacts.finish();
        let dropped = self.0.dropped.load(Ordering::Relaxed);
        if dropped > 0 {
            let reason = "malformed, too long, or too many";
            warnings.push(format!("{dropped} events of the skill were dropped: {reason}"));
        }
        (artifacts, warnings)
    }

    /// From now on an MCP server's result is kept as it was sent.
    pub(crate) fn want_content(&self) {
        self.0.content.is_wanted.store(true, Ordering::Relaxed);
    }

    /// Keeps an MCP server's result as it was sent, JSON text, if somebody wants it.
    pub(crate) fn keep_content(&self, json: impl FnOnce() -> Option<String>) {
        if self.0.content.is_wanted.load(Ordering::Relaxed) {
            let json = json().unwrap_or_default();
            *self.0.content.json.lock().unwrap_or_else(PoisonError::into_inner) = json;
        }
    }

    /// The result that was kept. Empty if there is none.
    pub(crate) fn content(&self) -> String {
        std::mem::take(&mut *self.0.content.json.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// What the skill logged while nobody listened.
    pub(crate) fn unheard(&self) -> Vec<Log> {
        std::mem::take(&mut self.0.unheard.lock().unwrap_or_else(PoisonError::into_inner).lines)
    }

    async fn chunk(&self, chunk: Chunk) {
        self.announce(self.0.artifacts.add(chunk)).await;
    }

    async fn announce(&self, artifact: Option<Artifact>) {
        if let Some(artifact) = artifact {
            self.send(Event::Artifact(artifact)).await;
        }
    }

    /// Questions of a skill that reads each answer as a line. The listener learns of all of them before it has to answer.
    async fn questions<G: Send + 'static>(&self, questions: Vec<Question>, asked: impl FnOnce() -> G) {
        let (mut opened, answers) = (Vec::new(), self.0.answers().sender.clone());
        for Question { id, ask } in questions {
            match self.open(ask) {
                Ok(question) => opened.push((id, question)),
                // A skill that has ended reads no answer.
                Err(reason) => drop(answers.send(answer_line(&id, &Answer::Unavailable(reason))).await),
            }
        }
        if opened.is_empty() {
            return;
        }
        let open = Arc::new(Mutex::new(asked()));
        let last = opened.len() - 1;
        for (place, (id, (question, answered))) in opened.into_iter().enumerate() {
            let question = InputRequired { more: place < last, ..question };
            let (answers, open) = (answers.clone(), Arc::clone(&open));
            match self.tell(question, answered).await {
                Err(reason) => drop(answers.send(answer_line(&id, &Answer::Unavailable(reason))).await),
                // The skill goes on sending events meanwhile. The task ends with the question.
                Ok(answered) => drop(tokio::spawn(async move {
                    let answer = answered.await;
                    // Before the answer is sent: the skill may never read it.
                    drop(open);
                    if let Ok(answer) = answer {
                        let _ = answers.send(answer_line(&id, &answer)).await;
                    }
                })),
            }
        }
    }

    /// Opens a question: what its listener has to know, and where its answer comes.
    fn open(&self, ask: Ask) -> Result<(InputRequired, oneshot::Receiver<Answer>), String> {
        let Some(asker) = &self.0.asker else {
            return Err("the caller takes no questions: call as a stream with `interactive`, or `openskill invoke --interactive`".to_owned());
        };
        if !asker.takes(ask.kind) {
            return Err(format!(
                "the caller has no answer to such a question: it does not declare `{}`",
                capability(ask.kind)
            ));
        }
        if let Some(fault) = ask.fault() {
            return Err(fault.to_owned());
        }
        let (request_id, answered) = asker.open(ask.answer_schema())?;
        let left = asker.deadline().saturating_duration_since(Instant::now());
        let text = |json: Option<Value>| json.as_ref().map(Value::to_string).unwrap_or_default();
        let asked = InputRequired {
            request_id,
            kind: ask.kind.into(),
            message: ask.message,
            schema_json: text(ask.schema.filter(|_| ask.kind == InputKind::Form)),
            params_json: text(ask.params),
            timeout_ms: u64::try_from(left.as_millis()).unwrap_or(u64::MAX),
            key: ask.key,
            more: false,
        };
        Ok((asked, answered))
    }

    /// Tells the listener of a question that was opened.
    async fn tell<T>(&self, asked: InputRequired, answered: T) -> Result<T, String> {
        let request_id = asked.request_id.clone();
        if self.try_send(Event::InputRequired(asked)).await {
            return Ok(answered);
        }
        self.0.asker.iter().for_each(|asker| asker.withdraw(&request_id));
        Err("the call has sent too many events".to_owned())
    }

    /// Whether the event was sent.
    async fn try_send(&self, event: Event) -> bool {
        let Some(listener) = &self.0.listener else {
            if let Event::Log(line) = event {
                self.0.unheard.lock().unwrap_or_else(PoisonError::into_inner).keep(line);
            }
            return false;
        };
        if self.0.sent.fetch_add(1, Ordering::Relaxed) >= MAX_EVENTS {
            self.drop_one();
            return false;
        }
        // A listener that went away is about to drop the whole call.
        listener.send(event).await.is_ok()
    }
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        if let Some(asker) = &self.0.0.asker {
            asker.close();
        }
    }
}

#[cfg(test)]
mod tests;
