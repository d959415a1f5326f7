//! The agent as clients meet it: `AgentService` over gRPC, and the same over REST.
//!
//! - [`grpc`]: the service; [`rest`]: the routes under `/agent`
//! - `stream`: the events of one exchange, with an end for clients that can send no more
//! - `refusal`: what clients learn of a refusal
//!
//! Whoever mounts the faces brings authentication and the bounds of connections: here a request is only read.

use std::fmt;
use std::sync::Arc;

use http::Extensions;

use crate::hosted::Hosted;
use crate::skills::Owner;

pub mod grpc;
mod refusal;
pub mod rest;
mod stream;

/// Tells from what the layers before a face found out on whose behalf a request is.
type Identify = dyn Fn(&Extensions) -> Owner + Send + Sync;

/// What both faces serve. Cheap to clone.
#[derive(Clone)]
pub struct Served {
    agent: Hosted,
    identify: Arc<Identify>,
}

impl Served {
    /// `identify`: whose request it is.
    pub fn new(agent: Hosted, identify: impl Fn(&Extensions) -> Owner + Send + Sync + 'static) -> Self {
        Self { agent, identify: Arc::new(identify) }
    }

    fn owner(&self, extensions: &Extensions) -> Owner {
        (self.identify)(extensions)
    }

    fn principal(&self, extensions: &Extensions) -> String {
        self.owner(extensions).principal
    }
}

impl fmt::Debug for Served {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Served").field("agent", &self.agent).finish_non_exhaustive()
    }
}
