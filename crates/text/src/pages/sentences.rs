//! Splits a block of text into sentences.

use std::ops::Range;

use crate::word_list;

/// The length at which a sentence without an end is cut, in bytes. It is cut at a space if possible.
const MAX_SENTENCE_BYTES: usize = 600;

/// Abbreviations, whose full stop does not end a sentence.
const ABBREVIATIONS: &str = include_str!("../../data/abbreviations.txt");

/// Splits a block of text into sentences, returned as byte ranges without surrounding white space.
pub fn sentences(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut start = 0;
    let mut characters = text.char_indices().peekable();
    while let Some((at, character)) = characters.next() {
        let end = at + character.len_utf8();
        let ends = match character {
            '。' | '！' | '？' | '\n' => true,
            '.' | '!' | '?' => {
                let mut end = end;
                // Closing quotes and citation marks belong to the sentence.
                while let Some(&(at, it)) = characters.peek().filter(|(_, it)| is_closing(*it)) {
                    end = at + it.len_utf8();
                    characters.next();
                }
                if is_end(text, start, at, end) {
                    push(text, start..end, &mut found);
                    start = end;
                }
                false
            }
            _ => false,
        };
        if ends {
            push(text, start..end, &mut found);
            start = end;
        } else if end.saturating_sub(start) >= MAX_SENTENCE_BYTES {
            let cut = text.get(start..end).and_then(|it| it.rfind(' ')).map_or(end, |it| start + it + 1);
            push(text, start..cut, &mut found);
            start = cut;
        }
    }
    push(text, start..text.len(), &mut found);
    found
}

fn is_closing(character: char) -> bool {
    matches!(character, '"' | '\'' | '”' | '’' | ')' | ']' | '.' | '!' | '?' | '»')
}

/// Returns whether the mark at `at` ends the sentence that began at `start`. The next sentence would begin at
/// `end`.
fn is_end(text: &str, start: usize, at: usize, end: usize) -> bool {
    let rest = text.get(end..).unwrap_or_default();
    if rest.is_empty() {
        return true;
    }
    let follows = rest.trim_start();
    if rest.len() == follows.len() {
        // Without a following space, the mark is part of a version, an address, or a reference such as `end.[12]`,
        // which was handled above.
        return false;
    }
    if follows.chars().next().is_some_and(char::is_lowercase) {
        return false;
    }
    if !text.get(at..).is_some_and(|it| it.starts_with('.')) {
        return true;
    }
    let before = text.get(start..at).unwrap_or_default();
    let last = before.rsplit([' ', '(', '"', '“']).next().unwrap_or_default();
    let is_initial = last.chars().count() == 1 && last.chars().all(char::is_uppercase);
    let last = last.to_lowercase();
    !is_initial && word_list::words(ABBREVIATIONS).all(|it| it != last)
}

fn push(text: &str, range: Range<usize>, found: &mut Vec<Range<usize>>) {
    let Some(slice) = text.get(range.clone()) else { return };
    let trimmed = slice.trim();
    if !trimmed.is_empty() {
        let start = range.start + (slice.len() - slice.trim_start().len());
        found.push(start..start + trimmed.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &str) -> Vec<&str> {
        sentences(text).into_iter().map(|it| &text[it]).collect()
    }

    #[test]
    fn sentences_end_where_they_should() {
        assert_eq!(split("One. Two? \"Three!\" Four"), ["One.", "Two?", "\"Three!\"", "Four"]);
        assert_eq!(
            split("Dr. J. Smith paid $3.5 on Jan. 3 (e.g. here). Then he left."),
            ["Dr. J. Smith paid $3.5 on Jan. 3 (e.g. here).", "Then he left."]
        );
        assert_eq!(split("北京是首都。上海不是！"), ["北京是首都。", "上海不是！"]);
        assert!(split("").is_empty());
    }

    #[test]
    fn a_sentence_without_end_is_cut() {
        let text = "word ".repeat(1000);
        assert!(split(&text).iter().all(|it| it.len() <= MAX_SENTENCE_BYTES));
        let text = "字".repeat(1000);
        assert_eq!(split(&text).concat(), text);
    }
}
