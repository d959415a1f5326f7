//! Tracks each request: whether it was sent, whether it was answered, and the server's messages about it.
//!
//! A tap is attached to its request as an extension that is not sent. The transport, which sees all messages in
//! order, updates it, and the call reads it. So a call knows whether an unanswered request may have run.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};

use openskill_proto::v1::execute_event::Event;
use openskill_proto::v1::{InputKind, Log, Progress};
use parking_lot::Mutex;
use rmcp::model::{
    ClientJsonRpcMessage, GetExtensions as _, GetMeta as _, JsonRpcMessage, NumberOrString, ProgressNotificationParam,
    ProgressToken, RequestId,
};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::texts::clean;
use crate::events::EventSink;
use crate::questions::capability;
use crate::questions::{Ask, QuestionAnswer};
use crate::runners::http::secrets::Secrets;

/// The maximum length of an event's text, in bytes.
const MAX_EVENT_TEXT: usize = 4096;

/// The maximum number of events that are buffered per call.
const EVENT_BUFFER: usize = 256;

/// A request is queued until writing begins. From then on it counts as sent, even if only a part arrived.
const QUEUED: u8 = 0;
const SENT: u8 = 1;
const WITHDRAWN: u8 = 2;

/// Tracks one request. Clones share the state.
#[derive(Debug, Clone)]
pub(super) struct Tap {
    /// Cancelled when the request is withdrawn.
    pub(super) withdrawn: CancellationToken,
    /// Cancelled when the server has answered.
    pub(super) answered: CancellationToken,
    state: Arc<TapState>,
}

/// The shared state of a tap.
#[derive(Debug)]
struct TapState {
    progress: AtomicU8,
    /// The capability that the server required and the caller lacks.
    missing: OnceLock<&'static str>,
    events: mpsc::Sender<Event>,
    sink: EventSink,
    headers: Vec<(&'static str, String)>,
    secrets: Arc<Secrets>,
}

impl Tap {
    /// Creates a tap, and a receiver of the events that the server sends for its request. Masks `secrets` in them.
    /// Adds `headers` to the request if it is sent over HTTP.
    pub(super) fn new(
        sink: &EventSink,
        headers: Vec<(&'static str, String)>,
        secrets: Arc<Secrets>,
    ) -> (Self, mpsc::Receiver<Event>) {
        let (events, receiver) = mpsc::channel(EVENT_BUFFER);
        let state = Arc::new(TapState {
            progress: AtomicU8::new(QUEUED),
            missing: OnceLock::new(),
            events,
            sink: sink.clone(),
            headers,
            secrets,
        });
        (Self { withdrawn: CancellationToken::new(), answered: CancellationToken::new(), state }, receiver)
    }

    /// Returns the tap that is attached to a message, if any.
    pub(super) fn from_message(message: &ClientJsonRpcMessage) -> Option<&Self> {
        match message {
            JsonRpcMessage::Request(request) => request.request.extensions().get::<Self>(),
            _ => None,
        }
    }

    /// Marks the request as sent. Returns false if it was withdrawn and must not be written.
    pub(super) fn send(&self) -> bool {
        self.state.progress.compare_exchange(QUEUED, SENT, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Withdraws the request. Returns false if a part of it was or may be written.
    pub(super) fn withdraw(&self) -> bool {
        let possible =
            self.state.progress.compare_exchange(QUEUED, WITHDRAWN, Ordering::AcqRel, Ordering::Acquire).is_ok();
        if possible {
            self.withdrawn.cancel();
        }
        possible
    }

    /// Returns whether the server may have received the request.
    pub(super) fn is_sent(&self) -> bool {
        self.is(SENT)
    }

    fn is(&self, state: u8) -> bool {
        self.state.progress.load(Ordering::Acquire) == state
    }

    /// Marks a sent request as queued again, because not a single byte could be written.
    pub(super) fn mark_unsent(&self) {
        self.state.progress.store(QUEUED, Ordering::Release);
    }

    /// Returns whether the server asked for input that the caller can't give.
    pub(super) fn lacks_input(&self) -> bool {
        self.missing_capability().is_some()
    }

    /// Returns the capability that this input requires and the caller's MCP client lacks.
    pub(super) fn missing_capability(&self) -> Option<&'static str> {
        self.state.missing.get().copied()
    }

    fn note_missing(&self, kind: InputKind) {
        // Only the first capability is stored.
        let _ = self.state.missing.set(capability(kind));
    }

    /// Masks secrets in a server's question.
    fn sanitize(&self, ask: Ask) -> Ask {
        let params = ask.params.map(|it| {
            let scrubbed = self.state.secrets.scrub_text(it.to_string());
            serde_json::from_str(&scrubbed).unwrap_or_default()
        });
        Ask { message: self.text(ask.message), params, ..ask }
    }

    pub(super) fn headers(&self) -> &[(&'static str, String)] {
        &self.state.headers
    }

    /// Sanitizes a server's text for the caller.
    fn text(&self, text: String) -> String {
        // Mask before truncating, because a truncated secret is not recognized.
        clean(&self.state.secrets.scrub_text(text), MAX_EVENT_TEXT)
    }

    fn event(&self, event: Event) {
        if self.state.events.try_send(event).is_err() {
            self.state.sink.drop_one();
        }
    }
}

/// A connection's unanswered requests.
#[derive(Debug, Default)]
pub(super) struct Taps {
    open: Mutex<HashMap<RequestId, OpenRequest>>,
}

/// An unanswered request.
#[derive(Debug)]
struct OpenRequest {
    tap: Tap,
    progress_token: Option<ProgressToken>,
    /// Whether its call no longer waits.
    is_abandoned: bool,
    /// Whether it is abandoned and newer than the last answered request.
    is_owed: bool,
}

impl Taps {
    /// Starts tracking a request that is about to be sent.
    pub(super) fn watch(&self, message: &ClientJsonRpcMessage) {
        let (JsonRpcMessage::Request(request), Some(tap)) = (message, Tap::from_message(message)) else { return };
        let mut open = self.open.lock();
        // The call has withdrawn and forgotten this request, so it is never sent.
        if !tap.is(WITHDRAWN) {
            let (tap, progress_token) = (tap.clone(), request.request.get_meta().get_progress_token());
            let opened = OpenRequest { tap, progress_token, is_abandoned: false, is_owed: false };
            open.insert(request.id.clone(), opened);
        }
    }

    /// Marks a request as answered. This shows that the server is alive, so earlier abandoned requests no longer
    /// count: a server need not answer cancelled requests.
    pub(super) fn complete(&self, id: &RequestId) {
        let mut open = self.open.lock();
        open.iter_mut().for_each(|(owed, request)| request.is_owed &= is_later(owed, id));
        if let Some(request) = open.remove(id) {
            request.tap.answered.cancel();
        }
    }

    /// Returns the request that an answer without an id belongs to: the only unanswered one.
    pub(super) fn only_waiting(&self) -> Option<RequestId> {
        let open = self.open.lock();
        let (id, only) = open.iter().next()?;
        (open.len() == 1 && !only.is_abandoned).then(|| id.clone())
    }

    /// Returns whether a request with this id is unanswered.
    pub(super) fn waits(&self, id: &RequestId) -> bool {
        self.open.lock().contains_key(id)
    }

    /// Marks a request as abandoned, because its call no longer waits. Returns the number of abandoned requests that
    /// are newer than the last answered one.
    pub(super) fn abandon(&self, id: &RequestId) -> usize {
        let mut open = self.open.lock();
        if let Some(request) = open.get_mut(id).filter(|it| !it.is_abandoned) {
            (request.is_abandoned, request.is_owed) = (true, true);
        }
        open.values().filter(|it| it.is_owed).count()
    }

    /// Stops tracking a request.
    pub(super) fn forget(&self, id: &RequestId) {
        self.open.lock().remove(id);
    }

    /// Forwards progress to the call with the token in the notification.
    pub(super) fn progress(&self, progress: ProgressNotificationParam) {
        let token = Some(&progress.progress_token);
        let tap = self.find(|open| open.values().find(|it| it.progress_token.as_ref() == token));
        if let Some(tap) = tap {
            let known = progress.total.filter(|total| *total > 0.0 && total.is_finite());
            let fraction = known.map_or(-1.0, |total| (progress.progress / total).clamp(0.0, 1.0));
            let message = tap.text(progress.message.unwrap_or_default());
            tap.event(Event::Progress(Progress { fraction, message }));
        }
    }

    /// Forwards a log message to the only running call. Drops it if several calls run, because it names none and
    /// may belong to any of them.
    pub(super) fn log(&self, level: &'static str, text: &str) {
        if let Some(tap) = self.only() {
            tap.event(Event::Log(Log { level: level.to_owned(), message: tap.text(text.to_owned()) }));
        }
    }

    /// Relays a server's question to the caller, and waits for the answer. `call`: the request that the server is
    /// working on, if the transport knows it.
    pub(super) async fn ask(&self, call: Option<&RequestId>, ask: Ask) -> QuestionAnswer {
        let Some(tap) = self.asking_call(call) else {
            return QuestionAnswer::Unavailable("the question belongs to no call".to_owned());
        };
        let kind = ask.kind;
        let answer = tap.state.sink.ask_for(tap.sanitize(ask)).await;
        if matches!(answer, QuestionAnswer::Unavailable(_)) {
            tap.note_missing(kind);
        }
        answer
    }

    /// Records that the server asked for input in a form that can't be relayed.
    pub(super) fn note_unrelayed(&self, call: Option<&RequestId>, kind: InputKind) {
        if let Some(tap) = self.asking_call(call) {
            tap.note_missing(kind);
        }
    }

    /// Returns the call whose user a question is for. A wrong guess would show it to another call's user, so
    /// abandoned requests count too: the server may still be working on them.
    fn asking_call(&self, call: Option<&RequestId>) -> Option<Tap> {
        self.find(|open| {
            let asking = match call {
                Some(id) => open.get(id),
                None => open.values().next().filter(|_| open.len() == 1),
            };
            asking.filter(|it| !it.is_abandoned)
        })
    }

    /// Returns the only unanswered call, if there is exactly one.
    fn only(&self) -> Option<Tap> {
        self.find(|open| {
            let mut waiting = open.values().filter(|it| !it.is_abandoned);
            waiting.next().filter(|_| waiting.next().is_none())
        })
    }

    fn find(&self, select: impl FnOnce(&HashMap<RequestId, OpenRequest>) -> Option<&OpenRequest>) -> Option<Tap> {
        select(&self.open.lock()).map(|it| it.tap.clone())
    }
}

/// Returns whether a request is later than another. Ids are increasing numbers.
fn is_later(one: &RequestId, other: &RequestId) -> bool {
    matches!((one, other), (NumberOrString::Number(one), NumberOrString::Number(other)) if one > other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rmcp::model::{CallToolRequest, CallToolRequestParams, ClientRequest};

    fn request(id: i64) -> (ClientJsonRpcMessage, Tap, mpsc::Receiver<Event>) {
        let (tap, events) = Tap::new(&EventSink::default(), Vec::new(), Arc::default());
        let mut request = CallToolRequest::new(CallToolRequestParams::new("t"));
        request.extensions.insert(tap.clone());
        let mut request = ClientRequest::CallToolRequest(request);
        request.get_meta_mut().set_progress_token(ProgressToken(NumberOrString::Number(id + 100)));
        (ClientJsonRpcMessage::request(request, NumberOrString::Number(id)), tap, events)
    }

    fn owed(taps: &Taps) -> usize {
        taps.open.lock().values().filter(|it| it.is_owed).count()
    }

    #[test]
    fn a_request_is_sent_or_withdrawn_never_both() {
        let (message, tap, _events) = request(1);
        assert!(Tap::from_message(&message).unwrap().send() && !tap.withdraw());
        let (message, tap, _events) = request(2);
        assert!(tap.withdraw() && !Tap::from_message(&message).unwrap().send());
    }

    #[test]
    fn progress_reaches_its_call_and_a_log_line_no_other_call() {
        let taps = Taps::default();
        let ((one, _, mut first), (two, _, mut second)) = (request(1), request(2));
        taps.watch(&one);
        taps.log("error", "hi");
        assert!(matches!(first.try_recv(), Ok(Event::Log(log)) if log.level == "error" && log.message == "hi"));
        taps.watch(&two);
        taps.log("info", "secret");
        let token = ProgressToken(NumberOrString::Number(102));
        taps.progress(ProgressNotificationParam::new(token, 1.0).with_total(4.0));
        assert!(first.try_recv().is_err());
        assert!(matches!(second.try_recv(), Ok(Event::Progress(it)) if it.fraction == 0.25));
        assert!(second.try_recv().is_err());
    }

    #[test]
    fn abandoned_requests_count_until_they_are_answered_or_forgotten() {
        let taps = Taps::default();
        let ids = [1, 2].map(NumberOrString::Number);
        let requests = [request(1), request(2)];
        requests.iter().for_each(|(message, ..)| taps.watch(message));
        assert_eq!((taps.abandon(&ids[0]), taps.abandon(&ids[0]), taps.abandon(&ids[1])), (1, 1, 2));
        taps.complete(&ids[0]);
        assert_eq!(owed(&taps), 1);
        taps.forget(&ids[1]);
        assert!(requests[0].1.answered.is_cancelled() && !requests[1].1.answered.is_cancelled());
        assert!(taps.open.lock().is_empty());
    }

    #[test]
    fn an_answer_settles_all_earlier_abandoned_requests() {
        let taps = Taps::default();
        let requests = [1, 2, 4].map(request);
        requests.iter().for_each(|(message, ..)| taps.watch(message));
        for id in [1, 2, 4] {
            taps.abandon(&NumberOrString::Number(id));
        }
        // This answers a ping, which has no tap.
        taps.complete(&NumberOrString::Number(3));
        assert_eq!(owed(&taps), 1);
    }

    #[test]
    fn an_answer_without_an_id_belongs_to_a_request_only_if_there_is_no_other() {
        let (taps, one, two) = (Taps::default(), request(1), request(2));
        assert_eq!(taps.only_waiting(), None);
        taps.watch(&one.0);
        assert_eq!(taps.only_waiting(), Some(NumberOrString::Number(1)));
        taps.watch(&two.0);
        assert_eq!(taps.only_waiting(), None);
        taps.complete(&NumberOrString::Number(1));
        assert_eq!(taps.only_waiting(), Some(NumberOrString::Number(2)));
        taps.abandon(&NumberOrString::Number(2));
        assert_eq!(taps.only_waiting(), None, "nobody waits for it");
    }

    #[test]
    fn a_withdrawn_request_is_not_tracked() {
        let (taps, (message, tap, _events)) = (Taps::default(), request(1));
        assert!(tap.withdraw());
        taps.watch(&message);
        assert!(taps.open.lock().is_empty());
    }

    #[test]
    fn a_question_of_a_forgotten_request_goes_to_no_other_call() {
        let (taps, one, two) = (Taps::default(), request(1), request(2));
        [&one, &two].into_iter().for_each(|(message, ..)| taps.watch(message));
        let ids = [1, 2].map(NumberOrString::Number);
        taps.forget(&ids[0]);
        taps.note_unrelayed(Some(&ids[0]), InputKind::Form);
        assert!(!one.1.lacks_input() && !two.1.lacks_input());
        taps.note_unrelayed(Some(&ids[1]), InputKind::Form);
        assert!(two.1.lacks_input());
    }

    #[tokio::test]
    async fn a_question_while_an_abandoned_request_is_tracked_goes_to_no_call() {
        let (taps, one, two) = (Taps::default(), request(1), request(2));
        [&one, &two].into_iter().for_each(|(message, ..)| taps.watch(message));
        let ids = [1, 2].map(NumberOrString::Number);
        taps.abandon(&ids[0]);
        for call in [None, Some(&ids[0])] {
            assert!(matches!(taps.ask(call, Ask::form("Which?", None)).await, QuestionAnswer::Unavailable(_)));
            taps.note_unrelayed(call, InputKind::Form);
        }
        assert!(!one.1.lacks_input() && !two.1.lacks_input());
        taps.forget(&ids[0]);
        taps.note_unrelayed(None, InputKind::Form);
        assert!(two.1.lacks_input());
    }

    #[test]
    fn a_question_goes_to_no_call_if_the_only_one_is_abandoned() {
        let (taps, (message, tap, _events)) = (Taps::default(), request(1));
        taps.watch(&message);
        taps.abandon(&NumberOrString::Number(1));
        taps.note_unrelayed(None, InputKind::Form);
        assert!(!tap.lacks_input());
    }
}
