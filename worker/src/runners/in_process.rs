//! `inproc`: runs a Rust function in the worker. The manifest's `entry` names it.
//!
//! A function runs as a task on the shard that accepted the call, so it must not block. Dropping the run aborts the
//! task.
//!
//! - [`diagnostics`]: functions for tests
//! - [`builtins`]: the functions of `openskill-builtins`

use std::collections::HashMap;
use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use openskill_proto::trace::TraceContext;
use openskill_proto::v1::{Blame, ErrorCode, SkillError};
use openskill_telemetry::trace::embedded;
use tokio_util::task::AbortOnDropHandle;

use crate::events::EventSink;
use crate::manifest::{Manifest, RunnerSpec};
use crate::runner::{Invocation, Offer, RawOutput, Runner};

pub(crate) mod builtins;
mod diagnostics;

/// A function that takes its arguments (a JSON object) as text and returns a JSON value as text. It reports
/// progress, produces artifacts and asks the user through the sink.
pub type Function =
    Arc<dyn Fn(bytes::Bytes, EventSink) -> BoxFuture<'static, Result<String, SkillError>> + Send + Sync>;

/// A worker's functions, by name.
#[derive(Clone)]
pub struct Functions {
    by_name: HashMap<String, Function>,
}

impl Default for Functions {
    /// Contains the diagnostic functions of every worker: `echo`, `wait`, `fail`, `ask` and `artifact`.
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
    /// Adds a function. Replaces a function with the same name.
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

/// A set of functions, which may need more from the worker than their arguments. `entry` names one of them.
pub(crate) trait FunctionSet: Send + Sync {
    /// Returns whether the set contains this function.
    fn has(&self, entry: &str) -> bool;

    /// Checks whether a function can run here.
    ///
    /// # Errors
    /// Returns the reason, for people, if it can't.
    fn admit(&self, entry: &str, manifest: &Manifest) -> Result<(), String>;

    /// Returns the skill as callers see it.
    fn describe(&self, manifest: Manifest) -> Manifest {
        manifest
    }

    /// Runs a function, and returns its output.
    fn run(&self, entry: &str, invocation: Invocation) -> BoxFuture<'static, Result<RawOutput, SkillError>>;

    /// Ends resources that were idle for too long.
    fn maintain(&self) {}

    /// Ends all resources that are kept between calls.
    fn close(&self) -> BoxFuture<'static, ()> {
        std::future::ready(()).boxed()
    }
}

impl FunctionSet for Functions {
    fn has(&self, entry: &str) -> bool {
        self.by_name.contains_key(entry)
    }

    fn admit(&self, _: &str, _: &Manifest) -> Result<(), String> {
        Ok(())
    }

    fn run(&self, entry: &str, invocation: Invocation) -> BoxFuture<'static, Result<RawOutput, SkillError>> {
        let Some(function) = self.by_name.get(entry) else { return std::future::ready(Err(unavailable())).boxed() };
        let (work, slot) = (function(invocation.input, invocation.events), invocation.slot);
        async move {
            let _slot = slot;
            work.await.map(RawOutput::Value)
        }
        .boxed()
    }
}

pub(crate) struct InProcess {
    sets: Vec<Arc<dyn FunctionSet>>,
}

impl InProcess {
    pub(crate) fn new(functions: Functions, mut sets: Vec<Arc<dyn FunctionSet>>) -> Self {
        sets.insert(0, Arc::new(functions));
        Self { sets }
    }

    /// Returns a skill's function, and the set that contains it.
    fn find<'m>(&self, manifest: &'m Manifest) -> Option<(&'m str, &Arc<dyn FunctionSet>)> {
        let RunnerSpec::Function(name) = &manifest.how else { return None };
        let set = self.sets.iter().find(|it| it.has(name))?;
        Some((name.as_str(), set))
    }
}

impl Runner for InProcess {
    fn admit(&self, manifest: &Manifest) -> Result<(), String> {
        let none = || "this worker has no in-process function with this name".to_owned();
        let (name, set) = self.find(manifest).ok_or_else(none)?;
        set.admit(name, manifest)
    }

    fn maintain(&self, _: &[Arc<Manifest>]) {
        self.sets.iter().for_each(|it| it.maintain());
    }

    fn close(&self) -> BoxFuture<'static, ()> {
        let sets: Vec<_> = self.sets.iter().map(|it| it.close()).collect();
        futures_util::future::join_all(sets).map(drop).boxed()
    }

    fn offer(&self, manifest: Manifest) -> Vec<Offer> {
        let runner = self.admit(&manifest);
        let set = self.find(&manifest).map(|(_, set)| set);
        let manifest = match set {
            Some(set) => set.describe(manifest),
            None => manifest,
        };
        vec![Offer { manifest, runner }]
    }

    fn run(self: Arc<Self>, invocation: Invocation) -> BoxFuture<'static, RawOutput> {
        let parent = TraceContext::parse(&invocation.traceparent);
        let manifest = Arc::clone(&invocation.manifest);
        let Some((name, set)) = self.find(&manifest) else {
            return std::future::ready(RawOutput::NotStarted(unavailable())).boxed();
        };
        let work = set.run(name, invocation);
        // Spans that the function creates are children of the run.
        let work = match parent {
            Some(parent) => embedded::within(parent, work).boxed(),
            None => work,
        };
        async move {
            // Use a separate task, so that a panic ends only this run.
            match AbortOnDropHandle::new(tokio::spawn(work)).await {
                Ok(Ok(output)) => output,
                // The function itself reported the error, so the worker is not to blame.
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

fn unavailable() -> SkillError {
    SkillError::new(ErrorCode::Unavailable, "the skill is not available on this worker")
}
