//! Ranks tools by relevance to a task: Okapi BM25 over names, descriptions and parameters.
//!
//! Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond" (2009), with fields weighted by
//! repetition. Catalogs are small enough to be scanned for each query.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

/// Term frequency saturation and length normalization: the usual values.
const K1: f64 = 1.2;
const B: f64 = 0.75;

/// How much the words of names and descriptions count, compared with those of parameter names.
const NAME_WEIGHT: f64 = 3.0;
const DESCRIPTION_WEIGHT: f64 = 1.5;

/// How many distinct words of a query count.
const MAX_WORDS: usize = 64;

/// How much of a query and of each field is read, in characters.
const MAX_CHARACTERS: usize = 4000;

/// A tool's words and their weights.
#[derive(Debug)]
pub struct Document {
    weights: HashMap<String, f64>,
    length: f64,
}

impl Document {
    /// Weighs the words of a tool.
    #[must_use]
    pub fn new(name: &str, toolset: &str, description: &str, schema: Option<&Value>) -> Self {
        let mut document = Self { weights: HashMap::new(), length: 0.0 };
        document.add(name, NAME_WEIGHT);
        document.add(toolset, 1.0);
        document.add(description, DESCRIPTION_WEIGHT);
        let properties = schema.and_then(|it| it.get("properties")).and_then(Value::as_object);
        for (name, schema) in properties.into_iter().flatten() {
            document.add(name, 1.0);
            document.add(schema.get("description").and_then(Value::as_str).unwrap_or_default(), 0.5);
        }
        document
    }

    /// Whether it has one of the words of a text.
    #[must_use]
    pub fn has(&self, text: &str) -> bool {
        words(text).iter().any(|word| self.weights.contains_key(word))
    }

    fn add(&mut self, text: &str, weight: f64) {
        for word in words(text) {
            *self.weights.entry(word).or_default() += weight;
            self.length += weight;
        }
    }
}

/// Ranks the documents that share words with a query: index and score, best first. Ties keep their order.
#[must_use]
pub fn rank(query: &str, documents: &[&Document]) -> Vec<(usize, f64)> {
    let mut asked: Vec<String> = words(query);
    asked.truncate(MAX_WORDS);
    let asked: HashSet<String> = asked.into_iter().collect();
    let count = documents.len() as f64;
    let mean = documents.iter().map(|it| it.length).sum::<f64>() / count.max(1.0);
    let rarity: HashMap<&str, f64> = asked
        .iter()
        .map(|word| {
            let with = documents.iter().filter(|it| it.weights.contains_key(word)).count() as f64;
            (word.as_str(), (1.0 + (count - with + 0.5) / (with + 0.5)).ln())
        })
        .collect();
    let score = |document: &&Document| -> f64 {
        let norm = K1 * (1.0 - B + B * document.length / mean.max(1.0));
        let of_word = |(word, rarity): (&&str, &f64)| {
            document.weights.get(*word).map_or(0.0, |weight| rarity * weight * (K1 + 1.0) / (weight + norm))
        };
        // Summed in a fixed order, so that equal scores are equal to the last bit.
        let mut parts: Vec<_> = rarity.iter().map(of_word).filter(|it| *it > 0.0).collect();
        parts.sort_by(f64::total_cmp);
        parts.iter().sum()
    };
    let mut ranked: Vec<_> = documents.iter().map(score).enumerate().filter(|(_, score)| *score > 0.0).collect();
    ranked.sort_by(|one, other| other.1.total_cmp(&one.1));
    ranked
}

/// The words of a text: runs of letters and digits, split at case changes, lower-cased and stemmed. Scripts without spaces
/// are split into pairs of characters.
fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut wide: Option<char> = None;
    let mut alone = false;
    let mut before_lower = false;
    for it in text.chars().take(MAX_CHARACTERS).chain([' ']) {
        let is_wide = it.is_alphabetic() && u32::from(it) >= 0x2E80;
        let breaks = !it.is_alphanumeric() || is_wide || (it.is_uppercase() && before_lower);
        if breaks && !word.is_empty() {
            let whole = std::mem::take(&mut word);
            words.extend((!STOP_WORDS.contains(&whole.as_str())).then(|| stem(&whole)));
        }
        if let (false, Some(before), true) = (is_wide, wide, alone) {
            words.push(before.to_string());
        }
        alone = is_wide && wide.is_none();
        if is_wide {
            words.extend(wide.map(|before| format!("{before}{it}")));
        } else if it.is_alphanumeric() {
            word.extend(it.to_lowercase());
        }
        wide = is_wide.then_some(it);
        before_lower = it.is_lowercase();
    }
    words
}

/// Words that are in nearly every description.
const STOP_WORDS: [&str; 20] = [
    "a", "an", "the", "of", "to", "in", "on", "for", "and", "or", "is", "it", "with", "by", "from", "this", "that",
    "be", "as", "at",
];

/// Removes English endings.
fn stem(word: &str) -> String {
    let cut = |ending: &str, least: usize| word.strip_suffix(ending).filter(|rest| rest.len() >= least);
    if let Some(rest) = cut("ies", 2) {
        return format!("{rest}y");
    }
    for ending in ["sses", "xes", "ches", "shes"] {
        if let Some(rest) = cut(ending, 2) {
            return format!("{rest}{}", &ending[..ending.len() - 2]);
        }
    }
    let rest = cut("ing", 4).or_else(|| cut("ed", 4)).or_else(|| cut("s", 3).filter(|rest| !rest.ends_with('s')));
    let rest = rest.unwrap_or(word);
    // `create`, `creates`, `created` and `creating` have the same stem.
    rest.strip_suffix('e').filter(|rest| rest.len() >= 3).unwrap_or(rest).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_split_into_stemmed_words() {
        assert_eq!(words("searchFiles, search_files: queries!"), ["search", "fil", "search", "fil", "query"]);
        assert_eq!(words("打开浏览器"), ["打开", "开浏", "浏览", "览器"]);
        assert_eq!(words("图"), ["图"]);
        assert_eq!(words("creates created creating this"), ["creat", "creat", "creat"]);
        assert_eq!(words("HTTP2 of the class boxes"), ["http2", "class", "box"]);
    }

    #[test]
    fn the_best_match_comes_first_and_others_are_left_out() {
        let tool = |name: &str, description: &str| Document::new(name, "", description, None);
        let tools = [
            tool("browser_click_element", "Click an element of the page."),
            tool("browser_save_pdf", "Save the page as a PDF file."),
            tool("microsandbox_execute", "Run Python code."),
        ];
        let tools: Vec<_> = tools.iter().collect();
        let best: Vec<_> = rank("click on elements", &tools).iter().map(|it| it.0).collect();
        assert_eq!(best, [0]);
        assert_eq!(rank("save this page", &tools)[0].0, 1);
        assert!(rank("weather", &tools).is_empty());
        assert!(rank("", &tools).is_empty());
        assert!(rank("x", &[]).is_empty());
    }
}
