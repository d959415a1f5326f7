//! How rare the words of a question are in a set of pages.

use std::collections::{HashMap, HashSet};

use openskill_text::words::terms;

use crate::document::Document;
use crate::index::{Index, rarity};
use crate::question::Question;

/// The maximum number of blocks to count. Counting more would not change which words are rare.
const MAX_BLOCKS: usize = 20_000;

/// Rarities by term. Unknown terms count as terms that no page contains.
#[derive(Debug, Clone, Default)]
pub struct Rarities {
    by_term: HashMap<String, f64>,
    unknown: f64,
}

impl Rarities {
    /// Returns the rarities of a question's terms in an index.
    pub fn from_index(question: &Question, index: &Index) -> Self {
        let by_term = question.terms.iter().map(|it| (it.term.clone(), index.rarity(&it.term)));
        Self { by_term: by_term.collect(), unknown: index.rarity("") }
    }

    /// Returns the rarities among the blocks of a few pages. Pages are too coarse, because all of them were found
    /// by these words.
    pub fn from_blocks(question: &Question, documents: &[&Document]) -> Self {
        let asked: HashSet<&str> = question.terms.iter().map(|it| it.term.as_str()).collect();
        let (mut having, mut total): (HashMap<String, usize>, usize) = (HashMap::new(), 0);
        let blocks = documents
            .iter()
            .flat_map(|document| document.blocks.iter().filter_map(|block| document.text.get(block.range.clone())));
        for block in blocks.take(MAX_BLOCKS) {
            total += 1;
            let has: HashSet<String> = terms(block).into_iter().filter(|it| asked.contains(it.as_str())).collect();
            has.into_iter().for_each(|term| *having.entry(term).or_default() += 1);
        }
        Self {
            by_term: having.into_iter().map(|(term, count)| (term, rarity(total, count))).collect(),
            unknown: rarity(total, 0),
        }
    }

    /// Returns how rare a term is.
    pub fn get(&self, term: &str) -> f64 {
        self.by_term.get(term).copied().unwrap_or(self.unknown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plain;

    #[test]
    fn a_word_of_every_block_says_little() {
        let document = plain::read("the river here\n\nthe river there\n\nthe river Rhine");
        let rarities = Rarities::from_blocks(&Question::new("river Rhine zebra"), &[&document]);
        assert!(rarities.get("river") < rarities.get("rhine") && rarities.get("rhine") < rarities.get("zebra"));
    }
}
