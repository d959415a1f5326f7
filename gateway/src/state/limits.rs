//! What a gateway keeps for its principals, as one table: each kind of thing has a bound for the gateway, and one principal
//! holds at most its fair share of that: four fifths while it is alone, an even share when others want theirs. See
//! [`openskill_identity::shares`]. `docs/limits.md` has the same table.

use std::sync::Arc;
use std::time::Duration;

use openskill_identity::shares::{Pool, Share};
use tokio::time::Instant;

const MIB: usize = 1024 * 1024;

/// Bodies up to this size, in bytes, are not counted: most are, and they hardly last.
pub(crate) const SMALL: usize = 4 * 1024;

/// How long something waits for its share, and how often it asks.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);
pub(crate) const ASK_AGAIN: Duration = Duration::from_millis(20);

/// A kind of thing that is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SharedLimit {
    /// Bytes of request bodies that arrive, or wait to be read.
    Requests,
    /// Bytes of responses that are made, or that clients have not read.
    Responses,
    /// Bytes of the arguments of calls in flight.
    Arguments,
    /// Bytes of what skills and users say in calls in flight, for the recorder.
    Recordings,
    /// Idempotency keys.
    Keys,
    /// Bytes of the results of idempotency keys.
    KeyResults,
    /// Calls that wait until their MCP clients come back with answers.
    ParkedCalls,
    /// Streams of calls that MCP clients may resume.
    ResumableStreams,
    /// Bytes of such streams whose calls have ended.
    EndedStreams,
    /// Bytes of results of MCP clients that are too long to be sent at once.
    LongResults,
    /// Tasks of MCP clients.
    Tasks,
    /// Bytes of such tasks.
    TaskBytes,
    /// MCP clients that listen for changes.
    Listeners,
    /// Resources that sessions of MCP subscribed to.
    Subscriptions,
    /// Circuit breakers of sessions.
    SessionCircuits,
    /// Sessions with affinity.
    Affinity,
    /// Responses in flight: pages for people.
    Pages,
    /// Responses in flight: the catalog, tools and artifacts.
    Catalog,
    /// Responses in flight: what operators look at.
    Operations,
    /// Responses in flight: recorded calls, and streams that follow them.
    Traces,
    /// Responses in flight: conversations with the agent, and streams that watch them.
    Conversations,
    /// Streams in flight that are no calls and have no end: changes of the catalog, reflection.
    Watchers,
    /// Streams in flight of many calls or messages: `InvokeMany`, `Chat`.
    CallStreams,
}

impl SharedLimit {
    /// All of them, in order.
    const ALL: [Self; 23] = [
        Self::Requests,
        Self::Responses,
        Self::Arguments,
        Self::Recordings,
        Self::Keys,
        Self::KeyResults,
        Self::ParkedCalls,
        Self::ResumableStreams,
        Self::EndedStreams,
        Self::LongResults,
        Self::Tasks,
        Self::TaskBytes,
        Self::Listeners,
        Self::Subscriptions,
        Self::SessionCircuits,
        Self::Affinity,
        Self::Pages,
        Self::Catalog,
        Self::Operations,
        Self::Traces,
        Self::Conversations,
        Self::Watchers,
        Self::CallStreams,
    ];

    /// What `docs/limits.md` calls it, and the bound of the gateway.
    const fn row(self) -> (&'static str, usize) {
        match self {
            Self::Requests => ("request bodies that arrive or wait to be read", 512 * MIB),
            Self::Responses => ("responses that are made, or that clients have not read", 512 * MIB),
            Self::Arguments => ("arguments of calls in flight", 512 * MIB),
            Self::Recordings => ("what skills and users say in calls in flight", 64 * MIB),
            Self::Keys => ("idempotency keys", 64 * 1024),
            Self::KeyResults => ("results of idempotency keys", 32 * MIB),
            Self::ParkedCalls => ("calls that wait until their MCP clients come back with answers", 4096),
            Self::ResumableStreams => ("streams of calls that MCP clients may resume", 4096),
            Self::EndedStreams => ("what is kept of such streams whose calls have ended", 16 * MIB),
            Self::LongResults => ("long results over MCP", 32 * MIB),
            Self::Tasks => ("tasks of MCP clients", 10_000),
            Self::TaskBytes => ("what such tasks take", 32 * MIB),
            Self::Listeners => ("MCP clients that listen for changes", 8192),
            Self::Subscriptions => ("resources that MCP sessions subscribed to", 64 * 1024),
            Self::SessionCircuits => ("circuit breakers of sessions", 32 * 1024),
            Self::Affinity => ("sessions with affinity", 32 * 1024),
            Self::Pages => ("responses in flight: pages and openapi.json", 256),
            Self::Catalog => ("responses in flight: skills, tools and artifacts", 256),
            Self::Operations => ("responses in flight: /metrics, ListWorkers and ListCircuits", 64),
            Self::Traces => ("responses in flight: recorded calls, followers included", 64),
            Self::Conversations => ("responses in flight: conversations, watchers included", 1024),
            Self::Watchers => ("streams of changes and reflection over gRPC", 4096),
            Self::CallStreams => ("streams of many calls, and chats", 4096),
        }
    }

    /// What it is called.
    pub(crate) const fn name(self) -> &'static str {
        self.row().0
    }

    /// The bound of the gateway.
    pub(crate) const fn bound(self) -> usize {
        self.row().1
    }
}

/// The pools of a gateway. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Limits([Pool; SharedLimit::ALL.len()]);

impl Default for Limits {
    fn default() -> Self {
        Self(SharedLimit::ALL.map(|it| Pool::new(it.bound())))
    }
}

impl Limits {
    pub(crate) fn pool(&self, kept: SharedLimit) -> &Pool {
        &self.0[kept as usize]
    }

    /// A share of `amount` units. Waits for a while, as what is read soon gives its share back. None if there is still no room.
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

    /// The rows of a table in `docs/limits.md` below this heading, cell by cell.
    fn documented(heading: &str) -> Vec<Vec<String>> {
        let section =
            include_str!("../../../docs/limits.md").split("\n## ").find(|it| it.starts_with(heading)).unwrap();
        let rows = section.lines().filter(|line| line.starts_with("| ")).skip(1);
        rows.map(|line| line.trim_matches('|').split('|').map(|cell| cell.trim().replace('`', "")).collect()).collect()
    }

    /// A bound as the docs write it.
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
        let expected: Vec<_> = SharedLimit::ALL.into_iter().map(|it| (it.name(), written(it))).collect();
        assert_eq!(documented[..expected.len()], expected);
    }

    #[test]
    fn a_principal_leaves_some_of_each_limit_to_others() {
        let limits = Limits::default();
        for limit in SharedLimit::ALL {
            let (pool, step) = (limits.pool(limit), limit.bound().div_ceil(64));
            let take = |principal: &str| std::iter::from_fn(|| pool.take(principal, step)).collect::<Vec<_>>();
            let (greedy, honest) = (take("greedy"), take("honest"));
            assert!(greedy.len() < 64 && honest.len() >= 8, "{limit:?}: {} and {}", greedy.len(), honest.len());
        }
    }

    #[test]
    fn each_limit_has_its_own_pool() {
        let limits = Limits::default();
        for (place, limit) in SharedLimit::ALL.into_iter().enumerate() {
            assert_eq!((limit as usize, limits.pool(limit).limit()), (place, limit.bound()));
        }
    }
}
