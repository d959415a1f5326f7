//! `inproc`: a Rust function in the worker itself. The manifest's `entry` names it.
//!
//! A function runs as a task on the shard that accepted the call, so it must not block. Dropping the run aborts the task.

use std::collections::HashMap;
use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use openskill_proto::trace::TraceContext;
use openskill_proto::v1::{Blame, ErrorCode, SkillError};
use openskill_trace::embedded;
use tokio_util::task::AbortOnDropHandle;

use crate::events::EventSink;
use crate::manifest::{How, Manifest};
use crate::runner::{Invocation, RawOutput, Runner};

mod diagnostics;

/// A function: takes the arguments, one JSON object as text, and returns one JSON value as text. Through the sink it reports
/// progress, produces artifacts and asks the user.
pub type Function =
    Arc<dyn Fn(bytes::Bytes, EventSink) -> BoxFuture<'static, Result<String, SkillError>> + Send + Sync>;

/// The functions a worker has, by name.
#[derive(Clone)]
pub struct Functions {
    by_name: HashMap<String, Function>,
}

impl Default for Functions {
    /// The diagnostic functions of every worker: `echo`, `wait`, `fail`, `ask` and `artifact`.
    fn default() -> Self {
        Self { by_name: HashMap::new() }
            .with("echo", diagnostics::echo)
            .with("wait", diagnostics::wait)
            .with("fail", diagnostics::fail)
            .with("ask", diagnostics::ask)
            .with("artifact", diagnostics::artifact)
    }
}

impl Functions {
    /// Adds a function. It replaces one of the same name.
    #[must_use]
    pub fn with<F, R>(mut self, name: &str, function: F) -> Self
    where
        F: Fn(bytes::Bytes, EventSink) -> R + Send + Sync + 'static,
        R: Future<Output = Result<String, SkillError>> + Send + 'static,
    {
        let boxed: Function = Arc::new(move |input, events| function(input, events).boxed());
        self.by_name.insert(name.to_owned(), boxed);
        self
    }
}

/// The runner.
pub(crate) struct InProcess {
    functions: Functions,
}

impl InProcess {
    pub(crate) fn new(functions: Functions) -> Self {
        Self { functions }
    }

    fn find(&self, manifest: &Manifest) -> Option<&Function> {
        match &manifest.how {
            How::Function(name) => self.functions.by_name.get(name),
            _ => None,
        }
    }
}

impl Runner for InProcess {
    fn admit(&self, manifest: &Manifest) -> Result<(), String> {
        self.find(manifest).map(|_| ()).ok_or_else(|| "this worker has no in-process function of this name".to_owned())
    }

    fn run(self: Arc<Self>, invocation: Invocation) -> BoxFuture<'static, RawOutput> {
        let Some(function) = self.find(&invocation.manifest) else {
            let error = SkillError::new(ErrorCode::Unavailable, "the skill is not available on this worker");
            return std::future::ready(RawOutput::NotStarted(error)).boxed();
        };
        let work = function(invocation.input, invocation.events);
        // Spans that the function makes are children of the run.
        let work = match TraceContext::parse(&invocation.traceparent) {
            Some(parent) => embedded::within(parent, work).boxed(),
            None => work,
        };
        let slot = invocation.slot;
        async move {
            // A task of its own, so that a panic ends this run alone.
            let task = AbortOnDropHandle::new(tokio::spawn(async move {
                let _slot = slot;
                work.await
            }));
            match task.await {
                Ok(Ok(value)) => RawOutput::Value(value),
                // It ran well enough to report the error: the worker is not at fault.
                Ok(Err(error)) => RawOutput::Failed(match error.blame() {
                    Blame::Worker | Blame::Gateway => error.with_blame(Blame::Skill),
                    _ => error,
                }),
                Err(_) => RawOutput::Failed(SkillError::new(ErrorCode::Internal, "the function panicked")),
            }
        }
        .boxed()
    }
}
