//! A call that runs, and what arrives of it.

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use openskill_proto::v1::SkillResult;
use openskill_proto::v1::invoke_event::Event;

use crate::mcp::parked::Events;

/// A call that runs.
pub(super) enum Running {
    /// Nothing is heard of it but its result.
    Silent(BoxFuture<'static, SkillResult>),
    Heard(Events),
}

/// What arrives of a call that runs.
pub(super) enum Arrived {
    Result(SkillResult),
    Event(Event),
    Broken(String),
}

impl Running {
    /// What arrives next. Nothing is lost if the future is dropped before that.
    pub(super) async fn next(&mut self) -> Arrived {
        let events = match self {
            Self::Silent(result) => return Arrived::Result(result.await),
            Self::Heard(events) => events,
        };
        loop {
            match events.next().await.map(|it| it.map(|it| it.event)) {
                Some(Ok(Some(Event::Result(result)))) => return Arrived::Result(result),
                Some(Ok(Some(event))) => return Arrived::Event(event),
                Some(Ok(None)) => {}
                Some(Err(error)) => return Arrived::Broken(error.message),
                None => return Arrived::Broken("the call ended without a result".to_owned()),
            }
        }
    }
}
