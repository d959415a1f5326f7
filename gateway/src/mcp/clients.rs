//! The state of sessions that their ids do not contain. It is bounded, and may be lost.

use std::collections::BTreeMap;
use std::sync::Arc;

use ahash::HashMap;
use openskill_identity::shares::{Pool, Share};
use openskill_proto::v1::Log;
use tokio_util::sync::CancellationToken;

use crate::state::fair::FairRecent;
use crate::state::key::join;
use crate::state::limits::{Limits, SharedLimit};
use crate::state::striped::Striped;

/// The maximum number of ended sessions, and of log levels, that one stripe remembers. When full, the least
/// recently used entry of the principal that has the most is evicted: an ended session then works again until it
/// expires, and a log level is reset to none.
const MAX_SESSIONS: usize = 4096;

/// The maximum number of sessions per stripe that have subscriptions, and of subscriptions per session. When full,
/// a session of the principal that has the most loses its subscriptions.
const MAX_SUBSCRIBERS: usize = 256;
const MAX_SUBSCRIPTIONS: usize = 64;

/// The severity of a log message. Skills use four of the protocol's eight levels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    Debug,
    Info,
    Warning,
    Error,
    /// More severe than anything that a skill logs.
    Silent,
}

impl Level {
    /// Returns the level with this name in the protocol.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "debug" => Self::Debug,
            "info" => Self::Info,
            // Skills have no `notice`. The next more severe level is a warning.
            "notice" | "warning" => Self::Warning,
            "error" => Self::Error,
            "critical" | "alert" | "emergency" => Self::Silent,
            _ => return None,
        })
    }

    /// Whether a client that sets this level gets the line.
    pub(crate) fn admits(self, line: &Log) -> bool {
        Self::from_name(&line.level).unwrap_or(Self::Info) >= self
    }
}

/// The sessions and their calls.
#[derive(Debug)]
pub(crate) struct Clients {
    sessions: Striped<Sessions>,
    /// The calls in flight that clients can cancel, by session and id. Bounded, because each has a permit.
    calls: Arc<Calls>,
    /// Counts the subscriptions of all sessions by principal.
    subscriptions: Pool,
}

type Calls = Striped<HashMap<String, CancellationToken>>;

/// Keyed by principal and session.
#[derive(Debug)]
struct Sessions {
    ended: FairRecent<()>,
    levels: FairRecent<Level>,
    subscriptions: FairRecent<Subscriptions>,
}

/// The subscriptions of one session.
#[derive(Debug)]
struct Subscriptions {
    /// The resources by URI, each with the state that the session knows.
    states: BTreeMap<String, String>,
    /// Accounts for one unit per resource.
    share: Share,
}

impl Clients {
    pub(crate) fn new(limits: &Limits) -> Self {
        let sessions = || Sessions {
            ended: FairRecent::new(MAX_SESSIONS),
            levels: FairRecent::new(MAX_SESSIONS),
            subscriptions: FairRecent::new(MAX_SUBSCRIBERS),
        };
        let (sessions, calls) = (Striped::new(sessions), Arc::new(Striped::new(HashMap::default)));
        Self { sessions, calls, subscriptions: limits.pool(SharedLimit::Subscriptions).clone() }
    }

    /// Ends a session: this process no longer accepts its id. Cancels its calls.
    pub(crate) fn end(&self, principal: &str, session: &str) {
        let key = join([principal, session]);
        let mut sessions = self.sessions.lock(&key);
        sessions.ended.insert(&key, ());
        sessions.levels.remove(&key);
        sessions.subscriptions.remove(&key);
        drop(sessions);
        let prefix = join([session, ""]);
        for calls in self.calls.all() {
            calls.iter().filter(|(key, _)| key.starts_with(&prefix)).for_each(|(_, token)| token.cancel());
        }
    }

    pub(crate) fn has_ended(&self, principal: &str, session: &str) -> bool {
        let key = join([principal, session]);
        self.sessions.lock(&key).ended.peek(&key).is_some()
    }

    pub(crate) fn set_level(&self, principal: &str, session: &str, level: Level) {
        let key = join([principal, session]);
        self.sessions.lock(&key).levels.insert(&key, level);
    }

    /// Returns the log level of a session. None if its client requests no log messages.
    pub(crate) fn level(&self, principal: &str, session: &str) -> Option<Level> {
        let key = join([principal, session]);
        self.sessions.lock(&key).levels.use_mut(&key).copied()
    }

    /// Subscribes a principal's session to a resource with this state. Returns false if the session or the
    /// principal has too many subscriptions.
    pub(crate) fn subscribe(&self, principal: &str, session: &str, uri: &str, state: String) -> bool {
        let key = join([principal, session]);
        let mut sessions = self.sessions.lock(&key);
        if sessions.subscriptions.peek(&key).is_none() {
            let share = self.subscriptions.share(principal);
            sessions.subscriptions.insert(&key, Subscriptions { states: BTreeMap::new(), share });
        }
        let Some(Subscriptions { states, share }) = sessions.subscriptions.use_mut(&key) else { return false };
        if !states.contains_key(uri) && (states.len() >= MAX_SUBSCRIPTIONS || !share.grow(1)) {
            return false;
        }
        states.insert(uri.to_owned(), state);
        true
    }

    pub(crate) fn unsubscribe(&self, principal: &str, session: &str, uri: &str) {
        let key = join([principal, session]);
        if let Some(Subscriptions { states, share }) = self.sessions.lock(&key).subscriptions.use_mut(&key)
            && states.remove(uri).is_some()
        {
            share.shrink(1);
        }
    }

    /// Returns the resources that a session is subscribed to.
    pub(crate) fn subscribed_uris(&self, principal: &str, session: &str) -> Vec<String> {
        let key = join([principal, session]);
        let mut sessions = self.sessions.lock(&key);
        sessions.subscriptions.use_mut(&key).map(|it| it.states.keys().cloned().collect()).unwrap_or_default()
    }

    /// Returns the subscribed resources whose state has changed since the last call, and remembers the new states.
    /// `state` returns the state of a URI, or None if the client may not see it.
    pub(crate) fn take_changed_uris(
        &self,
        principal: &str,
        session: &str,
        state: impl Fn(&str) -> Option<String>,
    ) -> Vec<String> {
        let key = join([principal, session]);
        let mut sessions = self.sessions.lock(&key);
        let mut changed = Vec::new();
        for (uri, known) in sessions.subscriptions.use_mut(&key).into_iter().flat_map(|it| &mut it.states) {
            if let Some(now) = state(uri)
                && *known != now
            {
                *known = now;
                changed.push(uri.clone());
            }
        }
        changed
    }

    /// Begins a call that its client can cancel. None if a call with this id is already in flight.
    pub(crate) fn begin(&self, session: &str, id: &str) -> Option<Cancellable> {
        let (key, token) = (join([session, id]), CancellationToken::new());
        let mut calls = self.calls.lock(&key);
        if calls.contains_key(&key) {
            return None;
        }
        calls.insert(key.clone(), token.clone());
        drop(calls);
        Some(Cancellable { key, token, calls: Arc::clone(&self.calls) })
    }

    /// Cancels a call, if it is in flight.
    pub(crate) fn cancel(&self, session: &str, id: &str) {
        let key = join([session, id]);
        if let Some(token) = self.calls.lock(&key).get(&key) {
            token.cancel();
        }
    }
}

/// Makes a call cancellable until it is dropped.
#[derive(Debug)]
pub(crate) struct Cancellable {
    key: String,
    token: CancellationToken,
    calls: Arc<Calls>,
}

impl Cancellable {
    /// Waits until the client cancels the call.
    pub(crate) async fn wait_until_cancelled(&self) {
        self.token.cancelled().await;
    }
}

impl Drop for Cancellable {
    fn drop(&mut self) {
        self.calls.lock(&self.key).remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_that_was_ended_stays_ended_and_its_calls_are_cancelled() {
        let clients = Clients::new(&Limits::default());
        let (mine, other) = (clients.begin("a", "1").unwrap(), clients.begin("ab", "1").unwrap());
        clients.end("ada", "a");
        assert!(clients.has_ended("ada", "a") && !clients.has_ended("ada", "ab"));
        assert!(mine.token.is_cancelled() && !other.token.is_cancelled());
    }

    #[test]
    fn a_call_is_cancelled_by_its_session_and_id_and_by_no_other() {
        let clients = Clients::new(&Limits::default());
        let call = clients.begin("a", "1").unwrap();
        assert!(clients.begin("a", "1").is_none(), "the id is in use");
        for (session, id) in [("b", "1"), ("a", "\"1\""), ("a", "")] {
            clients.cancel(session, id);
        }
        assert!(!call.token.is_cancelled());
        clients.cancel("a", "1");
        assert!(call.token.is_cancelled());
        drop(call);
        assert!(clients.begin("a", "1").is_some() && clients.calls.all().all(|it| it.is_empty()));
    }

    #[test]
    fn a_session_hears_once_of_each_change_of_what_it_subscribed_to() {
        let clients = Clients::new(&Limits::default());
        assert!(
            clients.subscribe("ada", "a", "x:1", "1".to_owned())
                && clients.subscribe("ada", "a", "x:2", "1".to_owned())
        );
        let changed = |state: &str| clients.take_changed_uris("ada", "a", |_| Some(state.to_owned()));
        assert_eq!(changed("1"), Vec::<String>::new());
        assert_eq!((changed("2").len(), changed("2").len()), (2, 0));
        assert_eq!(clients.take_changed_uris("ada", "a", |_| None), Vec::<String>::new(), "what it may not hear of");
        clients.unsubscribe("ada", "a", "x:1");
        assert_eq!(changed("3"), ["x:2"]);
        assert!((0..MAX_SUBSCRIPTIONS - 1).all(|it| clients.subscribe("ada", "a", &it.to_string(), String::new())));
        assert!(
            !clients.subscribe("ada", "a", "more", String::new())
                && clients.subscribe("ada", "a", "x:2", String::new())
        );
        clients.end("ada", "a");
        assert_eq!(changed("4"), Vec::<String>::new());
    }

    #[test]
    fn sessions_of_one_principal_do_not_end_the_subscriptions_of_another() {
        let clients = Clients::new(&Limits::default());
        assert!(clients.subscribe("ada", "a", "x:1", "1".to_owned()));
        assert!((0..20_000).all(|it| clients.subscribe("eve", &it.to_string(), "x:1", "1".to_owned())));
        assert_eq!(clients.subscribed_uris("ada", "a"), ["x:1"]);
        let kept: usize = clients.sessions.all().map(|it| it.subscriptions.iter().count()).sum();
        assert!(kept <= 16 * MAX_SUBSCRIBERS && clients.subscriptions.in_use() == kept, "{kept}");
    }

    #[test]
    fn memory_stays_bounded() {
        let clients = Clients::new(&Limits::default());
        for number in 0..200_000 {
            clients.end("ada", &number.to_string());
        }
        let kept: usize = clients.sessions.all().map(|it| it.ended.iter().count()).sum();
        assert!(kept <= 16 * MAX_SESSIONS, "{kept}");
        assert!(clients.has_ended("ada", "199999"));
    }

    #[test]
    fn a_client_gets_what_is_as_important_as_it_asks_for() {
        let line = |level: &str| Log { level: level.to_owned(), message: String::new() };
        let admits = |asked: &str, said: &str| Level::from_name(asked).unwrap().admits(&line(said));
        assert!(admits("debug", "debug") && admits("info", "warning") && admits("notice", "warning"));
        assert!(!admits("warning", "info") && !admits("emergency", "error"));
        assert_eq!(Level::from_name("loud"), None);
    }
}
