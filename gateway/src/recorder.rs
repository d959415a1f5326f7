//! One log line a call, whatever its end. Target `openskill::call`.

use std::sync::atomic::Ordering;

use openskill_proto::v1::skill_error::More;
use openskill_proto::v1::{ErrorCode, SkillError, SkillResult};
use serde_json::Value;

use crate::call::Call;

/// A call on its way to its line.
pub(crate) struct Record<'a> {
    call: &'a Call,
    ended: bool,
    /// It belongs to the run of a call that goes on without its client.
    of_run: bool,
}

impl<'a> Record<'a> {
    pub(crate) fn begin(call: &'a Call) -> Self {
        Self { call, ended: false, of_run: false }
    }

    /// For the run of a call that goes on without its client: what the client's side knows does not count any more.
    pub(crate) fn of_run(call: &'a Call) -> Self {
        Self { call, ended: false, of_run: true }
    }

    /// Writes the line, unless it was written. True if it was not.
    pub(crate) fn end(mut self, result: &SkillResult) -> bool {
        self.ended = true;
        let meta = result.meta.as_ref();
        let error = result.error.as_ref();
        let is_first = !self.call.is_told.swap(true, Ordering::Relaxed);
        if is_first {
            self.line(
                meta.map_or("", |meta| &meta.runner),
                meta.map_or("", |meta| &meta.worker_id),
                result.success,
                error.map_or("", |error| error.code().as_str_name()),
                error.map_or(String::new(), message).as_str(),
            );
        }
        is_first
    }

    fn line(&self, runner_type: &str, worker_id: &str, success: bool, code: &str, message: &str) {
        let latency_ms = self.call.received.elapsed().as_micros() as f64 / 1000.0;
        tracing::info!(
            target: "openskill::call",
            // As strings, which the log escapes: they are the caller's.
            trace_id = self.call.trace.id,
            skill_id = self.call.skill_id,
            call_id = self.call.call_id,
            runner_type,
            worker_id,
            latency_ms,
            success,
            error.code = code,
            error.message = message,
        );
    }
}

/// What the log says of an error. What is wrong with a call's arguments is said by its place: the values are the
/// caller's and stay out of the log.
fn message(error: &SkillError) -> String {
    let details = match &error.more {
        Some(More::DetailsJson(text)) => serde_json::from_str::<Value>(text).unwrap_or_default(),
        _ => Value::Null,
    };
    match (details["violations"].as_array(), error.code()) {
        (Some(violations), _) => {
            let paths: Vec<_> = violations.iter().filter_map(|it| it["path"].as_str()).collect();
            format!("the arguments do not fit at '{}'", paths.join("', '"))
        }
        (None, ErrorCode::InvalidJson) => "the arguments can't be read".to_owned(),
        (None, _) => error.message.clone(),
    }
}

impl Drop for Record<'_> {
    /// The only place that sees a call that was dropped: its client went away, or the gateway's drain was over.
    fn drop(&mut self) {
        let is_others = self.call.goes_on.load(Ordering::Relaxed) && !self.of_run;
        if self.ended || is_others || self.call.is_told.swap(true, Ordering::Relaxed) {
            return;
        }
        if std::thread::panicking() {
            self.line("", "", false, "INTERNAL", "the gateway failed at this call");
        } else {
            self.line("", "", false, "CANCELLED", "the call was dropped before its end");
        }
    }
}
