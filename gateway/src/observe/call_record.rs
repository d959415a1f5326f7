//! One log line and one count a call, whatever its end. Target `openskill::call`.
//!
//! A line has ids, codes and lengths, and nothing that a caller or a skill wrote: a name that is no skill's is a caller's text,
//! and so may be a message. Messages are logged at level DEBUG. Lines of calls that reached no worker are sampled.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use openskill_proto::v1::skill_error::More;
use openskill_proto::v1::{ErrorCode, ExecuteResult, SkillError};
use serde_json::Value;

use super::Observer;
use crate::call::request::Call;

const TARGET: &str = "openskill::call";

/// The record of a call that runs. Whoever works on the call shares it; the first end counts.
#[derive(Debug)]
pub(crate) struct CallRecord {
    observer: Arc<Observer>,
    call: Arc<Call>,
    /// The call names a skill that exists.
    has_skill: AtomicBool,
    has_ended: AtomicBool,
}

impl CallRecord {
    pub(crate) fn begin(observer: &Arc<Observer>, call: &Arc<Call>) -> Arc<Self> {
        let (observer, call) = (Arc::clone(observer), Arc::clone(call));
        Arc::new(Self { observer, call, has_skill: AtomicBool::new(false), has_ended: AtomicBool::new(false) })
    }

    /// The skill of the call exists: its id may be logged.
    pub(crate) fn found_skill(&self) {
        self.has_skill.store(true, Ordering::Relaxed);
    }

    /// The call ended like this.
    pub(crate) fn end(&self, result: &ExecuteResult) {
        if self.has_ended.swap(true, Ordering::Relaxed) {
            return;
        }
        let error = result.error.as_ref();
        self.observer.call_ended(error.map(SkillError::code), &result.jail);
        self.log(&result.runner, &result.worker_id, result.success, error);
    }

    fn log(&self, runner: &str, worker_id: &str, success: bool, error: Option<&SkillError>) {
        let refusal = error.filter(|_| worker_id.is_empty()).map(|it| it.code().as_str_name());
        if !tracing::enabled!(target: TARGET, tracing::Level::INFO)
            || refusal.is_some_and(|it| !openskill_log::admits(it))
        {
            return;
        }
        let call = &self.call;
        let has_skill = self.has_skill.load(Ordering::Relaxed);
        tracing::info!(
            target: TARGET,
            // As strings, which the log escapes: the ids are the caller's.
            trace_id = call.trace.id,
            skill_id = has_skill.then_some(call.skill_id.as_str()),
            unknown_skill_bytes = (!has_skill).then_some(call.skill_id.len()),
            call_id = call.call_id,
            runner_type = runner,
            worker_id,
            latency_ms = call.received.elapsed().as_micros() as f64 / 1000.0,
            success,
            error.code = error.map_or("", |it| it.code().as_str_name()),
            error.blame = error.map(|it| it.blame().json_name()),
            error.message_bytes = error.map(|it| it.message.len()),
        );
        if let Some(error) = error
            && tracing::enabled!(target: TARGET, tracing::Level::DEBUG)
        {
            let (trace_id, call_id) = (&call.trace.id, &call.call_id);
            tracing::debug!(target: TARGET, trace_id, call_id, error.message = loggable(error), "why the call failed");
        }
    }
}

impl Drop for CallRecord {
    /// The only place that sees a call that was dropped: its client went away, or the drain timeout passed.
    fn drop(&mut self) {
        if *self.has_ended.get_mut() {
            return;
        }
        let (code, message) = if std::thread::panicking() {
            (ErrorCode::Internal, "the gateway panicked during this call")
        } else {
            (ErrorCode::Cancelled, "the call was dropped before it ended")
        };
        self.observer.call_ended(Some(code), "");
        self.log("", "", false, Some(&SkillError::new(code, message)));
    }
}

/// What the log says about an error at level DEBUG. Invalid arguments are named by their paths: the values are the caller's
/// and stay out of the log.
fn loggable(error: &SkillError) -> String {
    let details = match &error.more {
        Some(More::DetailsJson(text)) => serde_json::from_str::<Value>(text).unwrap_or_default(),
        _ => Value::Null,
    };
    match (details["violations"].as_array(), error.code()) {
        (Some(violations), _) => {
            let paths: Vec<_> = violations.iter().filter_map(|it| it["path"].as_str()).collect();
            format!("the arguments are invalid at '{}'", paths.join("', '"))
        }
        (None, ErrorCode::InvalidJson) => "the arguments are not valid JSON".to_owned(),
        (None, _) => error.message.clone(),
    }
}
