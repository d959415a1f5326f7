//! Where a page of a list ends, as text for clients.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};
use std::hash::{Hash, Hasher};

use crate::operation::OperationFilter;

/// The position after which a page begins. Lists are sorted from new to old.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Position {
    /// When the last operation of the page before was created.
    pub created_ms: i64,
    /// Its id.
    pub id: String,
}

/// A token that no list with this filter returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("page_token does not belong to this list: pass next_page_token of the page before, and the same filter")]
pub struct InvalidToken;

impl Position {
    /// The first position.
    #[must_use]
    pub fn first() -> Self {
        Self { created_ms: i64::MAX, id: String::new() }
    }

    /// Returns the token of this position in a list.
    #[must_use]
    pub fn token(&self, filter: &OperationFilter) -> String {
        let text = format!("{}:{}", self.created_ms, self.id);
        URL_SAFE_NO_PAD.encode([checksum(&text, filter).as_slice(), text.as_bytes()].concat())
    }

    /// Reads a token. An empty one is the first position.
    ///
    /// # Errors
    /// It is not the token of a list with this filter.
    pub fn parse(token: &str, filter: &OperationFilter) -> Result<Self, InvalidToken> {
        if token.is_empty() {
            return Ok(Self::first());
        }
        let bytes = URL_SAFE_NO_PAD.decode(token).map_err(|_| InvalidToken)?;
        let (sum, text) = bytes.split_at_checked(CHECKSUM_BYTES).ok_or(InvalidToken)?;
        let text = std::str::from_utf8(text).map_err(|_| InvalidToken)?;
        let (created_ms, id) = text.split_once(':').ok_or(InvalidToken)?;
        if sum != checksum(text, filter) {
            return Err(InvalidToken);
        }
        Ok(Self { created_ms: created_ms.parse().map_err(|_| InvalidToken)?, id: id.to_owned() })
    }
}

const CHECKSUM_BYTES: usize = 8;

/// Ties a position to its filter. Not a secret: a forged position shows nothing that the filter does not.
fn checksum(text: &str, filter: &OperationFilter) -> [u8; CHECKSUM_BYTES] {
    struct Sha(Sha256);
    impl Hasher for Sha {
        fn finish(&self) -> u64 {
            0
        }
        fn write(&mut self, bytes: &[u8]) {
            self.0.update(bytes);
        }
    }
    let mut hasher = Sha(Sha256::new());
    (text, filter).hash(&mut hasher);
    let mut sum = [0; CHECKSUM_BYTES];
    sum.copy_from_slice(&hasher.0.finalize()[..CHECKSUM_BYTES]);
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_read_only_with_its_filter_and_unchanged() {
        let (filter, position) = (OperationFilter::default(), Position { created_ms: 7, id: "a:b".to_owned() });
        let token = position.token(&filter);
        assert_eq!(Position::parse(&token, &filter), Ok(position));
        assert_eq!(Position::parse("", &filter), Ok(Position::first()));
        let other = OperationFilter { skill_id: "echo".to_owned(), ..OperationFilter::default() };
        assert_eq!(Position::parse(&token, &other), Err(InvalidToken));
        for forged in ["x", "====", "AAAAAAAAAAAx", &token[1..], &format!("{token}A")] {
            assert_eq!(Position::parse(forged, &filter), Err(InvalidToken), "{forged}");
        }
    }
}
