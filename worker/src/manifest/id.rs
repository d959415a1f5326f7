//! Validates skill ids.

/// Describes valid skill ids, for people.
pub const ID_RULE: &str = "a lower-case letter, then at most 63 of a-z 0-9 _ -";

/// Returns whether this is a valid skill id.
pub fn valid_id(id: &str) -> bool {
    id.len() <= 64
        && id.starts_with(|first: char| first.is_ascii_lowercase())
        && id.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-".contains(&byte))
}
