//! The table of limits that principals share. Each has a bound for the whole gateway. One principal gets at most
//! its fair share: four fifths while it is the only one, an even share when others need theirs. See
//! [`openskill_identity::shares`]. `docs/limits.md` contains the same table.

use std::sync::Arc;
use std::time::Duration;

use openskill_identity::shares::{Pool, Share};
use tokio::time::Instant;

const MIB: usize = 1024 * 1024;

/// The size in bytes up to which bodies are not counted. Most are that small, and short-lived.
pub(crate) const SMALL: usize = 4 * 1024;

/// How long a request waits for a share, and how often it retries.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);
pub(crate) const ASK_AGAIN: Duration = Duration::from_millis(20);

/// A limit that principals share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SharedLimit {
    /// Bytes of request bodies that are arriving, or waiting to be read.
    Requests,
    /// Bytes of responses that are under construction, or that clients have not read.
    Responses,
    /// Bytes of the arguments of calls in flight.
    Arguments,
    /// Bytes of messages from skills and users in calls in flight, for the recorder.
    Recordings,
    /// Idempotency keys.
    Keys,
    /// Bytes of the results of idempotency keys.
    KeyResults,
    /// Calls that wait for answers from their MCP clients.
    ParkedCalls,
    /// Streams of calls that MCP clients may resume.
    ResumableStreams,
    /// Bytes of resumable streams whose calls have ended.
    EndedStreams,
    /// Bytes of results that are too long to send to MCP clients at once.
    LongResults,
    /// Tasks of MCP clients.
    Tasks,
    /// Bytes of the stored tasks of MCP clients.
    TaskBytes,
    /// MCP clients that are listening for changes.
    Listeners,
    /// Resources that MCP sessions are subscribed to.
    Subscriptions,
    /// Circuit breakers of sessions.
    SessionCircuits,
    /// Sessions with affinity.
    Affinity,
    /// Responses in flight with pages for people.
    Pages,
    /// Responses in flight with the catalog, tools, artifacts and operations.
    Catalog,
    /// Responses in flight with data for operators.
    Operations,
    /// Responses in flight with recorded calls, including streams that follow them.
    Traces,
    /// Responses in flight with agent conversations, including streams that watch them.
    Conversations,
    /// Endless streams in flight that are not calls: catalog changes, events of operations, reflection. Also requests that
    /// may wait for an operation.
    Watchers,
    /// Streams in flight with many calls or messages: `InvokeMany`, `Chat`.
    CallStreams,
}

/// The limits in the order of declaration, each with its name in `docs/limits.md` and the bound for the gateway.
const LIMITS: [(SharedLimit, &str, usize); 23] = [
    (SharedLimit::Requests, "request bodies that arrive or wait to be read", 512 * MIB),
    (SharedLimit::Responses, "responses in progress, or that clients have not read", 512 * MIB),
    (SharedLimit::Arguments, "arguments of calls in flight", 512 * MIB),
    (SharedLimit::Recordings, "messages of skills and users in calls in flight", 64 * MIB),
    (SharedLimit::Keys, "idempotency keys", 64 * 1024),
    (SharedLimit::KeyResults, "results of idempotency keys", 32 * MIB),
    (SharedLimit::ParkedCalls, "calls that wait for answers from their MCP clients", 4096),
    (SharedLimit::ResumableStreams, "streams of calls that MCP clients may resume", 4096),
    (SharedLimit::EndedStreams, "retained MCP streams whose calls have ended", 16 * MIB),
    (SharedLimit::LongResults, "long results over MCP", 32 * MIB),
    (SharedLimit::Tasks, "tasks of MCP clients", 10_000),
    (SharedLimit::TaskBytes, "memory of MCP tasks", 32 * MIB),
    (SharedLimit::Listeners, "MCP clients that listen for changes", 8192),
    (SharedLimit::Subscriptions, "resources that MCP sessions subscribed to", 64 * 1024),
    (SharedLimit::SessionCircuits, "circuit breakers of sessions", 32 * 1024),
    (SharedLimit::Affinity, "sessions with affinity", 32 * 1024),
    (SharedLimit::Pages, "responses in flight: pages and openapi.json", 256),
    (SharedLimit::Catalog, "responses in flight: skills, tools, artifacts and operations", 256),
    (SharedLimit::Operations, "responses in flight: /metrics, ListWorkers and ListCircuits", 64),
    (SharedLimit::Traces, "responses in flight: running and recorded calls, followers included", 64),
    (SharedLimit::Conversations, "responses in flight: conversations, watchers included", 1024),
    (SharedLimit::Watchers, "watchers of changes and operations, and reflection over gRPC", 4096),
    (SharedLimit::CallStreams, "streams of many calls, and chats", 4096),
];

impl SharedLimit {
    /// The name in `docs/limits.md`.
    pub(crate) const fn name(self) -> &'static str {
        LIMITS[self as usize].1
    }

    /// The bound for the whole gateway.
    pub(crate) const fn bound(self) -> usize {
        LIMITS[self as usize].2
    }
}

/// The pools of a gateway, one per limit. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Limits([Pool; LIMITS.len()]);

impl Default for Limits {
    fn default() -> Self {
        Self(LIMITS.map(|(_, _, bound)| Pool::new(bound)))
    }
}

impl Limits {
    pub(crate) fn pool(&self, kept: SharedLimit) -> &Pool {
        &self.0[kept as usize]
    }

    /// Reserves a share of `amount` units. Waits up to [`PATIENCE`], because others may soon release theirs. None
    /// if not enough is free by then.
    pub(crate) async fn reserve(&self, kept: SharedLimit, holder: &Arc<str>, amount: usize) -> Option<Share> {
        let until = Instant::now() + PATIENCE;
        loop {
            let share = self.pool(kept).take(Arc::clone(holder), amount);
            if share.is_some() || Instant::now() >= until {
                return share;
            }
            tokio::time::sleep(ASK_AGAIN).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads the table below this heading in `docs/limits.md`, as rows of cells.
    fn documented(heading: &str) -> Vec<Vec<String>> {
        let section =
            include_str!("../../../docs/limits.md").split("\n## ").find(|it| it.starts_with(heading)).unwrap();
        let rows = section.lines().filter(|line| line.starts_with("| ")).skip(1);
        rows.map(|line| line.trim_matches('|').split('|').map(|cell| cell.trim().replace('`', "")).collect()).collect()
    }

    /// Formats a bound as in the docs.
    fn written(limit: SharedLimit) -> String {
        match limit.bound() {
            bytes if bytes >= MIB => format!("{} MiB", bytes / MIB),
            count if count >= 1000 => format!("{},{:03}", count / 1000, count % 1000),
            count => count.to_string(),
        }
    }

    #[test]
    fn the_docs_have_the_same_table() {
        let rows = documented("Kept for principals");
        let documented: Vec<_> = rows.iter().map(|row| (row[0].as_str(), row[1].clone())).collect();
        let expected: Vec<_> = LIMITS.into_iter().map(|(it, name, _)| (name, written(it))).collect();
        assert_eq!(documented[..expected.len()], expected);
    }

    #[test]
    fn a_principal_leaves_some_of_each_limit_to_others() {
        let limits = Limits::default();
        for (limit, ..) in LIMITS {
            let (pool, step) = (limits.pool(limit), limit.bound().div_ceil(64));
            let take = |principal: &str| std::iter::from_fn(|| pool.take(principal, step)).collect::<Vec<_>>();
            let (greedy, honest) = (take("greedy"), take("honest"));
            assert!(greedy.len() < 64 && honest.len() >= 8, "{limit:?}: {} and {}", greedy.len(), honest.len());
        }
    }

    #[test]
    fn each_limit_has_its_own_pool() {
        let limits = Limits::default();
        for (place, (limit, ..)) in LIMITS.into_iter().enumerate() {
            assert_eq!((limit as usize, limits.pool(limit).limit()), (place, limit.bound()));
        }
    }
}
