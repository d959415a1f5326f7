//! The events of a call between its arrival and its end, for spans and for the recorder.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use openskill_proto::v1::execute_event::Event;
use openskill_proto::v1::{Artifact, Blame, ErrorCode, InputRequired, InputResponse, Repair};

/// An event during a call. Texts are exactly as callers, skills and workers sent them, and are redacted before they
/// are stored.
#[derive(Debug, Clone)]
pub(crate) enum CallEvent {
    /// The arguments are valid, possibly after repairs.
    Prepared {
        /// The arguments for the worker, as a JSON object.
        arguments: Bytes,
        repairs: Vec<Repair>,
        /// The first of the absent parameters that were filled with their defaults, as JSON Pointers.
        defaults: Vec<String>,
        warnings: Vec<String>,
    },
    /// The arguments are invalid. The call's result has the error.
    Rejected,
    /// A circuit refused the call, or changed because of it.
    Circuit {
        /// `session` or `skill`.
        scope: &'static str,
        /// `refused`, or the circuit's new state: `open`, `half_open`, `closed`.
        state: &'static str,
    },
    /// An attempt began. Attempts count from 1.
    AttemptBegan {
        number: u32,
        /// The worker's endpoint.
        worker: Arc<str>,
        /// Whether the worker sends events.
        streams: bool,
    },
    /// An attempt ended.
    AttemptEnded(AttemptSummary),
    /// The call runs again, on another worker or after a pause.
    Retried {
        /// The attempt that ended.
        number: u32,
        elsewhere: bool,
    },
    /// The skill asked its user a question.
    Asked(InputRequired),
    /// The skill received an answer.
    Answered(InputResponse),
    /// Progress, a log line, partial data, or an artifact without its content.
    Relayed(Box<Event>),
    /// The call got the result of an earlier call with the same idempotency key.
    Replayed,
}

/// What is recorded about an attempt that ended.
#[derive(Debug, Clone, Default)]
pub(crate) struct AttemptSummary {
    pub(crate) number: u32,
    /// Empty if the worker did not report its id.
    pub(crate) worker_id: String,
    /// Empty if no runner was reached.
    pub(crate) runner: String,
    /// The gRPC status of the request, such as `OK`.
    pub(crate) status: &'static str,
    /// None for a success.
    pub(crate) failure: Option<(ErrorCode, Blame)>,
    /// Why the worker did not respond. Empty if it did.
    pub(crate) reason: String,
    /// Whether the skill may have had an effect.
    pub(crate) may_have_run: bool,
    /// How long the call was queued at the worker.
    pub(crate) queued: Duration,
}

impl CallEvent {
    /// The size of the content, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Prepared { arguments, defaults, .. } => {
                arguments.len() + defaults.iter().map(String::len).sum::<usize>()
            }
            Self::Asked(question) => prost::Message::encoded_len(question),
            Self::Answered(answer) => prost::Message::encoded_len(answer),
            Self::Relayed(event) => relayed_bytes(event),
            _ => 0,
        }
    }

    /// Converts an event from the worker. Drops the content of an artifact.
    pub(crate) fn from_relayed(event: &Event) -> Self {
        let kept = match event {
            Event::Artifact(artifact) => Event::Artifact(without_content(artifact)),
            event => event.clone(),
        };
        Self::Relayed(Box::new(kept))
    }
}

/// The size of a worker's event as recorded, in bytes.
pub(super) fn relayed_bytes(event: &Event) -> usize {
    match event {
        Event::Artifact(it) => it.id.len() + it.name.len() + it.media_type.len(),
        event => event.encoded_len(),
    }
}

/// Returns an artifact without its content, which is never recorded.
pub(super) fn without_content(artifact: &Artifact) -> Artifact {
    Artifact { content: None, ..artifact.clone() }
}
