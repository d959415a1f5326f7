//! Streams of calls that a client of an older revision may take up again, over HTTP: `GET` with `Last-Event-ID`.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use futures_util::stream::{self, Stream, StreamExt as _};

use super::asker::Asker;
use super::sse::{BEAT, beat_after_id, event_with_id, only_id, retry};
use crate::call::principal::{GovernedSkill, Principal};
use crate::gateway::Gateway;
use crate::mcp::replay::{Reader, Replay};
use crate::mcp::revision::Revision;
use crate::mcp::session::Session;
use crate::mcp::views::View;
use crate::state::key::join;

/// Who may take a stream up again.
pub(super) struct Resumable {
    gateway: Arc<Gateway>,
    principal: Arc<str>,
    session: Session,
    view: Arc<View>,
    /// Whether the client knows events that have nothing but an id.
    knows_empty: bool,
}

/// Writes a stream, whoever reads it.
pub(super) struct Writer {
    gateway: Arc<Gateway>,
    replay: Arc<Replay>,
    knows_empty: bool,
}

impl Resumable {
    /// None for a client without a session: nobody could tell whose the stream is.
    pub(super) fn of(gateway: &Arc<Gateway>, principal: &Principal, asker: &Asker, view: Arc<View>) -> Option<Self> {
        let (session, knows_empty) = (asker.session?, asker.revision >= Revision::V2025_11_25);
        Some(Self { gateway: Arc::clone(gateway), principal: principal.shared_name(), session, view, knows_empty })
    }

    /// Begins a stream of a call of `skill`. None if it can't be kept.
    pub(super) fn open(self, skill: GovernedSkill) -> Option<(Writer, Reader)> {
        let Self { gateway, principal, session, view, knows_empty } = self;
        let (replay, reader) = gateway.mcp.replays.open(principal, &owner(&session, &view), skill, Instant::now())?;
        Some((Writer { gateway, replay, knows_empty }, reader))
    }
}

/// The owner of a stream: a session, at the view where it began.
pub(super) fn owner(session: &Session, view: &View) -> String {
    join([session.name(), &view.name])
}

impl Writer {
    /// Runs `write` in a task of its own, until its end or until nobody has read the stream for long.
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
                () = replay.abandoned(replays.patience()) => {}
            }
            replays.end(&replay, Instant::now());
        });
    }
}

/// Adds a message to a stream. False: there is no room for it.
pub(super) async fn say(replay: &Replay, message: &str) -> bool {
    replay.push(|id| event_with_id(id, message)).await
}

/// What a reader reads, as a body.
pub(super) fn events(reader: Reader) -> impl Stream<Item = Result<Bytes, Infallible>> {
    let events = stream::unfold(reader, |mut reader| async move {
        let next = match tokio::time::timeout(BEAT, reader.next()).await {
            Ok(next) => next?,
            Err(_) => beat_after_id(),
        };
        Some((Ok(next), reader))
    });
    stream::iter([Ok(retry())]).chain(events)
}
