//! Streams the events of an operation.

use std::collections::VecDeque;
use std::sync::Arc;

use futures_util::stream::{self, Stream};
use openskill_proto::v1::invoke_event::Event;
use openskill_proto::v1::{InvokeEvent, OperationEvent, SkillError};
use openskill_store::operation::StoredEvent;
use prost::Message as _;

use super::end::unreadable_error;
use super::stored_result;
use super::{POLL, failure};
use crate::call::principal::Principal;
use crate::gateway::Gateway;

/// The number of events that are read at once.
const BATCH: i64 = 100;

struct OperationWatch {
    gateway: Arc<Gateway>,
    principal: Principal,
    name: String,
    /// The number of the last event that was read.
    last: i64,
    read: VecDeque<StoredEvent>,
    is_over: bool,
}

/// Streams the events of an operation after a number, those that are stored and those that follow. Ends after the result, or
/// when the gateway stops accepting requests.
pub(crate) fn watch(
    gateway: &Arc<Gateway>,
    principal: Principal,
    name: &str,
    after: u64,
) -> impl Stream<Item = Result<OperationEvent, SkillError>> + Send + 'static {
    let watch = OperationWatch {
        gateway: Arc::clone(gateway),
        principal,
        name: name.to_owned(),
        last: i64::try_from(after).unwrap_or(i64::MAX),
        read: VecDeque::new(),
        is_over: false,
    };
    stream::unfold(watch, async |mut watch| {
        let shutdown = watch.gateway.shutdown.clone();
        let next = shutdown.run_until_cancelled(watch.next()).await?.transpose()?;
        watch.is_over |= next.is_err();
        Some((next, watch))
    })
}

impl OperationWatch {
    async fn next(&mut self) -> Result<Option<OperationEvent>, SkillError> {
        let own = Arc::clone(&self.gateway.long_running);
        loop {
            if let Some(stored) = self.read.pop_front() {
                let event = InvokeEvent::decode(stored.event.as_slice()).map_err(|_| unreadable_error())?;
                return Ok(Some(OperationEvent { number: stored.number.cast_unsigned(), event: Some(event) }));
            }
            if self.is_over {
                return Ok(None);
            }
            let changed = own.wait_for_change(super::id(&self.name));
            // First the state, then the events: what ended has no more events.
            let (operation, stored) = own.find(&self.principal, &self.name).await?;
            let events = own.store()?.events(&operation.id, self.last, BATCH).await.map_err(failure)?;
            if let Some(newest) = events.last() {
                self.last = newest.number;
                self.read = events.into();
            } else if operation.state.is_done() {
                self.is_over = true;
                let last = own.store()?.last_event(&operation.id).await.map_err(failure)?;
                return self.result(last, stored).await;
            } else {
                tokio::select! {
                    () = changed => {}
                    () = tokio::time::sleep(POLL) => {}
                }
            }
        }
    }

    /// The last event, whose number follows that of the last stored one. None if the client has it already.
    async fn result(&self, last_stored: i64, stored: Vec<u8>) -> Result<Option<OperationEvent>, SkillError> {
        let number = last_stored + 1;
        if number <= self.last {
            return Ok(None);
        }
        let result = stored_result::load(self.gateway.long_running.store()?, stored).await.map_err(failure)?;
        let event = InvokeEvent { call_id: String::new(), event: Some(Event::Result(result)) };
        Ok(Some(OperationEvent { number: number.cast_unsigned(), event: Some(event) }))
    }
}
