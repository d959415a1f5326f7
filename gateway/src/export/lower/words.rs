//! Keywords that a provider does not take, as sentences for the model.

use serde_json::{Map, Value};

/// The longest schema that is quoted, in characters.
const MAX_QUOTED: usize = 600;

/// Keywords that say something to a model. Those of structure are lowered; others are some generator's own.
const SAID: [&str; 34] = [
    "default",
    "examples",
    "enum",
    "const",
    "format",
    "pattern",
    "minLength",
    "maxLength",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minItems",
    "maxItems",
    "uniqueItems",
    "contains",
    "minContains",
    "maxContains",
    "prefixItems",
    "minProperties",
    "maxProperties",
    "patternProperties",
    "propertyNames",
    "dependentRequired",
    "dependentSchemas",
    "dependencies",
    "not",
    "if",
    "then",
    "else",
    "contentEncoding",
    "unevaluatedItems",
    "deprecated",
];

/// Says every keyword that is not in `kept`.
pub(super) fn say_rest(merged: &Map<String, Value>, kept: &[&str], keeps_default: bool, said: &mut Vec<String>) {
    for (keyword, value) in merged {
        let is_kept = kept.contains(&keyword.as_str()) || (keeps_default && keyword == "default");
        if !is_kept && SAID.contains(&keyword.as_str()) {
            said.push(of_keyword(keyword, value));
        }
    }
}

/// Says what null means for a parameter that is optional: that it is left out, unless the parameter takes null itself.
pub(super) fn say_null(schema: &Value, property: &mut Value) {
    let is_null = |it: &Value| it.as_str() == Some("null");
    let in_type = schema.get("type").and_then(Value::as_array).is_some_and(|it| it.iter().any(is_null));
    let branches = ["anyOf", "oneOf"].iter().filter_map(|it| schema.get(*it)?.as_array()).flatten();
    let in_branch = branches.into_iter().any(|it| it.get("type").is_some_and(is_null));
    let takes_null = in_type || in_branch;
    if takes_null && schema.get("default") == Some(&Value::Null) {
        return;
    }
    let meaning = if takes_null { "Null is taken as null, not as left out." } else { "Null leaves it out." };
    let own = property.get("description").and_then(Value::as_str).unwrap_or_default();
    let stop = if own.is_empty() || own.ends_with(['.', '!', '?']) { "" } else { "." };
    property["description"] = format!("{own}{stop} {meaning}").trim().into();
}

/// One keyword as a sentence.
pub(super) fn of_keyword(keyword: &str, value: &Value) -> String {
    let text = value.as_str().map_or_else(|| short(value), str::to_owned);
    match keyword {
        "default" => format!("Default: {}.", short(value)),
        "examples" => format!("For example: {}.", list(value)),
        "enum" => format!("One of: {}.", list(value)),
        "const" => format!("Always {}.", short(value)),
        "format" => format!("Format: {text}."),
        "pattern" => format!("It has to match the regular expression {text}"),
        "minLength" if text == "1" => "Not empty.".to_owned(),
        "minLength" => format!("At least {text} characters."),
        "maxLength" => format!("At most {text} characters."),
        "minimum" => format!("At least {text}."),
        "maximum" => format!("At most {text}."),
        "exclusiveMinimum" => format!("Above {text}."),
        "exclusiveMaximum" => format!("Below {text}."),
        "multipleOf" => format!("A multiple of {text}."),
        "minItems" if text == "1" => "At least one item.".to_owned(),
        "minItems" => format!("At least {text} items."),
        "maxItems" => format!("At most {text} items."),
        "uniqueItems" if *value == Value::Bool(true) => "No item twice.".to_owned(),
        "uniqueItems" | "deprecated" if *value == Value::Bool(false) => String::new(),
        "deprecated" => "Deprecated.".to_owned(),
        "minProperties" => format!("At least {text} keys."),
        "maxProperties" => format!("At most {text} keys."),
        "anyOf" => format!("At least one of these holds: {text}"),
        "oneOf" => format!("Exactly one of these holds: {text}"),
        other => format!("JSON Schema also asks for {other}: {text}"),
    }
}

fn list(value: &Value) -> String {
    match value.as_array() {
        Some(items) => items.iter().map(short).collect::<Vec<_>>().join(", "),
        None => short(value),
    }
}

/// JSON text, cut where it is long.
pub(super) fn short(value: &Value) -> String {
    let text = value.to_string();
    if text.chars().count() <= MAX_QUOTED {
        return text;
    }
    text.chars().take(MAX_QUOTED).chain(['…']).collect()
}
