//! Tracks each request: whether it was sent, whether it was answered, and what the server said meanwhile.
//!
//! A tap travels with its request, as an extension that is not sent. The transport, which sees every message in order, updates
//! it; the call reads it. A call therefore knows whether a request without an answer may have run.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use openskill_proto::v1::execute_event::Event;
use openskill_proto::v1::{InputKind, Log, Progress};
use rmcp::model::{
    ClientJsonRpcMessage, GetExtensions as _, GetMeta as _, JsonRpcMessage, NumberOrString, ProgressNotificationParam,
    RequestId,
};
use tokio::sync::{Notify, mpsc};

use super::words::clean;
use crate::events::EventSink;
use crate::questions::ask::capability;
use crate::questions::{Answer, Ask};
use crate::runners::http::secrets::Secrets;

/// The longest text of an event that is passed on.
const MAX_EVENT_TEXT: usize = 4096;

/// How many events of one call wait for their listener.
const EVENT_BUFFER: usize = 256;

/// A request is held until its writing begins. From then on it counts as sent, whether or not all of it arrived.
const HELD: u8 = 0;
const SENT: u8 = 1;
const WITHDRAWN: u8 = 2;

/// The state of one request.
#[derive(Debug, Clone)]
pub(super) struct Tap(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    state: AtomicU8,
    answered: AtomicBool,
    answer: Notify,
    withdrawal: Notify,
    abandoned: AtomicBool,
    /// The capability of the caller that the server missed.
    missed: OnceLock<&'static str>,
    events: mpsc::Sender<Event>,
    sink: EventSink,
    headers: Vec<(&'static str, String)>,
    secrets: Arc<Secrets>,
}

impl Tap {
    /// A tap, and the events that the server sends for its request, with `secrets` masked. `headers` go with the request if it
    /// is sent by HTTP.
    pub(super) fn new(
        sink: &EventSink,
        headers: Vec<(&'static str, String)>,
        secrets: Arc<Secrets>,
    ) -> (Self, mpsc::Receiver<Event>) {
        let (events, receiver) = mpsc::channel(EVENT_BUFFER);
        let inner = Inner {
            state: AtomicU8::new(HELD),
            answered: AtomicBool::new(false),
            answer: Notify::new(),
            withdrawal: Notify::new(),
            abandoned: AtomicBool::new(false),
            missed: OnceLock::new(),
            events,
            sink: sink.clone(),
            headers,
            secrets,
        };
        (Self(Arc::new(inner)), receiver)
    }

    /// The tap of a message, if it has one.
    pub(super) fn of(message: &ClientJsonRpcMessage) -> Option<&Self> {
        match message {
            JsonRpcMessage::Request(request) => request.request.extensions().get::<Self>(),
            _ => None,
        }
    }

    /// Whether the request may be written now. It counts as sent from here on.
    pub(super) fn send(&self) -> bool {
        self.0.state.compare_exchange(HELD, SENT, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Withdraws the request. True if nothing of it was written, and so nothing will be.
    pub(super) fn withdraw(&self) -> bool {
        let possible = self.0.state.compare_exchange(HELD, WITHDRAWN, Ordering::AcqRel, Ordering::Acquire).is_ok();
        self.0.withdrawal.notify_waiters();
        possible
    }

    /// Waits until the request is withdrawn.
    pub(super) async fn withdrawn(&self) {
        let back = self.0.withdrawal.notified();
        tokio::pin!(back);
        back.as_mut().enable();
        if !self.is(WITHDRAWN) {
            back.await;
        }
    }

    /// Whether the server may have the request.
    pub(super) fn is_sent(&self) -> bool {
        self.is(SENT)
    }

    fn is(&self, state: u8) -> bool {
        self.0.state.load(Ordering::Acquire) == state
    }

    /// Not a byte of the request could be written after all.
    pub(super) fn never_sent(&self) {
        self.0.state.store(HELD, Ordering::Release);
    }

    /// Whether the server asked for input that nobody could give.
    pub(super) fn asked(&self) -> bool {
        self.missed().is_some()
    }

    /// The capability of an MCP client that it missed then.
    pub(super) fn missed(&self) -> Option<&'static str> {
        self.0.missed.get().copied()
    }

    fn miss(&self, kind: InputKind) {
        // The first one counts.
        let _ = self.0.missed.set(capability(kind));
    }

    /// A question of the server, fit to be passed on.
    fn cleaned(&self, ask: Ask) -> Ask {
        let params = ask.params.map(|it| {
            let scrubbed = self.0.secrets.scrub_text(it.to_string());
            serde_json::from_str(&scrubbed).unwrap_or_default()
        });
        Ask { message: self.text(ask.message), params, ..ask }
    }

    /// Waits until the server answered.
    pub(super) async fn answered(&self) {
        let answer = self.0.answer.notified();
        tokio::pin!(answer);
        answer.as_mut().enable();
        if !self.0.answered.load(Ordering::Acquire) {
            answer.await;
        }
    }

    pub(super) fn is_answered(&self) -> bool {
        self.0.answered.load(Ordering::Acquire)
    }

    pub(super) fn headers(&self) -> &[(&'static str, String)] {
        &self.0.headers
    }

    /// A text of the server, fit to be passed on.
    fn text(&self, text: String) -> String {
        // Scrubbed before it is cut: half a secret is not found.
        clean(&self.0.secrets.scrub_text(text), MAX_EVENT_TEXT)
    }

    fn event(&self, event: Event) {
        if self.0.events.try_send(event).is_err() {
            self.0.sink.drop_one();
        }
    }
}

/// The requests of one connection that have no answer yet.
#[derive(Debug, Default)]
pub(super) struct Taps {
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    requests: HashMap<RequestId, Tap>,
    tokens: HashMap<NumberOrString, RequestId>,
    /// Abandoned requests that are newer than the last one the server answered.
    owed: HashSet<RequestId>,
}

impl Taps {
    fn with<T>(&self, look: impl FnOnce(&mut Open) -> T) -> T {
        look(&mut self.open.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Tracks a request that is about to be sent.
    pub(super) fn watch(&self, message: &ClientJsonRpcMessage) {
        let (JsonRpcMessage::Request(request), Some(tap)) = (message, Tap::of(message)) else { return };
        self.with(|open| {
            // It will never be sent, and its call has forgotten it already.
            if tap.is(WITHDRAWN) {
                return;
            }
            if let Some(token) = request.request.get_meta().get_progress_token() {
                open.tokens.insert(token.0, request.id.clone());
            }
            open.requests.insert(request.id.clone(), tap.clone());
        });
    }

    /// The server answered. It is alive and owes no answer to an earlier request: a cancelled one need not be answered.
    pub(super) fn answered(&self, id: &RequestId) {
        self.with(|open| open.owed.retain(|owed| is_later(owed, id)));
        if let Some(tap) = self.take(id) {
            tap.0.answered.store(true, Ordering::Release);
            tap.0.answer.notify_waiters();
        }
    }

    /// The request that an answer without an id belongs to: the only one that the server has.
    pub(super) fn only_waiting(&self) -> Option<RequestId> {
        self.with(|open| match open.requests.iter().next() {
            Some((id, tap)) if open.requests.len() == 1 && !tap.0.abandoned.load(Ordering::Acquire) => Some(id.clone()),
            _ => None,
        })
    }

    /// Whether a request of this id waits for its answer.
    pub(super) fn waits(&self, id: &RequestId) -> bool {
        self.with(|open| open.requests.contains_key(id))
    }

    /// Marks a request as abandoned: nobody waits for its answer. Returns how many abandoned requests there are.
    pub(super) fn abandon(&self, id: &RequestId) -> usize {
        self.with(|open| {
            if let Some(tap) = open.requests.get(id)
                && !tap.0.abandoned.swap(true, Ordering::AcqRel)
            {
                open.owed.insert(id.clone());
            }
            open.owed.len()
        })
    }

    /// Stops tracking a request.
    pub(super) fn forget(&self, id: &RequestId) {
        self.take(id);
    }

    fn take(&self, id: &RequestId) -> Option<Tap> {
        self.with(|open| {
            open.tokens.retain(|_, request| request != id);
            open.owed.remove(id);
            open.requests.remove(id)
        })
    }

    /// Progress goes to the call whose token it names.
    pub(super) fn progress(&self, progress: ProgressNotificationParam) {
        let token = &progress.progress_token.0;
        let tap = self.with(|open| open.tokens.get(token).and_then(|id| open.requests.get(id)).cloned());
        if let Some(tap) = tap {
            let known = progress.total.filter(|total| *total > 0.0 && total.is_finite());
            let fraction = known.map_or(-1.0, |total| (progress.progress / total).clamp(0.0, 1.0));
            let message = tap.text(progress.message.unwrap_or_default());
            tap.event(Event::Progress(Progress { fraction, message }));
        }
    }

    /// A log message names no call. It goes to the call that runs; if several run, to none, as it may belong to another.
    pub(super) fn log(&self, level: &'static str, text: &str) {
        if let Some(tap) = self.only() {
            tap.event(Event::Log(Log { level: level.to_owned(), message: tap.text(text.to_owned()) }));
        }
    }

    /// Relays a question of the server to the caller of its call, and waits for the answer. `call`: the request that the
    /// server works on, where the transport knows it.
    pub(super) async fn ask(&self, call: Option<&RequestId>, ask: Ask) -> Answer {
        let Some(tap) = self.asker(call) else {
            return Answer::Unavailable("the question belongs to no call".to_owned());
        };
        let kind = ask.kind;
        let answer = tap.0.sink.ask_for(tap.cleaned(ask)).await;
        if matches!(answer, Answer::Unavailable(_)) {
            tap.miss(kind);
        }
        answer
    }

    /// The server asked for input in a way that cannot be relayed.
    pub(super) fn not_asked(&self, call: Option<&RequestId>, kind: InputKind) {
        if let Some(tap) = self.asker(call) {
            tap.miss(kind);
        }
    }

    /// The call whose user a question is for. A guess could show it to the user of another call, so an abandoned request
    /// counts too: its server may still work on it.
    fn asker(&self, call: Option<&RequestId>) -> Option<Tap> {
        let tap = self.with(|open| match call {
            Some(id) => open.requests.get(id).cloned(),
            None if open.requests.len() == 1 => open.requests.values().next().cloned(),
            None => None,
        });
        tap.filter(|tap| !tap.0.abandoned.load(Ordering::Acquire))
    }

    /// The call that waits for its answer, if there is exactly one.
    fn only(&self) -> Option<Tap> {
        self.with(|open| {
            let mut waiting = open.requests.values().filter(|tap| !tap.0.abandoned.load(Ordering::Acquire));
            waiting.next().filter(|_| waiting.next().is_none()).cloned()
        })
    }
}

/// Whether a request was made after another: ours are numbered.
fn is_later(one: &RequestId, other: &RequestId) -> bool {
    matches!((one, other), (NumberOrString::Number(one), NumberOrString::Number(other)) if one > other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rmcp::model::{CallToolRequest, CallToolRequestParams, ClientRequest, ProgressToken};

    fn request(id: i64) -> (ClientJsonRpcMessage, Tap, mpsc::Receiver<Event>) {
        let (tap, events) = Tap::new(&EventSink::default(), Vec::new(), Arc::default());
        let mut request = CallToolRequest::new(CallToolRequestParams::new("t"));
        request.extensions.insert(tap.clone());
        let mut request = ClientRequest::CallToolRequest(request);
        request.get_meta_mut().set_progress_token(ProgressToken(NumberOrString::Number(id + 100)));
        (ClientJsonRpcMessage::request(request, NumberOrString::Number(id)), tap, events)
    }

    #[test]
    fn a_request_is_sent_or_withdrawn_never_both() {
        let (message, tap, _events) = request(1);
        assert!(Tap::of(&message).unwrap().send() && !tap.withdraw());
        let (message, tap, _events) = request(2);
        assert!(tap.withdraw() && !Tap::of(&message).unwrap().send());
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
        taps.answered(&ids[0]);
        assert_eq!(taps.with(|open| open.owed.len()), 1);
        taps.forget(&ids[1]);
        assert!(requests[0].1.is_answered() && !requests[1].1.is_answered());
        assert!(taps.with(|open| open.tokens.is_empty() && open.requests.is_empty() && open.owed.is_empty()));
    }

    #[test]
    fn an_answer_settles_all_earlier_abandoned_requests() {
        let taps = Taps::default();
        let requests = [1, 2, 4].map(request);
        requests.iter().for_each(|(message, ..)| taps.watch(message));
        for id in [1, 2, 4] {
            taps.abandon(&NumberOrString::Number(id));
        }
        // The answer to a ping, which has no tap.
        taps.answered(&NumberOrString::Number(3));
        assert_eq!(taps.with(|open| open.owed.len()), 1);
    }

    #[test]
    fn an_answer_without_an_id_belongs_to_a_request_only_if_there_is_no_other() {
        let (taps, one, two) = (Taps::default(), request(1), request(2));
        assert_eq!(taps.only_waiting(), None);
        taps.watch(&one.0);
        assert_eq!(taps.only_waiting(), Some(NumberOrString::Number(1)));
        taps.watch(&two.0);
        assert_eq!(taps.only_waiting(), None);
        taps.answered(&NumberOrString::Number(1));
        assert_eq!(taps.only_waiting(), Some(NumberOrString::Number(2)));
        taps.abandon(&NumberOrString::Number(2));
        assert_eq!(taps.only_waiting(), None, "nobody waits for it");
    }

    #[test]
    fn a_withdrawn_request_is_not_tracked() {
        let (taps, (message, tap, _events)) = (Taps::default(), request(1));
        assert!(tap.withdraw());
        taps.watch(&message);
        assert!(taps.with(|open| open.tokens.is_empty() && open.requests.is_empty()));
    }

    #[test]
    fn a_question_of_a_forgotten_request_goes_to_no_other_call() {
        let (taps, one, two) = (Taps::default(), request(1), request(2));
        [&one, &two].into_iter().for_each(|(message, ..)| taps.watch(message));
        let ids = [1, 2].map(NumberOrString::Number);
        taps.forget(&ids[0]);
        taps.not_asked(Some(&ids[0]), InputKind::Form);
        assert!(!one.1.asked() && !two.1.asked());
        taps.not_asked(Some(&ids[1]), InputKind::Form);
        assert!(two.1.asked());
    }

    #[tokio::test]
    async fn a_question_while_an_abandoned_request_is_tracked_goes_to_no_call() {
        let (taps, one, two) = (Taps::default(), request(1), request(2));
        [&one, &two].into_iter().for_each(|(message, ..)| taps.watch(message));
        let ids = [1, 2].map(NumberOrString::Number);
        taps.abandon(&ids[0]);
        for call in [None, Some(&ids[0])] {
            assert!(matches!(taps.ask(call, Ask::form("Which?", None)).await, Answer::Unavailable(_)));
            taps.not_asked(call, InputKind::Form);
        }
        assert!(!one.1.asked() && !two.1.asked());
        taps.forget(&ids[0]);
        taps.not_asked(None, InputKind::Form);
        assert!(two.1.asked());
    }

    #[test]
    fn a_question_goes_to_no_call_if_the_only_one_is_abandoned() {
        let (taps, (message, tap, _events)) = (Taps::default(), request(1));
        taps.watch(&message);
        taps.abandon(&NumberOrString::Number(1));
        taps.not_asked(None, InputKind::Form);
        assert!(!tap.asked());
    }
}
