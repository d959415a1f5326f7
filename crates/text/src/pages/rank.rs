//! Finds the sentences of pages that answer a question.
//!
//! A sentence is scored by the rare words of the question that it contains (BM25) and by its context: adjacent
//! sentences, headings, and the page. Words that are adjacent in the question count more if they are close
//! together. A sentence that contains the expected kind of answer, such as a date, scores higher.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use crate::bm25::Bm25;
use crate::words::{Word, terms, words};

use crate::pages::cues;
use crate::pages::document::Document;
use crate::pages::question::Question;
use crate::pages::sentences::sentences;

/// The weights of the components of a score.
#[derive(Debug, Clone, Copy)]
pub struct Weights {
    /// The BM25 parameters for the words of a sentence.
    pub bm25: Bm25,
    /// The weight of a word that only shares its beginning with a word of the question.
    pub similar: f64,
    /// The weight of words in the preceding sentence.
    pub before: f64,
    /// The weight of words in the following sentence.
    pub after: f64,
    /// The weight of words in the headings and the title.
    pub heading: f64,
    /// The weight of words elsewhere in the block.
    pub block: f64,
    /// The weight of adjacent question words that are close together.
    pub pair: f64,
    /// The fraction of the score that depends on whether the sentence looks like an answer.
    pub cue: f64,
    /// The weight of the page's score, which is added to the scores of its sentences.
    pub page: f64,
}

impl Default for Weights {
    fn default() -> Self {
        Self {
            bm25: Bm25 { k1: 0.25, b: 0.3 },
            similar: 0.2,
            before: 0.3,
            after: 0.15,
            heading: 0.5,
            block: 0.2,
            pair: 0.3,
            cue: 0.25,
            page: 0.4,
        }
    }
}

/// A sentence with its position and score.
#[derive(Debug, Clone, PartialEq)]
pub struct Scored {
    /// The index of the sentence's page.
    pub page: usize,
    /// The index of the sentence's block in the page.
    pub block: usize,
    /// The byte range of the sentence in the page's text.
    pub range: Range<usize>,
    /// The score. Higher is better.
    pub score: f64,
    /// The fraction of the question that the sentence itself covers, weighted by rarity, from 0 to 1.
    pub coverage: f64,
    /// A bit set of the question's terms that the sentence contains.
    pub has: u64,
}

/// A page whose sentences are ranked.
#[derive(Debug, Clone, Copy)]
pub struct Candidate<'a> {
    /// The parsed page.
    pub document: &'a Document,
    /// The search score, comparable among all pages. 0 if unknown.
    pub score: f64,
}

/// Scores all sentences that contain a word of the question, best first. `rarity` returns how rare a term is.
/// `stop` is called before each block; once it returns true, the sentences scored so far are returned.
pub fn rank(
    question: &Question,
    pages: &[Candidate<'_>],
    rarity: impl Fn(&str) -> f64,
    weights: &Weights,
    stop: impl Fn() -> bool,
) -> Vec<Scored> {
    let rarities: Vec<f64> = question.terms.iter().map(|it| rarity(&it.term).max(0.05) * it.weight).collect();
    let ranking = Ranking { question, rarities, weights };
    let best = pages.iter().map(|it| it.score).fold(0.0, f64::max);
    let mut found = Vec::new();
    for (number, page) in pages.iter().enumerate() {
        let part = if best > 0.0 { page.score / best } else { 0.0 };
        for (block, _) in page.document.blocks.iter().enumerate() {
            if stop() {
                break;
            }
            ranking.block(number, page.document, block, part, &mut found);
        }
    }
    found.sort_by(|a: &Scored, b| {
        b.score.total_cmp(&a.score).then((a.page, a.range.start).cmp(&(b.page, b.range.start)))
    });
    found
}

struct Ranking<'a> {
    question: &'a Question,
    rarities: Vec<f64>,
    weights: &'a Weights,
}

/// A sentence with its matches of question words.
struct Sentence {
    range: Range<usize>,
    words: Vec<Word>,
    /// The weighted count of each term: 1 for each exact match, less for a similar word.
    counts: Vec<f64>,
    /// The word positions of each term.
    places: Vec<Vec<usize>>,
}

/// The length of a typical sentence, in words.
const MEAN_WORDS: f64 = 22.0;

/// The maximum distance between the words of a pair, in words.
const NEAR: usize = 4;

impl Ranking<'_> {
    fn block(&self, page: usize, document: &Document, number: usize, part: f64, found: &mut Vec<Scored>) {
        let Some(block) = document.blocks.get(number) else { return };
        let Some(text) = document.text.get(block.range.clone()) else { return };
        let all: Vec<Sentence> = sentences(text).into_iter().map(|it| self.sentence(text, it)).collect();
        if all.iter().all(|it| it.counts.iter().all(|count| *count == 0.0)) {
            return;
        }
        let above = [document.heading(block), document.table_head(block), &document.title];
        let headings: HashSet<String> = above.into_iter().flat_map(terms).collect();
        let terms = &self.question.terms;
        let in_block = |term: usize| all.iter().any(|it| it.counts.get(term).is_some_and(|count| *count > 0.0));
        let in_block: Vec<bool> = (0..terms.len()).map(in_block).collect();
        let asked: HashSet<&str> = terms.iter().map(|it| it.term.as_str()).collect();
        let total: f64 = self.rarities.iter().sum::<f64>().max(0.001);
        for (place, sentence) in all.iter().enumerate() {
            let base = self.score(&all, place, &headings, &in_block);
            if base <= 0.0 {
                continue;
            }
            let slice = text.get(sentence.range.clone()).unwrap_or_default();
            let cue = cues::strength(self.question.kind, slice, &sentence.words, &asked);
            let score = base / total * (1.0 - self.weights.cue + self.weights.cue * cue) + self.weights.page * part;
            let has = sentence.counts.iter().take(64).enumerate();
            let has = has.filter(|(_, count)| **count > 0.0).fold(0, |bits, (at, _)| bits | 1 << at);
            let range = block.range.start + sentence.range.start..block.range.start + sentence.range.end;
            let own = self.rarities.iter().zip(&sentence.counts).map(|(rarity, count)| rarity * count.min(1.0));
            let coverage = own.sum::<f64>() / total;
            found.push(Scored { page, block: number, range, score, coverage, has });
        }
    }

    fn sentence(&self, text: &str, range: Range<usize>) -> Sentence {
        let words = words(text.get(range.clone()).unwrap_or_default());
        let terms = &self.question.terms;
        let (mut counts, mut places) = (vec![0.0; terms.len()], vec![Vec::new(); terms.len()]);
        for (place, word) in words.iter().enumerate().filter(|(_, it)| !it.is_stopword) {
            for (term, (count, places)) in terms.iter().zip(counts.iter_mut().zip(&mut places)) {
                if term.term == word.term {
                    *count += 1.0;
                    places.push(place);
                } else if *count < self.weights.similar && is_similar(&term.term, &word.term) {
                    *count = self.weights.similar;
                    places.push(place);
                }
            }
        }
        Sentence { range, words, counts, places }
    }

    fn score(&self, all: &[Sentence], place: usize, headings: &HashSet<String>, in_block: &[bool]) -> f64 {
        let weights = self.weights;
        let Some(own) = all.get(place) else { return 0.0 };
        let neighbour_has = |at: Option<usize>, term: usize| {
            at.and_then(|it| all.get(it)).and_then(|it| it.counts.get(term)).is_some_and(|it| *it > 0.0)
        };
        let length = own.words.len() as f64 / MEAN_WORDS;
        let mut score = 0.0;
        for (number, (term, rarity)) in self.question.terms.iter().zip(&self.rarities).enumerate() {
            let count = own.counts.get(number).copied().unwrap_or_default();
            let within = weights.bm25.score(count, length);
            let mut around: f64 = 0.0;
            let mut take = |is_there: bool, weight: f64| around = around.max(if is_there { weight } else { 0.0 });
            take(neighbour_has(place.checked_sub(1), number), weights.before);
            take(neighbour_has(Some(place + 1), number), weights.after);
            take(headings.contains(&term.term), weights.heading);
            take(in_block.get(number).copied().unwrap_or_default(), weights.block);
            score += rarity * within.max(around);
        }
        for (one, other) in &self.question.pairs {
            let (Some(ones), Some(others)) = (own.places.get(*one), own.places.get(*other)) else { continue };
            if ones.iter().any(|a| others.iter().any(|b| a.abs_diff(*b) <= NEAR)) {
                let rarity = |at: &usize| self.rarities.get(*at).copied().unwrap_or_default();
                score += weights.pair * rarity(one).min(rarity(other));
            }
        }
        score
    }
}

/// Returns whether two stems probably belong to the same word family, such as `invas` and `invad`.
fn is_similar(one: &str, other: &str) -> bool {
    if one.len() < 4 || other.len() < 4 || !one.is_ascii() || !other.is_ascii() {
        return false;
    }
    let shared = one.bytes().zip(other.bytes()).take_while(|(a, b)| a == b).count();
    shared >= 4 && shared + 2 >= one.len().min(other.len()) && shared * 3 >= one.len().max(other.len()) * 2
}

/// Returns the score of each page: the score of its best sentence, plus a small part of the next scores.
pub fn page_scores(scored: &[Scored]) -> Vec<(usize, f64)> {
    let mut scores: HashMap<usize, (f64, usize)> = HashMap::new();
    for it in scored {
        let (score, count) = scores.entry(it.page).or_default();
        if *count < 3 {
            *score += it.score * [1.0, 0.1, 0.05].get(*count).copied().unwrap_or_default();
            *count += 1;
        }
    }
    let mut pages: Vec<_> = scores.into_iter().map(|(page, (score, _))| (page, score)).collect();
    pages.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    pages
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pages::plain;

    fn first(question: &str, text: &str) -> String {
        let document = plain::read(text);
        let pages = [Candidate { document: &document, score: 0.0 }];
        let scored = rank(&Question::new(question), &pages, |_| 1.0, &Weights::default(), || false);
        document.text[scored[0].range.clone()].to_owned()
    }

    #[test]
    fn the_sentence_that_answers_comes_first() {
        let text = "The tower is famous. The tower was built by Gustave Eiffel. Many visit the tower in summer.";
        assert_eq!(first("Who built the tower?", text), "The tower was built by Gustave Eiffel.");
        let text = "Visitors pay to see the fort. The fort was taken in 1756. The fort has a museum.";
        assert_eq!(first("When was the fort taken?", text), "The fort was taken in 1756.");
        assert_eq!(first("北京的人口是多少？", "北京是首都。北京的人口是2100万。上海很大。"), "北京的人口是2100万。");
    }

    #[test]
    fn words_of_a_family_are_similar() {
        assert!(is_similar("invad", "invas") && is_similar("explor", "explo"));
        assert!(!is_similar("comput", "commun") && !is_similar("form", "formula"));
    }
}
