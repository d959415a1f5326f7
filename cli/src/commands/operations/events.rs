//! The events of an operation, over as many connections as it takes.

use std::time::{Duration, Instant};

use openskill_proto::render::operation_result;
use openskill_proto::v1::invoke_event::Event;
use openskill_proto::v1::{OperationEvent, SkillResult, WatchOperationRequest};

use super::fetch::fetch;
use crate::commands::client;
use crate::exit::Failure;
use crate::settings::Settings;
use crate::terminal::print_err;

/// How long to try to reach a gateway again after the connection was lost.
const RECONNECT_WITHIN: Duration = Duration::from_secs(120);

/// After this time without a failure, a connection counts as good. Longer than an attempt to connect takes.
const GOOD_AFTER: Duration = Duration::from_secs(10);

/// The first pause between two attempts to connect. It doubles up to the maximum.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const MAX_PAUSE: Duration = Duration::from_secs(5);

/// Reads the events of an operation. If the connection is lost, it connects again and continues after the last event.
pub(in crate::commands) struct EventStream<'a> {
    name: &'a str,
    settings: &'a Settings,
    /// The number of the last event.
    after: u64,
    /// Whether the gateway has found the operation.
    is_found: bool,
}

impl<'a> EventStream<'a> {
    /// Prepares to read the events after this number.
    pub(in crate::commands) fn new(name: &'a str, after: u64, settings: &'a Settings) -> Self {
        Self { name, settings, after, is_found: false }
    }

    /// Passes each event to `show`, up to the result, and returns that.
    ///
    /// # Errors
    /// The gateway rejects the request or cannot be reached, or a lost connection cannot be replaced in time.
    pub(in crate::commands) async fn result(
        mut self,
        mut show: impl FnMut(&OperationEvent),
    ) -> Result<SkillResult, Failure> {
        let (mut lost_at, mut pause) = (None, FIRST_PAUSE);
        loop {
            let (before, begun) = (self.after, Instant::now());
            let failure = match self.read(&mut show).await {
                Ok(result) => return Ok(result),
                Err(failure @ Failure::NotReady(_)) if self.is_found => failure,
                Err(failure) => return Err(failure),
            };
            if self.after > before || begun.elapsed() > GOOD_AFTER {
                (lost_at, pause) = (None, FIRST_PAUSE);
            }
            match lost_at {
                None => {
                    lost_at = Some(Instant::now());
                    print_err("the connection was lost: connecting again\n");
                }
                Some(at) if Instant::now() > at + RECONNECT_WITHIN => return Err(failure),
                Some(_) => {}
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(MAX_PAUSE);
        }
    }

    /// Reads events over one connection.
    async fn read(&mut self, show: &mut impl FnMut(&OperationEvent)) -> Result<SkillResult, Failure> {
        let operation = fetch(self.name, self.settings).await?;
        self.is_found = true;
        let into_failure = client::into_failure(self.settings);
        let mut client = client::operation_service(self.settings).await?;
        let request = WatchOperationRequest { name: self.name.to_owned(), after: self.after };
        let mut events = client.watch_operation(request).await.map_err(&into_failure)?.into_inner();
        while let Some(event) = events.message().await.map_err(&into_failure)? {
            self.after = event.number;
            show(&event);
            if let Some(Event::Result(result)) = event.event.and_then(|it| it.event) {
                return Ok(result);
            }
        }
        // Without a result, either the user has seen its event before, or the gateway ends.
        let closed = || Failure::gateway(&self.settings.base_url, "closed the stream without a result");
        operation_result(&operation).filter(|_| operation.done).ok_or_else(closed)
    }
}
