//! The agent's client interfaces: `AgentService` over gRPC, and the same operations over REST.
//!
//! - [`grpc`]: the service; [`rest`]: the routes under `/agent`
//! - `stream`: the events of one exchange, which ends early for clients that can't send more input
//! - `refusal`: errors for clients
//!
//! The server that mounts the faces authenticates callers and limits connections.

use std::fmt;
use std::sync::Arc;

use http::Extensions;
use openskill_proto::trace::Trace;

use crate::hosted::Hosted;
use crate::skills::{Caller, UserIdentity};

pub mod grpc;
mod refusal;
pub mod rest;
mod stream;

/// Returns the identity of the caller, which earlier layers stored in the extensions of the request.
type Identify = dyn Fn(&Extensions) -> UserIdentity + Send + Sync;

/// The state shared by both faces. Cheap to clone.
#[derive(Clone)]
pub struct Served {
    hosted: Hosted,
    identify: Arc<Identify>,
}

impl Served {
    /// Creates the state. `identify` returns the identity of a request's caller.
    pub fn new(hosted: Hosted, identify: impl Fn(&Extensions) -> UserIdentity + Send + Sync + 'static) -> Self {
        Self { hosted, identify: Arc::new(identify) }
    }

    /// Returns the caller of a request, in the trace that the response names.
    fn caller(&self, extensions: &Extensions) -> Caller {
        let trace = extensions.get::<Trace>();
        Caller {
            owner: (self.identify)(extensions),
            trace_id: trace.map(|it| it.id.clone()).unwrap_or_default(),
            parent: trace.filter(|it| it.has_parent).map(|it| it.context),
        }
    }

    fn principal(&self, extensions: &Extensions) -> String {
        (self.identify)(extensions).principal
    }
}

impl fmt::Debug for Served {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Served").field("hosted", &self.hosted).finish_non_exhaustive()
    }
}
