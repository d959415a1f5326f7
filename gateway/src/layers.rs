//! What happens to every request before its face sees it. The order is written in `face.rs`.

pub(crate) mod arriving;
pub(crate) mod deadline;
pub(crate) mod leaving;
pub(crate) mod origin;
pub(crate) mod trace;

use std::time::Duration;

use http::Extensions;
use openskill_proto::trace::Trace;

/// What a request's headers say.
#[derive(Debug, Clone)]
pub(crate) struct Context {
    /// Its ids.
    pub(crate) trace: Trace,
    /// How long its caller waits.
    pub(crate) allowed: Option<Duration>,
}

/// What the headers of a request said, by its extensions.
pub(crate) fn context(extensions: &Extensions) -> (Trace, Option<Duration>) {
    match extensions.get::<Context>() {
        Some(Context { trace, allowed }) => (trace.clone(), *allowed),
        None => (Trace::from_headers(None, None, None), None),
    }
}
