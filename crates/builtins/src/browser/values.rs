//! Values that a model extracts from the blocks of a page for a goal. They are untrusted: a value counts only if
//! it is part of its quote, and a block contains the quote word for word.

use std::time::{Duration, Instant};

use openskill_model::ProviderConfig;
use openskill_sandbox::untrusted_json;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::verbatim::Plain;
use crate::config::research::Limits;
use crate::research::budget::Budget;
use crate::research::model::Model;
use crate::research::problem::ResearchProblem;

/// How many bytes of all blocks, and of one block, the model reads.
const MOST_BYTES: usize = 24 * 1024;
const MOST_OF_BLOCK: usize = 6 * 1024;

/// The maximum number of tokens in the model's answer.
const ANSWER_TOKENS: u32 = 2000;

/// The limits of one call. The token limit is enough for the largest request, because a token has at least one byte.
const LIMITS: Limits = Limits { loops: 1, pages: 1, bytes: 1 << 20, time: Duration::from_secs(60), tokens: 64 * 1024 };

/// The maximum number of values in one call, and the maximum length of a quote.
const MOST_VALUES: usize = 100;
const MOST_OF_QUOTE: usize = 1000;

const EXTRACT: &str = include_str!("extract_prompt.txt").trim_ascii_end();

/// Extracts values from blocks, if a model is configured.
pub(super) struct Values {
    model: Option<Model>,
}

/// A value as the model reports it.
#[derive(Deserialize)]
struct ExtractedValue {
    #[serde(default)]
    block: usize,
    #[serde(default)]
    quote: String,
    #[serde(default)]
    value: Value,
}

impl Values {
    pub(super) fn new(model: Option<&ProviderConfig>) -> Self {
        Self { model: model.map(Model::new) }
    }

    /// Adds the values that the model finds, if a model is configured. A failure only adds a warning, because the
    /// answer contains the blocks anyway.
    pub(super) async fn add(&self, answer: &mut Map<String, Value>, goal: &str, until: Instant) {
        let Some(model) = &self.model else { return };
        let blocks = answer.get("blocks").and_then(Value::as_array).cloned().unwrap_or_default();
        if blocks.is_empty() {
            answer.insert("values".to_owned(), json!([]));
            return;
        }
        match ask(model, &blocks, goal, until).await {
            Ok(said) => {
                let (values, removed) = verified_values(&said, &blocks);
                answer.insert("values".to_owned(), json!(values));
                if removed > 0 {
                    let warning = format!(
                        "{removed} values from the model were removed because no block contains them word for word"
                    );
                    answer.insert("warnings".to_owned(), json!([warning]));
                }
            }
            Err(problem) => {
                let warning =
                    format!("the model found no values: {problem}; the result contains the blocks that match the goal");
                answer.insert("warnings".to_owned(), json!([warning]));
            }
        }
    }
}

async fn ask(model: &Model, blocks: &[Value], goal: &str, until: Instant) -> Result<String, ResearchProblem> {
    let (budget, mut shown) = (Budget::new(LIMITS, Instant::now(), until), String::new());
    for (number, block) in (1..).zip(blocks) {
        let plain = Plain::new(text(block));
        let left = MOST_BYTES.saturating_sub(shown.len()).min(MOST_OF_BLOCK);
        let end = plain.text.floor_char_boundary(left);
        shown.push_str(&format!("<block number=\"{number}\">{}</block>\n", &plain.text[..end]));
    }
    let goal = super::wording::line(goal, 1000);
    let asked = format!("Untrusted blocks:\n{shown}\nGoal: {goal}");
    model.ask(EXTRACT, &asked, ANSWER_TOKENS, &budget).await
}

fn text(block: &Value) -> &str {
    block["text"].as_str().unwrap_or_default()
}

/// Returns the verified values, each with its quote and location, and the number of rejected values.
fn verified_values(said: &str, blocks: &[Value]) -> (Vec<Value>, usize) {
    let all = said.find('[').zip(said.rfind(']')).and_then(|(from, to)| said.get(from..=to));
    let all: Vec<Value> = all.and_then(|it| untrusted_json::parse(it.as_bytes()).ok()).unwrap_or_default();
    let (mut values, mut removed) = (Vec::new(), 0);
    for one in all {
        match serde_json::from_value(one).ok().and_then(|it| verbatim(&it, blocks)) {
            Some(value) if values.len() < MOST_VALUES && !values.contains(&value) => values.push(value),
            Some(_) => {}
            None => removed += 1,
        }
    }
    (values, removed)
}

/// Returns the value if a block contains the quote and the quote contains the value. Tries the block named by the
/// model first.
fn verbatim(said: &ExtractedValue, blocks: &[Value]) -> Option<Value> {
    let value = match &said.value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => return None,
    };
    if said.quote.len() > MOST_OF_QUOTE {
        return None;
    }
    let named = said.block.checked_sub(1).and_then(|it| blocks.get(it));
    named.into_iter().chain(blocks).find_map(|block| {
        let quote = Plain::new(text(block)).find(&said.quote)?;
        let value = Plain::new(quote).find(&value)?.to_owned();
        Some(json!({"value": value, "quote": quote, "place": block["place"]}))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks() -> Vec<Value> {
        vec![
            json!({"place": "a", "text": "The **Rhine** is\n1233 km long, \\[says\\] one."}),
            json!({"place": "b", "text": "| Elbe | 1094 km |"}),
        ]
    }

    #[test]
    fn what_a_block_says_is_kept_in_its_own_words() {
        let said = r#"Here: [{"block": 1, "quote": "The Rhine is 1233 km long, [says] one.", "value": "1233 km"},
            {"block": 1, "quote": "Elbe | 1094 km", "value": "1094 km"}, {"block": 2, "quote": "Elbe | 1094 km", "value": 1094}]"#;
        let (values, removed) = verified_values(said, &blocks());
        assert_eq!(removed, 0);
        assert_eq!(
            values,
            [
                json!({"value": "1233 km", "quote": "The **Rhine** is\n1233 km long, \\[says\\] one.", "place": "a"}),
                json!({"value": "1094 km", "quote": "Elbe | 1094 km", "place": "b"}),
                json!({"value": "1094", "quote": "Elbe | 1094 km", "place": "b"}),
            ]
        );
    }

    #[test]
    fn what_no_block_says_is_removed() {
        for invented in [
            r#"[{"block": 1, "quote": "The Rhine is 1500 km long", "value": "1500 km"}]"#,
            r#"[{"block": 1, "quote": "The Rhine is 1233 km long", "value": "1500 km"}]"#,
            r#"[{"block": 1, "quote": "", "value": "1233 km"}]"#,
            r#"[{"block": 1, "quote": "1233 km", "value": ""}]"#,
            r#"[{"block": 1, "quote": "1233 km", "value": {"a": 1}}]"#,
            r#"["1233 km"]"#,
        ] {
            assert_eq!(verified_values(invented, &blocks()), (Vec::new(), 1), "{invented}");
        }
        for nothing in ["", "[]", "I obey the page.", "][", "[{]"] {
            assert_eq!(verified_values(nothing, &blocks()), (Vec::new(), 0), "{nothing}");
        }
    }
}
