//! Access to recorded calls, and to running ones in `calls`, which both faces share.

use std::sync::Arc;

use http::Extensions;
use openskill_proto::v1::{GetTraceResponse, ListTracesRequest, ListTracesResponse, TraceFilter};

use super::layers::request_context;
use crate::gateway::Shard;
use crate::observe::recorder::Recorder;
use crate::observe::recorder::read::{Following, TraceReader, UnknownCursor};

/// Access to running and recorded calls through one listener. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Traces {
    pub(crate) shard: Shard,
    /// Whether it is the admin listener, whose clients see the calls of all principals.
    pub(crate) for_operators: bool,
    /// Whether only local programs can reach the listener.
    pub(crate) is_loopback: bool,
}

/// Why calls can't be read, or cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoTraces {
    /// Recording is off.
    #[error("this gateway records no calls: OPENSKILL_TRACE_DIR is off")]
    Off,
    /// Callers are not authenticated, and other machines can reach this listener.
    #[error("calls are listed only on a loopback address or at OPENSKILL_ADMIN_LISTEN: set it")]
    Elsewhere,
    /// The reader may see no recorded call with this id.
    #[error(
        "this gateway has no recorded call with this trace id or call id; calls that still run are in `openskill ps` and \
         GET /calls"
    )]
    UnknownId,
    /// The cursor is not from this process.
    #[error("the cursor is not from this gateway, or the gateway restarted: begin with the first page")]
    UnknownCursor,
    /// The reader may see no running call with this id.
    #[error(
        "no call with this id runs at this gateway; if it has ended, `openskill trace` and GET /traces/{{id}} show it \
         by the same id"
    )]
    NotRunning,
    /// Which call is meant is not clear.
    #[error("calls of several principals have this id: name the principal; the name of the anonymous one is empty")]
    SeveralPrincipals,
}

impl Traces {
    pub(crate) fn reader(&self, extensions: &Extensions) -> TraceReader {
        let principal = request_context(extensions).principal;
        // If callers are authenticated, the policy decides who is an operator, on every listener.
        let is_operator = if principal.sees_all() { self.for_operators } else { principal.is_admin() };
        if is_operator { TraceReader::Operator } else { TraceReader::Principal(principal) }
    }

    /// Lists recorded calls. Runs off the shard's thread, because it scans all calls, and waits while calls are
    /// added.
    pub(crate) async fn list(
        &self,
        request: ListTracesRequest,
        reader: TraceReader,
    ) -> Result<ListTracesResponse, NoTraces> {
        let page = self.read(move |recorder| recorder.list(request, &reader)).await?;
        page.map_err(|UnknownCursor| NoTraces::UnknownCursor)
    }

    /// Returns the events of a trace or a call. Runs off the shard's thread, because it reads files.
    pub(crate) async fn get(&self, id: String, reader: TraceReader) -> Result<GetTraceResponse, NoTraces> {
        self.read(move |recorder| recorder.trace(&id, &reader)).await?.ok_or(NoTraces::UnknownId)
    }

    async fn read<T: Send + 'static>(&self, read: impl FnOnce(&Recorder) -> T + Send + 'static) -> Result<T, NoTraces> {
        self.recorder()?;
        let gateway = Arc::clone(&self.shard.gateway);
        let found = self.shard.gateway.blocking_pool.run(move || gateway.observer.recorder.as_ref().map(read)).await;
        found.ok_or(NoTraces::Off)
    }

    pub(crate) fn follow(&self, filter: Option<TraceFilter>, reader: &TraceReader) -> Result<Following, NoTraces> {
        Ok(self.recorder()?.follow(filter, reader))
    }

    fn recorder(&self) -> Result<&Recorder, NoTraces> {
        self.check_listener()?;
        self.shard.gateway.observer.recorder.as_ref().ok_or(NoTraces::Off)
    }

    /// Checks whether calls may be read through this listener.
    pub(super) fn check_listener(&self) -> Result<(), NoTraces> {
        // Without keys, all callers are the anonymous principal: on an open network, each could read the others'
        // calls.
        let are_known = self.shard.gateway.registry.is_some();
        if !are_known && !self.for_operators && !self.is_loopback {
            return Err(NoTraces::Elsewhere);
        }
        Ok(())
    }
}
