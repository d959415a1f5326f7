//! The contract of a runner, which is one way to run skills. The manifest's `type:runtime` selects it.
//!
//! To add a runner, put its module into `runners/` and register it in `lib.rs`, function `runners`.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use openskill_proto::v1::SkillError;
use openskill_sandbox::protocol::Exit;
use openskill_telemetry::metrics::Snapshot;

use crate::events::EventSink;
use crate::manifest::Manifest;
use crate::schedule::Slot;
use crate::spans::RunTrace;

/// One way to run skills.
///
/// # What a runner may assume
/// [`Invocation::input`] is one JSON object in UTF-8, within the limits. [`Runner::admit`] has accepted the
/// manifest. The deadline is in the future when the run begins, and the caller enforces it.
///
/// # How a run ends
/// A run ends with a [`RawOutput`], which is not trusted: [`crate::normalize`] checks it. A failing skill is a
/// normal end. A runner never panics because of a skill's behavior. If it can't do something, it returns an error.
///
/// # Deadline and cancellation
/// Both drop the future. The runner must then end everything that it started within a second. The caller does not
/// wait for this. Slow cleanup moves to a task that holds [`Invocation::slot`], so that a run counts against the
/// worker's concurrency limit until all of it has ended. The future may be dropped before its first poll.
///
/// # Who owns what
/// The invocation and everything in it belongs to the run. Two runs, even of the same skill, share no state, file
/// or descriptor. State that is kept between runs (a pool, a connection) belongs to the runner and may be lost at
/// any time.
///
/// # Secrets and text
/// A skill sees only the variables that its manifest names and those that openskill sets. Its output is untrusted text.
///
/// # Questions and artifacts
/// A runner whose skills can read lines takes [`EventSink::answers`] at their first event and writes each answer to
/// them. Artifacts and questions need no other support: they are event lines.
pub trait Runner: Send + Sync {
    /// Checks whether this skill can run here. Called when a manifest is read or has changed, never during a call.
    ///
    /// # Errors
    /// Returns the reason, for people. The skill is listed as unavailable with this reason.
    fn admit(&self, manifest: &Manifest) -> Result<(), String>;

    /// Returns a manifest's skills: itself, or a server's tools. Called like [`Runner::admit`], and after each
    /// change that the runner announces.
    fn offer(&self, manifest: Manifest) -> Vec<Offer> {
        vec![Offer { runner: self.admit(&manifest), manifest }]
    }

    /// Receives the runner's current manifests several times a second, so that it can release idle state and other
    /// manifests' state. Called within a runtime that lives as long as the worker. May read files, but must not
    /// block.
    fn maintain(&self, _manifests: &[Arc<Manifest>]) {}

    /// Prepares for calls of this skill, as far as this is possible without arguments. Used by diagnostics only.
    fn warm_up(self: Arc<Self>, _manifest: Arc<Manifest>) -> BoxFuture<'static, ()> {
        std::future::ready(()).boxed()
    }

    /// Explains for people, in sentences, why this skill's calls take longer than necessary, as far as calls or a
    /// warm-up have shown.
    fn not_warm(&self, _manifest: &Manifest) -> Vec<String> {
        Vec::new()
    }

    /// Adds the metrics of the state that the runner keeps between runs. Called at each scrape, on a blocking
    /// thread.
    fn measure(&self, _metrics: &mut Snapshot) {}

    /// Releases the state that the runner keeps between runs. Called when the worker ends, after all runs.
    fn close(&self) -> BoxFuture<'static, ()> {
        std::future::ready(()).boxed()
    }

    /// Runs the skill once, for the call in `invocation`.
    fn run(self: Arc<Self>, invocation: Invocation) -> BoxFuture<'static, RawOutput>;
}

/// A skill that a manifest declares, and whether it can run here.
#[derive(Debug, Clone, PartialEq)]
pub struct Offer {
    /// The skill's manifest.
    pub manifest: Manifest,
    /// The reason why the skill can't run here, if it can't.
    pub runner: Result<(), String>,
}

/// A call of a skill, as a runner receives it.
#[derive(Debug)]
pub struct Invocation {
    /// The skill's manifest.
    pub manifest: Arc<Manifest>,
    /// The arguments, one JSON object.
    pub input: Bytes,
    /// The id that the caller gave the call.
    pub call_id: String,
    /// The conversation's id. May be empty.
    pub session_id: String,
    /// The principal on whose behalf the call runs. Empty for an anonymous caller.
    pub principal: String,
    /// The value of the `X-Trace-Id` header.
    pub trace_id: String,
    /// Whether the arguments may contain secrets. If so, the run's output is not logged.
    pub has_secrets: bool,
    /// The W3C trace context to pass to the skill.
    pub traceparent: String,
    /// The W3C vendor state to pass to the skill. May be empty.
    pub tracestate: String,
    /// Creates the run's spans.
    pub trace: RunTrace,
    /// The time at which the run is dropped. Waiting for answers to questions counts.
    pub deadline: Instant,
    /// Receives events, artifacts and questions.
    pub events: EventSink,
    /// The right to run. Held until all of the run's processes and tasks have ended.
    pub slot: Slot,
}

/// The unchecked output of a run.
#[derive(Debug)]
pub enum RawOutput {
    /// A process ran and ended.
    Process {
        /// Everything that it wrote to stdout.
        stdout: Vec<u8>,
        /// The end of its stderr.
        stderr: Vec<u8>,
        /// The exit code or the signal with which it ended.
        exit: Exit,
        /// The number of processes that it left running, which were killed.
        leftovers: u32,
        /// Whether it serves many calls and one of them had secrets, so that its stderr is not logged.
        had_secrets: bool,
    },
    /// A value that the skill returned, as JSON text.
    Value(String),
    /// A server's answer as JSON text: a normalized result or plain data, like a script's output.
    Answer {
        /// The answer as JSON text.
        json: String,
        /// The error, unless the answer itself contains the reason. `None` if the call succeeded.
        otherwise: Option<SkillError>,
        /// Whether the server's status means that it did not act on the request.
        refused: bool,
    },
    /// A value that the skill returned, with a text for a model.
    Report {
        /// The value as JSON text.
        data: String,
        /// The text for a model. May be empty.
        text: String,
        /// Whether the value is only a part of the complete result.
        truncated: bool,
    },
    /// The skill, or the runner on its behalf, reported an error. The skill may have had an effect.
    Failed(SkillError),
    /// The skill certainly did not start, so the caller may safely retry.
    NotStarted(SkillError),
}

impl RawOutput {
    /// Creates the output of a process that served only this run.
    pub(crate) fn from_process(stdout: Vec<u8>, stderr: Vec<u8>, exit: Exit, leftovers: u32) -> Self {
        Self::Process { stdout, stderr, exit, leftovers, had_secrets: false }
    }

    /// Returns the total size of its text, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Process { stdout, .. } => stdout.len(),
            Self::Value(text) | Self::Answer { json: text, .. } | Self::Report { data: text, .. } => text.len(),
            Self::Failed(_) | Self::NotStarted(_) => 0,
        }
    }
}
