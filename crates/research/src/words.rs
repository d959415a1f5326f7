//! Words: what of a text is compared. English words become stems, Chinese ones pairs of characters.

use crate::stem::stem;
use crate::stopwords::is_stopword;

/// The longest word. The rest of a longer one is ignored.
const MAX_WORD_CHARS: usize = 40;

/// A word in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Word {
    /// What is compared: folded and stemmed.
    pub term: String,
    /// Its bytes in the text.
    pub start: usize,
    /// Their end.
    pub end: usize,
    /// It begins with a capital letter.
    pub is_capital: bool,
    /// It has a digit.
    pub is_number: bool,
    /// It says nothing about what the text is about.
    pub is_stopword: bool,
}

/// The words of a text, in order.
pub fn words(text: &str) -> Vec<Word> {
    let mut words = Vec::with_capacity(text.len() / 6);
    let mut characters = text.char_indices().peekable();
    while let Some(&(start, first)) = characters.peek() {
        if is_han(first) {
            let mut run = Vec::new();
            while let Some(&(at, it)) = characters.peek().filter(|(_, it)| is_han(*it)) {
                run.push((at, it));
                characters.next();
            }
            pairs(&run, &mut words);
        } else if first.is_alphanumeric() {
            let mut end = start;
            let mut shown = String::new();
            while let Some(&(at, it)) = characters.peek() {
                let within = it.is_alphanumeric() && !is_han(it);
                // 1,000 and 3.5 are numbers, and Newton's is Newton.
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

/// The terms of a text that say what it is about, in order.
pub fn terms(text: &str) -> Vec<String> {
    words(text).into_iter().filter(|it| !it.is_stopword).map(|it| it.term).collect()
}

/// Characters within a word that do not matter: soft hyphens, joiners.
fn is_weightless(character: char) -> bool {
    matches!(character, '\u{ad}' | '\u{200c}' | '\u{200d}' | '\u{2060}')
}

fn is_joined(text: &str, at: usize, mark: char) -> bool {
    let before = text.get(..at).and_then(|it| it.chars().next_back());
    let after = text.get(at + mark.len_utf8()..).and_then(|it| it.chars().next());
    let both = |test: fn(char) -> bool| before.is_some_and(test) && after.is_some_and(test);
    match mark {
        ',' | '.' => both(|it| it.is_ascii_digit()),
        _ => both(|it| it.is_alphabetic() && !is_han(it)),
    }
}

fn word(shown: &str, start: usize, end: usize) -> Word {
    let folded: String = shown.chars().take(MAX_WORD_CHARS).flat_map(fold).collect();
    let plain = folded.split('\'').next().unwrap_or_default();
    let is_number = plain.bytes().any(|it| it.is_ascii_digit());
    // `s` of `it's` is no word of its own.
    let term = if is_number { plain.to_owned() } else { stem(plain) };
    Word {
        is_stopword: is_stopword(plain) || term.is_empty(),
        term,
        start,
        end,
        is_capital: shown.chars().next().is_some_and(char::is_uppercase),
        is_number,
    }
}

/// Pairs of neighbours, which are most of Chinese words; a character alone is a word.
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

/// Characters that say nothing by themselves. A pair of two of them is a stopword.
const CHINESE_STOPWORDS: &str = "的了是在有和与或吗呢吧啊哪什么谁怎几多少个这那为何时候里中上下也都就及其被把对从到";

/// Characters of languages that are written without spaces.
pub fn is_han(character: char) -> bool {
    matches!(character, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3134f}')
}

/// Lower case, and Latin letters without their accents.
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
