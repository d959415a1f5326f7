//! Finds what caused an error.

use super::egress::Refusal;

/// The refusal that caused a client's error.
pub(crate) fn refusal<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a Refusal> {
    cause(error)
}

/// The cause of an error, if it is of this type.
pub(super) fn cause<'a, E: std::error::Error + 'static>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a E> {
    let next = |error: &&'a (dyn std::error::Error + 'static)| match error.downcast_ref::<std::io::Error>() {
        // An I/O error's source skips the error it wraps.
        Some(outer) => outer.get_ref().map(|inner| inner as &(dyn std::error::Error + 'static)),
        None => error.source(),
    };
    std::iter::successors(Some(error), next).find_map(|error| error.downcast_ref())
}
