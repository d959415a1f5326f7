//! The steps of [`super::stack`]. Each reads or limits one thing, and puts what it learns into the request's
//! extensions.
//!
//! - [`screen`]: finds requests to refuse, by [`head`] and [`origin`]
//! - [`cors`]: lets pages of allowed origins read responses
//! - [`identity`]: finds the principal, if the gateway requires keys
//! - [`request_context`]: reads the extensions: the trace, the operation, the timeout, and the principal

pub(crate) mod cors;
pub(crate) mod deadline;
pub(crate) mod encoding;
mod head;
pub(crate) mod identity;
pub(crate) mod origin;
pub(crate) mod reads;
pub(crate) mod screen;
pub(crate) mod sites;
pub(crate) mod trace;

use http::Extensions;
use openskill_proto::trace::Trace;

use crate::call::operation::Operation;
use crate::call::principal::Principal;
use crate::call::request::RequestContext;
use deadline::Timeout;

/// Builds the context of a request from the layers' extensions.
pub(crate) fn request_context(extensions: &Extensions) -> RequestContext {
    let unknown = RequestContext::unknown;
    RequestContext {
        trace: extensions.get::<Trace>().cloned().unwrap_or_else(|| unknown().trace),
        operation: operation(extensions).unwrap_or(&Operation::INTERNAL),
        timeout: extensions.get::<Timeout>().map(|Timeout(timeout)| *timeout),
        principal: extensions.get::<Principal>().cloned().unwrap_or_default(),
    }
}

/// The operation of a request. None for an unknown one.
pub(crate) fn operation(extensions: &Extensions) -> Option<&'static Operation> {
    extensions.get().copied()
}
