//! Converts a recording to lines. `docs/recorder.md` describes their format.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use openskill_proto::timestamp::Timestamp;
use openskill_proto::v1::execute_event::Event;
use openskill_proto::v1::skill_error::More;
use openskill_proto::v1::{ExecuteResult, InputAction, Repair, SkillError};
use openskill_redact::Redactor;

use super::content::{Content, RedactedJson};
use super::ids::{self, NameInterner};
use super::index::Summary;
use super::line::Line;
use super::split_secrets;
use crate::arguments::Policy;
use crate::arguments::secrets::Secrets;
use crate::observe::call_event::{AttemptSummary, CallEvent};
use crate::observe::recording::{MAX_ITEMS, Recording};

/// The version of the line format.
pub(super) const VERSION: u64 = 1;

/// The usual size of what all lines of a call share.
const HEAD_BYTES: usize = 128;

/// Converts recordings to lines.
pub(super) struct Renderer {
    pub(super) redactor: Redactor,
    /// The gateway's id.
    pub(super) gateway: Arc<str>,
    pub(super) names: NameInterner,
    /// Caches the redacted versions of skills.
    versions: NameInterner,
    /// Caches the hashes of session ids.
    sessions: NameInterner,
}

/// Writes the lines of one call.
struct CallLines<'a> {
    out: &'a mut Vec<u8>,
    head: &'a [u8],
    recording: &'a Recording,
    content: Content<'a>,
    /// The worker's arguments. None if they are the caller's.
    prepared: Option<RedactedJson<'a>>,
    /// Users' answers, by event index.
    answers: BTreeMap<usize, RedactedJson<'static>>,
    /// The events that contain a part of a secret.
    torn: BTreeSet<usize>,
    version: Arc<str>,
    number: u64,
}

impl Renderer {
    pub(super) fn new(redactor: Redactor, gateway: Arc<str>) -> Self {
        Self {
            redactor,
            gateway,
            names: NameInterner::default(),
            versions: NameInterner::default(),
            sessions: NameInterner::default(),
        }
    }

    /// Returns the first line of every file.
    pub(super) fn header(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut line = Line::begin(&mut out, b"{");
        line.number("v", VERSION);
        line.text("event", "file");
        line.time("time", Timestamp::now());
        line.text("gateway", &self.gateway);
        line.text("version", env!("CARGO_PKG_VERSION"));
        line.end();
        out
    }

    /// Appends the lines of a call.
    pub(super) fn write(&mut self, recording: &Recording, out: &mut Vec<u8>) -> Summary {
        let summary = self.summary(recording);
        let mut head = Vec::with_capacity(HEAD_BYTES);
        let mut line = Line::begin(&mut head, b"{");
        line.number("v", VERSION);
        line.text("trace", &summary.trace_id);
        line.text("call", &summary.call_id);
        let mut content = Content::new(&self.redactor, recording.secrets.as_deref());
        content.know(&recording.call.secret_values);
        if !recording.has_skill {
            content.know_name(&recording.call.skill_id);
        }
        // First, so that later lines are free of secrets that only their names identify. Repaired arguments have
        // the right names.
        let text = recording.call.input.text();
        let prepared = preparation(recording).map(|(arguments, _)| arguments);
        let prepared = prepared.filter(|it| !std::ptr::eq(it.as_ptr(), text.as_ptr()));
        let prepared = prepared.map(|it| content.learn(String::from_utf8_lossy(it)));
        let came = content.learn(Cow::Borrowed(text));
        let answers = answers(recording, &mut content);
        let torn = split_secrets::find_events(&recording.events, &content);
        let version = self.versions.get_or_make(&recording.result.version, |it| self.redactor.text(it).into());
        let mut lines = CallLines { out, head: &head, recording, content, prepared, answers, torn, version, number: 0 };
        lines.call(&summary, &self.gateway, &came);
        for (index, (at, event)) in recording.events.iter().enumerate() {
            lines.event(index, *at, event);
        }
        lines.result(&summary);
        summary
    }

    fn summary(&mut self, recording: &Recording) -> Summary {
        let (call, result, redactor) = (&recording.call, &recording.result, &self.redactor);
        let skill_id = if recording.has_skill { call.skill_id.as_str().into() } else { redactor.text(&call.skill_id) };
        let session_id = self.sessions.get_or_make(&call.session_id, |id| ids::session(redactor, id).into());
        Summary {
            trace_id: ids::trace(redactor, &call.trace.id),
            call_id: ids::call(redactor, &call.call_id),
            skill_id: self.names.get(&skill_id),
            principal: self.names.get(call.principal.name()),
            session_id: (*session_id).into(),
            received_us: Timestamp::from(recording.received).0,
            duration_us: micros(call.received, recording.ended),
            code: result.error.as_ref().map_or("OK", |error| error.code().as_str_name()),
            attempts: recording.attempts,
            repairs: preparation(recording).map_or(0, |(_, repairs)| repairs.len() as u32),
            worker_id: self.names.get(&result.worker_id),
        }
    }
}

/// Returns the worker's arguments and their repairs. None if they are the caller's.
fn preparation(recording: &Recording) -> Option<(&[u8], &[Repair])> {
    recording.events.iter().find_map(|(_, event)| match event {
        CallEvent::Prepared { arguments, repairs, .. } => Some((&arguments[..], &repairs[..])),
        _ => None,
    })
}

/// Returns users' answers by event index, without values that the questions mark as secret.
fn answers(recording: &Recording, content: &mut Content<'_>) -> BTreeMap<usize, RedactedJson<'static>> {
    let mut answers = BTreeMap::new();
    for (index, (_, event)) in recording.events.iter().enumerate() {
        let CallEvent::Answered(answer) = event else { continue };
        let mut asked = recording.events[..index].iter();
        let question = asked.find_map(|(_, event)| match event {
            CallEvent::Asked(question) if question.request_id == answer.request_id => Some(question),
            _ => None,
        });
        let schema = question.map(|it| it.schema_json.as_str());
        if !answer.content_json.is_empty() {
            answers.insert(index, content.learn_answer(&answer.content_json, schema));
        }
    }
    answers
}

fn micros(from: Instant, to: Instant) -> u64 {
    u64::try_from(to.saturating_duration_since(from).as_micros()).unwrap_or(u64::MAX)
}

impl CallLines<'_> {
    /// Writes the line of an event that happened at `at`.
    fn line(&mut self, at: Instant, event: &str, write: impl FnOnce(&mut Line<'_>, &Content<'_>)) {
        let mut line = Line::begin(self.out, self.head);
        line.number("n", self.number);
        line.number("at_us", micros(self.recording.call.received, at));
        line.text("event", event);
        write(&mut line, &self.content);
        line.end();
        self.number += 1;
    }

    fn call(&mut self, summary: &Summary, gateway: &str, came: &RedactedJson<'_>) {
        let call = &self.recording.call;
        self.line(call.received, "call", |line, content| {
            line.time("time", Timestamp(summary.received_us));
            line.text("gateway", gateway);
            line.text("skill", &summary.skill_id);
            line.text("principal", &summary.principal);
            line.text_if_any("session", &summary.session_id);
            line.flag_if_set("strict", call.policy == Policy::Strict);
            line.flag_if_set("interactive", call.interactive);
            line.flag_if_set("has_idempotency_key", !call.idempotency_key.is_empty());
            line.number_if_any("timeout_ms", call.timeout.map_or(0, |it| it.as_millis() as u64));
            content.arguments(line, came);
            line.text_if_any("content_left_out", content.why_hidden().as_deref().unwrap_or_default());
        });
    }

    fn event(&mut self, index: usize, at: Instant, event: &CallEvent) {
        match event {
            CallEvent::Prepared { repairs, defaults, warnings, .. } => {
                self.write_prepared(at, repairs, defaults, warnings);
            }
            CallEvent::Rejected => self.line(at, "rejected", |_, _| ()),
            CallEvent::Circuit { scope, state } => self.line(at, "circuit", |line, _| {
                line.text("scope", scope);
                line.text("state", state);
            }),
            CallEvent::AttemptBegan { number, worker, .. } => self.attempt(at, *number, worker),
            // Written with the start of the attempt.
            CallEvent::AttemptEnded(_) => {}
            CallEvent::Retried { number, elsewhere } => self.line(at, "retry", |line, _| {
                line.number("after", (*number).into());
                line.flag("elsewhere", *elsewhere);
            }),
            CallEvent::Asked(question) => self.line(at, "question", |line, content| {
                content.text(line, "message", &question.message);
                content.json(line, "details", question.schema_json.as_bytes());
            }),
            CallEvent::Answered(answer) => {
                let shown = self.answers.remove(&index);
                self.line(at, "answer", |line, content| {
                    line.text("action", action(answer.action()));
                    if let Some(shown) = &shown {
                        content.answer(line, shown);
                    }
                });
            }
            CallEvent::Relayed(event) => self.write_relayed(at, event, self.torn.contains(&index)),
            CallEvent::Replayed => self.line(at, "replayed", |_, _| ()),
        }
    }

    /// Writes a line only if something changed: most arguments are valid without repairs.
    fn write_prepared(&mut self, at: Instant, repairs: &[Repair], defaults: &[String], warnings: &[String]) {
        let prepared = self.prepared.take();
        if prepared.is_none() && repairs.is_empty() && warnings.is_empty() {
            return;
        }
        self.line(at, "prepared", |line, content| {
            // With defaults only, the call's line has the rest of the arguments.
            if let Some(prepared) = prepared.as_ref().filter(|_| defaults.is_empty() || !repairs.is_empty()) {
                content.arguments(line, prepared);
            }
            line.list("repairs", &repairs[..repairs.len().min(MAX_ITEMS)], |line, repair| {
                line.text("path", &content.item(&repair.path));
                line.text("kind", &repair.kind);
                content.value(line, "before", &repair.path, &repair.before_json);
                content.value(line, "after", &repair.path, &repair.after_json);
            });
            line.texts("defaults", defaults.iter().map(|it| content.item(it)));
            line.texts("warnings", warnings.iter().take(MAX_ITEMS).map(|it| content.item(it)));
        });
    }

    fn attempt(&mut self, at: Instant, number: u32, worker: &str) {
        let end = self.recording.events.iter().find_map(|(ended, event)| match event {
            CallEvent::AttemptEnded(end) if end.number == number => Some((*ended, end)),
            _ => None,
        });
        self.line(at, "attempt", |line, content| {
            line.number("number", number.into());
            line.text("worker", worker);
            if let Some((ended, end)) = end {
                line.number("took_us", micros(at, ended));
                attempt_end(line, content, end);
            }
        });
    }

    /// `is_torn`: the event contains a part of a secret.
    fn write_relayed(&mut self, at: Instant, event: &Event, is_torn: bool) {
        let message = |line: &mut Line<'_>, content: &Content<'_>, text: &str| {
            content.text(line, "message", if is_torn { Secrets::MARK } else { text });
        };
        match event {
            Event::Progress(it) => self.line(at, "progress", |line, content| {
                if it.fraction >= 0.0 {
                    line.fraction("fraction", it.fraction);
                }
                message(line, content, &it.message);
            }),
            Event::Log(it) => self.line(at, "log", |line, content| {
                content.text(line, "level", &it.level);
                message(line, content, &it.message);
            }),
            Event::Partial(it) => self.line(at, "partial", |line, content| {
                let data = if is_torn { Secrets::MASKED } else { &it.data_json };
                content.json(line, "data", data.as_bytes());
            }),
            Event::Artifact(it) => self.line(at, "artifact", |line, content| {
                content.text(line, "id", &it.id);
                content.text(line, "name", &it.name);
                content.text(line, "media_type", &it.media_type);
                line.number("size_bytes", it.size_bytes);
            }),
            // Results and questions have separate events.
            Event::InputRequired(_) | Event::Result(_) => {}
        }
    }

    fn result(&mut self, summary: &Summary) {
        let recording = self.recording;
        let (result, version) = (&recording.result, Arc::clone(&self.version));
        self.line(recording.ended, "result", |line, content| {
            line.text("code", summary.code);
            line.number("attempts", summary.attempts.into());
            line.number_if_any("repair_count", summary.repairs.into());
            line.text_if_any("worker_id", &summary.worker_id);
            line.text_if_any("runner", &result.runner);
            line.text_if_any("version", &version);
            line.text_if_any("jail", &result.jail);
            line.flag_if_set("truncated", result.truncated);
            line.number_if_any("events_left_out", recording.left_out as u64);
            match &result.error {
                Some(error) => line.object("error", |line| failure(line, content, error)),
                None => content.json(line, "data", &result.data_json),
            }
            content.text(line, "text", &result.text);
            content.text(line, "stderr", &result.stderr);
            line.texts("warnings", result.warnings.iter().take(MAX_ITEMS).map(|it| content.item(it)));
            artifacts(line, content, result);
        });
    }
}

fn attempt_end(line: &mut Line<'_>, content: &Content<'_>, end: &AttemptSummary) {
    line.text_if_any("worker_id", &end.worker_id);
    line.text_if_any("runner", &end.runner);
    line.number_if_any("queued_us", u64::try_from(end.queued.as_micros()).unwrap_or(u64::MAX));
    line.text("code", end.failure.map_or("OK", |(code, _)| code.as_str_name()));
    if let Some((_, blame)) = end.failure {
        line.text("blame", blame.json_name());
        line.flag("may_have_run", end.may_have_run);
        content.text(line, "reason", &end.reason);
    }
}

fn failure(line: &mut Line<'_>, content: &Content<'_>, error: &SkillError) {
    line.text("message", &content.message(&error.message));
    line.text("blame", error.blame().json_name());
    line.flag("retryable", error.retryable);
    line.number_if_any("retry_after_ms", error.retry_after_ms);
    if let Some(More::DetailsJson(details)) = &error.more {
        content.json(line, "details", details.as_bytes());
    }
}

/// Writes names and sizes. Contents are not recorded.
fn artifacts(line: &mut Line<'_>, content: &Content<'_>, result: &ExecuteResult) {
    let shown = &result.artifacts[..result.artifacts.len().min(MAX_ITEMS)];
    line.list("artifacts", shown, |line, artifact| {
        line.text("id", &content.item(&artifact.id));
        line.text("name", &content.item(&artifact.name));
        line.text("media_type", &content.item(&artifact.media_type));
        line.number("size_bytes", artifact.size_bytes);
    });
}

fn action(action: InputAction) -> &'static str {
    match action {
        InputAction::Accept => "accept",
        InputAction::Decline => "decline",
        InputAction::Cancel | InputAction::Unspecified => "cancel",
    }
}
