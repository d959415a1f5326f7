//! Quotes: verbatim sentences of a page, extended by relevant neighbours.

use std::ops::Range;

use crate::pages::document::Document;
use crate::pages::rank::Scored;
use crate::pages::sentences::sentences;

/// The minimum coverage of a quote. Coverage is the fraction of the question that the quote contains, weighted by
/// rarity.
const LEAST_COVERAGE: f64 = 0.2;

/// The minimum score of a quote, as a fraction of the best score.
const LEAST_OF_BEST: f64 = 0.6;

/// The maximum number of sentences to try, because a page may repeat the same sentence many times.
const MAX_TRIES: usize = 100;

/// The maximum number of sentences to search for a neighbour's score.
const MAX_LOOKED_AT: usize = 2000;

/// The maximum length of a quote that is extended by neighbours, in bytes.
const WIDE_BYTES: usize = 400;

/// A quote with its position.
#[derive(Debug, Clone, PartialEq)]
pub struct Quote {
    /// The index of the page among the ranked pages.
    pub page: usize,
    /// The byte range of the quote in the page's text.
    pub range: Range<usize>,
    /// A bit set of the question's terms that the quote contains.
    pub has: u64,
}

/// Keeps the sentences that cover enough of the question to be quoted.
pub fn fit(scored: Vec<Scored>) -> Vec<Scored> {
    let best = scored.iter().filter(|it| it.coverage >= LEAST_COVERAGE).map(|it| it.score).fold(0.0, f64::max);
    let is_fit = |it: &Scored| it.coverage >= LEAST_COVERAGE && it.score >= best * LEAST_OF_BEST;
    scored.into_iter().filter(is_fit).collect()
}

/// Chooses the best non-overlapping quotes: at most `most`, and at most `per_page` from each page.
pub fn choose(documents: &[&Document], scored: &[Scored], most: usize, per_page: usize) -> Vec<Quote> {
    let (mut chosen, mut tried): (Vec<Quote>, usize) = (Vec::new(), 0);
    for it in scored {
        if chosen.len() >= most || tried >= MAX_TRIES {
            break;
        }
        let Some(document) = documents.get(it.page) else { continue };
        let overlaps = |range: &Range<usize>, quote: &Quote| {
            quote.page == it.page && range.start < quote.range.end && quote.range.start < range.end
        };
        let of_page = chosen.iter().filter(|quote| quote.page == it.page).count();
        if of_page >= per_page || chosen.iter().any(|quote| overlaps(&it.range, quote)) {
            continue;
        }
        tried += 1;
        let mut range = widen(document, it, scored);
        if chosen.iter().any(|quote| overlaps(&range, quote)) {
            range = it.range.clone();
        }
        let text = document.text.get(range.clone()).unwrap_or_default();
        if is_verbatim(document, text) && !chosen.iter().any(|quote| same(documents, quote, text)) {
            chosen.push(Quote { page: it.page, range, has: it.has });
        }
    }
    chosen
}

/// Returns whether a document contains a text word for word.
pub fn is_verbatim(document: &Document, text: &str) -> bool {
    !text.trim().is_empty() && document.text.contains(text)
}

/// Returns whether a quote has the same words as `text`.
fn same(documents: &[&Document], quote: &Quote, text: &str) -> bool {
    documents.get(quote.page).and_then(|it| it.text.get(quote.range.clone())) == Some(text)
}

/// Extends a sentence by the neighbour that covers more of the question, and by the other neighbour if there is
/// room.
fn widen(document: &Document, it: &Scored, scored: &[Scored]) -> Range<usize> {
    let own = it.range.clone();
    let Some(block) = document.blocks.get(it.block) else { return own };
    let text = document.text.get(block.range.clone()).unwrap_or_default();
    let all: Vec<Range<usize>> =
        sentences(text).into_iter().map(|it| it.start + block.range.start..it.end + block.range.start).collect();
    let Some(at) = all.iter().position(|range| *range == own) else { return own };
    let score = |range: &Range<usize>| {
        let same = scored.iter().take(MAX_LOOKED_AT).find(|other| other.page == it.page && other.range == *range);
        same.map_or(0.0, |it| it.score)
    };
    let mut range = own;
    let (mut before, mut after) = (at.checked_sub(1), at + 1);
    loop {
        let previous = before.and_then(|it| all.get(it)).filter(|it| range.end - it.start <= WIDE_BYTES);
        let next = all.get(after).filter(|it| it.end - range.start <= WIDE_BYTES);
        match (previous, next) {
            (Some(previous), Some(next)) if score(previous) > score(next) => range.start = previous.start,
            (_, Some(next)) => {
                range.end = next.end;
                after += 1;
                continue;
            }
            (Some(previous), None) => range.start = previous.start,
            (None, None) => return range,
        }
        before = before.and_then(|it| it.checked_sub(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pages::plain;
    use crate::pages::question::Question;
    use crate::pages::rank::{Candidate, Weights, rank};

    fn chosen(question: &str, texts: &[&str], most: usize, per_page: usize) -> Vec<String> {
        let documents: Vec<Document> = texts.iter().map(|it| plain::read(it)).collect();
        let pages: Vec<Candidate<'_>> = documents.iter().map(|document| Candidate { document, score: 0.0 }).collect();
        let scored = rank(&Question::new(question), &pages, |_| 1.0, &Weights::default(), || false);
        let documents: Vec<&Document> = documents.iter().collect();
        let quotes = choose(&documents, &scored, most, per_page);
        quotes.into_iter().map(|it| documents[it.page].text[it.range].to_owned()).collect()
    }

    #[test]
    fn quotes_do_not_overlap_and_are_not_repeated() {
        let long = format!("The Rhine flows north. {} The Rhine is long. {}", "x".repeat(380), "y".repeat(380));
        assert_eq!(chosen("Where does the Rhine flow?", &[&long], 5, 5).len(), 2);
        let same = ["The Rhine flows north.", "The Rhine flows north.", "The Rhine is long."];
        assert_eq!(chosen("Where does the Rhine flow?", &same, 5, 5), ["The Rhine flows north.", "The Rhine is long."]);
        assert_eq!(chosen("Where does the Rhine flow?", &same, 1, 5).len(), 1);
    }

    #[test]
    fn a_page_of_one_sentence_again_and_again_costs_little() {
        let text = "The Rhine. ".repeat(180_000);
        assert_eq!(chosen("What is the Rhine?", &[&text], 5, 3).len(), 1);
    }

    #[test]
    fn only_what_is_in_the_text_is_verbatim() {
        let document = plain::read("The Rhine\nflows north.");
        assert!(is_verbatim(&document, "Rhine flows") && !is_verbatim(&document, "rhine flows"));
        assert!(!is_verbatim(&document, " "));
    }
}
