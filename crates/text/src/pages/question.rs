//! Parses questions into their terms and the expected kind of answer.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::stem::stem;
use crate::word_list;
use crate::words::{Word, words};
use serde::Deserialize;
use serde::de::IntoDeserializer as _;
use serde::de::value::{Error as ValueError, StrDeserializer};

/// The maximum number of terms in a question. Additional terms are ignored.
const MAX_TERMS: usize = 48;

/// Phrases in questions, in English and Chinese, by the expected kind of answer. The first matching line decides.
const QUESTION_PHRASES: &str = include_str!("../../data/question_phrases.txt");

/// Stems of words that only form a question, with the kinds of answers that such questions expect.
static QUESTION_WORDS: LazyLock<HashMap<String, Vec<AnswerKind>>> = LazyLock::new(|| {
    let mut kinds: HashMap<_, Vec<_>> = HashMap::new();
    for (name, words) in word_list::entries(include_str!("../../data/question_words.txt")) {
        words.split(' ').for_each(|it| kinds.entry(stem(it)).or_default().extend(AnswerKind::from_name(name)));
    }
    kinds
});

/// The kinds of answers to questions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AnswerKind {
    /// A person or a group of people.
    Person,
    /// A place.
    Place,
    /// A day, year or era.
    Date,
    /// A count or measurement.
    Number,
    /// An amount of money.
    Money,
    /// A reason.
    Reason,
    /// An explanation of what something is.
    Definition,
    /// The name of something.
    Name,
    /// Anything else, or unknown.
    Any,
}

impl AnswerKind {
    /// Returns the kind that a line in a word list refers to.
    fn from_name(name: &str) -> Option<Self> {
        let name: StrDeserializer<'_, ValueError> = name.into_deserializer();
        Self::deserialize(name).ok()
    }
}

/// A question or search query.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    /// The terms in order, without duplicates.
    pub terms: Vec<Term>,
    /// The expected kind of answer.
    pub kind: AnswerKind,
    /// Pairs of adjacent terms, as indexes into `terms`.
    pub pairs: Vec<(usize, usize)>,
}

/// A term of a question.
#[derive(Debug, Clone, PartialEq)]
pub struct Term {
    /// The stem, which is used for comparison.
    pub term: String,
    /// The word as written.
    pub shown: String,
    /// A factor that is applied to the term's rarity.
    pub weight: f64,
}

impl Question {
    /// Parses a question and determines the expected kind of answer.
    pub fn new(text: &str) -> Self {
        let words = words(text);
        let kind = kind(text, &words);
        let mut terms: Vec<Term> = Vec::new();
        let (mut pairs, mut last) = (Vec::new(), None::<(usize, usize)>);
        for (place, word) in words.iter().enumerate() {
            if word.is_stopword || is_question_word(kind, &word.term) {
                continue;
            }
            let known = terms.iter().position(|it| it.term == word.term);
            let at = match known {
                Some(at) => at,
                None if terms.len() >= MAX_TERMS => break,
                None => {
                    let shown = text.get(word.start..word.end).unwrap_or_default().to_owned();
                    // A name is more specific than other words of the same rarity.
                    let weight = if (word.is_capital && place > 0) || word.is_number { NAME_WEIGHT } else { 1.0 };
                    terms.push(Term { term: word.term.clone(), shown, weight });
                    terms.len() - 1
                }
            };
            if let Some((before, before_place)) = last
                && place - before_place <= 2
                && before != at
            {
                pairs.push((before, at));
            }
            last = Some((at, place));
        }
        Self { terms, kind, pairs }
    }

    /// Adds the terms of a focus, which count half as much.
    #[must_use]
    pub fn with_focus(mut self, focus: &str) -> Self {
        for term in Self::new(focus).terms {
            if self.terms.len() < MAX_TERMS && !self.terms.iter().any(|it| it.term == term.term) {
                self.terms.push(Term { weight: term.weight * FOCUS_WEIGHT, ..term });
            }
        }
        self
    }
}

const NAME_WEIGHT: f64 = 1.15;
const FOCUS_WEIGHT: f64 = 0.5;

/// Returns whether a word only forms the question, so that answers don't repeat it.
fn is_question_word(kind: AnswerKind, term: &str) -> bool {
    QUESTION_WORDS.get(term).is_some_and(|kinds| kinds.contains(&kind))
}

fn kind(text: &str, words: &[Word]) -> AnswerKind {
    let lower = text.to_lowercase();
    // Surround each word with single spaces, so that only whole words match.
    let spaced: String = lower.split(|it: char| !it.is_alphanumeric()).fold(" ".to_owned(), |all, it| all + it + " ");
    let is_in = |phrase: &str| match phrase.is_ascii() {
        true => spaced.contains(&format!(" {phrase} ")),
        false => lower.contains(phrase),
    };
    let mut phrases = word_list::entries(QUESTION_PHRASES);
    let found = phrases.find(|(_, phrases)| phrases.split(", ").any(is_in));
    match found.and_then(|(name, _)| AnswerKind::from_name(name)) {
        Some(AnswerKind::Name) | None if is_definition(&lower, words) => AnswerKind::Definition,
        found => found.unwrap_or(AnswerKind::Any),
    }
}

/// Returns whether this is a short question that asks for a definition.
fn is_definition(lower: &str, words: &[Word]) -> bool {
    let begins = ["what is ", "what are ", "what's ", "define ", "什么是"].iter().any(|it| lower.starts_with(it));
    let ends = lower.trim_end_matches(['?', '？', '。', ' ']).ends_with("是什么");
    let is_name = lower.contains("name of");
    (begins || ends) && !is_name && words.iter().filter(|it| !it.is_stopword).count() <= MOST_OF_DEFINITION
}

/// The maximum number of words in a term to define.
const MOST_OF_DEFINITION: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_says_what_it_asks_for() {
        for (text, kind) in [
            ("Who won the race?", AnswerKind::Person),
            ("In what year did it begin?", AnswerKind::Date),
            ("How many people live there?", AnswerKind::Number),
            ("Where is the river?", AnswerKind::Place),
            ("Why did they leave?", AnswerKind::Reason),
            ("What is an agent?", AnswerKind::Definition),
            ("What is the name of the river of the city?", AnswerKind::Name),
            ("北京在哪里？", AnswerKind::Place),
            ("Basic concepts of machine learning", AnswerKind::Any),
        ] {
            assert_eq!(Question::new(text).kind, kind, "{text}");
        }
    }

    #[test]
    fn terms_are_what_it_is_about() {
        let question = Question::new("When was the Eiffel Tower in Paris built, and who built it?");
        let shown: Vec<_> = question.terms.iter().map(|it| it.shown.as_str()).collect();
        assert_eq!(shown, ["Eiffel", "Tower", "Paris", "built"]);
        assert_eq!(question.pairs, [(0, 1), (1, 2), (2, 3)]);
    }
}
