//! The events of a running call: progress, log lines, partial answers, artifacts, questions.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use bytes::Bytes;
use openskill_proto::limits::MAX_EVENTS;
use openskill_proto::v1::{Artifact, InputKind, InputRequired, Log, execute_event::Event};
use openskill_sandbox::event_channel::EventChannel;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

use crate::artifacts::Collector;
use crate::questions::{Ask, CallQuestions, QuestionAnswer, capability};

mod line;

use line::{Line, SkillQuestion, answer_line};

/// The maximum number of answers that wait for a skill to read them. Beyond it, the skill's next question waits
/// too.
const MAX_WAITING_ANSWERS: usize = 16;

/// The maximum number and total size in bytes of log lines that are kept for the result without a listener.
const MAX_UNHEARD: (usize, usize) = (200, 64 * 1024);

/// Receives a call's events. Cheap to clone. Without a listener, it keeps artifacts and log lines, and drops other
/// events.
#[derive(Debug, Clone, Default)]
pub struct EventSink(Arc<Call>);

#[derive(Debug, Default)]
struct Call {
    listener: Option<mpsc::Sender<Event>>,
    sent: AtomicUsize,
    dropped: AtomicUsize,
    artifacts: Collector,
    unheard: Mutex<ResultLogs>,
    /// The unchanged result of an MCP server as JSON text, for a caller that uses MCP. `None` if the caller does not
    /// want it.
    content: Mutex<Option<String>>,
    /// `None` if this call's questions can't be answered.
    call_questions: Option<CallQuestions>,
    /// Created by the first question in an event line, or by the runner that takes the receiver.
    answers: OnceLock<Answers>,
}

/// The log lines that are kept for the result, and their total length.
#[derive(Debug, Default)]
struct ResultLogs {
    lines: Vec<Log>,
    bytes: usize,
}

impl ResultLogs {
    fn keep(&mut self, line: Log) {
        self.bytes += line.message.len();
        if self.lines.len() < MAX_UNHEARD.0 && self.bytes <= MAX_UNHEARD.1 {
            self.lines.push(line);
        }
    }
}

/// The channel that sends lines back to a skill.
#[derive(Debug)]
struct Answers {
    sender: mpsc::Sender<Bytes>,
    /// `None` after a runner took it.
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

/// Withdraws the open questions of a call when dropped, however the call ends.
#[derive(Debug)]
pub(crate) struct OpenCall(EventSink);

impl EventSink {
    /// Creates a sink that waits for its listener. A slow listener slows the skill down, up to its deadline.
    pub fn new(listener: mpsc::Sender<Event>) -> Self {
        Self::for_call(Some(listener), Collector::default(), None)
    }

    /// Creates a call's sink. `call_questions`: `None` if the call's questions can't be answered.
    pub(crate) fn for_call(
        listener: Option<mpsc::Sender<Event>>,
        artifacts: Collector,
        call_questions: Option<CallQuestions>,
    ) -> Self {
        Self(Arc::new(Call { listener, artifacts, call_questions, ..Call::default() }))
    }

    /// Returns a guard that withdraws the call's questions when dropped. The call's task holds it.
    pub(crate) fn open_call(&self) -> OpenCall {
        OpenCall(self.clone())
    }

    /// Sends one event. Drops events beyond the call's [`MAX_EVENTS`], with a warning in the result.
    pub async fn send(&self, event: Event) {
        self.try_send(event).await;
    }

    /// Adds an artifact to the call's result and notifies the listener. Drops an artifact that exceeds one of the
    /// [`limits`](openskill_proto::limits), with a warning in the result.
    pub async fn artifact(&self, name: &str, media_type: &str, data: Vec<u8>) {
        self.announce(self.keep(name, media_type, data)).await;
    }

    /// Asks the user a question, and waits for the answer until the call's deadline. `schema`: the JSON Schema of
    /// the answer's content, which is an object. Without a schema, any object is accepted.
    pub async fn ask(&self, message: &str, schema: Option<Value>) -> QuestionAnswer {
        self.ask_for(Ask::form(message, schema)).await
    }

    /// Asks a question of any kind, and waits for the answer.
    pub async fn ask_for(&self, ask: Ask) -> QuestionAnswer {
        let asked = async {
            let (asked, answered) = self.open(ask)?;
            self.tell(asked, answered).await
        };
        match asked.await {
            Ok(answered) => answered.await.unwrap_or(QuestionAnswer::Cancel),
            Err(reason) => QuestionAnswer::Unavailable(reason),
        }
    }

    /// Returns the receiver of answers to questions in event lines. Each answer is a line including its newline.
    /// Returns the receiver only once. A runner takes it at the skill's first event, so that a run that never
    /// started leaves it to the next attempt. The channel is bounded, and stays open until the call ends.
    pub fn answers(&self) -> Option<mpsc::Receiver<Bytes>> {
        self.0.answers().receiver.lock().take()
    }

    /// Handles one line of the skill's event channel. A malformed line counts as a dropped event.
    pub(crate) async fn line(&self, line: &[u8]) {
        self.line_that_may_ask(line, || ()).await;
    }

    /// Handles a line like [`EventSink::line`]. If the line asks the user, drops the value that `asked` returns
    /// when the question ends for any reason.
    pub(crate) async fn line_that_may_ask<G: Send + 'static>(&self, line: &[u8], asked: impl FnOnce() -> G) {
        if self.0.listener.is_none() && !line::is_collected(line) {
            return;
        }
        match line::parse(line) {
            Some(Line::Event(event)) => self.send(event).await,
            Some(Line::Artifact(chunk)) => self.announce(self.0.artifacts.add(chunk)).await,
            Some(Line::Questions(questions)) => self.questions(questions, asked).await,
            None => self.drop_one(),
        }
    }

    /// Adds an artifact to the call's result without sending an event. Returns it unless it exceeds a limit.
    pub(crate) fn keep(&self, name: &str, media_type: &str, data: Vec<u8>) -> Option<Artifact> {
        self.0.artifacts.add_whole(name, media_type, data)
    }

    /// Returns the call's complete artifacts.
    pub(crate) fn artifacts(&self) -> Vec<Artifact> {
        self.0.artifacts.complete_ones()
    }

    /// Counts a dropped event, for a warning in the result.
    pub(crate) fn drop_one(&self) {
        self.0.dropped.fetch_add(1, Ordering::Relaxed);
    }

    /// Ends the call. Returns its artifacts, and warnings about dropped items.
    pub(crate) fn finish(&self) -> (Vec<Artifact>, Vec<String>) {
        let (artifacts, mut warnings) = self.0.artifacts.finish();
        let dropped = self.0.dropped.load(Ordering::Relaxed);
        if dropped > 0 {
            let reason = "malformed, too long, or too many";
            warnings.push(format!("{dropped} events of the skill were dropped: {reason}"));
        }
        (artifacts, warnings)
    }

    /// Keeps an MCP server's unchanged result from now on.
    pub(crate) fn want_content(&self) {
        *self.0.content.lock() = Some(String::new());
    }

    /// Stores an MCP server's unchanged result, as JSON text, if the caller wants it.
    pub(crate) fn keep_content(&self, json: impl FnOnce() -> Option<String>) {
        if let Some(kept) = self.0.content.lock().as_mut() {
            *kept = json().unwrap_or_default();
        }
    }

    /// Takes the stored result. Returns an empty string if none was stored.
    pub(crate) fn content(&self) -> String {
        self.0.content.lock().take().unwrap_or_default()
    }

    /// Takes the log lines of a skill without a listener.
    pub(crate) fn unheard(&self) -> Vec<Log> {
        std::mem::take(&mut self.0.unheard.lock().lines)
    }

    async fn announce(&self, artifact: Option<Artifact>) {
        if let Some(artifact) = artifact {
            self.send(Event::Artifact(artifact)).await;
        }
    }

    /// Asks questions for a skill that reads each answer as a line. Notifies the listener of all questions before
    /// it has to answer one.
    async fn questions<G: Send + 'static>(&self, questions: Vec<SkillQuestion>, asked: impl FnOnce() -> G) {
        let (mut opened, answers) = (Vec::new(), self.0.answers().sender.clone());
        for SkillQuestion { id, ask } in questions {
            match self.open(ask) {
                Ok(question) => opened.push((id, question)),
                // Sending fails if the skill has exited, which does not matter.
                Err(reason) => drop(answers.send(answer_line(&id, &QuestionAnswer::Unavailable(reason))).await),
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
                Err(reason) => drop(answers.send(answer_line(&id, &QuestionAnswer::Unavailable(reason))).await),
                // The skill continues to send events meanwhile. The task ends when the question ends.
                Ok(answered) => drop(tokio::spawn(async move {
                    let answer = answered.await;
                    // Drop this before sending the answer, because the skill may never read the answer.
                    drop(open);
                    if let Ok(answer) = answer {
                        let _ = answers.send(answer_line(&id, &answer)).await;
                    }
                })),
            }
        }
    }

    /// Opens a question. Returns the message for its listener and the receiver of its answer.
    fn open(&self, ask: Ask) -> Result<(InputRequired, oneshot::Receiver<QuestionAnswer>), String> {
        let Some(call_questions) = &self.0.call_questions else {
            return Err(
                "the caller can't answer: call as a stream with `interactive`, or `openskill invoke --interactive`"
                    .to_owned(),
            );
        };
        if !call_questions.kinds.contains(&ask.kind) {
            return Err(format!(
                "the caller can't answer such a question: it does not declare `{}`",
                capability(ask.kind)
            ));
        }
        if let Some(fault) = ask.fault() {
            return Err(fault.to_owned());
        }
        let (request_id, answered) = call_questions.open(ask.answer_schema())?;
        let left = call_questions.deadline.saturating_duration_since(Instant::now());
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

    /// Notifies the listener of an open question.
    async fn tell<T>(&self, asked: InputRequired, answered: T) -> Result<T, String> {
        let request_id = asked.request_id.clone();
        if self.try_send(Event::InputRequired(asked)).await {
            return Ok(answered);
        }
        self.0.call_questions.iter().for_each(|call_questions| call_questions.withdraw(&request_id));
        Err("the call has sent too many events".to_owned())
    }

    /// Sends an event. Returns false if it was dropped.
    async fn try_send(&self, event: Event) -> bool {
        let Some(listener) = &self.0.listener else {
            if let Event::Log(line) = event {
                self.0.unheard.lock().keep(line);
            }
            return false;
        };
        if self.0.sent.fetch_add(1, Ordering::Relaxed) >= MAX_EVENTS {
            self.drop_one();
            return false;
        }
        // Without a listener, the whole call is about to be dropped.
        listener.send(event).await.is_ok()
    }
}

impl EventChannel for EventSink {
    async fn line(&self, line: &[u8]) {
        self.line(line).await;
    }

    fn drop_one(&self) {
        self.drop_one();
    }

    fn answers(&self) -> Option<mpsc::Receiver<Bytes>> {
        self.answers()
    }
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        if let Some(call_questions) = &self.0.0.call_questions {
            call_questions.close();
        }
    }
}

#[cfg(test)]
mod tests;
