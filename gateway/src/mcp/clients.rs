//! What this process knows of sessions beside their ids. All of it is bounded, and may be lost.

use std::collections::BTreeMap;
use std::sync::Arc;

use ahash::HashMap;
use openskill_identity::shares::{Pool, Share};
use openskill_proto::v1::Log;
use tokio_util::sync::CancellationToken;

use crate::state::key::join;
use crate::state::limits::{Limits, SharedLimit};
use crate::state::recent::Recent;
use crate::state::striped::Striped;

/// How many sessions of one stripe are remembered as ended, and how many with a level of log messages. A session beyond that
/// can be used again until it expires; a level falls back to none.
const MAX_SESSIONS: usize = 4096;

/// How many sessions of one stripe may subscribe to resources, and to how many each. Past that, the session that used its
/// subscriptions least recently loses them.
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

#[derive(Debug)]
struct Sessions {
    ended: Recent<()>,
    levels: Recent<Level>,
    subscriptions: Recent<Subscriptions>,
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
            ended: Recent::new(MAX_SESSIONS),
            levels: Recent::new(MAX_SESSIONS),
            subscriptions: Recent::new(MAX_SUBSCRIBERS),
        };
        let (sessions, calls) = (Striped::new(sessions), Arc::new(Striped::new(HashMap::default)));
        Self { sessions, calls, subscriptions: limits.pool(SharedLimit::Subscriptions).clone() }
    }

    /// Ends a session: its id is not served any more by this process. Its calls are cancelled.
    pub(crate) fn end(&self, session: &str) {
        let mut sessions = self.sessions.lock(session);
        sessions.ended.insert(session.to_owned(), ());
        sessions.levels.remove(session);
        sessions.subscriptions.remove(session);
        drop(sessions);
        let prefix = join([session, ""]);
        for calls in self.calls.all() {
            calls.iter().filter(|(key, _)| key.starts_with(&prefix)).for_each(|(_, token)| token.cancel());
        }
    }

    pub(crate) fn has_ended(&self, session: &str) -> bool {
        self.sessions.lock(session).ended.peek(session).is_some()
    }

    pub(crate) fn set_level(&self, session: &str, level: Level) {
        self.sessions.lock(session).levels.insert(session.to_owned(), level);
    }

    /// The level of a session. None if its client did not ask for log messages.
    pub(crate) fn level(&self, session: &str) -> Option<Level> {
        self.sessions.lock(session).levels.use_mut(session).copied()
    }

    /// Subscribes a principal's session to a resource in this state. False if either has too many.
    pub(crate) fn subscribe(&self, principal: Arc<str>, session: &str, uri: &str, state: String) -> bool {
        let mut sessions = self.sessions.lock(session);
        if sessions.subscriptions.use_mut(session).is_none() {
            let share = self.subscriptions.share(principal);
            sessions.subscriptions.insert(session.to_owned(), Subscriptions { states: BTreeMap::new(), share });
        }
        let Some(Subscriptions { states, share }) = sessions.subscriptions.use_mut(session) else { return false };
        if !states.contains_key(uri) && (states.len() >= MAX_SUBSCRIPTIONS || !share.grow(1)) {
            return false;
        }
        states.insert(uri.to_owned(), state);
        true
    }

    pub(crate) fn unsubscribe(&self, session: &str, uri: &str) {
        if let Some(Subscriptions { states, share }) = self.sessions.lock(session).subscriptions.use_mut(session)
            && states.remove(uri).is_some()
        {
            share.shrink(1);
        }
    }

    /// The resources that a session subscribed to.
    pub(crate) fn subscribed(&self, session: &str) -> Vec<String> {
        let mut sessions = self.sessions.lock(session);
        sessions.subscriptions.use_mut(session).map(|it| it.states.keys().cloned().collect()).unwrap_or_default()
    }

    /// The resources of a session whose state is another than it knows. From now on it knows them. `state`: of a URI; none if
    /// its client may not hear of it.
    pub(crate) fn changed(&self, session: &str, state: impl Fn(&str) -> Option<String>) -> Vec<String> {
        let mut sessions = self.sessions.lock(session);
        let mut changed = Vec::new();
        for (uri, known) in sessions.subscriptions.use_mut(session).into_iter().flat_map(|it| &mut it.states) {
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
        clients.end("a");
        assert!(clients.has_ended("a") && !clients.has_ended("ab"));
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
            clients.subscribe("ada".into(), "a", "x:1", "1".to_owned())
                && clients.subscribe("ada".into(), "a", "x:2", "1".to_owned())
        );
        let changed = |state: &str| clients.changed("a", |_| Some(state.to_owned()));
        assert_eq!(changed("1"), Vec::<String>::new());
        assert_eq!((changed("2").len(), changed("2").len()), (2, 0));
        assert_eq!(clients.changed("a", |_| None), Vec::<String>::new(), "what it may not hear of");
        clients.unsubscribe("a", "x:1");
        assert_eq!(changed("3"), ["x:2"]);
        assert!((0..MAX_SUBSCRIPTIONS - 1).all(|it| clients.subscribe(
            "ada".into(),
            "a",
            &it.to_string(),
            String::new()
        )));
        assert!(
            !clients.subscribe("ada".into(), "a", "more", String::new())
                && clients.subscribe("ada".into(), "a", "x:2", String::new())
        );
        clients.end("a");
        assert_eq!(changed("4"), Vec::<String>::new());
    }

    #[test]
    fn memory_stays_bounded() {
        let clients = Clients::new(&Limits::default());
        for number in 0..200_000 {
            clients.end(&number.to_string());
        }
        let kept: usize = clients.sessions.all().map(|it| it.ended.len()).sum();
        assert!(kept <= 2 * 16 * MAX_SESSIONS, "{kept}");
        assert!(clients.has_ended("199999"));
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
