//! One log line a call, whatever its end. Target `openskill::call`.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use openskill_proto::v1::skill_error::More;
use openskill_proto::v1::{ErrorCode, SkillError, SkillResult};
use serde_json::Value;
use tokio::runtime::{Handle, RuntimeFlavor};
use tracing::Level;

use crate::call::Call;

const TARGET: &str = "openskill::call";

/// A call on its way to its line.
pub(crate) struct Record<'a> {
    call: &'a Arc<Call>,
    ended: bool,
    /// It belongs to the run of a call that goes on without its client.
    of_run: bool,
}

impl<'a> Record<'a> {
    pub(crate) fn begin(call: &'a Arc<Call>) -> Self {
        Self { call, ended: false, of_run: false }
    }

    /// For the run of a call that goes on without its client: what the client's side knows does not count any more.
    pub(crate) fn of_run(call: &'a Arc<Call>) -> Self {
        Self { call, ended: false, of_run: true }
    }

    /// Has the line written, unless it was. True if it was not.
    pub(crate) fn end(mut self, result: &SkillResult) -> bool {
        self.ended = true;
        let is_first = !self.call.is_told.swap(true, Ordering::Relaxed);
        if is_first && tracing::enabled!(target: TARGET, Level::INFO) {
            Line::of(self.call, result).after_the_answer();
        }
        is_first
    }
}

/// What the line says. Dropped, it is written.
struct Line {
    call: Arc<Call>,
    runner_type: String,
    worker_id: String,
    latency_ms: f64,
    success: bool,
    code: &'static str,
    message: String,
}

impl Line {
    fn of(call: &Arc<Call>, result: &SkillResult) -> Self {
        let error = result.error.as_ref();
        let code = error.map_or("", |error| error.code().as_str_name());
        let mut line = Self::new(call, result.success, code, error.map_or(String::new(), message));
        if let Some(meta) = &result.meta {
            line.runner_type.clone_from(&meta.runner);
            line.worker_id.clone_from(&meta.worker_id);
        }
        line
    }

    fn new(call: &Arc<Call>, success: bool, code: &'static str, message: String) -> Self {
        let latency_ms = call.received.elapsed().as_micros() as f64 / 1000.0;
        let (call, runner_type, worker_id) = (Arc::clone(call), String::new(), String::new());
        Self { call, runner_type, worker_id, latency_ms, success, code, message }
    }

    /// Written when this thread has done all else that it can do now, the answer among it: nobody is to wait for a log.
    fn after_the_answer(self) {
        let Ok(runtime) = Handle::try_current() else { return };
        if runtime.runtime_flavor() != RuntimeFlavor::CurrentThread {
            return;
        }
        let is_first = WAITING.with_borrow_mut(|lines| {
            lines.push(self);
            lines.len() == 1
        });
        if is_first {
            let write = Write;
            runtime.spawn(async move {
                tokio::task::yield_now().await;
                drop(write);
            });
        }
    }
}

thread_local! {
    /// Lines of calls that ended on this thread, until its answers are out.
    static WAITING: RefCell<Vec<Line>> = const { RefCell::new(Vec::new()) };
}

/// Dropped, it writes the lines that wait: by its task, or by a runtime that ends before that.
struct Write;

impl Drop for Write {
    fn drop(&mut self) {
        drop(WAITING.try_with(RefCell::take));
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        tracing::info!(
            target: TARGET,
            // As strings, which the log escapes: they are the caller's.
            trace_id = self.call.trace.id,
            skill_id = self.call.skill_id,
            call_id = self.call.call_id,
            runner_type = self.runner_type,
            worker_id = self.worker_id,
            latency_ms = self.latency_ms,
            success = self.success,
            error.code = self.code,
            error.message = self.message,
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
        let (code, message) = if std::thread::panicking() {
            ("INTERNAL", "the gateway failed at this call")
        } else {
            ("CANCELLED", "the call was dropped before its end")
        };
        drop(Line::new(self.call, false, code, message.to_owned()));
    }
}
