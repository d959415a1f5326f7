//! Everything that is known of a call that has ended.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Instant, SystemTime};

use openskill_proto::v1::ExecuteResult;

use super::call_event::CallEvent;
use crate::arguments::secrets::Secrets;
use crate::call::request::Call;

/// How many events of a call are kept. Those after them are counted.
const MAX_EVENTS: usize = 256;

/// What a recording takes beside its content.
const FIXED_BYTES: usize = 2048;

/// How many of them may be what skills and users say, and how many bytes of that are kept of a call.
const MAX_CONTENT_EVENTS: usize = 200;
const MAX_CONTENT_BYTES: usize = 256 * 1024;

/// A call that has ended, from its arrival to its end.
#[derive(Debug)]
pub(crate) struct Recording {
    pub(crate) call: Arc<Call>,
    /// The call names a skill that exists.
    pub(crate) has_skill: bool,
    /// The parameters of its skill that nobody may keep.
    pub(crate) secrets: Option<Arc<Secrets>>,
    /// In the order in which they happened.
    pub(crate) events: Vec<(Instant, CallEvent)>,
    /// Events that were too many to keep.
    pub(crate) left_out: usize,
    /// The result as the worker or the gateway made it, before it was put into the form that the caller wants.
    pub(crate) result: ExecuteResult,
    pub(crate) attempts: u32,
    /// When the call arrived: `Call::received` by the wall clock.
    pub(crate) received: SystemTime,
    pub(crate) ended: Instant,
}

impl Recording {
    /// The content that it holds, roughly, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let events: usize = self.events.iter().map(|(_, event)| event.bytes()).sum();
        FIXED_BYTES + self.call.input.text().len() + prost::Message::encoded_len(&self.result) + events
    }
}

/// The events of a call that runs, bounded.
#[derive(Debug, Default)]
pub(super) struct Timeline(Mutex<Kept>);

/// What is kept, and how much more there was.
#[derive(Debug, Default)]
pub(super) struct Kept {
    pub(super) events: Vec<(Instant, CallEvent)>,
    pub(super) left_out: usize,
    /// Of what skills and users say.
    content_events: usize,
    content_bytes: usize,
}

impl Timeline {
    pub(super) fn note(&self, event: impl FnOnce() -> CallEvent) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let event = event();
        // What skills and users say is bounded apart, so that it can't push out how the attempts went.
        let is_content = matches!(event, CallEvent::Relayed(_) | CallEvent::Asked(_) | CallEvent::Answered(_));
        let is_full = kept.content_events >= MAX_CONTENT_EVENTS || kept.content_bytes >= MAX_CONTENT_BYTES;
        if kept.events.len() >= MAX_EVENTS || (is_content && is_full) {
            kept.left_out += 1;
            return;
        }
        if is_content {
            kept.content_events += 1;
            kept.content_bytes += event.bytes();
        }
        kept.events.push((Instant::now(), event));
    }

    /// How many attempts have begun.
    pub(super) fn attempts(&self) -> u32 {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let numbers = kept.events.iter().filter_map(|(_, event)| match event {
            CallEvent::AttemptBegan { number, .. } => Some(*number),
            _ => None,
        });
        numbers.max().unwrap_or(0)
    }

    /// Takes what is kept.
    pub(super) fn take(&self) -> Kept {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
impl Recording {
    /// A call of `echo` with these arguments, which returned them.
    pub(crate) fn sample(arguments: &str) -> Self {
        use openskill_proto::v1::InvokeRequest;
        use openskill_proto::v1::invoke_request::Arguments;

        let request = InvokeRequest {
            skill_id: "echo".to_owned(),
            arguments: Some(Arguments::InputJson(arguments.to_owned())),
            ..InvokeRequest::default()
        };
        let call = Arc::new(Call::new(request, crate::call::request::RequestContext::unknown()));
        let data_json = bytes::Bytes::copy_from_slice(call.input.text().as_bytes());
        let ended = call.received + std::time::Duration::from_millis(5);
        let result = ExecuteResult { success: true, data_json, ..ExecuteResult::default() };
        let (events, left_out, received) = (Vec::new(), 0, SystemTime::now());
        Self { call, has_skill: true, secrets: None, events, left_out, result, attempts: 1, received, ended }
    }
}
