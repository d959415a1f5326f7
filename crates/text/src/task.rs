//! The words of a task in English or Chinese, and the corresponding words that tools use.
//!
//! Most tools are described in English, but a task may be in Chinese. A word list translates the words that matter
//! for tools. Other words still match tools that are described in Chinese.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use crate::stem::stem;
use crate::word_list;
use crate::words::{is_cjk, words};

/// The maximum number of characters read from a task.
const MAX_CHARACTERS: usize = 4000;

/// The maximum number of words of a task that count.
const MAX_TERMS: usize = 64;

/// English words that don't tell what a task is about, in addition to stopwords.
static REQUEST_WORDS: LazyLock<HashSet<&str>> =
    LazyLock::new(|| word_list::words(include_str!("../data/request_words.txt")).collect());

/// Chinese words with their English translations.
static CHINESE: LazyLock<HashMap<&str, &str>> =
    LazyLock::new(|| word_list::entries(include_str!("../data/chinese.txt")).collect());

/// Maps stems of everyday words to the words that tools use.
static SYNONYMS: LazyLock<HashMap<String, Vec<&str>>> = LazyLock::new(|| {
    let mut synonyms: HashMap<_, Vec<_>> = HashMap::new();
    for (everyday, meant) in word_list::entries(include_str!("../data/synonyms.txt")) {
        everyday.split(' ').for_each(|it| synonyms.entry(stem(it)).or_default().push(meant));
    }
    synonyms
});

/// The words of a task, and a query for them.
#[derive(Debug, Clone)]
pub struct ParsedTask {
    /// The words in task order, without duplicates.
    pub terms: Vec<Term>,
    /// The query for ranking tools: the words to search for, and the Chinese text.
    pub query: String,
}

/// A word of a task and its translation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Term {
    /// The word as written in the task.
    pub written: String,
    /// The word to search for: the translation, or the written word.
    pub meant: String,
}

impl Term {
    /// Returns the word as written in the task, followed by the word to search for if they differ.
    #[must_use]
    pub fn describe(&self) -> String {
        if self.written == self.meant { self.written.clone() } else { format!("{} ({})", self.written, self.meant) }
    }
}

impl ParsedTask {
    /// Parses the beginning of a task into words.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let text = beginning(text);
        let mut terms = translations(text);
        for word in words(text).into_iter().filter(|it| !it.is_stopword) {
            let Some(written) = text.get(word.start..word.end) else { continue };
            if !written.contains(is_cjk) && !REQUEST_WORDS.contains(written.to_lowercase().as_str()) {
                terms.push((word.start, Term { written: written.to_owned(), meant: written.to_owned() }));
            }
        }
        terms.sort_by_key(|(start, _)| *start);
        let mut seen = HashSet::new();
        let mut terms: Vec<_> = terms.into_iter().map(|(_, term)| term).collect();
        terms.retain(|it| seen.insert(it.written.to_lowercase()));
        terms.truncate(MAX_TERMS);
        let mut query: String = terms.iter().map(|it| format!("{} ", it.meant)).collect();
        query.extend(text.chars().map(|it| if is_cjk(it) { it } else { ' ' }));
        Self { terms, query }
    }
}

/// Returns the English translations of the Chinese words in a task.
pub(crate) fn translate(task: &str) -> String {
    translations(beginning(task)).into_iter().map(|(_, it)| it.meant + " ").collect()
}

/// Returns the words that tools use for the things mentioned in a task.
pub(crate) fn tool_synonyms(task: &str) -> String {
    let meant = words(beginning(task)).into_iter().filter_map(|it| SYNONYMS.get(&it.term)).flatten();
    meant.flat_map(|it| [*it, " "]).collect()
}

fn beginning(text: &str) -> &str {
    text.char_indices().nth(MAX_CHARACTERS).and_then(|(end, _)| text.get(..end)).unwrap_or(text)
}

/// Returns the Chinese words that have translations, with their byte offsets. Prefers the longest match.
fn translations(text: &str) -> Vec<(usize, Term)> {
    let longest = CHINESE.keys().map(|it| it.len()).max().unwrap_or_default();
    let (mut found, mut next) = (Vec::new(), 0);
    for (start, _) in text.char_indices().filter(|(_, it)| is_cjk(*it)) {
        let mut words = (1..=longest).rev().filter_map(|length| text.get(start..start + length));
        if start >= next
            && let Some((written, meant)) = words.find_map(|it| CHINESE.get_key_value(it))
        {
            next = start + written.len();
            found.push((start, Term { written: (*written).to_owned(), meant: (*meant).to_owned() }));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meant(task: &str) -> Vec<String> {
        ParsedTask::parse(task).terms.into_iter().map(|it| it.meant).collect()
    }

    #[test]
    fn a_task_is_what_it_is_about() {
        assert_eq!(meant("Please take a screenshot of the page, and the PAGE again"), ["take", "screenshot", "page"]);
        assert_eq!(meant("在浏览器中打开PDF文件"), ["browser", "open navigate", "PDF", "file"]);
        assert_eq!(meant("返回上一页"), ["go back previous page"], "the longest word counts");
        assert!(meant("请问，我该怎样？!").is_empty());
        assert_eq!(meant(&"word1 ".repeat(99)).len(), 1);
        assert_eq!(meant(&(0..999).map(|it| format!("w{it} ")).collect::<String>()).len(), MAX_TERMS);
    }

    #[test]
    fn everyday_words_lead_to_those_of_tools() {
        assert_eq!(tool_synonyms("How far is it?"), "distance ");
        assert_eq!(tool_synonyms("100 Euros in USD"), "currency exchange currency exchange ");
        assert_eq!(tool_synonyms("nothing of that kind"), "");
    }

    #[test]
    fn the_beginning_of_a_task_counts() {
        assert_eq!(meant(&format!("{}文件", "，".repeat(MAX_CHARACTERS - 1))), Vec::<String>::new());
        assert_eq!(meant(&format!("{}文件", "，".repeat(MAX_CHARACTERS - 2))), ["file"]);
    }

    #[test]
    fn a_chinese_word_has_one_translation() {
        assert_eq!(word_list::entries(include_str!("../data/chinese.txt")).count(), CHINESE.len());
    }
}
