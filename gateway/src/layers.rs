//! What happens to every request before its face sees it. The order is written in `server.rs`.

pub(crate) mod arriving;
pub(crate) mod deadline;
pub(crate) mod leaving;
pub(crate) mod origin;
pub(crate) mod trace;

use std::time::Duration;

use http::Extensions;
use openskill_proto::trace::Trace;

/// What the layers read from a request's headers: its ids, and how long its caller waits.
pub(crate) fn context(extensions: &Extensions) -> (Trace, Option<Duration>) {
    let trace = extensions.get::<Trace>().cloned();
    let allowed = extensions.get::<deadline::Allowed>().and_then(|allowed| allowed.0);
    (trace.unwrap_or_else(|| Trace::from_headers(None, None, None)), allowed)
}
