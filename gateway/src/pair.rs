//! A session and a skill, or a group of skills, as one name.

/// Stands between the two. Neither can hold it.
const SEPARATOR: char = '\0';

/// The one name. Made for each call, so without the formatter.
pub(crate) fn join(session: &str, other: &str) -> String {
    let mut pair = String::with_capacity(session.len() + SEPARATOR.len_utf8() + other.len());
    pair.push_str(session);
    pair.push(SEPARATOR);
    pair.push_str(other);
    pair
}

/// The session, and the other.
pub(crate) fn split(pair: &str) -> (&str, &str) {
    pair.split_once(SEPARATOR).unwrap_or(("", pair))
}
