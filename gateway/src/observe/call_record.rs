//! Writes one log line and counts each call once, however it ends. The target is `openskill::call`.
//!
//! A line contains ids, codes and lengths, but no text from a caller or a skill. The name of an unknown skill is
//! text from a caller, and an error message may be. Messages are logged at level DEBUG. Lines about calls that
//! reached no worker are rate-limited.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Instant, SystemTime};

use openskill_proto::trace::{TraceContext, hex};
use openskill_proto::v1::execute_event::Event;
use openskill_proto::v1::skill_error::More;
use openskill_proto::v1::{ErrorCode, ExecuteResult, SkillError};
use openskill_telemetry::metrics::SkillSeries;
use openskill_telemetry::trace::call::CallSpans;
use parking_lot::Mutex;
use serde_json::Value;

use super::Observer;
use super::call_event::{self, CallEvent};
use super::recording::{self, RecordedEvents, Recording};
use super::spans;
use crate::arguments::secrets::Secrets;
use crate::call::outcome::Outcome;
use crate::call::preparation::Preparation;
use crate::call::request::Call;

const TARGET: &str = "openskill::call";

/// The reason to export the spans of a sampled call, which needs no explanation.
const SAMPLED: &str = "sampled";

/// The record of a running call, shared by the code that runs it. Only the first end is counted.
#[derive(Debug)]
pub(crate) struct CallRecord {
    observer: Arc<Observer>,
    call: Arc<Call>,
    /// The metrics of the call's skill, and its secret parameters, if any, which must not be stored. None if the skill
    /// does not exist.
    skill: OnceLock<(Arc<SkillSeries>, Option<Arc<Secrets>>)>,
    was_refused: AtomicBool,
    has_ended: AtomicBool,
    /// The call's place in its OpenTelemetry trace, if calls are traced.
    spans: Option<CallSpans>,
    /// The events of the call, if it is recorded or traced.
    timeline: Option<Mutex<RecordedEvents>>,
}

impl CallRecord {
    pub(crate) fn begin(observer: &Arc<Observer>, call: &Arc<Call>) -> Arc<Self> {
        let (observer, call) = (Arc::clone(observer), Arc::clone(call));
        let spans = observer.tracer.as_ref().map(|tracer| tracer.enter(&call.trace, call.received));
        let timeline = (spans.is_some() || observer.recorder.is_some()).then(Mutex::default);
        let (skill, was_refused, has_ended) = Default::default();
        Arc::new(Self { observer, call, skill, was_refused, has_ended, spans, timeline })
    }

    /// Records that the call's skill exists: its id may be logged, and `series` counts the call. Its parameters that
    /// are `secrets` must not be stored.
    pub(crate) fn set_skill(&self, series: &Arc<SkillSeries>, secrets: Option<&Arc<Secrets>>) {
        // A call has one skill. Keep one that was set before.
        let _ = self.skill.set((Arc::clone(series), secrets.cloned()));
    }

    fn secrets(&self) -> Option<&Arc<Secrets>> {
        self.skill.get().and_then(|(_, secrets)| secrets.as_ref())
    }

    /// Whether the arguments may contain secrets.
    pub(crate) fn has_secrets(&self) -> bool {
        !self.call.secret_values.is_empty() || self.secrets().is_some()
    }

    /// Records that the call was refused a permit.
    pub(crate) fn mark_refused(&self) {
        self.was_refused.store(true, Ordering::Relaxed);
    }

    /// Returns the trace context that an attempt sends to its worker: the attempt's span, or the caller's if calls
    /// are not traced here.
    pub(crate) fn context_of_attempt(&self, number: u32) -> TraceContext {
        self.spans.as_ref().map_or(self.call.trace.context, |it| it.context(spans::attempt_span(number)))
    }

    /// Returns the trace context for a skill that is an agent: the call's span, or the caller's.
    pub(crate) fn context_of_agent(&self) -> TraceContext {
        self.spans.as_ref().map_or(self.call.trace.context, |it| it.context(spans::TOOL))
    }

    /// Records an event. Evaluates `event` only if the call is recorded or traced.
    pub(crate) fn note(&self, event: impl FnOnce() -> CallEvent) {
        if let Some(timeline) = &self.timeline {
            timeline.lock().push(event);
        }
    }

    /// Records a message of `bytes` bytes from a skill or a user. Evaluates `event` only if there is room for it.
    pub(crate) fn note_content(&self, bytes: usize, event: impl FnOnce() -> CallEvent) {
        if let Some(timeline) = &self.timeline {
            let (pool, principal) = (&self.observer.content_pool, &self.call.principal);
            timeline.lock().push_content(bytes, pool, principal, event);
        }
    }

    /// Records an event that a skill relays. Only the recorder stores it: spans do not contain it.
    pub(crate) fn note_relayed(&self, event: &Event) {
        if self.observer.recorder.is_some() {
            self.note_content(call_event::relayed_bytes(event), || CallEvent::from_relayed(event));
        }
    }

    /// Records that the arguments are valid, possibly after repairs.
    pub(crate) fn arguments_prepared(&self, preparation: &Preparation) {
        let Preparation { json, repairs, defaults, warnings } = preparation;
        repairs.iter().for_each(|repair| self.observer.metrics.repairs.inc(&repair.kind));
        if !repairs.is_empty() && tracing::enabled!(target: "openskill::arguments", tracing::Level::DEBUG) {
            // Only kinds and paths: the values are the caller's and stay out of the log.
            let repairs: Vec<_> = repairs.iter().map(|it| format!("{} {}", it.kind, it.path)).collect();
            tracing::debug!(
                target: "openskill::arguments",
                trace_id = self.call.trace.id,
                skill_id = self.call.skill_id,
                call_id = self.call.call_id,
                repairs = repairs.join(", "),
                warning = warnings.last().map_or("", String::as_str),
                "arguments repaired"
            );
        }
        // Arguments that are unchanged are not recorded twice.
        let is_as_it_came = std::ptr::eq(json.as_ptr(), self.call.input.text().as_ptr());
        if is_as_it_came && repairs.is_empty() && warnings.is_empty() {
            return;
        }
        self.note(|| {
            let (arguments, repairs, warnings) = (json.clone(), repairs.clone(), warnings.clone());
            let defaults = defaults.iter().take(recording::MAX_ITEMS).cloned().collect();
            CallEvent::Prepared { arguments, repairs, defaults, warnings }
        });
    }

    /// Records that the arguments are invalid.
    pub(crate) fn arguments_rejected(&self) {
        self.observer.metrics.rejections.inc();
        self.note(|| CallEvent::Rejected);
    }

    /// Records how the call ended.
    pub(crate) fn end(&self, outcome: &Outcome) {
        if self.has_ended.swap(true, Ordering::Relaxed) {
            return;
        }
        self.conclude(&outcome.result, outcome.attempts);
    }

    /// Reports the end of the call to metrics, spans, recorder and log.
    fn conclude(&self, result: &ExecuteResult, attempts: u32) {
        let error = result.error.as_ref();
        self.observer.metrics.count_call(&self.call, self.skill.get().map(|(series, _)| &**series), result);
        // Any number of calls can be refused. Refusals that are not logged don't export spans either.
        let refusal = error.filter(|_| result.worker_id.is_empty()).map(|it| it.code().as_str_name());
        let is_told = refusal.is_none_or(openskill_telemetry::log::admits);
        let ended = Instant::now();
        let export = self.export_reason(result, attempts, ended, is_told);
        let recorder = self.observer.recorder.as_ref();
        let timeline = self.timeline.as_ref().filter(|_| recorder.is_some() || export.is_some());
        let recording = timeline.map(|it| self.recording(std::mem::take(&mut *it.lock()), result, attempts, ended));
        let traced = recording.as_ref().zip(export).and_then(|(it, reason)| self.trace(it, reason));
        if is_told {
            self.log(result, traced);
        }
        if let Some((recorder, recording)) = recorder.zip(recording) {
            recorder.offer(recording);
        }
    }

    /// Describes the call, which ends now, for spans and for the recorder.
    fn recording(&self, recorded: RecordedEvents, result: &ExecuteResult, attempts: u32, ended: Instant) -> Recording {
        let since = ended.saturating_duration_since(self.call.received);
        Recording {
            call: Arc::clone(&self.call),
            has_skill: self.skill.get().is_some(),
            secrets: self.secrets().cloned(),
            events: recorded.events,
            left_out: recorded.left_out,
            result: recording::trim_result(result),
            attempts,
            received: SystemTime::now().checked_sub(since).unwrap_or(SystemTime::UNIX_EPOCH),
            ended,
        }
    }

    /// Returns why the call's spans are exported: it was sampled, failed, ran more than once, or was slow. None if they
    /// are not.
    fn export_reason(
        &self,
        result: &ExecuteResult,
        attempts: u32,
        ended: Instant,
        is_told: bool,
    ) -> Option<&'static str> {
        let (spans, tracer) = (self.spans.as_ref()?, self.observer.tracer.as_ref()?);
        let trace = &self.call.trace;
        // The caller decided not to sample this trace, and does not want its successful calls.
        let is_wanted = !trace.has_parent || trace.context.is_sampled();
        match &result.error {
            _ if spans.is_sampled() => Some(SAMPLED),
            Some(_) if is_told => Some("failed"),
            None if is_wanted && attempts > 1 => Some("retried"),
            None if is_wanted && tracer.is_slow(ended - self.call.received) => Some("slow"),
            _ => None,
        }
    }

    /// Exports the call's spans. Returns the call's span.
    fn trace(&self, ended: &Recording, reason: &'static str) -> Option<TraceContext> {
        let spans = self.spans.as_ref()?;
        let reason = (reason != SAMPLED).then_some(reason);
        spans::add(spans, ended, self.was_refused.load(Ordering::Relaxed), reason);
        spans.keep();
        Some(spans.context(spans::SERVER))
    }

    fn log(&self, result: &ExecuteResult, traced: Option<TraceContext>) {
        if !tracing::enabled!(target: TARGET, tracing::Level::INFO) {
            return;
        }
        let error = result.error.as_ref();
        let call = &self.call;
        let has_skill = self.skill.get().is_some();
        tracing::info!(
            target: TARGET,
            // As strings, which the log escapes, because the caller chose the ids.
            trace_id = call.trace.id,
            otel_trace_id = traced.map(|it| hex(&it.trace_id)),
            span_id = traced.map(|it| hex(&it.span_id)),
            skill_id = has_skill.then_some(call.skill_id.as_str()),
            unknown_skill_bytes = (!has_skill).then_some(call.skill_id.len()),
            call_id = call.call_id,
            runner_type = result.runner,
            worker_id = result.worker_id,
            latency_ms = call.received.elapsed().as_micros() as f64 / 1000.0,
            success = result.success,
            error.code = error.map_or("", |it| it.code().as_str_name()),
            error.blame = error.map(|it| it.blame().json_name()),
            error.message_bytes = error.map(|it| it.message.len()),
        );
        // An error may repeat secret arguments of its skill.
        if let Some(error) = error.filter(|_| !self.has_secrets())
            && tracing::enabled!(target: TARGET, tracing::Level::DEBUG)
        {
            let (trace_id, call_id) = (&call.trace.id, &call.call_id);
            tracing::debug!(target: TARGET, trace_id, call_id, error.message = loggable(error), "call failed");
        }
    }
}

impl Drop for CallRecord {
    /// Records a call that was dropped because its client disconnected or the drain timeout passed. Nothing else
    /// detects this.
    fn drop(&mut self) {
        if *self.has_ended.get_mut() {
            return;
        }
        let (code, message) = if std::thread::panicking() {
            (ErrorCode::Internal, "the gateway panicked during this call")
        } else {
            (ErrorCode::Cancelled, "the call was dropped before it ended")
        };
        let error = Some(SkillError::new(code, message));
        let attempts = self.timeline.as_ref().map_or(0, |it| it.lock().attempts());
        self.conclude(&ExecuteResult { error, ..ExecuteResult::default() }, attempts);
    }
}

/// Returns an error's text for the log at level DEBUG. Names invalid arguments only by their paths: the values are
/// the caller's and stay out of the log.
fn loggable(error: &SkillError) -> String {
    let details = match &error.more {
        Some(More::DetailsJson(text)) => serde_json::from_str::<Value>(text).unwrap_or_default(),
        _ => Value::Null,
    };
    match (details["violations"].as_array(), error.code()) {
        (Some(violations), _) => {
            let paths: Vec<_> = violations.iter().filter_map(|it| it["path"].as_str()).map(readable).collect();
            format!("the arguments are invalid at '{}'", paths.join("', '"))
        }
        (None, ErrorCode::InvalidJson) => "the arguments are not valid JSON".to_owned(),
        (None, _) => error.message.clone(),
    }
}

/// The maximum length of an argument name in the log, in bytes.
const MAX_NAME_BYTES: usize = 48;

/// Removes names that could contain a secret from a JSON pointer: truncated, escaped or very long ones. The caller
/// chooses these names.
fn readable(pointer: &str) -> String {
    let is_name = |step: &str| step.len() <= MAX_NAME_BYTES && !step.contains(['~', '…']);
    let steps: Vec<_> = pointer.split('/').map(|step| if is_name(step) { step } else { "…" }).collect();
    steps.join("/")
}

#[cfg(test)]
mod tests {
    use openskill_proto::v1::artifact::Content;
    use openskill_proto::v1::{Artifact, InvokeRequest, Progress};
    use serde_json::json;

    use super::*;
    use crate::call::request::RequestContext;
    use crate::observe::call_event::AttemptSummary;
    use crate::observe::recorder::{Recorder, RecordingReceiver};

    fn recorded() -> (Arc<CallRecord>, RecordingReceiver) {
        let (recorder, recordings) = Recorder::idle();
        let observer = Arc::new(Observer { recorder: Some(recorder), ..Observer::default() });
        let request = InvokeRequest { skill_id: "echo".to_owned(), ..InvokeRequest::default() };
        let call = Arc::new(Call::new(request, RequestContext::unknown()));
        (CallRecord::begin(&observer, &call), recordings)
    }

    fn says(message: &str) -> Event {
        Event::Progress(Progress { message: message.to_owned(), ..Progress::default() })
    }

    #[test]
    fn a_call_is_recorded_with_its_events_in_order_at_its_first_end() {
        let (record, recordings) = recorded();
        record.note(|| CallEvent::Rejected);
        record.note_content(0, || CallEvent::Replayed);
        let outcome = Outcome { attempts: 2, ..Outcome::from_error(SkillError::unavailable("lost")) };
        record.end(&outcome);
        record.end(&outcome);
        drop(record);
        let recording = recordings.next().unwrap();
        assert!(matches!(&recording.events[..], [(_, CallEvent::Rejected), (_, CallEvent::Replayed)]));
        assert_eq!(recording.attempts, 2);
        assert!(recordings.next().is_none(), "there is one end");
    }

    #[test]
    fn what_a_skill_says_does_not_push_out_how_its_attempts_went() {
        let (record, recordings) = recorded();
        (0..1000).for_each(|_| record.note_relayed(&says("")));
        record.note(|| CallEvent::AttemptEnded(AttemptSummary::default()));
        drop(record);
        assert!(matches!(recordings.next().unwrap().events.last(), Some((_, CallEvent::AttemptEnded(_)))));
    }

    #[test]
    fn the_log_leaves_out_names_in_which_nobody_would_recognize_a_secret() {
        let long = "x".repeat(49);
        let paths = ["/task/text", "/a~1b", "/items/0/key…", &long].map(|path| json!({ "path": path }));
        let details = json!({ "violations": paths }).to_string();
        let error = SkillError { more: Some(More::DetailsJson(details)), ..SkillError::unavailable("bad") };
        assert_eq!(loggable(&error), "the arguments are invalid at '/task/text', '/…', '/items/0/…', '…'");
    }

    #[test]
    fn a_call_that_is_dropped_is_recorded_as_cancelled() {
        let (record, recordings) = recorded();
        drop(record);
        assert_eq!(recordings.next().unwrap().result.error.unwrap().code(), ErrorCode::Cancelled);
    }

    #[test]
    fn events_of_a_call_are_bounded_and_the_rest_is_counted() {
        let (record, recordings) = recorded();
        (0..1000).for_each(|_| record.note(|| CallEvent::Rejected));
        drop(record);
        let recording = recordings.next().unwrap();
        assert_eq!(recording.events.len() + recording.left_out, 1000);
        assert_eq!(recording.events.len(), 256);
    }

    #[test]
    fn arguments_that_did_not_change_are_no_event() {
        let (record, recordings) = recorded();
        let json = record.call.input.bytes_of(record.call.input.text().into());
        record.arguments_prepared(&Preparation { json: json.clone(), ..Preparation::default() });
        let warnings = vec!["not checked".to_owned()];
        record.arguments_prepared(&Preparation { json, warnings, ..Preparation::default() });
        record.arguments_prepared(&Preparation { json: "{\"other\":1}".into(), ..Preparation::default() });
        drop(record);
        let events = recordings.next().unwrap().events;
        assert!(
            matches!(&events[..], [(_, CallEvent::Prepared { .. }), (_, CallEvent::Prepared { .. })]),
            "{events:?}"
        );
    }

    #[test]
    fn what_is_not_kept_is_not_evaluated() {
        let (record, recordings) = recorded();
        record.note_content(1024 * 1024, || unreachable!("it is too long for one call"));
        record.note_content(200 * 1024, || CallEvent::Replayed);
        record.note_content(100 * 1024, || unreachable!("the call has said too much"));
        (0..255).for_each(|_| record.note(|| CallEvent::Rejected));
        record.note(|| unreachable!("the timeline is full"));
        record.note_content(1, || unreachable!("the timeline is full"));
        drop(record);
        assert_eq!(recordings.next().unwrap().left_out, 4);
    }

    #[test]
    fn calls_that_run_share_a_budget_which_they_give_back_when_they_end() {
        let (first, recordings) = recorded();
        let observer = Arc::clone(&first.observer);
        let begin = || CallRecord::begin(&observer, &first.call);
        let records: Vec<_> = std::iter::from_fn(|| Some(begin())).take(1000).collect();
        let text = "x".repeat(200 * 1024);
        records.iter().for_each(|it| it.note_relayed(&says(&text)));
        assert!(observer.content_pool.in_use() <= crate::state::limits::SharedLimit::Recordings.bound());
        drop(records);
        let told: Vec<_> = std::iter::from_fn(|| recordings.next()).map(|it| (it.events.len(), it.left_out)).collect();
        assert!(told.iter().all(|it| matches!(it, (1, 0) | (0, 1))), "each says what it left out");
        assert!(told.contains(&(1, 0)) && told.contains(&(0, 1)), "{told:?}");
        assert_eq!(observer.content_pool.in_use(), 0);
        first.note_relayed(&says(&text));
        drop(first);
        assert_eq!(recordings.next().unwrap().events.len(), 1);
    }

    #[test]
    fn an_artifact_counts_without_its_content_which_is_not_kept() {
        let (record, recordings) = recorded();
        let content = Some(Content::Data(vec![0; 1024 * 1024].into()));
        record.note_relayed(&Event::Artifact(Artifact { name: "plot.png".to_owned(), content, ..Artifact::default() }));
        drop(record);
        let recording = recordings.next().unwrap();
        let [(_, CallEvent::Relayed(event))] = &recording.events[..] else { panic!("{recording:?}") };
        let Event::Artifact(kept) = &**event else { panic!("{event:?}") };
        assert_eq!((kept.name.as_str(), &kept.content), ("plot.png", &None));
    }

    #[test]
    fn nothing_is_evaluated_if_nobody_listens() {
        let call = Arc::new(Call::new(InvokeRequest::default(), RequestContext::unknown()));
        let record = CallRecord::begin(&Arc::default(), &call);
        record.note(|| unreachable!("nobody listens"));
        record.note_content(0, || unreachable!("nobody listens"));
    }
}
