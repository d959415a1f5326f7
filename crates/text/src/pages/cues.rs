//! Cues: words that make a sentence look like an answer.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use crate::word_list;
use crate::words::Word;

use crate::pages::question::AnswerKind;

/// Cue words, each with the kind of answer that it indicates. A `definition` has the cue as its verb, and a
/// `place` follows the cue.
static CUES: LazyLock<HashMap<&str, &str>> = LazyLock::new(|| {
    let entries = word_list::entries(include_str!("../../data/cues.txt"));
    entries.flat_map(|(cue, words)| words.split(' ').map(move |word| (word, cue))).collect()
});

/// The number of words outside the question with which a sentence reaches full strength.
const MUCH: f64 = 3.0;

/// Returns how much a sentence looks like an answer of this kind, from 0 to 1. Words of the question don't count.
pub fn strength(kind: AnswerKind, sentence: &str, words: &[Word], asked: &HashSet<&str>) -> f64 {
    let cue = |word: &Word| {
        let shown = sentence.get(word.start..word.end).unwrap_or_default();
        CUES.get(shown.to_lowercase().as_str()).copied().unwrap_or_default()
    };
    let new = || words.iter().enumerate().filter(|(_, it)| !asked.contains(it.term.as_str()));
    let has_number = || new().any(|(_, it)| it.is_number || cue(it) == "number");
    let names = || new().filter(|(place, it)| *place > 0 && it.is_capital && !it.is_stopword).count();
    match kind {
        AnswerKind::Date => {
            let is_date =
                sentence.contains(['月', '年']) || new().any(|(_, it)| is_year(&it.term) || cue(it) == "date");
            grade(is_date, 0.3, has_number())
        }
        AnswerKind::Number => grade(has_number() || sentence.contains('%'), 0.0, false),
        AnswerKind::Money => grade(sentence.contains(['$', '€', '£', '¥', '元']), 0.5, has_number()),
        AnswerKind::Person => grade(names() > 1, 0.7, names() == 1),
        AnswerKind::Place => {
            let is_place = new().any(|(place, it)| {
                let before = place.checked_sub(1).and_then(|before| words.get(before));
                it.is_capital && before.is_some_and(|before| cue(before) == "place")
            });
            grade(is_place, 0.6, names() > 0)
        }
        AnswerKind::Reason => grade(new().any(|(_, it)| cue(it) == "reason"), 0.0, false),
        AnswerKind::Definition => {
            let begin = words.get(..8).unwrap_or(words);
            let is_verb = |it: &Word| cue(it) == "definition" || it.term.starts_with('是') || it.term.ends_with('是');
            let is_defined =
                |it: &[Word]| matches!(it, [one, next] if asked.contains(one.term.as_str()) && is_verb(next));
            // A sentence that only begins with the word scores less.
            let first = words.iter().find(|it| !it.is_stopword);
            grade(begin.windows(2).any(is_defined), 0.5, first.is_some_and(|it| asked.contains(it.term.as_str())))
        }
        AnswerKind::Name => grade(names() > 0, 0.0, false),
        AnswerKind::Any => (new().filter(|(_, it)| !it.is_stopword).count() as f64 / MUCH).min(1.0),
    }
}

/// Returns 1 for a sentence with a cue, and `less` for a sentence that may have one.
fn grade(has_cue: bool, less: f64, may_have_cue: bool) -> f64 {
    match (has_cue, may_have_cue) {
        (true, _) => 1.0,
        (false, true) => less,
        (false, false) => 0.0,
    }
}

fn is_year(term: &str) -> bool {
    term.len() == 4 && term.parse::<u32>().is_ok_and(|it| (1000..2100).contains(&it))
}

#[cfg(test)]
mod tests {
    use crate::words::words;

    use super::*;

    #[test]
    fn an_answer_is_of_the_kind_that_is_asked_for() {
        let of = |kind, text: &str| strength(kind, text, &words(text), &HashSet::from(["1066"]));
        assert_eq!(of(AnswerKind::Date, "It was in 1492."), 1.0);
        assert_eq!(of(AnswerKind::Date, "It was in 1066."), 0.0);
        assert_eq!(of(AnswerKind::Number, "There are three."), 1.0);
        assert_eq!(of(AnswerKind::Person, "It was built by Gustave Eiffel."), 1.0);
        assert_eq!(of(AnswerKind::Place, "It lies in Egypt."), 1.0);
        assert_eq!(of(AnswerKind::Reason, "They left."), 0.0);
        let defined = |text: &str| strength(AnswerKind::Definition, text, &words(text), &HashSet::from(["agent"]));
        assert_eq!(
            [defined("An agent is a program."), defined("Agents call it."), defined("They call agents.")],
            [1.0, 0.5, 0.0]
        );
    }
}
