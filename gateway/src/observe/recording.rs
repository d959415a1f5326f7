//! Everything that is recorded about a call that has ended.

use std::sync::Arc;
use std::time::{Instant, SystemTime};

use openskill_identity::shares::{Pool, Share};
use openskill_proto::v1::{ExecuteResult, SkillError};

use super::call_event::{CallEvent, without_content};
use crate::arguments::secrets::Secrets;
use crate::call::principal::Principal;
use crate::call::request::Call;

/// The maximum number of events kept per call. Later events are only counted.
const MAX_EVENTS: usize = 256;

/// The estimated size of a recording without its content, in bytes.
const FIXED_BYTES: usize = 2048;

/// Per call: the maximum number of events that are messages from skills and users, and of their bytes.
const MAX_CONTENT_EVENTS: usize = 200;
const MAX_CONTENT_BYTES: usize = 256 * 1024;

/// The maximum number of bytes per message, and of items per list, that the recorder keeps.
const MAX_MESSAGE_BYTES: usize = 32 * 1024;
pub(super) const MAX_ITEMS: usize = 64;

/// The estimated size of an event without its content, in bytes.
const EVENT_BYTES: usize = 256;

/// A call that has ended, with its events.
#[derive(Debug)]
pub(crate) struct Recording {
    pub(crate) call: Arc<Call>,
    /// Whether the call names a skill that exists.
    pub(crate) has_skill: bool,
    /// The secret parameters of its skill, which must not be stored.
    pub(crate) secrets: Option<Arc<Secrets>>,
    /// In chronological order.
    pub(crate) events: Vec<(Instant, CallEvent)>,
    /// The number of events that exceeded the limit and were not kept.
    pub(crate) left_out: usize,
    /// The result of the worker or the gateway, before its conversion to the caller's format.
    pub(crate) result: ExecuteResult,
    pub(crate) attempts: u32,
    /// When the call arrived: `Call::received` by the wall clock.
    pub(crate) received: SystemTime,
    pub(crate) ended: Instant,
}

impl Recording {
    /// Estimates the size of the content, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let events: usize = self.events.iter().map(|(_, event)| event.bytes()).sum();
        FIXED_BYTES + self.call.input.text().len() + prost::Message::encoded_len(&self.result) + events
    }
}

/// Returns the part of a result that is recorded: messages are truncated, and artifacts lose their content.
pub(super) fn trim_result(result: &ExecuteResult) -> ExecuteResult {
    ExecuteResult {
        // Logs are recorded as separate events.
        logs: Vec::new(),
        // Either repeats the data, or is not recorded.
        content_json: Default::default(),
        error: result.error.as_ref().map(|error| SkillError {
            message: beginning(&error.message),
            more: error.more.clone(),
            ..*error
        }),
        text: beginning(&result.text),
        warnings: result.warnings.iter().take(MAX_ITEMS).map(|it| beginning(it)).collect(),
        artifacts: result.artifacts.iter().take(MAX_ITEMS).map(without_content).collect(),
        data_json: result.data_json.clone(),
        version: result.version.clone(),
        runner: result.runner.clone(),
        worker_id: result.worker_id.clone(),
        jail: result.jail.clone(),
        stderr: beginning(&result.stderr),
        ..*result
    }
}

/// Truncates a message, but keeps much more than is displayed: redaction comes later, and must see each displayed
/// secret in full. Ends with a complete word.
fn beginning(text: &str) -> String {
    if text.len() <= MAX_MESSAGE_BYTES {
        return text.to_owned();
    }
    let start = &text[..text.floor_char_boundary(MAX_MESSAGE_BYTES)];
    format!("{}…", start.rfind(char::is_whitespace).map_or(start, |end| &start[..end]))
}

/// The events of a running call, up to a limit.
#[derive(Debug, Default)]
pub(super) struct RecordedEvents {
    pub(super) events: Vec<(Instant, CallEvent)>,
    /// The number of dropped events.
    pub(super) left_out: usize,
    /// The number of messages from skills and users.
    content_events: usize,
    content_bytes: usize,
    /// This call's share of the pool that all running calls use. None before the first message.
    share: Option<Share>,
}

impl RecordedEvents {
    /// Appends an event of the gateway. Evaluates `event` only if there is room for it.
    pub(super) fn push(&mut self, event: impl FnOnce() -> CallEvent) {
        if self.events.len() < MAX_EVENTS {
            self.events.push((Instant::now(), event()));
        } else {
            self.left_out += 1;
        }
    }

    /// Appends a message of `bytes` bytes from a skill or a user. Evaluates `event` only if this call, and its
    /// principal's share of `pool`, have room for it. Messages have separate limits, so that they can't displace the
    /// events of attempts.
    pub(super) fn push_content(
        &mut self,
        bytes: usize,
        pool: &Pool,
        principal: &Principal,
        event: impl FnOnce() -> CallEvent,
    ) {
        let has_room = self.events.len() < MAX_EVENTS
            && self.content_events < MAX_CONTENT_EVENTS
            && self.content_bytes.saturating_add(bytes) <= MAX_CONTENT_BYTES
            && self
                .share
                .get_or_insert_with(|| pool.share(principal.shared_name()))
                .grow(bytes.saturating_add(EVENT_BYTES));
        if has_room {
            self.content_events += 1;
            self.content_bytes += bytes;
            self.push(event);
        } else {
            self.left_out += 1;
        }
    }

    /// The number of attempts so far.
    pub(super) fn attempts(&self) -> u32 {
        let numbers = self.events.iter().filter_map(|(_, event)| match event {
            CallEvent::AttemptBegan { number, .. } => Some(*number),
            _ => None,
        });
        numbers.max().unwrap_or(0)
    }
}

#[cfg(test)]
impl Recording {
    /// An `echo` call that returned its `arguments`.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_wait_in_part_and_end_with_a_whole_word() {
        let text = "word ".repeat(100_000);
        let (warnings, stderr) = (vec![text.clone(); 1000], text.clone());
        let kept = trim_result(&ExecuteResult { text, stderr, warnings, ..ExecuteResult::default() });
        assert!(kept.text.len() <= MAX_MESSAGE_BYTES + 3 && kept.text.ends_with("word…"), "{}", kept.text.len());
        assert_eq!(kept.stderr, kept.text);
        assert!(kept.warnings.len() == MAX_ITEMS && kept.warnings.iter().all(|it| *it == kept.text));
        assert_eq!(beginning("short"), "short");
        assert!(beginning(&"é".repeat(100_000)).ends_with("é…"));
    }
}
