//! The arguments of a call.

use openskill_proto::v1::SkillError;
use serde::Deserialize;

use crate::call::{invalid_argument, read_arguments};

/// The maximum number of matches in an answer.
const MOST_MATCHES: usize = 1000;

/// The maximum number of context lines on each side of a match.
const MOST_CONTEXT: usize = 20;

/// The arguments of a call. The manifest uses the same names, defaults and limits, and the gateway checks calls against it.
#[derive(Debug, Deserialize)]
pub(super) struct SearchArguments {
    pub(super) file_path: String,
    pub(super) regex_pattern: String,
    #[serde(default)]
    pub(super) ignore_case: bool,
    #[serde(default)]
    pub(super) context: usize,
    #[serde(default = "default_matches")]
    pub(super) max_matches: usize,
    #[serde(default)]
    pub(super) glob: String,
}

fn default_matches() -> usize {
    100
}

impl SearchArguments {
    /// # Errors
    /// The arguments are invalid.
    pub(super) fn read(input: &[u8]) -> Result<Self, SkillError> {
        let mut read: Self = read_arguments(input)?;
        if !(1..=MOST_MATCHES).contains(&read.max_matches) {
            return Err(invalid_argument(format!("max_matches: must be 1 to {MOST_MATCHES}")));
        }
        read.context = read.context.min(MOST_CONTEXT);
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_kept() {
        let read = |text: &str| SearchArguments::read(text.as_bytes());
        let least = read(r#"{"file_path": "a", "regex_pattern": "b"}"#).unwrap();
        assert_eq!((least.max_matches, least.context, least.ignore_case), (100, 0, false));
        assert!(read(r#"{"file_path": "a", "regex_pattern": "b", "max_matches": 0}"#).is_err());
        assert!(read(r#"{"file_path": "a"}"#).is_err());
        assert_eq!(read(r#"{"file_path": "a", "regex_pattern": "b", "context": 9999}"#).unwrap().context, MOST_CONTEXT);
    }
}
