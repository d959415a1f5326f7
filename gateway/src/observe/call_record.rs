//! One log line and one count a call, whatever its end. Target `openskill::call`.

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
    has_ended: AtomicBool,
}

impl CallRecord {
    pub(crate) fn begin(observer: &Arc<Observer>, call: &Arc<Call>) -> Arc<Self> {
        Arc::new(Self { observer: Arc::clone(observer), call: Arc::clone(call), has_ended: AtomicBool::new(false) })
    }

    /// The call ended like this.
    pub(crate) fn end(&self, result: &ExecuteResult) {
        if self.has_ended.swap(true, Ordering::Relaxed) {
            return;
        }
        let error = result.error.as_ref();
        self.observer.call_ended(error.map(SkillError::code), &result.jail);
        if tracing::enabled!(target: TARGET, tracing::Level::INFO) {
            let code = error.map_or("", |error| error.code().as_str_name());
            let message = error.map_or(String::new(), loggable);
            let (runner, worker_id, success) = (&result.runner, &result.worker_id, result.success);
            Line { runner, worker_id, success, code, message }.write(&self.call);
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
        let (code, message) = (code.as_str_name(), message.to_owned());
        Line { runner: "", worker_id: "", success: false, code, message }.write(&self.call);
    }
}

struct Line<'a> {
    runner: &'a str,
    worker_id: &'a str,
    success: bool,
    code: &'static str,
    message: String,
}

impl Line<'_> {
    fn write(self, call: &Call) {
        tracing::info!(
            target: TARGET,
            // As strings, which the log escapes: they are the caller's.
            trace_id = call.trace.id,
            skill_id = call.skill_id,
            call_id = call.call_id,
            runner_type = self.runner,
            worker_id = self.worker_id,
            latency_ms = call.received.elapsed().as_micros() as f64 / 1000.0,
            success = self.success,
            error.code = self.code,
            error.message = self.message,
        );
    }
}

/// What the log says about an error. Invalid arguments are named by their paths: the values are the caller's and stay out
/// of the log.
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
