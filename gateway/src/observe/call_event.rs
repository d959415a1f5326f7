//! What happens to a call between its arrival and its end: one vocabulary for spans and for the recorder.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use openskill_proto::v1::execute_event::Event;
use openskill_proto::v1::{Artifact, Blame, ErrorCode, InputRequired, InputResponse, Repair};

/// Something that happened to a call. Texts are as callers, skills and workers wrote them: whoever shows them redacts them.
#[derive(Debug, Clone)]
pub(crate) enum CallEvent {
    /// The arguments fit, perhaps after repairs.
    Prepared {
        /// A JSON object: what the worker gets.
        arguments: Bytes,
        repairs: Vec<Repair>,
        warnings: Vec<String>,
    },
    /// The arguments do not fit. The error is in the end of the call.
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
    /// The skill asked its user something.
    Asked(InputRequired),
    /// The skill got an answer.
    Answered(InputResponse),
    /// Progress, a log line, part of the data, or an artifact, which comes without its content.
    Relayed(Box<Event>),
    /// Answered with the result of an earlier call with the same idempotency key.
    Replayed,
}

/// How an attempt ended.
#[derive(Debug, Clone, Default)]
pub(crate) struct AttemptSummary {
    pub(crate) number: u32,
    /// Empty if the worker never said who it is.
    pub(crate) worker_id: String,
    /// Empty if no runner was reached.
    pub(crate) runner: String,
    /// The gRPC status of the request, such as `OK`.
    pub(crate) status: &'static str,
    /// None means success.
    pub(crate) failure: Option<(ErrorCode, Blame)>,
    /// Why there is no answer of the worker; empty if there is one.
    pub(crate) reason: String,
    /// Whether the skill may have had an effect.
    pub(crate) may_have_run: bool,
    /// How long the call waited at the worker.
    pub(crate) queued: Duration,
}

impl CallEvent {
    /// The content that it holds, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Prepared { arguments, .. } => arguments.len(),
            Self::Asked(question) => prost::Message::encoded_len(question),
            Self::Answered(answer) => prost::Message::encoded_len(answer),
            Self::Relayed(event) => relayed_bytes(event),
            _ => 0,
        }
    }

    /// An event of the worker, as it is kept: without the content of an artifact.
    pub(crate) fn relayed(event: &Event) -> Self {
        let kept = match event {
            Event::Artifact(artifact) => Event::Artifact(without_content(artifact)),
            event => event.clone(),
        };
        Self::Relayed(Box::new(kept))
    }
}

/// What is kept of an event of the worker, in bytes.
pub(super) fn relayed_bytes(event: &Event) -> usize {
    match event {
        Event::Artifact(it) => it.id.len() + it.name.len() + it.media_type.len(),
        event => event.encoded_len(),
    }
}

/// An artifact as it is kept. Nobody records what is in it.
pub(super) fn without_content(artifact: &Artifact) -> Artifact {
    Artifact {
        id: artifact.id.clone(),
        name: artifact.name.clone(),
        media_type: artifact.media_type.clone(),
        size_bytes: artifact.size_bytes,
        content: None,
    }
}
