//! Drops regular expressions that cannot be matched in linear time from the schemas of servers that check
//! arguments themselves.

use serde_json::{Map, Value, json};

use crate::schema::{compile, subschemas_mut};

/// The maximum length of a regular expression that a description quotes, in characters.
const MAX_QUOTED_CHARACTERS: usize = 200;

/// Keywords below which expressions are kept, because dropping one would make the schema accept less.
const KEPT_BELOW: [&str; 3] = ["not", "if", "contains"];

/// Drops each regular expression that [`compile`] rejects, and notes it in its subschema's description. The schema
/// still accepts every value that it accepted before. Returns whether any expression was dropped.
pub fn drop_unusable(schema: &mut Value) -> bool {
    let dropped = drop_below(schema);
    if dropped {
        loosen_references(schema);
    }
    dropped
}

fn drop_below(schema: &mut Value) -> bool {
    let Some(object) = schema.as_object_mut() else { return false };
    let mut dropped = drop_own(object);
    let mut loosens_one_of = false;
    for (keyword, inner) in subschemas_mut(object).filter(|(keyword, _)| !KEPT_BELOW.contains(keyword)) {
        let below = drop_below(inner);
        loosens_one_of |= keyword == "oneOf" && below;
        dropped |= below;
    }
    if loosens_one_of {
        loosen_one_of(object);
    }
    dropped
}

/// Drops `not`, `if` and `contains` if they contain references, and loosens `oneOf` if it contains some. A
/// reference to a schema that now accepts more could make these keywords accept less.
fn loosen_references(schema: &mut Value) {
    let Some(object) = schema.as_object_mut() else { return };
    for keyword in KEPT_BELOW {
        if object.get(keyword).is_some_and(has_reference) {
            object.shift_remove(keyword);
        }
    }
    if object.get("oneOf").is_some_and(has_reference) {
        loosen_one_of(object);
    }
    subschemas_mut(object).for_each(|(_, inner)| loosen_references(inner));
}

/// Replaces `oneOf` with `anyOf`, so that several branches may match.
fn loosen_one_of(object: &mut Map<String, Value>) {
    let Some(branches) = object.shift_remove("oneOf") else { return };
    if !object.contains_key("anyOf") {
        object.insert("anyOf".to_owned(), branches);
    } else if let Value::Array(all) = object.entry("allOf").or_insert_with(|| json!([])) {
        all.push(json!({ "anyOf": branches }));
    }
}

fn has_reference(schema: &Value) -> bool {
    match schema {
        Value::Object(object) => object.contains_key("$ref") || object.values().any(has_reference),
        Value::Array(items) => items.iter().any(has_reference),
        _ => false,
    }
}

/// Drops the unusable expressions of one subschema, but not those below it.
fn drop_own(object: &mut Map<String, Value>) -> bool {
    let mut dropped: Vec<String> = Vec::new();
    if let Some(pattern) = object.get("pattern").and_then(Value::as_str).filter(|it| !is_usable(it)) {
        dropped.push(pattern.to_owned());
        object.shift_remove("pattern");
    }
    if let Some(by_pattern) = object.get_mut("patternProperties").and_then(Value::as_object_mut) {
        let unusable: Vec<String> = by_pattern.keys().filter(|it| !is_usable(it)).cloned().collect();
        unusable.iter().for_each(|pattern| drop(by_pattern.shift_remove(pattern)));
        if !unusable.is_empty() {
            // The keys that the expression matched must remain allowed.
            object.shift_remove("unevaluatedProperties");
            object.insert("additionalProperties".to_owned(), true.into());
        }
        dropped.extend(unusable);
    }
    for pattern in &dropped {
        let quoted: String = pattern.chars().take(MAX_QUOTED_CHARACTERS).collect();
        let own = object.get("description").and_then(Value::as_str).unwrap_or_default();
        let sentence = format!("{own} The server checks the regular expression {quoted}");
        object.insert("description".to_owned(), sentence.trim().into());
    }
    !dropped.is_empty()
}

fn is_usable(pattern: &str) -> bool {
    compile(&json!({ "pattern": pattern })).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_not_be_matched_is_dropped_and_the_rest_stays() {
        let email = r"^(?!\.)(?!.*\.\.)([A-Za-z0-9_'+\-\.]*)[A-Za-z0-9_+-]@([A-Za-z0-9][A-Za-z0-9\-]*\.)+[A-Za-z]{2,}$";
        let mut schema = json!({"type": "object", "properties": {
            "to": {"type": "string", "pattern": email, "description": "Who."},
            "any": {"oneOf": [{"pattern": r"(a)\1"}, {"pattern": "^.{1,100000}$"}]},
            "other": {"oneOf": [{"allOf": [{"$ref": "#/$defs/a"}]}, {"$ref": "#/$defs/b"}], "anyOf": [true]},
            "never": {"not": {"$ref": "#/$defs/a"}},
            "plain": {"type": "string", "pattern": "^a+$"},
            "env": {"patternProperties": {"(?=x)": {}, "^A": {"type": "string"}}, "additionalProperties": false},
        }, "$defs": {"a": {"pattern": "(?=a)"}, "b": {"pattern": "(?=b)"}}});
        assert!(compile(&schema).unwrap_err().contains("look-around"));
        assert!(drop_unusable(&mut schema));
        assert!(!drop_unusable(&mut schema), "there is nothing more to drop");
        let of = |pointer: &str| schema.pointer(pointer).unwrap();
        assert_eq!(*of("/properties/to/description"), format!("Who. The server checks the regular expression {email}"));
        assert_eq!(of("/properties/any/anyOf").as_array().map(Vec::len), Some(2));
        assert_eq!(*of("/properties/plain"), json!({"type": "string", "pattern": "^a+$"}));
        let validator = compile(&schema).unwrap();
        assert!(validator.is_valid(&json!({"to": "a@b.c", "any": "x", "other": "x", "never": "x", "env": {"x": 1}})));
        assert!(!validator.is_valid(&json!({"env": {"A": 1}})));
        assert!(!validator.is_valid(&json!({"plain": "b"})));
    }

    #[test]
    fn nothing_is_dropped_where_that_would_refuse_more() {
        for schema in [json!({"not": {"pattern": "(?=a)"}}), json!({"if": {"pattern": "(?=a)"}, "then": {}})] {
            let mut changed = schema.clone();
            assert!(!drop_unusable(&mut changed));
            assert_eq!(changed, schema);
        }
    }
}
