//! The contract of a runner: one way to run skills. The manifest's `type:runtime` chooses it.
//!
//! To add a runner, put its module into `runners/` and register it in `lib.rs`, function `runners`.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use openskill_metrics::Snapshot;
use openskill_proto::v1::{ConsultRequest, ErrorCode, Offering, ResourceUpdate, SkillError};

use crate::events::EventSink;
use crate::manifest::Manifest;
use crate::process::protocol::Exit;
use crate::schedule::Slot;
use crate::spans::RunTrace;

/// One way to run skills.
///
/// # What a runner may assume
/// [`Invocation::input`] is one JSON object in UTF-8, within the limits. [`Runner::admit`] accepted the manifest. The
/// deadline is in the future when the run begins; the caller enforces it.
///
/// # How a run ends
/// With a [`RawOutput`], which is not trusted: [`crate::normalize`] checks it. A skill that fails is an ordinary end. A
/// runner never panics on what a skill does; what it cannot do is an error.
///
/// # Deadline and cancellation
/// Both drop the future. The runner then ends everything it started within a second; nobody waits for it. Work that takes
/// time goes to a task that holds [`Invocation::slot`], so that a run counts against the worker's concurrency limit until
/// nothing of it is left. The future may be dropped before its first poll.
///
/// # Who owns what
/// The invocation and everything in it belongs to the run. Two runs share nothing, even of the same skill: no state, no
/// file, no descriptor. What a runner keeps between runs (a pool, a connection) belongs to the runner and may be lost at
/// any time.
///
/// # Secrets and text
/// A skill sees the variables its manifest names and those openskill sets. Its output is untrusted text.
///
/// # Questions and artifacts
/// A runner whose skills can read a line takes [`EventSink::answers`] at their first event and writes each answer to them.
/// Artifacts and questions need nothing else: they are event lines.
pub trait Runner: Send + Sync {
    /// Whether this skill can run here. Called when a manifest is read or changes, never during a call.
    ///
    /// # Errors
    /// The reason, for people: the skill is listed as unavailable with it.
    fn admit(&self, manifest: &Manifest) -> Result<(), String>;

    /// The skills that a manifest declares: one, or the tools of a server. Called like [`Runner::admit`], and after each
    /// change that the runner announces.
    fn offer(&self, manifest: Manifest) -> Vec<Offer> {
        vec![Offer { runner: self.admit(&manifest), manifest }]
    }

    /// Receives the runner's current manifests a few times a second, so that it can release what it keeps for others and
    /// what is idle. Called within a runtime that lives as long as the worker; may read files, must not block.
    fn tend(&self, manifests: &[Arc<Manifest>]) {
        let _ = manifests;
    }

    /// Gets ready for a call of this skill, as far as that takes no arguments. For who wants to know how it goes, not for a call.
    fn warm_up(self: Arc<Self>, manifest: Arc<Manifest>) -> BoxFuture<'static, ()> {
        drop(manifest);
        std::future::ready(()).boxed()
    }

    /// Why calls of this skill take longer than they could, as far as its calls or a warm-up have shown: sentences for people.
    fn not_warm(&self, manifest: &Manifest) -> Vec<String> {
        let _ = manifest;
        Vec::new()
    }

    /// Whether everything the runner starts by itself was tried at least once, so that [`Runner::offer`] is complete.
    fn settled(&self) -> bool {
        true
    }

    /// The last lines that the server of this manifest wrote to stderr: for whoever runs `openskill check` or
    /// `openskill doctor`, and for nobody else. They may hold secrets.
    fn last_lines(&self, id: &str) -> Vec<String> {
        let _ = id;
        Vec::new()
    }

    /// Adds the metrics of what the runner keeps between runs. Called at each scrape, on a blocking thread.
    fn measure(&self, metrics: &mut Snapshot) {
        let _ = metrics;
    }

    /// Releases what the runner keeps between runs. Called when the worker ends and no run is left.
    fn close(&self) -> BoxFuture<'static, ()> {
        std::future::ready(()).boxed()
    }

    /// What the server of this manifest offers MCP clients beside tools, and which of its resources have changed.
    fn shelf(&self, id: &str) -> (Vec<Offering>, Vec<ResourceUpdate>) {
        let _ = id;
        Default::default()
    }

    /// Asks the server of a manifest for the content of something that it offers: a JSON object as MCP writes it. Dropping the
    /// future withdraws the question.
    fn consult(self: Arc<Self>, request: ConsultRequest) -> BoxFuture<'static, Result<String, SkillError>> {
        drop(request);
        std::future::ready(Err(SkillError::new(ErrorCode::NotFound, "it offers nothing of its own"))).boxed()
    }

    /// Runs the skill once.
    fn run(self: Arc<Self>, invocation: Invocation) -> BoxFuture<'static, RawOutput>;
}

/// A skill that a manifest declares.
#[derive(Debug, Clone, PartialEq)]
pub struct Offer {
    /// The skill.
    pub manifest: Manifest,
    /// Whether it can run here, or the reason why not.
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
    /// On whose behalf the call runs; empty for an anonymous caller.
    pub principal: String,
    /// The `X-Trace-Id`.
    pub trace_id: String,
    /// Whether the arguments may hold secrets. Nothing that the run says is logged then.
    pub has_secrets: bool,
    /// The W3C trace context to hand to the skill.
    pub traceparent: String,
    /// The W3C vendor state to hand to the skill; may be empty.
    pub tracestate: String,
    /// Its spans.
    pub trace: RunTrace,
    /// When the run is dropped. Waiting for an answer to a question counts.
    pub deadline: Instant,
    /// Where events, artifacts and questions go.
    pub events: EventSink,
    /// The right to run now, held until nothing of the run is left.
    pub slot: Slot,
}

/// The unchecked output of a run.
#[derive(Debug)]
pub enum RawOutput {
    /// A process ran.
    Process {
        /// Everything it printed.
        stdout: Vec<u8>,
        /// The end of what it wrote to stderr.
        stderr: Vec<u8>,
        /// How it ended.
        exit: Exit,
        /// How many processes it had left running. They have been killed.
        leftovers: u32,
    },
    /// The skill returned a value: JSON text.
    Value(String),
    /// A server answered: JSON text, which is a normalized result or bare data, like the output of a script.
    Answer {
        /// The answer.
        json: String,
        /// The error, unless the answer itself gives the reason; none if the call succeeded.
        otherwise: Option<SkillError>,
        /// Whether the server says with its status that it did not act on the request.
        refused: bool,
    },
    /// The skill returned a value, and a text for a model.
    Report {
        /// The value: JSON text.
        data: String,
        /// The text; may be empty.
        text: String,
        /// Whether the value is only a part of all there is.
        truncated: bool,
    },
    /// The skill, or the runner on its behalf, reported an error. The skill may have had an effect.
    Failed(SkillError),
    /// The runner reports that the skill certainly did not start. The caller may safely call again.
    NotStarted(SkillError),
}

impl RawOutput {
    /// How much text there is to read, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Process { stdout, .. } => stdout.len(),
            Self::Value(text) | Self::Answer { json: text, .. } | Self::Report { data: text, .. } => text.len(),
            Self::Failed(_) | Self::NotStarted(_) => 0,
        }
    }
}
