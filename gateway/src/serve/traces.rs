//! Recorded calls for whoever may read them: what both faces share.

use std::sync::Arc;

use http::Extensions;
use openskill_proto::v1::{GetTraceResponse, ListTracesRequest, ListTracesResponse, TraceFilter};

use super::layers::request_context;
use crate::gateway::Shard;
use crate::observe::recorder::Recorder;
use crate::observe::recorder::read::{Following, Reader, UnknownCursor};

/// The traces on one listener. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Traces {
    pub(crate) shard: Shard,
    /// The listener is for operators alone: they see the calls of all principals.
    pub(crate) for_operators: bool,
    /// Only programs of this machine reach the listener.
    pub(crate) is_loopback: bool,
}

/// Why there is no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoTraces {
    /// Nothing is recorded.
    #[error("this gateway records no calls: OPENSKILL_TRACE_DIR is off")]
    Off,
    /// Callers are not told apart, and this listener is open to other machines.
    #[error("recorded calls are served on a loopback address, or where OPENSKILL_ADMIN_LISTEN says: set it")]
    Elsewhere,
    /// There is no recorded call with this id that the reader may see.
    #[error("this gateway has no recorded call with this trace id or call id")]
    UnknownId,
    /// The list was begun elsewhere.
    #[error("the cursor is not one of this gateway, or it restarted: begin with the first page")]
    UnknownCursor,
}

impl Traces {
    pub(crate) fn reader(&self, extensions: &Extensions) -> Reader {
        let principal = request_context(extensions).principal;
        // Where principals are known, the policy says who is an operator, on whichever listener.
        let is_operator = if principal.sees_all() { self.for_operators } else { principal.is_admin() };
        if is_operator { Reader::Operator } else { Reader::Principal(principal) }
    }

    /// Aside from the shard's thread: it goes through all calls, and waits for whoever adds some.
    pub(crate) async fn list(
        &self,
        request: ListTracesRequest,
        reader: Reader,
    ) -> Result<ListTracesResponse, NoTraces> {
        let page = self.read(move |recorder| recorder.list(request, &reader)).await?;
        page.map_err(|UnknownCursor| NoTraces::UnknownCursor)
    }

    /// Reads files, aside from the shard's thread.
    pub(crate) async fn get(&self, id: String, reader: Reader) -> Result<GetTraceResponse, NoTraces> {
        self.read(move |recorder| recorder.trace(&id, &reader)).await?.ok_or(NoTraces::UnknownId)
    }

    async fn read<T: Send + 'static>(&self, read: impl FnOnce(&Recorder) -> T + Send + 'static) -> Result<T, NoTraces> {
        self.recorder()?;
        let gateway = Arc::clone(&self.shard.gateway);
        let found = self.shard.gateway.aside.run(move || gateway.observer.recorder.as_ref().map(read)).await;
        found.ok_or(NoTraces::Off)
    }

    pub(crate) fn follow(&self, filter: Option<TraceFilter>, reader: &Reader) -> Result<Following, NoTraces> {
        Ok(self.recorder()?.follow(filter, reader))
    }

    fn recorder(&self) -> Result<&Recorder, NoTraces> {
        // Without keys all callers are one principal, anonymous: on an open network each would read what the others sent.
        let are_known = self.shard.gateway.registry.is_some();
        if !are_known && !self.for_operators && !self.is_loopback {
            return Err(NoTraces::Elsewhere);
        }
        self.shard.gateway.observer.recorder.as_ref().ok_or(NoTraces::Off)
    }
}
