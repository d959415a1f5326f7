//! Splits text into words for comparison. English words are stemmed, and Chinese text is split into pairs of
//! characters.

use std::collections::HashSet;
use std::sync::LazyLock;

use crate::stem::stem;
use crate::word_list;

static STOPWORDS: LazyLock<HashSet<&str>> =
    LazyLock::new(|| word_list::words(include_str!("../data/stopwords.txt")).collect());

/// The maximum length of a word, in characters. The rest of a longer word is ignored.
const MAX_WORD_CHARS: usize = 40;

/// A word of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Word {
    /// The folded and stemmed form, which is used for comparison.
    pub term: String,
    /// The byte offset of the word's start.
    pub start: usize,
    /// The byte offset of the word's end (exclusive).
    pub end: usize,
    /// Whether the word begins with a capital letter.
    pub is_capital: bool,
    /// Whether the word contains a digit.
    pub is_number: bool,
    /// Whether the word tells nothing about the topic of the text.
    pub is_stopword: bool,
}

/// Splits a text into words, in order.
pub fn words(text: &str) -> Vec<Word> {
    let mut words = Vec::with_capacity(text.len() / 6);
    let mut characters = text.char_indices().peekable();
    while let Some(&(start, first)) = characters.peek() {
        if is_cjk(first) {
            let mut run = Vec::new();
            while let Some(&(at, it)) = characters.peek().filter(|(_, it)| is_cjk(*it)) {
                run.push((at, it));
                characters.next();
            }
            pairs(&run, &mut words);
        } else if first.is_alphanumeric() {
            let mut end = start;
            let mut shown = String::new();
            while let Some(&(at, it)) = characters.peek() {
                let within = it.is_alphanumeric() && !is_cjk(it);
                // 1,000 and 3.5 are single numbers, and Newton's is the word Newton.
                let joins = is_weightless(it) || matches!(it, ',' | '.' | '\'' | '’') && is_joined(text, at, it);
                if !within && !joins {
                    break;
                }
                if within || it == '.' {
                    shown.push(it);
                } else if it != ',' && !is_weightless(it) {
                    shown.push('\'');
                }
                end = at + it.len_utf8();
                characters.next();
            }
            words.push(word(&shown, start, end));
        } else {
            characters.next();
        }
    }
    words
}

/// Returns the terms that tell what a text is about, in order.
pub fn terms(text: &str) -> Vec<String> {
    words(text).into_iter().filter(|it| !it.is_stopword).map(|it| it.term).collect()
}

/// Returns whether a character within a word is ignored, such as soft hyphens and joiners.
fn is_weightless(character: char) -> bool {
    matches!(character, '\u{ad}' | '\u{200c}' | '\u{200d}' | '\u{2060}')
}

fn is_joined(text: &str, at: usize, mark: char) -> bool {
    let before = text.get(..at).and_then(|it| it.chars().next_back());
    let after = text.get(at + mark.len_utf8()..).and_then(|it| it.chars().next());
    let both = |test: fn(char) -> bool| before.is_some_and(test) && after.is_some_and(test);
    match mark {
        ',' | '.' => both(|it| it.is_ascii_digit()),
        _ => both(|it| it.is_alphabetic() && !is_cjk(it)),
    }
}

fn word(shown: &str, start: usize, end: usize) -> Word {
    let folded: String = shown.chars().take(MAX_WORD_CHARS).flat_map(fold).collect();
    let plain = folded.split('\'').next().unwrap_or_default();
    let is_number = plain.bytes().any(|it| it.is_ascii_digit());
    // The `s` of `it's` is not a separate word.
    let term = if is_number { plain.to_owned() } else { stem(plain) };
    Word {
        is_stopword: STOPWORDS.contains(plain) || term.is_empty(),
        term,
        start,
        end,
        is_capital: shown.chars().next().is_some_and(char::is_uppercase),
        is_number,
    }
}

/// Adds pairs of adjacent characters, because most Chinese words have two characters. A single character becomes a
/// word.
fn pairs(run: &[(usize, char)], words: &mut Vec<Word>) {
    let mut push = |characters: &[(usize, char)]| {
        let (Some(first), Some(last)) = (characters.first(), characters.last()) else { return };
        words.push(Word {
            term: characters.iter().map(|it| it.1).collect(),
            start: first.0,
            end: last.0 + last.1.len_utf8(),
            is_capital: false,
            is_number: false,
            is_stopword: characters.iter().all(|it| CHINESE_STOPWORDS.contains(it.1)),
        });
    };
    match run {
        [_] => push(run),
        _ => run.windows(2).for_each(push),
    }
}

/// Characters that tell nothing about the topic of a text. A pair of two of them is a stopword.
const CHINESE_STOPWORDS: &str = "的了是在有和与或吗呢吧啊哪什么谁怎几多少个这那为何时候里中上下也都就及其被把对从到";

/// Returns whether this is a Chinese, Japanese or Korean character.
pub fn is_cjk(character: char) -> bool {
    matches!(character, '\u{3005}'..='\u{3007}' | '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3134f}')
}

/// Converts a character to lower case and removes accents from Latin letters.
fn fold(character: char) -> impl Iterator<Item = char> {
    let plain = match character {
        'À'..='Å' | 'à'..='å' | 'Ā'..='ą' => 'a',
        'Ç' | 'ç' | 'Ć'..='č' => 'c',
        'Ď'..='đ' => 'd',
        'È'..='Ë' | 'è'..='ë' | 'Ē'..='ě' => 'e',
        'Ĝ'..='ģ' => 'g',
        'Ì'..='Ï' | 'ì'..='ï' | 'Ĩ'..='ı' => 'i',
        'Ĺ'..='ł' => 'l',
        'Ñ' | 'ñ' | 'Ń'..='ň' => 'n',
        'Ò'..='Ö' | 'Ø' | 'ò'..='ö' | 'ø' | 'Ō'..='ő' => 'o',
        'Ŕ'..='ř' => 'r',
        'Ś'..='š' => 's',
        'Ţ'..='ŧ' => 't',
        'Ù'..='Ü' | 'ù'..='ü' | 'Ũ'..='ų' => 'u',
        'Ý' | 'ý' | 'ÿ' => 'y',
        'Ź'..='ž' => 'z',
        other => other,
    };
    plain.to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_folded_and_stemmed() {
        assert_eq!(
            terms("Beyoncé's 1,000 invading cities, 3.5% of the U.S."),
            ["beyonc", "1000", "invad", "citi", "3.5", "u"]
        );
        assert_eq!(terms("inter\u{ad}national"), terms("international"));
        let found = words("The Café");
        assert!(found[0].is_stopword && found[1].is_capital);
        assert_eq!((found[1].start, found[1].end), (4, 9));
    }

    #[test]
    fn chinese_is_compared_in_pairs() {
        assert_eq!(terms("北京是首都"), ["北京", "京是", "是首", "首都"]);
        assert_eq!(terms("用Rust写"), ["用", "rust", "写"]);
    }
}
