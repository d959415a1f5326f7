//! Everything a call needs to run. Later stages read it; none changes it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use openskill_proto::v1::Blame;

use crate::call::events::EventRelay;
use crate::call::request::{Call, granted};
use crate::catalog::entry::Entry;
use crate::gateway::Shard;
use crate::observe::call_record::CallRecord;

/// A call that is ready to run.
pub(crate) struct CallContext {
    pub(crate) shard: Shard,
    pub(crate) call: Arc<Call>,
    /// The skill, as the catalog had it when the call began.
    pub(crate) entry: Arc<Entry>,
    /// A JSON object that fits the skill's schema.
    pub(crate) arguments: Bytes,
    /// The caller, if it listens while the call runs.
    pub(crate) events: Option<EventRelay>,
    /// The time the skill is granted.
    pub(crate) granted: Duration,
    pub(crate) deadline: Instant,
    pub(crate) record: Arc<CallRecord>,
}

impl CallContext {
    pub(crate) fn new(
        shard: &Shard,
        call: Arc<Call>,
        entry: Arc<Entry>,
        arguments: Bytes,
        (events, record): (Option<EventRelay>, Arc<CallRecord>),
    ) -> Self {
        let granted = granted(shard.gateway.config.default_timeout, entry.skill.timeout_ms);
        let deadline = call.deadline(granted);
        Self { shard: shard.clone(), call, entry, arguments, events, granted, deadline, record }
    }

    /// Who is to blame when the call had less time than its skill is granted.
    pub(crate) fn blame_for_short_time(&self) -> Blame {
        if self.call.shortens(self.granted) { Blame::Caller } else { Blame::Gateway }
    }

    /// Whether somebody can answer the skill's questions.
    pub(crate) fn is_interactive(&self) -> bool {
        self.call.interactive && self.events.is_some()
    }
}
