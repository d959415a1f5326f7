//! How rare the words of a question are, among the pages that there are.

use std::collections::{HashMap, HashSet};

use crate::document::Document;
use crate::index::{Index, rarity};
use crate::question::Question;
use crate::words::terms;

/// The most blocks that are looked at. More do not change what is rare.
const MAX_BLOCKS: usize = 20_000;

/// Rarities by term. A term that is not here is as rare as one that no page has.
#[derive(Debug, Clone, Default)]
pub struct Rarities {
    by_term: HashMap<String, f64>,
    unknown: f64,
}

impl Rarities {
    /// Among the pages of an index.
    pub fn of_index(question: &Question, index: &Index) -> Self {
        let by_term = question.terms.iter().map(|it| (it.term.clone(), index.rarity(&it.term)));
        Self { by_term: by_term.collect(), unknown: index.rarity("") }
    }

    /// Among the blocks of pages: for a few pages that were found because they have the words.
    pub fn of_blocks(question: &Question, documents: &[&Document]) -> Self {
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

    /// How rare a term is.
    pub fn of(&self, term: &str) -> f64 {
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
        let rarities = Rarities::of_blocks(&Question::new("river Rhine zebra"), &[&document]);
        assert!(rarities.of("river") < rarities.of("rhine") && rarities.of("rhine") < rarities.of("zebra"));
    }
}
