//! Everything that is known of a call that has ended.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime};

use openskill_identity::shares::{Pool, Share};
use openskill_proto::v1::{ExecuteResult, SkillError};

use super::call_event::{CallEvent, without_content};
use crate::arguments::secrets::Secrets;
use crate::call::principal::Principal;
use crate::call::request::Call;

/// How many events of a call are kept. Those after them are counted.
const MAX_EVENTS: usize = 256;

/// How many most calls have: their attempt begins and ends.
const FIRST_EVENTS: usize = 2;

/// What a recording takes beside its content.
const FIXED_BYTES: usize = 2048;

/// How many of them may be what skills and users say, and how many bytes of that are kept of a call.
const MAX_CONTENT_EVENTS: usize = 200;
const MAX_CONTENT_BYTES: usize = 256 * 1024;

/// How many bytes of a message wait for the recorder, and how many items of a list.
const MAX_MESSAGE_BYTES: usize = 32 * 1024;
pub(super) const MAX_ITEMS: usize = 64;

/// What an event takes beside its content.
const EVENT_BYTES: usize = 256;

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

/// A result as it is kept: no artifact's content is recorded, and messages only as far as they may be shown.
pub(super) fn kept(result: &ExecuteResult) -> ExecuteResult {
    let error = result.error.as_ref().map(|error| SkillError {
        code: error.code,
        message: beginning(&error.message),
        blame: error.blame,
        retryable: error.retryable,
        retry_after_ms: error.retry_after_ms,
        more: error.more.clone(),
        grade: error.grade,
        may_have_run: error.may_have_run,
    });
    ExecuteResult {
        // They are events of their own.
        logs: Vec::new(),
        // It says what the data says, or more than is recorded.
        content_json: Default::default(),
        success: result.success,
        data_json: result.data_json.clone(),
        error,
        text: beginning(&result.text),
        version: result.version.clone(),
        runner: result.runner.clone(),
        worker_id: result.worker_id.clone(),
        truncated: result.truncated,
        warnings: result.warnings.iter().take(MAX_ITEMS).map(|it| beginning(it)).collect(),
        queued_us: result.queued_us,
        worker_queued_us: result.worker_queued_us,
        artifacts: result.artifacts.iter().take(MAX_ITEMS).map(without_content).collect(),
        jail: result.jail.clone(),
        not_started: result.not_started,
    }
}

/// Much more of a message than is shown, since redaction comes later: no secret that is shown may be cut before. It ends with
/// a whole word.
fn beginning(text: &str) -> String {
    if text.len() <= MAX_MESSAGE_BYTES {
        return text.to_owned();
    }
    let start = &text[..text.floor_char_boundary(MAX_MESSAGE_BYTES)];
    format!("{}…", start.rfind(char::is_whitespace).map_or(start, |end| &start[..end]))
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
    /// What this call holds of the pool that all running calls share. None while nobody said anything.
    share: Option<Share>,
}

impl Timeline {
    /// Notes what the gateway did. `event` is evaluated only if there is room for it.
    pub(super) fn note(&self, event: impl FnOnce() -> CallEvent) {
        self.lock().push(event);
    }

    /// Notes what a skill or a user said, in `bytes` bytes. `event` is evaluated only if there is room for it, in this call
    /// and in what `pool` has for its principal.
    pub(super) fn note_content(&self, bytes: usize, pool: (&Pool, &Principal), event: impl FnOnce() -> CallEvent) {
        let mut kept = self.lock();
        if kept.has_room(bytes, pool) {
            kept.content_events += 1;
            kept.content_bytes += bytes;
            kept.push(event);
        } else {
            kept.left_out += 1;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many attempts have begun.
    pub(super) fn attempts(&self) -> u32 {
        let kept = self.lock();
        let numbers = kept.events.iter().filter_map(|(_, event)| match event {
            CallEvent::AttemptBegan { number, .. } => Some(*number),
            _ => None,
        });
        numbers.max().unwrap_or(0)
    }

    /// Takes what is kept.
    pub(super) fn take(&self) -> Kept {
        std::mem::take(&mut self.lock())
    }
}

impl Kept {
    fn push(&mut self, event: impl FnOnce() -> CallEvent) {
        if self.events.capacity() == 0 {
            self.events.reserve_exact(FIRST_EVENTS);
        }
        if self.events.len() < MAX_EVENTS {
            self.events.push((Instant::now(), event()));
        } else {
            self.left_out += 1;
        }
    }

    /// Whether so many bytes more may be said. They are taken from the pool then. What skills and users say is bounded
    /// apart, so that it can't push out how the attempts went.
    fn has_room(&mut self, bytes: usize, (pool, principal): (&Pool, &Principal)) -> bool {
        self.events.len() < MAX_EVENTS
            && self.content_events < MAX_CONTENT_EVENTS
            && self.content_bytes.saturating_add(bytes) <= MAX_CONTENT_BYTES
            && self
                .share
                .get_or_insert_with(|| pool.share(principal.shared_name()))
                .grow(bytes.saturating_add(EVENT_BYTES))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_wait_in_part_and_end_with_a_whole_word() {
        let text = "word ".repeat(100_000);
        let result =
            ExecuteResult { text: text.clone(), warnings: vec![text.clone(); 1000], ..ExecuteResult::default() };
        let kept = kept(&result);
        assert!(kept.text.len() <= MAX_MESSAGE_BYTES + 3 && kept.text.ends_with("word…"), "{}", kept.text.len());
        assert!(kept.warnings.len() == MAX_ITEMS && kept.warnings.iter().all(|it| *it == kept.text));
        assert_eq!(beginning("short"), "short");
        assert!(beginning(&"é".repeat(100_000)).ends_with("é…"));
    }
}
