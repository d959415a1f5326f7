//! Everything that is needed to run a call. Immutable: later stages only read it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use openskill_proto::v1::Blame;

use crate::call::events::EventRelay;
use crate::call::request::{Call, granted_time};
use crate::catalog::entry::Entry;
use crate::catalog::lookup::Route;
use crate::gateway::Shard;
use crate::observe::call_record::CallRecord;

/// A call that is ready to run.
pub(crate) struct CallContext {
    pub(crate) shard: Shard,
    pub(crate) call: Arc<Call>,
    /// The skill as it was in the catalog when the call began.
    pub(crate) entry: Arc<Entry>,
    /// The version that workers must run. If empty, each runs its newest.
    pub(crate) version: String,
    /// A JSON object that matches the skill's schema.
    pub(crate) arguments: Bytes,
    /// Relays events to the caller. None if the caller does not stream.
    pub(crate) events: Option<EventRelay>,
    /// How much time the skill is granted.
    pub(crate) granted: Duration,
    pub(crate) deadline: Instant,
    pub(crate) record: Arc<CallRecord>,
}

impl CallContext {
    pub(crate) fn new(
        shard: &Shard,
        call: Arc<Call>,
        Route { entry, version }: Route,
        arguments: Bytes,
        events: Option<EventRelay>,
        record: Arc<CallRecord>,
    ) -> Self {
        let granted = granted_time(shard.gateway.config.default_timeout, entry.skill.timeout_ms);
        let deadline = call.deadline(granted);
        Self { shard: shard.clone(), call, entry, version, arguments, events, granted, deadline, record }
    }

    /// Returns who is to blame if the call had less time than its skill is granted.
    pub(crate) fn blame_for_short_time(&self) -> Blame {
        if self.call.shortens(self.granted) { Blame::Caller } else { Blame::Gateway }
    }

    /// Whether the caller can answer questions from the skill.
    pub(crate) fn is_interactive(&self) -> bool {
        self.call.interactive && self.events.is_some()
    }
}
