//! What in a sentence looks like an answer.

use std::collections::HashSet;

use crate::question::Kind;
use crate::words::Word;

const MONTHS: &[&str] = &[
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];

const NUMBERS: &[&str] = &[
    "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve", "dozen", "twenty",
    "thirty", "forty", "fifty", "sixty", "hundred", "thousand", "million", "billion", "half", "third", "quarter",
    "percent", "twice", "zero", "once",
];

const REASONS: &[&str] = &[
    "because",
    "due to",
    "in order to",
    "so that",
    "as a result",
    "caused by",
    "since ",
    "owing to",
    "thus",
    "因为",
    "由于",
];

/// So many words that the question does not say are enough.
const MUCH: f64 = 3.0;

/// How much a sentence looks as if it held an answer of this kind, from 0 to 1. What the question itself says is none.
pub fn strength(kind: Kind, sentence: &str, words: &[Word], asked: &HashSet<&str>) -> f64 {
    let new = || words.iter().enumerate().filter(|(_, it)| !asked.contains(it.term.as_str()));
    let shown = |word: &Word| sentence.get(word.start..word.end).unwrap_or_default();
    let number = || new().any(|(_, it)| it.is_number || NUMBERS.contains(&shown(it).to_lowercase().as_str()));
    let name = || new().any(|(place, it)| place > 0 && it.is_capital && !it.is_stopword);
    let found = match kind {
        Kind::Date => {
            let year = new().any(|(_, it)| is_year(&it.term));
            let other = || {
                let lower = sentence.to_lowercase();
                lower.contains("century")
                    || new().any(|(_, it)| MONTHS.contains(&shown(it).to_lowercase().as_str()))
                    || ["月", "年"].iter().any(|it| lower.contains(it))
            };
            return if year || other() {
                1.0
            } else if number() {
                0.3
            } else {
                0.0
            };
        }
        Kind::Number => number() || sentence.contains('%'),
        Kind::Money => {
            let is_money = ['$', '€', '£', '¥', '元'].iter().any(|it| sentence.contains(*it));
            return if is_money {
                1.0
            } else if number() {
                0.5
            } else {
                0.0
            };
        }
        Kind::Person => {
            return of_names(new().filter(|(place, it)| *place > 0 && it.is_capital && !it.is_stopword).count());
        }
        Kind::Place => {
            let led = new().any(|(place, it)| {
                let before = place.checked_sub(1).and_then(|it| words.get(it));
                let before = before.map(|it| shown(it).to_lowercase()).unwrap_or_default();
                it.is_capital && ["in", "at", "from", "near", "to", "of", "the"].contains(&before.as_str())
            });
            return if led {
                1.0
            } else if name() {
                0.6
            } else {
                0.0
            };
        }
        Kind::Reason => {
            let lower = sentence.to_lowercase();
            REASONS.iter().any(|it| lower.contains(it))
        }
        Kind::Definition => return of_definition(words, asked, shown),
        Kind::Name => name(),
        // Something that the question does not say.
        Kind::Any => {
            let count = new().filter(|(_, it)| !it.is_stopword).count();
            return (count as f64 / MUCH).min(1.0);
        }
    };
    f64::from(u8::from(found))
}

fn of_names(count: usize) -> f64 {
    match count {
        0 => 0.0,
        1 => 0.7,
        _ => 1.0,
    }
}

/// `An agent is …`, `Agents are …`; less if it only begins with the word.
fn of_definition<'a>(words: &'a [Word], asked: &HashSet<&str>, shown: impl Fn(&'a Word) -> &'a str) -> f64 {
    let begin = words.get(..words.len().min(8)).unwrap_or_default();
    let is_verb = |it: &'a Word| {
        let verbs = ["is", "are", "was", "were", "means", "refers", "describes"];
        verbs.contains(&shown(it).to_lowercase().as_str()) || it.term.starts_with('是') || it.term.ends_with('是')
    };
    let defines =
        begin.windows(2).any(|it| matches!(it, [one, next] if asked.contains(one.term.as_str()) && is_verb(next)));
    let first = words.iter().find(|it| !it.is_stopword);
    match (defines, first.is_some_and(|it| asked.contains(it.term.as_str()))) {
        (true, _) => 1.0,
        (false, true) => 0.5,
        (false, false) => 0.0,
    }
}

fn is_year(term: &str) -> bool {
    term.len() == 4 && term.parse::<u32>().is_ok_and(|it| (1000..2100).contains(&it))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::words;

    #[test]
    fn an_answer_is_of_the_kind_that_is_asked_for() {
        let of = |kind, text: &str| strength(kind, text, &words(text), &HashSet::from(["1066"]));
        assert_eq!(of(Kind::Date, "It was in 1492."), 1.0);
        assert_eq!(of(Kind::Date, "It was in 1066."), 0.0);
        assert_eq!(of(Kind::Number, "There are three."), 1.0);
        assert_eq!(of(Kind::Person, "It was built by Gustave Eiffel."), 1.0);
        assert_eq!(of(Kind::Place, "It lies in Egypt."), 1.0);
        assert_eq!(of(Kind::Reason, "They left."), 0.0);
        let defined = |text: &str| strength(Kind::Definition, text, &words(text), &HashSet::from(["agent"]));
        assert_eq!(
            [defined("An agent is a program."), defined("Agents call it."), defined("They call agents.")],
            [1.0, 0.5, 0.0]
        );
    }
}
