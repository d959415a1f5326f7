//! Executes one call on a worker, from admission to result.

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use openskill_proto::limits::{MAX_STDERR_BYTES, MAX_TIMEOUT_MS};
use openskill_proto::metadata::{NOT_STARTED, PUSHBACK};
use openskill_proto::v1::artifact::Content;
use openskill_proto::v1::execute_event::Event;
use openskill_proto::v1::{Blame, ErrorCode, ExecuteRequest, ExecuteResult, SkillError};
use openskill_sandbox::jail::{Level, Network};
use openskill_sandbox::untrusted_json::{LIGHT_BYTES, off_shard};
use openskill_telemetry::log::STDERR;
use tokio::sync::mpsc;
use tonic::Status;
use tonic::metadata::MetadataValue;

use crate::artifacts::Collector;
use crate::config::Config;
use crate::events::EventSink;
use crate::manifest::python::Isolation;
use crate::manifest::{Manifest, RunnerSpec};
use crate::normalize::{NormalizeOptions, normalize, printed};
use crate::questions::CallQuestions;
use crate::registry::Entry;
use crate::runner::{Invocation, RawOutput, Runner};
use crate::schedule::{GateRefusal, Request};
use crate::spans::ServedCall;
use crate::worker::Worker;

/// The maximum length of the recorded end of stderr, in bytes. The recorder keeps no longer texts.
const MAX_RECORDED_STDERR_BYTES: usize = 4 * 1024;

/// The OpenTelemetry headers of a call.
#[derive(Debug, Default)]
pub(crate) struct TraceHeaders {
    pub(crate) traceparent: String,
    pub(crate) tracestate: String,
}

/// Runs a call. `listener` receives its events. Without a listener, the call can't ask its user.
///
/// Dropping the future cancels the call.
///
/// # Errors
/// Returns an error if the skill was not started; see `worker.proto`.
pub(crate) async fn execute(
    worker: &Worker,
    request: ExecuteRequest,
    trace: TraceHeaders,
    listener: Option<mpsc::Sender<Event>>,
) -> Result<ExecuteResult, Status> {
    let (config, streams) = (&worker.config, listener.is_some());
    let mut served =
        ServedCall::begin(config.tracer.as_ref(), &config.worker_id, &request, &trace.traceparent, streams);
    let ended = admit(worker, request, trace, listener, &mut served).await;
    served.end(&ended);
    ended
}

async fn admit(
    worker: &Worker,
    request: ExecuteRequest,
    trace: TraceHeaders,
    listener: Option<mpsc::Sender<Event>>,
    served: &mut ServedCall<'_>,
) -> Result<ExecuteResult, Status> {
    let received = Instant::now();
    if worker.is_draining() {
        return Err(refuse(worker, "draining", Status::unavailable("the worker is draining")));
    }
    if request.timeout_ms == 0 || request.timeout_ms > MAX_TIMEOUT_MS {
        let message = format!("timeout_ms must be 1 to {MAX_TIMEOUT_MS}");
        return Err(refuse(worker, "invalid", Status::invalid_argument(message)));
    }
    let Some(entry) = worker.registry.get(&request.skill_id, &request.version) else {
        let message = "this worker has no such skill, or not in this version";
        return Err(refuse(worker, "unknown_skill", Status::not_found(message)));
    };
    // Each shard ends after the last call of all shards, because another shard may read from the processes that it
    // keeps warm.
    let _token = worker.tasks.token();
    let deadline = received + Duration::from_millis(request.timeout_ms.into());
    let Ok(runner) = &entry.runner else {
        let status = Status::unavailable("the skill is not available on this worker");
        return Err(refuse(worker, "unavailable", status));
    };
    let events = sink(worker, &entry.manifest, &request, deadline, listener);
    if request.wants_content {
        events.want_content();
    }
    let traceparent = trace.traceparent.clone();
    let call = Call { request, trace, events, received, deadline };
    let mut result = run(worker, &entry, Arc::clone(runner), call, served).await?;
    result.runner.clone_from(&entry.manifest.runner);
    if result.version.is_empty() {
        result.version.clone_from(&entry.manifest.version);
    }
    result.worker_id.clone_from(&worker.config.worker_id);
    worker.metrics.record_answer(&entry.series, &result, received.elapsed(), &traceparent);
    Ok(result)
}

/// Refuses a call that gets no slot. A refusal with a pushback concerns only its caller. The worker accepts other
/// callers' calls.
fn refuse_without_slot(worker: &Worker, refusal: GateRefusal) -> Status {
    let GateRefusal::Late { retry_after } = refusal else {
        return refuse(worker, "full", Status::resource_exhausted("the worker's queue is full"));
    };
    let mut status = Status::resource_exhausted("too many calls wait, so this one would miss its deadline");
    status.metadata_mut().insert(PUSHBACK, MetadataValue::from(micros(retry_after) / 1000 + 1));
    refuse(worker, "late", status)
}

/// Counts a refusal, and marks it as the worker's, so that the gateway may try another worker.
pub(crate) fn refuse(worker: &Worker, reason: &'static str, mut status: Status) -> Status {
    worker.metrics.count_refusal(reason);
    status.metadata_mut().insert(NOT_STARTED, MetadataValue::from_static("1"));
    status
}

fn sink(
    worker: &Worker,
    manifest: &Manifest,
    request: &ExecuteRequest,
    deadline: Instant,
    listener: Option<mpsc::Sender<Event>>,
) -> EventSink {
    let artifacts = Collector::new(Arc::clone(&worker.artifacts), &request.principal, &request.skill_id);
    let can_ask = request.interactive && listener.is_some() && reads_answers(manifest);
    let call_questions = can_ask.then(|| {
        let mut asks = CallQuestions::new(Arc::clone(&worker.questions), &request.principal, deadline);
        let kinds: Vec<_> = request.answers().collect();
        // A caller that lists no kinds answers only forms.
        if !kinds.is_empty() {
            asks.kinds = kinds;
        }
        asks
    });
    EventSink::for_call(listener, artifacts, call_questions)
}

/// Returns whether the skill's runner can pass answers to the skill.
fn reads_answers(manifest: &Manifest) -> bool {
    match &manifest.how {
        RunnerSpec::Docker(_) | RunnerSpec::Http(_) => false,
        RunnerSpec::Python(python) => python.isolation != Isolation::Shared,
        RunnerSpec::Exec(_)
        | RunnerSpec::Mcp(_)
        | RunnerSpec::McpTool(_)
        | RunnerSpec::Function(_)
        | RunnerSpec::Session(_)
        | RunnerSpec::Agent(_)
        | RunnerSpec::Gateway
        | RunnerSpec::Unknown => true,
    }
}

/// An admitted call, which waits or runs.
struct Call {
    request: ExecuteRequest,
    trace: TraceHeaders,
    events: EventSink,
    received: Instant,
    deadline: Instant,
}

async fn run(
    worker: &Worker,
    entry: &Entry,
    runner: Arc<dyn Runner>,
    call: Call,
    served: &mut ServedCall<'_>,
) -> Result<ExecuteResult, Status> {
    let Call { request, trace, events, received, deadline } = call;
    let asks = Request {
        principal: &request.principal,
        session: &request.session_id,
        skill: &entry.skill,
        limit: entry.limit.as_ref(),
        deadline,
    };
    let granted = tokio::select! {
        granted = tokio::time::timeout_at(deadline.into(), worker.scheduler.slot(asks)) => granted,
        () = worker.abandoned.cancelled() => {
            let status = Status::unavailable("the worker stopped before the call got a slot");
            return Err(refuse(worker, "draining", status));
        }
    };
    let Ok(granted) = granted else {
        let waited = received.elapsed().as_secs_f64();
        let message = format!("the deadline passed while the call waited for a slot, for {waited:.1} s");
        let error = SkillError::new(ErrorCode::Timeout, message);
        // The call waited too long because of other calls. Neither the skill nor this worker is at fault.
        let error = Some(error.with_blame(Blame::Gateway));
        let queued_us = micros(received.elapsed());
        // Without a limit on the skill, the call waited only for the worker.
        let worker_queued_us = entry.limit.is_none().then_some(queued_us);
        let not_started = true;
        return Ok(ExecuteResult { error, queued_us, worker_queued_us, not_started, ..ExecuteResult::default() });
    };
    let (slot, waited) = granted.map_err(|refusal| refuse_without_slot(worker, refusal))?;
    let slot = slot.with_part(request.operation.as_ref().and_then(|it| worker.kept_runs.part(it)));
    let queued_us = micros(received.elapsed());
    let invocation = Invocation {
        manifest: Arc::clone(&entry.manifest),
        input: request.input_json,
        call_id: request.call_id,
        session_id: request.session_id,
        principal: request.principal,
        trace_id: request.trace_id,
        has_secrets: request.has_secrets,
        traceparent: served.run(&entry.manifest, trace.traceparent),
        tracestate: trace.tracestate,
        trace: served.trace.clone(),
        deadline,
        events: events.clone(),
        slot,
    };
    let (trace_id, call_id) = (invocation.trace_id.clone(), invocation.call_id.clone());
    let has_secrets = invocation.has_secrets;
    let open = events.open_call();
    let raw = run_to_end(worker, runner, invocation).await;
    drop(open);
    let mut shown = String::new();
    if let RawOutput::Process { stderr, exit, had_secrets, .. } = &raw
        && !stderr.is_empty()
    {
        let skill_id = &entry.manifest.id;
        tracing::info!(trace_id, skill_id, ?exit, stderr_bytes = stderr.len(), "the skill wrote to stderr");
        if !has_secrets && !had_secrets {
            shown = show_stderr(&worker.config, stderr, &trace_id, &call_id, skill_id);
        }
    }
    let networkless = is_networkless(&entry.manifest);
    let options = NormalizeOptions { with_stderr: worker.config.debug, networkless, has_secrets };
    let manifest = Arc::clone(&entry.manifest);
    let normalized = off_shard(raw.bytes() > LIGHT_BYTES, move || match manifest.how.output_rules() {
        Some(rules) => printed::normalize(raw, rules, options),
        None => normalize(raw, options),
    });
    let mut result = normalized.await;
    collect_artifacts(&mut result, &events);
    (result.logs, result.stderr) = (events.unheard(), shown);
    result.content_json = events.content().into();
    (result.queued_us, result.worker_queued_us) = (queued_us, Some(micros(waited)));
    if entry.manifest.how.is_process() {
        worker.jailer.isolation_level(&entry.manifest).clone_into(&mut result.jail);
    }
    Ok(result)
}

/// Returns whether the jail blocks the network for a skill's process.
fn is_networkless(manifest: &Manifest) -> bool {
    let jail = &manifest.jail;
    manifest.how.is_process() && jail.level != Level::Off && jail.network == Network::None
}

/// Runs the skill until it ends, its deadline passes, or the worker abandons it.
async fn run_to_end(worker: &Worker, runner: Arc<dyn Runner>, invocation: Invocation) -> RawOutput {
    let watched = invocation.slot.watch();
    let mut run = pin!(tokio::time::timeout_at(invocation.deadline.into(), runner.run(invocation)));
    // Dropped before `run`, and therefore before the slot.
    let running = watched;
    let failed = |code, message| RawOutput::Failed(SkillError::new(code, message));
    tokio::select! {
        biased;
        () = worker.abandoned.cancelled() => {
            failed(ErrorCode::Unavailable, "the worker stopped, and killed the skill before it finished")
        }
        ended = &mut run => ended.inspect(|_| running.complete()).unwrap_or_else(|_| {
            failed(ErrorCode::Timeout, "the skill did not finish before the call's deadline and was killed")
        }),
    }
}

/// Replaces the artifacts in the skill's result with all artifacts of the call, within the limits.
fn collect_artifacts(result: &mut ExecuteResult, events: &EventSink) {
    for listed in std::mem::take(&mut result.artifacts) {
        if let Some(Content::Data(data)) = listed.content {
            events.keep(&listed.name, &listed.media_type, data.into());
        }
    }
    let (artifacts, warnings) = events.finish();
    result.artifacts = artifacts;
    result.warnings.extend(warnings);
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// Logs what a skill wrote to stderr, and gives it to a command that shows it. The text may contain anything that the
/// skill was given, so it is logged only at DEBUG. Returns the end of what is logged.
fn show_stderr(config: &Config, stderr: &[u8], trace_id: &str, call_id: &str, skill_id: &str) -> String {
    let is_logged = tracing::enabled!(target: STDERR, tracing::Level::DEBUG);
    if !is_logged && config.show_stderr.is_none() {
        return String::new();
    }
    // The text format of the log has a line for each line of the text, and redacts only single lines.
    let text = String::from_utf8_lossy(stderr);
    // The runner keeps no more than the end.
    let text = whole_end(&text, MAX_STDERR_BYTES - 1);
    let text = config.redactor.text(text);
    let text = text.trim_end();
    tracing::debug!(target: STDERR, trace_id, call_id, skill_id, stderr = text, "stderr of the skill");
    if let Some(show) = config.show_stderr {
        show(text);
    }
    if is_logged { whole_end(text, MAX_RECORDED_STDERR_BYTES).to_owned() } else { String::new() }
}

/// Returns the end of a text, from the beginning of a line or else of a word: what begins within a secret can't be
/// redacted. Nothing if it is a single long word.
fn whole_end(text: &str, most: usize) -> &str {
    if text.len() <= most {
        return text;
    }
    let end = text[text.ceil_char_boundary(text.len() - most)..].trim_end();
    let start = end.find('\n').or_else(|| end.find(char::is_whitespace)).unwrap_or(end.len());
    end[start..].trim_start()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_text_begins_with_a_whole_line_or_word() {
        assert_eq!(whole_end("a secret", 8), "a secret");
        assert_eq!(whole_end("a secret word\nlast line", 16), "last line");
        assert_eq!(whole_end("a secret word", 9), "word");
        assert_eq!(whole_end("a secret word\n", 10), "word");
        assert_eq!(whole_end("éééé", 3), "");
    }
}
