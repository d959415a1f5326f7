//! A runner: one way to run skills. The manifest's `type:runtime` says which.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use openskill_proto::v1::SkillError;

use crate::admission::Slot;
use crate::events::EventSink;
use crate::manifest::Manifest;
use crate::process::Exit;

/// One way to run skills.
///
/// # What a runner may assume
/// [`Invocation::input`] is one JSON object in UTF-8, within the limits. The manifest is one that [`Runner::admit`]
/// took. Its deadline is in the future when the run begins, and is watched by the caller.
///
/// # How a run ends
/// With a [`RawOutput`], which is not yet trusted: [`crate::normalize`] judges it. A skill that fails is an ordinary
/// end. A runner never panics on what a skill does, and answers with an error for whatever it can't do.
///
/// # Deadline and cancellation
/// Both are one thing: the future is dropped. A runner then ends whatever it started, wholly, within a second, without
/// anyone waiting for it. What takes time goes to a task that holds [`Invocation::slot`], so that a run counts against
/// the worker's limit until nothing of it is left. A runner may be dropped before its first poll.
///
/// # Who owns what
/// The invocation and everything in it belongs to the run. A run shares nothing with another, also of the same skill:
/// no state, no file, no descriptor. Whatever a runner keeps between runs (a pool, a connection) belongs to the runner
/// and is safe to lose at any time.
///
/// # Secrets and text
/// A skill sees the environment its manifest names, no more. What it says is hostile text.
pub trait Runner: Send + Sync {
    /// Whether this skill can run here. Called when a manifest is read, also again when it changes; never on a call.
    ///
    /// # Errors
    /// Why not, for people: the skill is listed as unavailable with this reason.
    fn admit(&self, manifest: &Manifest) -> Result<(), String>;

    /// The skills a manifest stands for: itself, unless the runner knows better (the tools of a server). Called like
    /// [`Runner::admit`], and again after each change the runner announced.
    fn offer(&self, manifest: Manifest) -> Vec<Offer> {
        vec![Offer { runner: self.admit(&manifest), manifest }]
    }

    /// Told, a few times a second, which manifests of its own there are: whatever it keeps for others can go, and what is
    /// idle too. Called within a runtime that lives as long as the worker; may read files, must not wait.
    fn tend(&self, manifests: &[Arc<Manifest>]) {
        let _ = manifests;
    }

    /// Whether whatever it starts by itself was tried at least once, so that [`Runner::offer`] has its last word for now.
    fn settled(&self) -> bool {
        true
    }

    /// Lets go of whatever it keeps between runs, when the worker ends and no run is left.
    fn close(&self) -> BoxFuture<'static, ()> {
        std::future::ready(()).boxed()
    }

    /// Runs the skill once.
    fn run(self: Arc<Self>, invocation: Invocation) -> BoxFuture<'static, RawOutput>;
}

/// A skill that a manifest stands for.
#[derive(Debug, Clone, PartialEq)]
pub struct Offer {
    /// The skill.
    pub manifest: Manifest,
    /// Whether it can run here, or why not.
    pub runner: Result<(), String>,
}

/// One run.
#[derive(Debug)]
pub struct Invocation {
    /// The skill.
    pub manifest: Arc<Manifest>,
    /// The arguments: one JSON object.
    pub input: Bytes,
    /// The caller's id of the call.
    pub call_id: String,
    /// The conversation; may be empty.
    pub session_id: String,
    /// The `X-Trace-Id`.
    pub trace_id: String,
    /// The W3C trace context to hand to the skill.
    pub traceparent: String,
    /// The W3C vendor state to hand to the skill; may be empty.
    pub tracestate: String,
    /// When the run is dropped.
    pub deadline: Instant,
    /// Where events go.
    pub events: EventSink,
    /// The run's place among those the worker runs at once.
    pub slot: Slot,
}

/// What a run gave, as it came.
#[derive(Debug)]
pub enum RawOutput {
    /// A process ran.
    Process {
        /// All it printed.
        stdout: Vec<u8>,
        /// The end of what it wrote to stderr.
        stderr: Vec<u8>,
        /// How it ended.
        exit: Exit,
        /// How many processes it had left running, killed by now.
        leftovers: u32,
    },
    /// The skill gave a value: JSON text.
    Value(String),
    /// A server answered: JSON text, which is a normalized result or bare data, as a script prints.
    Answer {
        /// The answer.
        json: String,
        /// What the end is if the answer does not itself say why it failed; none if it is a success.
        otherwise: Option<SkillError>,
    },
    /// The skill gave a value, JSON text, and said it in words too.
    Report {
        /// The value.
        data: String,
        /// The same for a model; may be empty.
        text: String,
    },
    /// The skill, or the runner on its behalf, gave an error.
    Failed(SkillError),
}
