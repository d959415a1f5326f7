//! Finds the sentences of pages that answer a question.
//!
//! A sentence is scored by the rare words of the question in it (BM25), and by what is around it: the sentences beside it, its
//! headings, its page. Words that stand together in the question count more where they stand together, and a sentence that
//! holds what is asked for, such as a date, counts more than one that does not.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use crate::cues;
use crate::document::Document;
use crate::question::Question;
use crate::sentences::sentences;
use crate::words::{Word, terms, words};

/// What counts how much.
#[derive(Debug, Clone, Copy)]
pub struct Weights {
    /// Saturation of repeated words, and the penalty of long sentences.
    pub k1: f64,
    /// The penalty of long sentences.
    pub b: f64,
    /// A word that shares only its beginning with the question's.
    pub similar: f64,
    /// Words in the sentence before, and after.
    pub before: f64,
    /// Words in the sentence after.
    pub after: f64,
    /// Words in the headings and the title.
    pub heading: f64,
    /// Words elsewhere in the block.
    pub block: f64,
    /// Words that stand together.
    pub pair: f64,
    /// The part of the score that depends on whether it looks like an answer.
    pub cue: f64,
    /// The score of the page beside that of its sentence.
    pub page: f64,
}

impl Default for Weights {
    fn default() -> Self {
        Self {
            k1: 0.25,
            b: 0.3,
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

/// A sentence that was scored.
#[derive(Debug, Clone, PartialEq)]
pub struct Scored {
    /// The page, by its place among those given.
    pub page: usize,
    /// The block in it.
    pub block: usize,
    /// The sentence, in bytes of the page's text.
    pub range: Range<usize>,
    /// Higher is better.
    pub score: f64,
    /// How much of the question it has in its own words, by rarity, from 0 to 1.
    pub coverage: f64,
    /// Which terms of the question it has, a bit each.
    pub has: u64,
}

/// A page to rank.
#[derive(Debug, Clone, Copy)]
pub struct Page<'a> {
    /// Its text.
    pub document: &'a Document,
    /// What whoever found it thinks of it; comparable among the pages given. 0: unknown.
    pub score: f64,
}

/// Scores all sentences of the pages that have a word of the question, the best first. `rarity` says how rare a term is;
/// `stop` is asked now and then, and ends the work with what there is.
pub fn rank(
    question: &Question,
    pages: &[Page<'_>],
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

/// A sentence, and which words of the question it has.
struct Sentence {
    range: Range<usize>,
    words: Vec<Word>,
    /// How much of each term is there: 1 for each time, less for a similar word.
    counts: Vec<f64>,
    /// Where each term was seen, in words.
    places: Vec<Vec<usize>>,
}

/// A usual sentence, in words.
const MEAN_WORDS: f64 = 22.0;

/// How close the words of a pair must be.
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
        let beside = |at: Option<usize>, term: usize| {
            at.and_then(|it| all.get(it)).and_then(|it| it.counts.get(term)).is_some_and(|it| *it > 0.0)
        };
        let length = own.words.len() as f64 / MEAN_WORDS;
        let mut score = 0.0;
        for (number, (term, rarity)) in self.question.terms.iter().zip(&self.rarities).enumerate() {
            let count = own.counts.get(number).copied().unwrap_or_default();
            let within = count * (weights.k1 + 1.0) / (count + weights.k1 * (1.0 - weights.b + weights.b * length));
            let mut around: f64 = 0.0;
            let mut take = |is_there: bool, weight: f64| around = around.max(if is_there { weight } else { 0.0 });
            take(beside(place.checked_sub(1), number), weights.before);
            take(beside(Some(place + 1), number), weights.after);
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

/// Whether two stems probably belong to one family: `invas` and `invad`.
fn is_similar(one: &str, other: &str) -> bool {
    if one.len() < 4 || other.len() < 4 || !one.is_ascii() || !other.is_ascii() {
        return false;
    }
    let shared = one.bytes().zip(other.bytes()).take_while(|(a, b)| a == b).count();
    shared >= 4 && shared + 2 >= one.len().min(other.len()) && shared * 3 >= one.len().max(other.len()) * 2
}

/// The score of each page: that of its best sentence, with a little of its next ones.
pub fn pages(scored: &[Scored]) -> Vec<(usize, f64)> {
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
    use crate::plain;

    fn first(question: &str, text: &str) -> String {
        let document = plain::read(text);
        let pages = [Page { document: &document, score: 0.0 }];
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
