//! What this process knows of sessions beside their ids. All of it is bounded, and may be lost.

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

/// How many sessions of one stripe are remembered as ended, and how many with a level of log messages. Past that, the principal
/// that has most loses the one that it used least recently: that session can be used again until it expires; its level falls
/// back to none.
const MAX_SESSIONS: usize = 4096;

/// How many sessions of one stripe may subscribe to resources, and to how many each. Past that, a session of the principal that has
/// most loses its subscriptions.
const MAX_SUBSCRIBERS: usize = 256;
const MAX_SUBSCRIPTIONS: usize = 64;

/// How important a log message is. Skills know four levels of the protocol's eight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    Debug,
    Info,
    Warning,
    Error,
    /// More important than anything a skill says.
    Silent,
}

impl Level {
    /// The level with this name in the protocol.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "debug" => Self::Debug,
            "info" => Self::Info,
            // A skill's warning is the next that is at least as important.
            "notice" | "warning" => Self::Warning,
            "error" => Self::Error,
            "critical" | "alert" | "emergency" => Self::Silent,
            _ => return None,
        })
    }

    /// Whether a client that asks for this level gets the line.
    pub(crate) fn admits(self, line: &Log) -> bool {
        Self::named(&line.level).unwrap_or(Self::Info) >= self
    }
}

/// Sessions and their calls.
#[derive(Debug)]
pub(crate) struct Clients {
    sessions: Striped<Sessions>,
    /// The calls in flight that their clients can cancel, by session and id. Each has a permit, so their number is bounded.
    calls: Arc<Calls>,
    /// How many subscriptions all sessions have, by principal.
    subscriptions: Pool,
}

type Calls = Striped<HashMap<String, CancellationToken>>;

/// By principal and session.
#[derive(Debug)]
struct Sessions {
    ended: FairRecent<()>,
    levels: FairRecent<Level>,
    subscriptions: FairRecent<Subscriptions>,
}

/// What a session subscribed to.
#[derive(Debug)]
struct Subscriptions {
    /// Resources, and their states as the session knows them.
    states: BTreeMap<String, String>,
    /// One for each resource.
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

    /// Ends a session: its id is not served any more by this process. Its calls are cancelled.
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

    /// The level of a session. None if its client did not ask for log messages.
    pub(crate) fn level(&self, principal: &str, session: &str) -> Option<Level> {
        let key = join([principal, session]);
        self.sessions.lock(&key).levels.use_mut(&key).copied()
    }

    /// Subscribes a principal's session to a resource in this state. False if either has too many.
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

    /// The resources that a session subscribed to.
    pub(crate) fn subscribed(&self, principal: &str, session: &str) -> Vec<String> {
        let key = join([principal, session]);
        let mut sessions = self.sessions.lock(&key);
        sessions.subscriptions.use_mut(&key).map(|it| it.states.keys().cloned().collect()).unwrap_or_default()
    }

    /// The resources of a session whose state is another than it knows. From now on it knows them. `state`: of a URI; none if
    /// its client may not hear of it.
    pub(crate) fn changed(
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

    /// Begins a call that its client can cancel. None if a call with this id is in flight.
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

/// A call that its client can cancel, until this is dropped.
#[derive(Debug)]
pub(crate) struct Cancellable {
    key: String,
    token: CancellationToken,
    calls: Arc<Calls>,
}

impl Cancellable {
    pub(crate) async fn cancelled(&self) {
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
        let changed = |state: &str| clients.changed("ada", "a", |_| Some(state.to_owned()));
        assert_eq!(changed("1"), Vec::<String>::new());
        assert_eq!((changed("2").len(), changed("2").len()), (2, 0));
        assert_eq!(clients.changed("ada", "a", |_| None), Vec::<String>::new(), "what it may not hear of");
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
        assert_eq!(clients.subscribed("ada", "a"), ["x:1"]);
        let kept: usize = clients.sessions.all().map(|it| it.subscriptions.iter().count()).sum();
        assert!(kept <= 16 * MAX_SUBSCRIBERS && clients.subscriptions.used() == kept, "{kept}");
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
        let admits = |asked: &str, said: &str| Level::named(asked).unwrap().admits(&line(said));
        assert!(admits("debug", "debug") && admits("info", "warning") && admits("notice", "warning"));
        assert!(!admits("warning", "info") && !admits("emergency", "error"));
        assert_eq!(Level::named("loud"), None);
    }
}
