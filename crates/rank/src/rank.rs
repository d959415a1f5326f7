//! Ranks tools by relevance to a task: Okapi BM25 over names, descriptions and parameters.
//!
//! Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond" (2009), with fields weighted by
//! repetition. Catalogs are small enough to be scanned for each query.

use std::collections::HashMap;

use serde_json::Value;

use crate::english::related;
use crate::terms::terms;

/// Term frequency saturation and length normalization: the usual values.
const K1: f64 = 1.2;
const B: f64 = 0.75;

/// How much the words of names and descriptions count, compared with those of parameter names.
const NAME_WEIGHT: f64 = 3.0;
const DESCRIPTION_WEIGHT: f64 = 1.5;

/// The same of what explains a parameter: its description, and the values that it may have.
const EXPLANATION_WEIGHT: f64 = 0.5;

/// How many values of a parameter count.
const MAX_CHOICES: usize = 256;

/// How many distinct words of a query count.
const MAX_WORDS: usize = 64;

/// The same of a task in somebody's own words, which may be long.
const MAX_WORDS_OF_TASK: usize = 256;

/// How much a word counts that a task does not have, but means.
const RELATED_WEIGHT: f64 = 0.5;

/// How much of a query and of each field is read, in characters.
const MAX_CHARACTERS: usize = 4000;

/// A tool's words and their weights.
#[derive(Debug)]
pub struct Document {
    /// By the hash of the word, in its order: a query looks up many words in many documents.
    weights: Vec<(u64, f64)>,
    length: f64,
}

impl Document {
    /// Weighs the words of a tool.
    #[must_use]
    pub fn new(name: &str, toolset: &str, description: &str, schema: Option<&Value>) -> Self {
        let mut words = Weights::default();
        words.add(name, NAME_WEIGHT);
        words.add(toolset, 1.0);
        words.add(description, DESCRIPTION_WEIGHT);
        let properties = schema.and_then(|it| it.get("properties")).and_then(Value::as_object);
        for (name, schema) in properties.into_iter().flatten() {
            words.add(name, 1.0);
            words.add(schema.get("description").and_then(Value::as_str).unwrap_or_default(), EXPLANATION_WEIGHT);
            // A task often names one of the values: the unit, the currency, the sort of thing.
            for value in choices(schema).take(MAX_CHOICES) {
                words.add(value, EXPLANATION_WEIGHT);
            }
        }
        let mut weights: Vec<_> = words.0.into_iter().collect();
        weights.sort_by_key(|(hash, _)| *hash);
        Self { length: weights.iter().map(|(_, weight)| weight).sum(), weights }
    }

    /// Whether it has one of the words of a text.
    #[must_use]
    pub fn has(&self, text: &str) -> bool {
        words(text).iter().any(|word| self.weight(hash(word)).is_some())
    }

    fn weight(&self, hash: u64) -> Option<f64> {
        let at = self.weights.binary_search_by_key(&hash, |(hash, _)| *hash).ok()?;
        self.weights.get(at).map(|(_, weight)| *weight)
    }
}

/// The values that a parameter may have, or each item of it, if its schema names them.
fn choices(schema: &Value) -> impl Iterator<Item = &str> {
    let named = schema.get("enum").or_else(|| schema.get("items")?.get("enum"));
    named.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

/// The weights of words, by their hashes.
#[derive(Default)]
struct Weights(HashMap<u64, f64>);

impl Weights {
    fn add(&mut self, text: &str, weight: f64) {
        for word in words(text) {
            *self.0.entry(hash(&word)).or_default() += weight;
        }
    }
}

/// FNV-1a. Two words with one hash would count as one word, which is harmless and does not happen.
fn hash(word: &str) -> u64 {
    word.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, it| (hash ^ u64::from(it)).wrapping_mul(0x0100_0000_01b3))
}

/// Ranks the documents that share words with a query: index and score, best first. Ties keep their order.
#[must_use]
pub fn rank(query: &str, documents: &[&Document]) -> Vec<(usize, f64)> {
    weighed(words(query).into_iter().take(MAX_WORDS).map(|word| (word, 1.0)).collect(), documents)
}

/// The same for a task in somebody's own words, in English or Chinese. What tools call the things that it names counts too.
#[must_use]
pub fn search(task: &str, documents: &[&Document]) -> Vec<(usize, f64)> {
    let mut asked: HashMap<String, f64> = HashMap::new();
    for word in words(&related(task)) {
        asked.insert(word, RELATED_WEIGHT);
    }
    let own = words(task).into_iter().chain(words(&translated(task)));
    asked.extend(own.take(MAX_WORDS_OF_TASK).map(|word| (word, 1.0)));
    weighed(asked, documents)
}

/// Ranks documents by words that count differently.
fn weighed(asked: HashMap<String, f64>, documents: &[&Document]) -> Vec<(usize, f64)> {
    let count = documents.len() as f64;
    let mean = documents.iter().map(|it| it.length).sum::<f64>() / count.max(1.0);
    // The weight of each word in each document, document by document.
    let asked: Vec<_> = asked.iter().map(|(word, factor)| (hash(word), *factor)).collect();
    let found: Vec<Option<f64>> =
        documents.iter().flat_map(|it| asked.iter().map(|(word, _)| it.weight(*word))).collect();
    let rarity: Vec<f64> = asked
        .iter()
        .enumerate()
        .map(|(at, (_, factor))| {
            let with = found.iter().skip(at).step_by(asked.len()).flatten().count() as f64;
            factor * (1.0 + (count - with + 0.5) / (with + 0.5)).ln()
        })
        .collect();
    let score = |(document, found): (&&Document, &[Option<f64>])| -> f64 {
        let norm = K1 * (1.0 - B + B * document.length / mean.max(1.0));
        let of_word = |(weight, rarity): (&Option<f64>, &f64)| weight.map(|it| rarity * it * (K1 + 1.0) / (it + norm));
        // Summed in a fixed order, so that equal scores are equal to the last bit.
        let mut parts: Vec<_> = found.iter().zip(&rarity).filter_map(of_word).collect();
        parts.sort_by(f64::total_cmp);
        parts.iter().sum()
    };
    let documents = documents.iter().zip(found.chunks(asked.len().max(1)));
    let mut ranked: Vec<_> = documents.map(score).enumerate().filter(|(_, score)| *score > 0.0).collect();
    ranked.sort_by(|one, other| other.1.total_cmp(&one.1));
    ranked
}

/// What the Chinese words of a task are in English.
fn translated(task: &str) -> String {
    let chinese = terms(task).into_iter().filter(|it| it.written != it.meant);
    chinese.map(|it| it.meant + " ").collect()
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
    fn a_task_finds_what_it_means_and_what_it_says_first() {
        let tool = |name: &str, description: &str| Document::new(name, "", description, None);
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
            Document::new("speed", "", "", None),
            Document::new("reading", "", "", Some(&one)),
            Document::new("readings", "", "", Some(&several)),
        ];
        let tools: Vec<_> = tools.iter().collect();
        let found: Vec<_> = search("how many degrees Fahrenheit", &tools).iter().map(|it| it.0).collect();
        assert_eq!(found, [1, 2]);
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
