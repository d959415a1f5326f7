//! The layers of [`super::stack`]. Each reads or bounds one thing; what it learns travels in the request's extensions.
//! [`screen`] refuses requests by what [`head`] and [`origin`] find; [`cors`] lets pages of allowed origins read answers.
//!
//! [`identity`] finds the principal, if the gateway asks for keys.
//!
//! [`request_context`] reads it there: the trace, the door, the timeout, and the principal.

pub(crate) mod bodies;
pub(crate) mod cors;
pub(crate) mod deadline;
mod encoding;
mod head;
pub(crate) mod identity;
pub(crate) mod origin;
pub(crate) mod reads;
pub(crate) mod screen;
pub(crate) mod sites;
pub(crate) mod trace;

use http::Extensions;
use openskill_proto::trace::Trace;

use crate::call::door::Door;
use crate::call::principal::Principal;
use crate::call::request::RequestContext;
use deadline::Timeout;

/// What the layers learned about a request.
pub(crate) fn request_context(extensions: &Extensions) -> RequestContext {
    let unknown = RequestContext::unknown;
    RequestContext {
        trace: extensions.get::<Trace>().cloned().unwrap_or_else(|| unknown().trace),
        door: extensions.get::<Door>().copied().unwrap_or_default(),
        timeout: extensions.get::<Timeout>().map(|Timeout(timeout)| *timeout),
        principal: extensions.get::<Principal>().cloned().unwrap_or_default(),
    }
}
