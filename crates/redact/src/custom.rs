//! Secrets that a user describes: exact texts, and tokens with a prefix. One pass finds them anywhere in a text.

use aho_corasick::{AhoCorasick, MatchKind};

use crate::classes::run_end;
use crate::shapes::TokenShape;
use crate::span::Span;

/// The secrets that a user describes, compiled into one automaton.
#[derive(Debug, Default)]
pub(crate) struct Custom {
    finder: Option<AhoCorasick>,
    tokens: Vec<TokenShape>,
}

impl Custom {
    /// Compiles exact texts and token shapes.
    ///
    /// # Errors
    /// There are too many of them for one automaton.
    pub(crate) fn new(literals: &[String], tokens: &[TokenShape]) -> Result<Self, aho_corasick::BuildError> {
        let patterns = tokens.iter().map(|token| token.prefix.as_str()).chain(literals.iter().map(String::as_str));
        let finder = AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(patterns)?;
        let finder = (finder.patterns_len() > 0).then_some(finder);
        Ok(Self { finder, tokens: tokens.to_vec() })
    }

    pub(crate) fn find(&self, text: &[u8], spans: &mut Vec<Span>) {
        let Some(finder) = &self.finder else { return };
        // The end of the last examined run. Another prefix inside this run finds nothing new.
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
