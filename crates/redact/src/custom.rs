//! Secrets that a user describes: exact texts, and tokens by their prefix. Found in one pass, wherever they stand.

use aho_corasick::{AhoCorasick, MatchKind};

use crate::classes::run_end;
use crate::span::Span;

/// A token by its prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) prefix: String,
    /// What follows: classes of bytes.
    pub(crate) characters: u16,
    /// How much follows, at least.
    pub(crate) shortest: usize,
}

/// The compiled descriptions.
#[derive(Debug, Default)]
pub(crate) struct Custom {
    finder: Option<AhoCorasick>,
    tokens: Vec<Token>,
}

impl Custom {
    /// # Errors
    /// There are too many.
    pub(crate) fn new(literals: &[String], tokens: &[Token]) -> Result<Self, aho_corasick::BuildError> {
        let patterns = tokens.iter().map(|token| token.prefix.as_str()).chain(literals.iter().map(String::as_str));
        let finder = AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(patterns)?;
        let finder = (finder.patterns_len() > 0).then_some(finder);
        Ok(Self { finder, tokens: tokens.to_vec() })
    }

    pub(crate) fn find(&self, text: &[u8], spans: &mut Vec<Span>) {
        let Some(finder) = &self.finder else { return };
        // Where the run ended that was looked at last: a later prefix within it finds no more.
        let mut run = 0;
        for found in finder.find_iter(text) {
            let Some(token) = self.tokens.get(found.pattern().as_usize()) else {
                spans.push(Span::secret(found.start(), found.end()));
                continue;
            };
            if found.end() < run {
                continue;
            }
            run = run_end(text, found.end(), token.characters);
            if run - found.end() >= token.shortest {
                spans.push(Span::secret(found.start(), run));
            }
        }
    }
}
