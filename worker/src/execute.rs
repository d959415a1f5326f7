//! One call on a worker, from admission to result.

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use openskill_proto::limits::MAX_TIMEOUT_MS;
use openskill_proto::metadata::{NOT_STARTED, PUSHBACK};
use openskill_proto::v1::artifact::Content;
use openskill_proto::v1::execute_event::Event;
use openskill_proto::v1::{Blame, ErrorCode, ExecuteRequest, ExecuteResult, SkillError};
use tokio::sync::mpsc;
use tonic::Status;
use tonic::metadata::MetadataValue;

use crate::artifacts::Collector;
use crate::events::EventSink;
use crate::manifest::python::Isolation;
use crate::manifest::{How, Level, Manifest, Network};
use crate::normalize::{As, normalize, printed};
use crate::questions::Asker;
use crate::registry::Entry;
use crate::runner::{Invocation, RawOutput, Runner};
use crate::schedule::{Refusal, Request};
use crate::spans::Served;
use crate::untrusted_json::{LIGHT_BYTES, off_shard};
use crate::worker::Worker;

/// The OpenTelemetry context of a call, as its headers say.
#[derive(Debug, Default)]
pub(crate) struct TraceHeaders {
    pub(crate) traceparent: String,
    pub(crate) tracestate: String,
}

/// Runs a call. `listener` hears its events; without one the call cannot ask its user.
///
/// Dropping the future cancels the call.
///
/// # Errors
/// The skill was not started; see `worker.proto`.
pub(crate) async fn execute(
    worker: &Worker,
    request: ExecuteRequest,
    trace: TraceHeaders,
    listener: Option<mpsc::Sender<Event>>,
) -> Result<ExecuteResult, Status> {
    let (config, streams) = (&worker.config, listener.is_some());
    let mut served = Served::begin(config.tracer.as_ref(), &config.worker_id, &request, &trace.traceparent, streams);
    let ended = admitted(worker, request, trace, listener, &mut served).await;
    served.end(&ended);
    ended
}

async fn admitted(
    worker: &Worker,
    request: ExecuteRequest,
    trace: TraceHeaders,
    listener: Option<mpsc::Sender<Event>>,
    served: &mut Served<'_>,
) -> Result<ExecuteResult, Status> {
    let received = Instant::now();
    if worker.is_draining() {
        return Err(refuse(worker, "draining", Status::unavailable("the worker is draining")));
    }
    if request.timeout_ms == 0 || request.timeout_ms > MAX_TIMEOUT_MS {
        let message = format!("timeout_ms must be 1 to {MAX_TIMEOUT_MS}");
        return Err(refuse(worker, "invalid", Status::invalid_argument(message)));
    }
    let Some(entry) = worker.registry.get(&request.skill_id) else {
        return Err(refuse(worker, "unknown_skill", Status::not_found("this worker has no such skill")));
    };
    // A shard ends after the last call of all shards: what is kept warm may be read on another one.
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
    worker.metrics.answered(&entry.series, &result, received.elapsed(), &traceparent);
    Ok(result)
}

/// A call that gets no slot. With a pushback, the refusal is for its caller alone: the worker takes calls of others.
fn refused(worker: &Worker, refusal: Refusal) -> Status {
    let (reason, message) = match refusal {
        Refusal::Full => ("full", "the worker's queue is full"),
        Refusal::Late { .. } => ("late", "too many calls wait for this one to end before its deadline"),
    };
    let mut status = Status::resource_exhausted(message);
    if let Refusal::Late { retry_after } = refusal {
        status.metadata_mut().insert(PUSHBACK, MetadataValue::from(micros(retry_after) / 1000 + 1));
    }
    refuse(worker, reason, status)
}

/// Counts a refusal, and marks it as the worker's own, so that the call may go to another worker.
fn refuse(worker: &Worker, reason: &'static str, mut status: Status) -> Status {
    worker.metrics.refused(reason);
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
    let kinds = request.answers().collect();
    let asker =
        can_ask.then(|| Asker::new(Arc::clone(&worker.questions), &request.principal, deadline).answering(kinds));
    EventSink::of_call(listener, artifacts, asker)
}

/// Whether the skill's runner has a way to hand it an answer.
fn reads_answers(manifest: &Manifest) -> bool {
    match &manifest.how {
        How::Docker(_) | How::Http(_) => false,
        How::Python(python) => python.isolation != Isolation::Shared,
        _ => true,
    }
}

/// An admitted call.
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
    served: &mut Served<'_>,
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
        // There were too many calls; neither the skill nor this worker did anything wrong.
        let error = Some(error.with_blame(Blame::Gateway));
        let queued_us = micros(received.elapsed());
        // Without a limit of the skill's own, the call waited for the worker alone.
        let worker_queued_us = entry.limit.is_none().then_some(queued_us);
        let not_started = true;
        return Ok(ExecuteResult { error, queued_us, worker_queued_us, not_started, ..ExecuteResult::default() });
    };
    let (slot, waited) = granted.map_err(|refusal| refused(worker, refusal))?;
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
    let (trace_id, has_secrets) = (invocation.trace_id.clone(), invocation.has_secrets);
    let open = events.open_call();
    let raw = ended(worker, runner, invocation).await;
    drop(open);
    log_stderr(&raw, &trace_id, &entry.manifest.id, has_secrets);
    let judged = As { with_stderr: worker.config.debug, networkless: is_networkless(&entry.manifest) };
    let manifest = Arc::clone(&entry.manifest);
    let normalized = off_shard(raw.bytes() > LIGHT_BYTES, move || match manifest.how.printed() {
        Some(rules) => printed::normalize(raw, rules, judged),
        None => normalize(raw, judged),
    });
    let mut result = normalized.await;
    collect_artifacts(&mut result, &events);
    result.logs = events.unheard();
    result.content_json = events.content().into();
    (result.queued_us, result.worker_queued_us) = (queued_us, Some(micros(waited)));
    if entry.manifest.how.is_process() {
        worker.jailer.reached(&entry.manifest).clone_into(&mut result.jail);
    }
    Ok(result)
}

/// Whether the jail keeps the network from a skill's process.
fn is_networkless(manifest: &Manifest) -> bool {
    let jail = &manifest.jail;
    manifest.how.is_process() && jail.level != Level::Off && jail.network == Network::None
}

/// Runs the skill until it ends, its deadline passes, or the worker gives up on it.
async fn ended(worker: &Worker, runner: Arc<dyn Runner>, invocation: Invocation) -> RawOutput {
    let watched = invocation.slot.watch();
    let mut run = pin!(tokio::time::timeout_at(invocation.deadline.into(), runner.run(invocation)));
    // Dropped before `run`, and so before the slot.
    let running = watched;
    let failed = |code, message| RawOutput::Failed(SkillError::new(code, message));
    tokio::select! {
        biased;
        () = worker.abandoned.cancelled() => {
            failed(ErrorCode::Unavailable, "the worker stopped before the skill finished, and ended it")
        }
        ended = &mut run => ended.inspect(|_| running.ended()).unwrap_or_else(|_| {
            failed(ErrorCode::Timeout, "the skill did not finish before the call's deadline and was ended")
        }),
    }
}

/// Replaces the artifacts that the skill's own result lists by all those of the call, within the bounds.
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

/// A skill's stderr is for the log alone, and its text only at level DEBUG, if the skill was given no secrets: it may hold anything
/// that the skill was given.
fn log_stderr(raw: &RawOutput, trace_id: &str, skill_id: &str, has_secrets: bool) {
    if let RawOutput::Process { stderr, exit, .. } = raw
        && !stderr.is_empty()
    {
        tracing::info!(trace_id, skill_id, ?exit, stderr_bytes = stderr.len(), "the skill wrote to stderr");
        if !has_secrets && tracing::enabled!(tracing::Level::DEBUG) {
            let stderr = String::from_utf8_lossy(stderr);
            tracing::debug!(trace_id, skill_id, stderr = stderr.trim_end(), "stderr of the skill");
        }
    }
}
