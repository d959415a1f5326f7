//! Formats server-sent events, and keeps call streams that clients of older revisions can resume with `GET` and
//! `Last-Event-ID`.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::stream::{self, Stream, StreamExt as _};

use super::client::McpClient;
use crate::call::principal::{GovernedSkill, Principal};
use crate::gateway::Gateway;
use crate::mcp::replay::{Reader, Replay};
use crate::mcp::revision::Revision;
use crate::mcp::session::Session;
use crate::mcp::views::View;
use crate::state::key::join;

/// How long a stream may be silent before a comment keeps it alive.
pub(super) const BEAT: Duration = Duration::from_secs(10);

/// A keepalive comment. Clients skip it.
pub(super) fn beat() -> Bytes {
    Bytes::from_static(b":\n\n")
}

/// Formats a message as an event. Removes line breaks between JSON tokens, which a data line must not contain.
pub(super) fn event(message: &str) -> Bytes {
    named_event("", message)
}

/// Formats a message as an event with an id.
fn event_with_id(id: &str, message: &str) -> Bytes {
    named_event(&format!("id: {id}\n"), message)
}

/// An event that has only an id, so that a client that loses its connection knows where to resume.
fn only_id(id: &str) -> Bytes {
    format!("id: {id}\ndata:\n\n").into()
}

fn named_event(id: &str, message: &str) -> Bytes {
    let mut text = String::with_capacity(id.len() + message.len() + 24);
    text.push_str("event: message\n");
    text.push_str(id);
    text.push_str("data: ");
    text.extend(message.chars().map(|it| if matches!(it, '\n' | '\r') { ' ' } else { it }));
    text.push_str("\n\n");
    text.into()
}

/// A stream that its client may resume, before it opens.
pub(super) struct ResumableStream {
    gateway: Arc<Gateway>,
    principal: Arc<str>,
    /// See [`owner`].
    owner: String,
    /// Whether the client supports events that have only an id.
    knows_empty: bool,
}

/// Fills a stream, independently of its readers.
pub(super) struct Writer {
    gateway: Arc<Gateway>,
    replay: Arc<Replay>,
    knows_empty: bool,
}

impl ResumableStream {
    /// None for a client without a session, because the stream would have no owner.
    pub(super) fn for_client(
        gateway: &Arc<Gateway>,
        principal: &Principal,
        client: &McpClient,
        view: &View,
    ) -> Option<Self> {
        let (owner, knows_empty) = (owner(&client.session?, view), client.revision >= Revision::V2025_11_25);
        Some(Self { gateway: Arc::clone(gateway), principal: principal.shared_name(), owner, knows_empty })
    }

    /// Opens the stream for a call of `skill`. None if there is no room for the stream.
    pub(super) fn open(self, skill: GovernedSkill) -> Option<(Writer, Reader)> {
        let Self { gateway, principal, owner, knows_empty } = self;
        let (replay, reader) = gateway.mcp.replays.open(principal, &owner, skill, Instant::now())?;
        Some((Writer { gateway, replay, knows_empty }, reader))
    }
}

/// Returns the owner of a stream: a session, and the view in which it started.
pub(super) fn owner(session: &Session, view: &View) -> String {
    join([session.name(), &view.name])
}

impl Writer {
    /// Runs `write` in a separate task, until it ends or the stream is abandoned.
    pub(super) fn spawn<F>(self, write: impl FnOnce(Arc<Replay>) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let Self { gateway, replay, knows_empty } = self;
        let (tasks, writing) = (gateway.tasks.clone(), write(Arc::clone(&replay)));
        tasks.spawn(async move {
            let replays = &gateway.mcp.replays;
            let writing = async {
                if knows_empty {
                    let _ = replay.push(only_id).await;
                }
                writing.await;
            };
            tokio::select! {
                () = writing => {}
                () = replay.wait_until_abandoned(replays.patience()) => {}
            }
            replays.end(&replay, Instant::now());
        });
    }
}

/// Adds a message to a stream. Returns false if there is no room for it.
pub(super) async fn say(replay: &Replay, message: &str) -> bool {
    replay.push(|id| event_with_id(id, message)).await
}

/// Converts a reader into the stream of a response body.
pub(super) fn events(reader: Reader) -> impl Stream<Item = Result<Bytes, Infallible>> {
    let events = stream::unfold(reader, |mut reader| async move {
        let next = match tokio::time::timeout(BEAT, reader.next()).await {
            Ok(next) => next?,
            // A keepalive comment without the empty line, which some clients treat as an event after an id.
            Err(_) => Bytes::from_static(b":\n"),
        };
        Some((Ok(next), reader))
    });
    // Sets the clients' reconnection delay. Omits the empty line, because it is part of the next event.
    let retry = Bytes::from_static(b"retry: 1000\n");
    stream::iter([Ok(retry)]).chain(events)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_line_whatever_is_in_it() {
        assert_eq!(event("{\n \"a\":\r\n1}"), "event: message\ndata: {  \"a\":  1}\n\n");
        assert_eq!(event_with_id("x-0", "{}"), "event: message\nid: x-0\ndata: {}\n\n");
    }
}
