//! An index that finds pages by BM25, and how rare the words of a question are in a set of pages.

use std::collections::{HashMap, HashSet};

use crate::bm25::{self, Bm25};
use crate::words::terms;

use crate::pages::document::Document;
use crate::pages::question::Question;

/// How many times a word in the title or a heading counts.
const TITLE_COUNT: u32 = 2;

/// An inverted index of pages.
#[derive(Debug, Default)]
pub struct Index {
    lengths: Vec<u32>,
    total: u64,
    /// For each term, the pages that contain it and its count in each.
    pages: HashMap<String, Vec<(u32, u32)>>,
}

/// Weighted counts of each term in a page.
#[derive(Debug, Default)]
pub struct TermCounts {
    by_term: HashMap<String, u32>,
    length: u32,
}

impl TermCounts {
    /// Counts the terms of a page. Words in its title and headings count more.
    pub fn from_document(document: &Document) -> Self {
        let mut counts = Self::default();
        for term in terms(&document.text) {
            *counts.by_term.entry(term).or_default() += 1;
            counts.length += 1;
        }
        let headings = document.headings.iter().filter_map(|it| it.rsplit(" > ").next());
        for term in headings.chain([document.title.as_str()]).flat_map(terms) {
            *counts.by_term.entry(term).or_default() += TITLE_COUNT;
        }
        counts
    }
}

impl Index {
    /// Adds a page. Pages are numbered from 0 in the order in which they are added.
    pub fn add(&mut self, counts: &TermCounts) {
        let number = self.lengths.len() as u32;
        for (term, count) in &counts.by_term {
            self.pages.entry(term.clone()).or_default().push((number, *count));
        }
        self.lengths.push(counts.length);
        self.total += u64::from(counts.length);
    }

    /// Returns how rare a term is.
    pub fn rarity(&self, term: &str) -> f64 {
        rarity(self.lengths.len(), self.pages.get(term).map_or(0, Vec::len))
    }

    /// Returns at most `most` pages with their scores, best first.
    pub fn find(&self, question: &Question, most: usize) -> Vec<(usize, f64)> {
        let mean = self.total as f64 / (self.lengths.len().max(1) as f64);
        let mut scores: HashMap<u32, f64> = HashMap::new();
        for term in &question.terms {
            let rarity = self.rarity(&term.term) * term.weight;
            for (page, count) in self.pages.get(&term.term).into_iter().flatten() {
                let length = f64::from(self.lengths.get(*page as usize).copied().unwrap_or_default());
                let part = Bm25::USUAL.score(f64::from(*count), length / mean.max(1.0));
                *scores.entry(*page).or_default() += rarity * part;
            }
        }
        let mut found: Vec<_> = scores.into_iter().map(|(page, score)| (page as usize, score)).collect();
        found.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        found.truncate(most);
        found
    }
}

/// The number of additional texts that are assumed not to contain the word, because rarity can't be estimated from
/// a few texts.
const OTHERS: usize = 50;

/// Returns the rarity of a word that occurs in `having` of `all` texts.
fn rarity(all: usize, having: usize) -> f64 {
    bm25::rarity((all.max(having) + OTHERS) as f64, having as f64)
}

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
    use crate::pages::plain;

    #[test]
    fn the_page_about_it_comes_first() {
        let mut index = Index::default();
        for text in ["The river Rhine flows north.", "A river is water that flows.", "Mountains are high."] {
            index.add(&TermCounts::from_document(&plain::read(text)));
        }
        let found = index.find(&Question::new("Where does the Rhine flow?"), 5);
        assert_eq!(found.iter().map(|it| it.0).collect::<Vec<_>>(), [0, 1]);
        assert!(index.rarity("rhine") > index.rarity("river"));
        assert!(index.find(&Question::new("zebra"), 5).is_empty());
    }

    #[test]
    fn a_word_of_every_block_says_little() {
        let document = plain::read("the river here\n\nthe river there\n\nthe river Rhine");
        let rarities = Rarities::from_blocks(&Question::new("river Rhine zebra"), &[&document]);
        assert!(rarities.get("river") < rarities.get("rhine") && rarities.get("rhine") < rarities.get("zebra"));
    }
}
