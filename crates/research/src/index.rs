//! Finds pages among many, by BM25.

use std::collections::HashMap;

use crate::document::Document;
use crate::question::Question;
use crate::words::terms;

const K1: f64 = 1.2;
const B: f64 = 0.75;

/// How often a word of the title or of a heading counts.
const TITLE_COUNT: u32 = 2;

/// Which pages have which words.
#[derive(Debug, Default)]
pub struct Index {
    lengths: Vec<u32>,
    total: u64,
    /// Pages by term, with how often they have it.
    pages: HashMap<String, Vec<(u32, u32)>>,
}

/// How often a page has each term.
#[derive(Debug, Default)]
pub struct Counts {
    by_term: HashMap<String, u32>,
    length: u32,
}

impl Counts {
    /// Counts the terms of a page. Words of its title and its headings count more.
    pub fn of(document: &Document) -> Self {
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
    /// Adds a page. Its number is how many there were before.
    pub fn add(&mut self, counts: &Counts) {
        let number = self.lengths.len() as u32;
        for (term, count) in &counts.by_term {
            self.pages.entry(term.clone()).or_default().push((number, *count));
        }
        self.lengths.push(counts.length);
        self.total += u64::from(counts.length);
    }

    /// How many pages there are.
    pub fn len(&self) -> usize {
        self.lengths.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.lengths.is_empty()
    }

    /// How rare a term is.
    pub fn rarity(&self, term: &str) -> f64 {
        rarity(self.len(), self.pages.get(term).map_or(0, Vec::len))
    }

    /// The best pages, at most `most`, with their scores, the best first.
    pub fn find(&self, question: &Question, most: usize) -> Vec<(usize, f64)> {
        let mean = self.total as f64 / (self.len().max(1) as f64);
        let mut scores: HashMap<u32, f64> = HashMap::new();
        for term in &question.terms {
            let rarity = self.rarity(&term.term) * term.weight;
            for (page, count) in self.pages.get(&term.term).into_iter().flatten() {
                let length = f64::from(self.lengths.get(*page as usize).copied().unwrap_or_default());
                let count = f64::from(*count);
                let part = count * (K1 + 1.0) / (count + K1 * (1.0 - B + B * length / mean.max(1.0)));
                *scores.entry(*page).or_default() += rarity * part;
            }
        }
        let mut found: Vec<_> = scores.into_iter().map(|(page, score)| (page as usize, score)).collect();
        found.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        found.truncate(most);
        found
    }
}

/// How many texts without any of the words are added to those that there are: a few say little about what is rare.
const OTHERS: usize = 50;

/// How rare a word is that `having` of `all` texts have.
pub fn rarity(all: usize, having: usize) -> f64 {
    let (all, having) = ((all.max(having) + OTHERS) as f64, having as f64);
    ((all - having + 0.5) / (having + 0.5)).ln_1p()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plain;

    #[test]
    fn the_page_about_it_comes_first() {
        let mut index = Index::default();
        for text in ["The river Rhine flows north.", "A river is water that flows.", "Mountains are high."] {
            index.add(&Counts::of(&plain::read(text)));
        }
        let found = index.find(&Question::new("Where does the Rhine flow?"), 5);
        assert_eq!(found.iter().map(|it| it.0).collect::<Vec<_>>(), [0, 1]);
        assert!(index.rarity("rhine") > index.rarity("river"));
        assert!(index.find(&Question::new("zebra"), 5).is_empty());
    }
}
