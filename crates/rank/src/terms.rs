//! The words of a task that say what it is about.

use crate::chinese::WORDS;

/// How many words of a task count.
const MOST_TERMS: usize = 64;

/// How much of a task is read, in characters.
const MAX_CHARACTERS: usize = 4000;

/// A word of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Term {
    /// As the task has it.
    pub written: String,
    /// What is looked for.
    pub meant: String,
}

impl Term {
    /// The word as the task has it, and what was looked for if that is another.
    #[must_use]
    pub fn shown(&self) -> String {
        if self.written == self.meant { self.written.clone() } else { format!("{} ({})", self.written, self.meant) }
    }
}

/// English words that are in tasks whatever they are about.
const EMPTY: [&str; 90] = [
    "a", "about", "again", "all", "am", "an", "and", "any", "are", "as", "at", "be", "but", "by", "can", "could",
    "did", "do", "does", "for", "from", "get", "had", "has", "have", "help", "how", "i", "if", "in", "into", "is",
    "it", "its", "just", "let", "make", "me", "my", "need", "needs", "no", "not", "now", "of", "on", "one", "or",
    "our", "please", "right", "should", "show", "so", "some", "such", "than", "that", "the", "their", "them", "then",
    "there", "these", "they", "this", "those", "to", "too", "us", "use", "used", "using", "very", "want", "was", "we",
    "were", "what", "when", "where", "which", "who", "why", "will", "with", "would", "you", "your", "yours",
];

/// The terms of a task, in its order, each once.
#[must_use]
pub fn terms(task: &str) -> Vec<Term> {
    let task: Vec<char> = task.chars().take(MAX_CHARACTERS).collect();
    let (mut found, mut word, mut at) = (Vec::new(), String::new(), 0);
    while let Some(&it) = task.get(at) {
        if is_wide(it) {
            add_word(&mut found, &mut word);
            at += add_chinese(&mut found, &task[at..]);
            continue;
        }
        if it.is_alphanumeric() {
            word.push(it);
        } else {
            add_word(&mut found, &mut word);
        }
        at += 1;
    }
    add_word(&mut found, &mut word);
    let mut seen = std::collections::HashSet::new();
    found.retain(|it: &Term| seen.insert(it.written.to_lowercase()));
    found.truncate(MOST_TERMS);
    found
}

/// What of a task is written without spaces: tools that are described so are found by it.
#[must_use]
pub fn unspaced(task: &str) -> String {
    task.chars().take(MAX_CHARACTERS).map(|it| if is_wide(it) { it } else { ' ' }).collect()
}

fn is_wide(it: char) -> bool {
    it.is_alphabetic() && u32::from(it) >= 0x2E80
}

fn add_word(found: &mut Vec<Term>, word: &mut String) {
    let written = std::mem::take(word);
    if !written.is_empty() && !EMPTY.contains(&written.to_lowercase().as_str()) {
        found.push(Term { meant: written.clone(), written });
    }
}

/// Adds the longest word that the text begins with. How many characters it has, or one that is skipped.
fn add_chinese(found: &mut Vec<Term>, text: &[char]) -> usize {
    let begins = |word: &str| {
        let mut count = 0;
        word.chars().all(|it| {
            count += 1;
            text.get(count - 1) == Some(&it)
        })
    };
    let longest = WORDS.iter().filter(|(word, _)| begins(word)).max_by_key(|(word, _)| word.len());
    let Some((word, meant)) = longest else { return 1 };
    found.push(Term { written: (*word).to_owned(), meant: (*meant).to_owned() });
    word.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meant(task: &str) -> Vec<String> {
        terms(task).into_iter().map(|it| it.meant).collect()
    }

    #[test]
    fn a_task_is_what_it_is_about() {
        assert_eq!(meant("Please take a screenshot of the page, and the PAGE again"), ["take", "screenshot", "page"]);
        assert_eq!(meant("在浏览器中打开PDF文件"), ["browser", "open navigate", "PDF", "file"]);
        assert_eq!(meant("返回上一页"), ["go back previous page"], "the longest word counts");
        assert!(meant("请问，我该怎样？!").is_empty());
        assert_eq!(terms(&"word1 ".repeat(99)).len(), 1);
        assert_eq!(terms(&(0..999).map(|it| format!("w{it} ")).collect::<String>()).len(), MOST_TERMS);
    }

    #[test]
    fn words_are_given_once_and_the_empty_ones_are_sorted() {
        let mut words: Vec<_> = WORDS.iter().map(|(word, _)| *word).collect();
        words.sort_unstable();
        assert!(words.windows(2).all(|pair| pair[0] != pair[1]), "a word has two meanings");
        assert!(EMPTY.is_sorted());
    }
}
