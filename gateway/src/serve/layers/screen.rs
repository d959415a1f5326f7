//! Finds requests with ambiguous heads, and requests from web pages of other sites.

use http::Request;
use http::uri::Authority;

use super::head;
use super::origin::{self, Foreign};
use super::sites::Sites;

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RejectReason {
    /// Its head is ambiguous. Contains the reason.
    Malformed(&'static str),
    /// It comes, or may come, from another site.
    Foreign(Foreign),
}

/// Returns why a request is refused. None if it is not. `is_loopback`: the listener has a loopback address. `sites` are
/// those that the operator allows.
pub(crate) fn fault<B>(request: &Request<B>, is_loopback: bool, sites: Option<&Sites>) -> Option<RejectReason> {
    let (uri, headers) = (request.uri(), request.headers());
    head::fault(request.version(), uri, headers).map(RejectReason::Malformed).or_else(|| {
        let authority = uri.authority().map(Authority::as_str);
        origin::fault(headers, authority, is_loopback, sites).map(RejectReason::Foreign)
    })
}
