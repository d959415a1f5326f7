//! Converts keywords that a provider does not accept to sentences for the model.

use serde_json::{Map, Value};

/// The maximum length of a quoted value or schema, in characters.
const MAX_QUOTED_CHARACTERS: usize = 600;

/// Keywords that become sentences, grouped by type. Structural keywords are lowered elsewhere. All others are
/// generator extensions.
const DESCRIBED: [&[&str]; 7] = [
    &["default", "examples", "enum", "const", "not", "if", "then", "else", "deprecated"],
    &["format", "pattern", "minLength", "maxLength", "contentEncoding"],
    &["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"],
    &["minItems", "maxItems", "uniqueItems", "prefixItems", "unevaluatedItems"],
    &["contains", "minContains", "maxContains"],
    &["minProperties", "maxProperties", "patternProperties", "propertyNames"],
    &["dependentRequired", "dependentSchemas", "dependencies"],
];

/// Adds a sentence for each keyword that is not in `kept`.
pub(super) fn add_rest(merged: &Map<String, Value>, kept: &[&str], keeps_default: bool, sentences: &mut Vec<String>) {
    for (keyword, value) in merged {
        let is_kept = kept.contains(&keyword.as_str()) || (keeps_default && keyword == "default");
        if !is_kept && DESCRIBED.iter().any(|group| group.contains(&keyword.as_str())) {
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
    let text = value.as_str().map_or_else(|| short(value), str::to_owned);
    match keyword {
        "default" => format!("Default: {}.", short(value)),
        "examples" => format!("For example: {}.", list(value)),
        "enum" => format!("One of: {}.", list(value)),
        "const" => format!("Always {}.", short(value)),
        "format" => format!("Format: {text}."),
        "pattern" => format!("Must match the regular expression {text}"),
        "minLength" if text == "1" => "Must not be empty.".to_owned(),
        "minLength" => format!("At least {text} characters."),
        "maxLength" => format!("At most {text} characters."),
        "minimum" => format!("At least {text}."),
        "maximum" => format!("At most {text}."),
        "exclusiveMinimum" => format!("Greater than {text}."),
        "exclusiveMaximum" => format!("Less than {text}."),
        "multipleOf" => format!("A multiple of {text}."),
        "minItems" if text == "1" => "At least 1 item.".to_owned(),
        "maxItems" if text == "1" => "At most 1 item.".to_owned(),
        "minItems" => format!("At least {text} items."),
        "maxItems" => format!("At most {text} items."),
        "uniqueItems" if *value == Value::Bool(true) => "No duplicate items.".to_owned(),
        "uniqueItems" | "deprecated" if *value == Value::Bool(false) => String::new(),
        "deprecated" => "Deprecated.".to_owned(),
        "minProperties" => format!("At least {text} keys."),
        "maxProperties" => format!("At most {text} keys."),
        "anyOf" => format!("Must match at least one of: {text}"),
        "oneOf" => format!("Must match exactly one of: {text}"),
        other => format!("JSON Schema keyword {other}: {text}"),
    }
}

fn list(value: &Value) -> String {
    match value.as_array() {
        Some(items) => items.iter().map(short).collect::<Vec<_>>().join(", "),
        None => short(value),
    }
}

/// Formats JSON text, truncated if it is long.
pub(super) fn short(value: &Value) -> String {
    let text = value.to_string();
    if text.chars().count() <= MAX_QUOTED_CHARACTERS {
        return text;
    }
    text.chars().take(MAX_QUOTED_CHARACTERS).chain(['…']).collect()
}
