//! What a question asks for.

use crate::words::{Word, words};

/// The most terms of a question. Others are ignored.
const MAX_TERMS: usize = 48;

/// The kind of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Somebody, or a group.
    Person,
    /// Somewhere.
    Place,
    /// A day, a year, an era.
    Date,
    /// A count or a measure.
    Number,
    /// An amount of money.
    Money,
    /// A reason.
    Reason,
    /// What something is.
    Definition,
    /// Something with a name.
    Name,
    /// Anything else.
    Any,
}

/// A question, or a query.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    /// As it was asked.
    pub text: String,
    /// What it is about, each term once, in order.
    pub terms: Vec<Term>,
    /// What it asks for.
    pub kind: Kind,
    /// Neighbours in the question, as indices of terms.
    pub pairs: Vec<(usize, usize)>,
}

/// A term of a question.
#[derive(Debug, Clone, PartialEq)]
pub struct Term {
    /// The stem.
    pub term: String,
    /// As it was written.
    pub shown: String,
    /// What it counts beside its rarity.
    pub weight: f64,
}

impl Question {
    /// Reads a question.
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
                    // A name says more than a word of the same rarity.
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
        Self { text: text.to_owned(), terms, kind, pairs }
    }

    /// The same question with a focus, whose terms count half.
    #[must_use]
    pub fn focused(mut self, focus: &str) -> Self {
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

/// Words that ask, and that an answer does not repeat.
fn is_question_word(kind: Kind, term: &str) -> bool {
    match kind {
        Kind::Date => matches!(term, "year" | "date" | "time" | "dai" | "month" | "centuri"),
        Kind::Person => matches!(term, "person" | "peopl"),
        Kind::Place => matches!(term, "place" | "locat"),
        Kind::Number => matches!(term, "number" | "amount" | "long" | "far" | "old"),
        Kind::Money => matches!(term, "monei" | "amount"),
        Kind::Reason => matches!(term, "reason" | "caus"),
        Kind::Definition | Kind::Name | Kind::Any => matches!(term, "type" | "kind" | "call" | "term"),
    }
}

fn kind(text: &str, words: &[Word]) -> Kind {
    let lower = text.to_lowercase();
    let has = |any: &[&str]| any.iter().any(|it| lower.contains(it));
    let within: Vec<String> =
        words.iter().map(|it| text.get(it.start..it.end).unwrap_or_default().to_lowercase()).collect();
    let is = |any: &[&str]| within.iter().any(|word| any.contains(&word.as_str()));
    if is(&["who", "whom", "whose"]) || has(&["谁", "什么人", "哪位"]) {
        Kind::Person
    } else if is(&["when"])
        || has(&[
            "what year",
            "which year",
            "what date",
            "what day",
            "what month",
            "what century",
            "what time",
            "which century",
            "哪一年",
            "哪年",
            "何时",
            "什么时候",
            "几月",
        ])
    {
        Kind::Date
    } else if has(&["how much money", "how much did", "how much does", "what was the cost", "多少钱"]) {
        Kind::Money
    } else if has(&[
        "how many",
        "how much",
        "how long",
        "how far",
        "how old",
        "how tall",
        "how large",
        "how big",
        "how often",
        "what percent",
        "what number",
        "how high",
        "what temperature",
        "what height",
        "what age",
        "what speed",
        "what population",
        "what distance",
        "how heavy",
        "how fast",
        "多少",
        "几个",
        "几年",
    ]) {
        Kind::Number
    } else if is(&["where"])
        || has(&[
            "what country",
            "which country",
            "what city",
            "which city",
            "what state",
            "哪里",
            "哪儿",
            "在哪",
            "什么地方",
        ])
    {
        Kind::Place
    } else if is(&["why"]) || has(&["为什么", "为何"]) {
        Kind::Reason
    } else if is_definition(&lower, words) {
        Kind::Definition
    } else if has(&["name of", "what is the name", "which ", "named"]) {
        Kind::Name
    } else {
        Kind::Any
    }
}

/// A short question after what something is.
fn is_definition(lower: &str, words: &[Word]) -> bool {
    let begins = ["what is ", "what are ", "what's ", "define ", "什么是"].iter().any(|it| lower.starts_with(it));
    let ends = lower.trim_end_matches(['?', '？', '。', ' ']).ends_with("是什么");
    let is_name = lower.contains("name of");
    (begins || ends) && !is_name && words.iter().filter(|it| !it.is_stopword).count() <= MOST_OF_DEFINITION
}

/// The most words of what is to be defined.
const MOST_OF_DEFINITION: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_says_what_it_asks_for() {
        for (text, kind) in [
            ("Who won the race?", Kind::Person),
            ("In what year did it begin?", Kind::Date),
            ("How many people live there?", Kind::Number),
            ("Where is the river?", Kind::Place),
            ("Why did they leave?", Kind::Reason),
            ("What is an agent?", Kind::Definition),
            ("What is the name of the river of the city?", Kind::Name),
            ("北京在哪里？", Kind::Place),
            ("Basic concepts of machine learning", Kind::Any),
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
