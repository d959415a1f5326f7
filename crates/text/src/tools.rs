//! Ranks tools by their relevance to a task: BM25 over names, descriptions and parameters, with a weight for each
//! field.
//!
//! The gateway ranks its skills, and a worker ranks the skills that could be installed. Catalogs are small enough
//! to be scanned for each query.

use std::collections::HashMap;

use serde_json::Value;

use crate::bm25::{Bm25, rarity};
use crate::task::{tool_synonyms, translate};
use crate::words;

/// The weight of words in names and descriptions, relative to words in parameter names.
const NAME_WEIGHT: f64 = 3.0;
const DESCRIPTION_WEIGHT: f64 = 1.5;

/// The weight of words in a parameter's description and its allowed values.
const EXPLANATION_WEIGHT: f64 = 0.5;

/// The maximum number of allowed values of a parameter that count.
const MAX_CHOICES: usize = 256;

/// The maximum number of distinct words of a query that count.
const MAX_WORDS: usize = 64;

/// The maximum number of distinct words of a task that count. Tasks are free text and may be long.
const MAX_WORDS_OF_TASK: usize = 256;

/// The weight of a synonym that the task itself does not contain.
const RELATED_WEIGHT: f64 = 0.5;

/// The maximum number of characters read from a query and from each field.
const MAX_CHARACTERS: usize = 4000;

/// The words of a tool with their weights.
#[derive(Debug)]
pub struct ToolDocument {
    /// Sorted by word hash, because a query looks up many words in many documents.
    weights: Vec<(u64, f64)>,
    length: f64,
}

impl ToolDocument {
    /// Computes the word weights of a tool from its name, toolset, description and parameters.
    #[must_use]
    pub fn new(name: &str, toolset: &str, description: &str, schema: Option<&Value>) -> Self {
        let mut weights: HashMap<u64, f64> = HashMap::new();
        let mut add = |text: &str, weight: f64| {
            words(text).for_each(|word| *weights.entry(hash(&word)).or_default() += weight);
        };
        add(name, NAME_WEIGHT);
        add(toolset, 1.0);
        add(description, DESCRIPTION_WEIGHT);
        let properties = schema.and_then(|it| it.get("properties")).and_then(Value::as_object);
        for (name, schema) in properties.into_iter().flatten() {
            add(name, 1.0);
            add(schema.get("description").and_then(Value::as_str).unwrap_or_default(), EXPLANATION_WEIGHT);
            // A task often mentions an allowed value, such as a unit or a currency.
            choices(schema).take(MAX_CHOICES).for_each(|value| add(value, EXPLANATION_WEIGHT));
        }
        let mut weights: Vec<_> = weights.into_iter().collect();
        weights.sort_by_key(|(hash, _)| *hash);
        Self { length: weights.iter().map(|(_, weight)| weight).sum(), weights }
    }

    /// Returns whether the tool contains at least one word of a text.
    #[must_use]
    pub fn has(&self, text: &str) -> bool {
        words(text).any(|word| self.weight(hash(&word)).is_some())
    }

    fn weight(&self, hash: u64) -> Option<f64> {
        let at = self.weights.binary_search_by_key(&hash, |(hash, _)| *hash).ok()?;
        self.weights.get(at).map(|(_, weight)| *weight)
    }
}

/// Returns the allowed values of a parameter, or of its items, if the schema lists them.
fn choices(schema: &Value) -> impl Iterator<Item = &str> {
    let named = schema.get("enum").or_else(|| schema.get("items")?.get("enum"));
    named.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

/// FNV-1a hash. Colliding words count as one, which is harmless and very unlikely.
fn hash(word: &str) -> u64 {
    word.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, it| (hash ^ u64::from(it)).wrapping_mul(0x0100_0000_01b3))
}

/// Ranks the documents that share words with a query. Returns indexes and scores, best first. Ties keep their
/// order.
#[must_use]
pub fn rank(query: &str, documents: &[&ToolDocument]) -> Vec<(usize, f64)> {
    rank_weighted(words(query).take(MAX_WORDS).map(|word| (word, 1.0)).collect(), documents)
}

/// Ranks documents for a free-text task in English or Chinese. Synonyms that tools use count too.
#[must_use]
pub fn search(task: &str, documents: &[&ToolDocument]) -> Vec<(usize, f64)> {
    let mut asked: HashMap<String, f64> = words(&tool_synonyms(task)).map(|word| (word, RELATED_WEIGHT)).collect();
    let translated = translate(task);
    let own = words(task).chain(words(&translated));
    asked.extend(own.take(MAX_WORDS_OF_TASK).map(|word| (word, 1.0)));
    rank_weighted(asked, documents)
}

/// Ranks documents by a set of weighted words.
fn rank_weighted(asked: HashMap<String, f64>, documents: &[&ToolDocument]) -> Vec<(usize, f64)> {
    let count = documents.len() as f64;
    let mean = documents.iter().map(|it| it.length).sum::<f64>() / count.max(1.0);
    // The weight of each word in each document, grouped by document.
    let asked: Vec<_> = asked.iter().map(|(word, factor)| (hash(word), *factor)).collect();
    let found: Vec<Option<f64>> =
        documents.iter().flat_map(|it| asked.iter().map(|(word, _)| it.weight(*word))).collect();
    let rarities: Vec<f64> = asked
        .iter()
        .enumerate()
        .map(|(at, (_, factor))| {
            let having = found.iter().skip(at).step_by(asked.len()).flatten().count();
            factor * rarity(count, having as f64)
        })
        .collect();
    let score = |(document, found): (&&ToolDocument, &[Option<f64>])| -> f64 {
        let length = document.length / mean.max(1.0);
        let shared = found.iter().zip(&rarities).filter_map(|(weight, rarity)| Some((weight.as_ref()?, rarity)));
        // Sum in a fixed order, so that equal scores are identical to the last bit.
        let mut parts: Vec<_> = shared.map(|(weight, rarity)| rarity * Bm25::USUAL.score(*weight, length)).collect();
        parts.sort_by(f64::total_cmp);
        parts.iter().sum()
    };
    let documents = documents.iter().zip(found.chunks(asked.len().max(1)));
    let mut ranked: Vec<_> = documents.map(score).enumerate().filter(|(_, score)| *score > 0.0).collect();
    ranked.sort_by(|one, other| other.1.total_cmp(&one.1));
    ranked
}

/// Returns the stems of the words at the beginning of a text. Splits names such as `searchFiles` into several
/// words.
fn words(text: &str) -> impl Iterator<Item = String> {
    let mut divided = String::with_capacity(text.len());
    let mut before_lower = false;
    for it in text.chars().take(MAX_CHARACTERS) {
        if before_lower && it.is_uppercase() {
            divided.push(' ');
        }
        before_lower = it.is_lowercase();
        divided.push(it);
    }
    words::terms(&divided).into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_split_into_words() {
        let split = |text| words(text).collect::<Vec<_>>();
        assert_eq!(split("searchFiles, search_files: queries!"), ["search", "file", "search", "file", "queri"]);
        assert_eq!(split("打开浏览器"), ["打开", "开浏", "浏览", "览器"]);
        assert_eq!(split("HTTP2 of the class boxes"), ["http2", "class", "box"]);
    }

    #[test]
    fn a_task_finds_what_it_means_and_what_it_says_first() {
        let tool = |name: &str, description: &str| ToolDocument::new(name, "", description, None);
        let tools = [
            tool("geo_distance", "How far two places are from each other"),
            tool("maps", "Shows the distance of two cities."),
            tool("exchange", "Converts a currency."),
            tool("browser_open", "Opens a page in a browser."),
        ];
        let tools: Vec<_> = tools.iter().collect();
        let found = |task: &str| search(task, &tools).iter().map(|it| it.0).collect::<Vec<_>>();
        assert_eq!(found("how far is it to Rome"), [0, 1]);
        assert_eq!(found("100 euros in dollars"), [2]);
        assert_eq!(found("打开浏览器"), [3]);
    }

    #[test]
    fn a_task_finds_a_tool_by_a_value_of_its_parameters() {
        let choices = serde_json::json!(["celsius", "fahrenheit"]);
        let one = serde_json::json!({ "properties": { "unit": { "type": "string", "enum": choices } } });
        let several =
            serde_json::json!({ "properties": { "units": { "type": "array", "items": { "enum": choices } } } });
        let tools = [
            ToolDocument::new("speed", "", "", None),
            ToolDocument::new("reading", "", "", Some(&one)),
            ToolDocument::new("readings", "", "", Some(&several)),
        ];
        let tools: Vec<_> = tools.iter().collect();
        let found: Vec<_> = search("how many degrees Fahrenheit", &tools).iter().map(|it| it.0).collect();
        assert_eq!(found, [1, 2]);
    }

    #[test]
    fn the_best_match_comes_first_and_others_are_left_out() {
        let tool = |name: &str, description: &str| ToolDocument::new(name, "", description, None);
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
