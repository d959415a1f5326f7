//! Finds a cause in an error's chain of sources.

use super::reach::EgressRefusal;

/// Returns the egress refusal that caused an error, if any.
pub fn refusal<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a EgressRefusal> {
    cause(error)
}

/// Returns the first cause of type `E` in an error's chain of sources.
pub fn cause<'a, E: std::error::Error + 'static>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a E> {
    let next = |error: &&'a (dyn std::error::Error + 'static)| match error.downcast_ref::<std::io::Error>() {
        // An I/O error's `source` skips the error that it wraps.
        Some(outer) => outer.get_ref().map(|inner| inner as &(dyn std::error::Error + 'static)),
        None => error.source(),
    };
    std::iter::successors(Some(error), next).find_map(|error| error.downcast_ref())
}
