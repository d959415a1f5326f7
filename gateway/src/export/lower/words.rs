//! Converts keywords that a provider does not accept to sentences for the model.

use openskill_text::word_list::entries;
use serde_json::{Map, Value};

/// The maximum length of a quoted value or schema, in characters.
const MAX_QUOTED_CHARACTERS: usize = 600;

/// Keywords that become sentences, with their sentences. Structural keywords are lowered elsewhere. All others are
/// generator extensions.
const SENTENCES: &str = include_str!("sentences.txt");

/// Adds a sentence for each keyword that is not in `kept`.
pub(super) fn add_rest(merged: &Map<String, Value>, kept: &[&str], keeps_default: bool, sentences: &mut Vec<String>) {
    for (keyword, value) in merged {
        let is_kept = kept.contains(&keyword.as_str()) || (keeps_default && keyword == "default");
        let is_structural = ["anyOf", "oneOf"].contains(&keyword.as_str());
        if !is_kept && !is_structural && entries(SENTENCES).any(|(described, _)| described == keyword) {
            sentences.push(sentence(keyword, value));
        }
    }
}

/// States what null means for an optional parameter: that it is omitted, unless null is one of its values.
pub(super) fn add_null(schema: &Value, property: &mut Value) {
    let is_null = |it: &Value| it.as_str() == Some("null");
    let in_type = schema.get("type").and_then(Value::as_array).is_some_and(|it| it.iter().any(is_null));
    let branches = ["anyOf", "oneOf"].iter().filter_map(|it| schema.get(*it)?.as_array()).flatten();
    let in_branch = branches.into_iter().any(|it| it.get("type").is_some_and(is_null));
    let accepts_null = in_type || in_branch;
    if accepts_null && schema.get("default") == Some(&Value::Null) {
        return;
    }
    let meaning =
        if accepts_null { "Null is a value here; it does not omit the parameter." } else { "Use null to omit it." };
    let own = property.get("description").and_then(Value::as_str).unwrap_or_default();
    let stop = if own.is_empty() || own.ends_with(['.', '!', '?']) { "" } else { "." };
    property["description"] = format!("{own}{stop} {meaning}").trim().into();
}

/// Describes one keyword in a sentence.
pub(super) fn sentence(keyword: &str, value: &Value) -> String {
    let text = match (keyword, value) {
        ("uniqueItems" | "deprecated", Value::Bool(false)) => return String::new(),
        ("examples" | "enum", Value::Array(items)) => items.iter().map(short).collect::<Vec<_>>().join(", "),
        ("examples" | "enum" | "default" | "const", _) => short(value),
        (_, Value::String(text)) => text.clone(),
        _ => short(value),
    };
    let form = match (keyword, text.as_str()) {
        ("minLength", "1") => "Must not be empty.",
        ("minItems", "1") => "At least 1 item.",
        ("maxItems", "1") => "At most 1 item.",
        ("uniqueItems", "true") => "No duplicate items.",
        _ => entries(SENTENCES).find(|(described, _)| *described == keyword).map_or("{}", |(_, form)| form),
    };
    form.replacen("{}", &text, 1)
}

/// Formats JSON text, truncated if it is long.
pub(super) fn short(value: &Value) -> String {
    let text = value.to_string();
    if text.chars().count() <= MAX_QUOTED_CHARACTERS {
        return text;
    }
    text.chars().take(MAX_QUOTED_CHARACTERS).chain(['…']).collect()
}
