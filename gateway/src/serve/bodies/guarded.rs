//! A guard that is dropped once a body is sent or dropped. Counts responses in flight.

use http_body::Body;
use http_body_util::BodyExt as _;
use http_body_util::combinators::MapErr;

/// Keeps a guard until the body is dropped.
pub(crate) fn guard<B: Body, G>(body: B, guard: G) -> MapErr<B, impl FnMut(B::Error) -> B::Error> {
    body.map_err(move |error| {
        // Moves the guard into the body.
        let _ = &guard;
        error
    })
}
