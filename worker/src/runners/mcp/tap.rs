//! What is known of each request on its way: whether it was sent, whether it was answered, what the server said meanwhile.
//!
//! A tap travels with its request, as an extension that is not sent. The transport, which sees every message in order, marks
//! it; the call reads it. So a call knows whether a request that got no answer may have been run.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use openskill_proto::v1::execute_event::Event;
use openskill_proto::v1::{Log, Progress};
use rmcp::model::{
    ClientJsonRpcMessage, GetExtensions as _, GetMeta as _, JsonRpcMessage, NumberOrString, ProgressNotificationParam,
    RequestId,
};
use tokio::sync::{Notify, mpsc};

use super::words::clean;
use crate::events::EventSink;
use crate::runners::http::secrets::Secrets;

/// The longest text of an event that is passed on.
const MAX_EVENT_TEXT: usize = 4096;

/// How many events of one call wait for their listener.
const EVENT_BUFFER: usize = 256;

/// A request is held back until its writing begins; it is sent from then on, whether or not all of it arrived.
const HELD: u8 = 0;
const SENT: u8 = 1;
const WITHDRAWN: u8 = 2;

/// What is known of one request.
#[derive(Debug, Clone)]
pub(super) struct Tap(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    state: AtomicU8,
    answered: AtomicBool,
    answer: Notify,
    taken_back: Notify,
    abandoned: AtomicBool,
    asked: AtomicBool,
    events: mpsc::Sender<Event>,
    sink: EventSink,
    headers: Vec<(&'static str, String)>,
    secrets: Arc<Secrets>,
}

impl Tap {
    /// A tap, and the events that the server sends for its request, without `secrets`. `headers` go with the request where it
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
            taken_back: Notify::new(),
            abandoned: AtomicBool::new(false),
            asked: AtomicBool::new(false),
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

    /// Takes the request back. Whether that was still possible: nothing of it was written, and nothing will be.
    pub(super) fn withdraw(&self) -> bool {
        let possible = self.0.state.compare_exchange(HELD, WITHDRAWN, Ordering::AcqRel, Ordering::Acquire).is_ok();
        self.0.taken_back.notify_waiters();
        possible
    }

    /// Waits until the request is taken back.
    pub(super) async fn withdrawn(&self) {
        let back = self.0.taken_back.notified();
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

    /// What was taken for sent could not even be begun to be sent.
    pub(super) fn never_sent(&self) {
        self.0.state.store(HELD, Ordering::Release);
    }

    /// Whether the server asked the user something meanwhile.
    pub(super) fn asked(&self) -> bool {
        self.0.asked.load(Ordering::Acquire)
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

    /// What may be passed on of what the server says.
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
    /// Those that nobody waits for any more, since the server last answered a later one.
    owed: HashSet<RequestId>,
}

impl Taps {
    fn with<T>(&self, look: impl FnOnce(&mut Open) -> T) -> T {
        look(&mut self.open.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Remembers a request that is about to be sent.
    pub(super) fn watch(&self, message: &ClientJsonRpcMessage) {
        let (JsonRpcMessage::Request(request), Some(tap)) = (message, Tap::of(message)) else { return };
        self.with(|open| {
            // It will never be sent, and whoever took it back has forgotten it already.
            if tap.is(WITHDRAWN) {
                return;
            }
            if let Some(token) = request.request.get_meta().get_progress_token() {
                open.tokens.insert(token.0, request.id.clone());
            }
            open.requests.insert(request.id.clone(), tap.clone());
        });
    }

    /// The server answered. It is alive, and so owes nothing that was asked earlier: a request that was cancelled need not be
    /// answered.
    pub(super) fn answered(&self, id: &RequestId) {
        self.with(|open| open.owed.retain(|owed| is_later(owed, id)));
        if let Some(tap) = self.take(id) {
            tap.0.answered.store(true, Ordering::Release);
            tap.0.answer.notify_waiters();
        }
    }

    /// Whether a request of this id waits for its answer.
    pub(super) fn waits(&self, id: &RequestId) -> bool {
        self.with(|open| open.requests.contains_key(id))
    }

    /// Nobody waits for the answer any more. How many such requests there are now.
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

    /// Gives up on an answer that nobody waits for.
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

    /// A log message names no call. It goes to the one that runs; of several, none may see what is another's.
    pub(super) fn log(&self, level: &'static str, text: &str) {
        if let Some(tap) = self.only() {
            tap.event(Event::Log(Log { level: level.to_owned(), message: tap.text(text.to_owned()) }));
        }
    }

    /// The server asks the user something. `id`: the call it does that for, where the transport knows.
    pub(super) fn asks(&self, id: Option<&RequestId>) {
        let tap = id.and_then(|id| self.with(|open| open.requests.get(id).cloned())).or_else(|| self.only());
        if let Some(tap) = tap {
            tap.0.asked.store(true, Ordering::Release);
        }
    }

    /// The one call that waits for its answer, if it is one.
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
    fn a_request_is_sent_or_taken_back_never_both() {
        let (message, tap, _events) = request(1);
        assert!(Tap::of(&message).unwrap().send() && !tap.withdraw());
        let (message, tap, _events) = request(2);
        assert!(tap.withdraw() && !Tap::of(&message).unwrap().send());
    }

    #[test]
    fn progress_finds_its_call_and_a_log_line_goes_to_no_stranger() {
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
    fn abandoned_requests_are_counted_until_they_are_answered_or_forgotten() {
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
    fn a_server_that_answers_owes_nothing_that_was_asked_before() {
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
    fn a_request_that_was_taken_back_is_not_watched() {
        let (taps, (message, tap, _events)) = (Taps::default(), request(1));
        assert!(tap.withdraw());
        taps.watch(&message);
        assert!(taps.with(|open| open.tokens.is_empty() && open.requests.is_empty()));
    }
}
