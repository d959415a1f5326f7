//! Parameters that a schema marks as secret: `x-secret: true`, `writeOnly: true` or `format: password`. Pure.
//!
//! What a caller wrote may have its own idea of names and places, and is kept even if it was rejected. So a secret is found
//! by its name, in any spelling and at any depth, and by its value once that is known.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::fold::fold_key;

/// How many names and values are looked for.
const MAX_NAMES: usize = 1000;
const MAX_VALUES: usize = 64;

/// The shortest value that is looked for elsewhere. Shorter ones are everywhere.
const MIN_VALUE_BYTES: usize = 4;
const MIN_DIGITS: usize = 6;

/// The secret parameters of a skill.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Secrets {
    /// Their names and aliases, folded.
    names: BTreeSet<String>,
    /// The schema is too large to say which.
    all: bool,
}

impl Secrets {
    /// What stands for a secret.
    pub(crate) const MARK: &str = "***";

    /// The secret parameters of a schema, if there are any. `aliases`: other names, each with its parameter.
    pub(super) fn of<'a>(schema: &Value, aliases: impl Iterator<Item = (&'a String, &'a String)>) -> Option<Self> {
        let mut secrets = Self { names: BTreeSet::new(), all: is_secret(schema) };
        secrets.collect(schema, None);
        let also = aliases.filter(|(_, name)| secrets.names.contains(&fold_key(name)));
        let also: Vec<_> = also.map(|(alias, _)| fold_key(alias)).collect();
        secrets.names.extend(also);
        secrets.all |= secrets.names.len() > MAX_NAMES;
        (secrets.all || !secrets.names.is_empty()).then_some(secrets)
    }

    /// Collects the names of secret properties, wherever the schema has them: references and branches need no resolution then.
    /// `name`: of the property that the subschema belongs to.
    fn collect(&mut self, schema: &Value, name: Option<&str>) {
        if is_secret(schema) {
            match name {
                Some(name) => drop(self.names.insert(fold_key(name))),
                // A definition, or an unnamed part: whatever refers to it is not looked for.
                None => self.all = true,
            }
        }
        match schema {
            Value::Object(keywords) => keywords.iter().for_each(|(keyword, value)| self.keyword(keyword, value, name)),
            Value::Array(branches) => branches.iter().for_each(|it| self.collect(it, name)),
            _ => {}
        }
    }

    fn keyword(&mut self, keyword: &str, value: &Value, name: Option<&str>) {
        match (keyword, value) {
            ("properties", Value::Object(properties)) => {
                properties.iter().for_each(|(name, schema)| self.collect(schema, Some(name)));
            }
            ("patternProperties" | "$defs" | "definitions" | "dependentSchemas", Value::Object(schemas)) => {
                schemas.values().for_each(|it| self.collect(it, name));
            }
            // Values, not schemas.
            ("const" | "default" | "enum" | "examples", _) => {}
            _ => self.collect(value, name),
        }
    }

    fn is_named(&self, key: &str) -> bool {
        self.all || self.names.contains(&fold_key(key))
    }

    /// Whether a JSON pointer leads to a secret, into it, or to everything.
    pub(crate) fn touches(&self, pointer: &str) -> bool {
        self.all || pointer.is_empty() || pointer.split('/').any(|step| self.is_named(step))
    }

    /// JSON text with its secrets masked. Text that can't be read is masked whole.
    pub(crate) fn mask(&self, json: &[u8]) -> Vec<u8> {
        let masked = match serde_json::from_slice(json) {
            Ok(mut value @ (Value::Object(_) | Value::Array(_))) if !self.all => {
                self.mask_value(&mut value);
                value
            }
            _ => Value::from(Self::MARK),
        };
        masked.to_string().into_bytes()
    }

    fn mask_value(&self, value: &mut Value) {
        self.each(value, &mut |secret| *secret = Value::from(Self::MARK));
    }

    /// The secret values in a JSON text, as they are and as JSON writes them.
    pub(crate) fn values(&self, json: &[u8]) -> Vec<String> {
        let mut values = Vec::new();
        let Ok(mut value) = serde_json::from_slice(json) else { return values };
        if self.all {
            leaves(&value, &mut values);
        }
        self.each(&mut value, &mut |secret| leaves(secret, &mut values));
        values
    }

    fn each(&self, value: &mut Value, found: &mut impl FnMut(&mut Value)) {
        match value {
            Value::Object(fields) => {
                for (key, value) in fields {
                    if self.is_named(key) { found(value) } else { self.each(value, found) }
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|it| self.each(it, found)),
            _ => {}
        }
    }
}

fn is_secret(schema: &Value) -> bool {
    let has = |schema: &Map<String, Value>, key: &str| schema.get(key) == Some(&Value::Bool(true));
    schema.as_object().is_some_and(|it| {
        has(it, "x-secret") || has(it, "writeOnly") || it.get("format").is_some_and(|format| format == "password")
    })
}

/// Adds the values of one JSON text that another one has masked.
pub(crate) fn masked_values(json: &[u8], masked: &str, found: &mut Vec<String>) {
    if let (Ok(value), Ok(masked)) = (serde_json::from_slice(json), serde_json::from_str(masked)) {
        compare(&value, &masked, found);
    }
}

fn compare(value: &Value, masked: &Value, found: &mut Vec<String>) {
    match (value, masked) {
        (_, Value::String(text)) if text == Secrets::MARK => leaves(value, found),
        (Value::Object(one), Value::Object(other)) => {
            one.values().zip(other.values()).for_each(|(value, masked)| compare(value, masked, found));
        }
        (Value::Array(one), Value::Array(other)) => {
            one.iter().zip(other).for_each(|(value, masked)| compare(value, masked, found));
        }
        _ => {}
    }
}

/// A value as JSON text, within the objects that a JSON pointer leads through: `{"a":{"b":VALUE}}` for `/a/b`.
pub(crate) fn placed(pointer: &str, json: &str) -> String {
    let steps = pointer.split('/').skip(1).map(|step| step.replace("~1", "/").replace("~0", "~"));
    let steps: Vec<_> = steps.map(|step| Value::from(step).to_string()).collect();
    let open: String = steps.iter().map(|step| format!("{{{step}:")).collect();
    format!("{open}{json}{}", "}".repeat(steps.len()))
}

/// Collects texts, as they are and as JSON writes them, and long numbers.
fn leaves(value: &Value, found: &mut Vec<String>) {
    if found.len() >= MAX_VALUES {
        return;
    }
    match value {
        Value::Object(fields) => fields.values().for_each(|it| leaves(it, found)),
        Value::Array(items) => items.iter().for_each(|it| leaves(it, found)),
        Value::String(text) if text.len() >= MIN_VALUE_BYTES => {
            let written = value.to_string();
            found.extend([text.clone(), written[1..written.len() - 1].to_owned()]);
        }
        Value::Number(number) => found.extend(Some(number.to_string()).filter(|it| it.len() >= MIN_DIGITS)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;

    fn secrets(schema: &Value) -> Option<Secrets> {
        let aliases = BTreeMap::from([("api_key".to_owned(), "token".to_owned())]);
        Secrets::of(schema, aliases.iter())
    }

    fn masked(secrets: &Secrets, text: &str) -> Value {
        serde_json::from_slice(&secrets.mask(text.as_bytes())).unwrap()
    }

    #[test]
    fn each_mark_makes_a_parameter_secret_in_any_spelling_and_place() {
        for mark in [json!({"x-secret": true}), json!({"writeOnly": true}), json!({"format": "password"})] {
            let secrets = secrets(&json!({"properties": {"token": mark, "text": {"type": "string"}}})).unwrap();
            let text = r#"{"text":"a","token":"s3cret","input":[{"Token":{"a":1},"api_key":5,"other":null}]}"#;
            let expected =
                json!({"text": "a", "token": "***", "input": [{"Token": "***", "api_key": "***", "other": null}]});
            assert_eq!(masked(&secrets, text), expected);
        }
    }

    #[test]
    fn marks_are_found_in_every_part_of_a_schema() {
        for schema in [
            json!({"properties": {"auth": {"properties": {"pin": {"x-secret": true}}}}}),
            json!({"anyOf": [{"properties": {"pin": {"type": "string", "x-secret": true}}}]}),
            json!({"$defs": {"auth": {"properties": {"pin": {"x-secret": true}}}}}),
            json!({"properties": {"pin": {"items": {"x-secret": true}}}}),
            json!({"properties": {"pin": {"anyOf": [{"x-secret": true}, {"type": "null"}]}}}),
        ] {
            let secrets = secrets(&schema).unwrap();
            assert_eq!(masked(&secrets, r#"{"a":{"pin":["1234"]}}"#), json!({"a": {"pin": "***"}}), "{schema}");
        }
    }

    #[test]
    fn a_definition_that_is_secret_makes_everything_secret() {
        let secrets = secrets(&json!({"$defs": {"key": {"x-secret": true}}})).unwrap();
        assert_eq!(masked(&secrets, r#"{"a":1}"#), "***");
    }

    #[test]
    fn a_schema_without_marks_has_no_secrets() {
        for schema in [
            json!({"properties": {"token": {"type": "string"}}}),
            json!({"properties": {"a": {"x-secret": false, "default": {"x-secret": true}}}}),
            json!(true),
        ] {
            assert_eq!(secrets(&schema), None);
        }
    }

    #[test]
    fn text_that_can_not_be_read_is_masked_whole() {
        let secrets = secrets(&json!({"properties": {"token": {"x-secret": true}}})).unwrap();
        for text in ["{'token': 's3cret'}", "\"s3cret\"", "", "{"] {
            assert_eq!(masked(&secrets, text), "***", "{text}");
        }
    }

    #[test]
    fn values_are_found_as_they_are_and_as_json_writes_them() {
        let secrets = secrets(&json!({"properties": {"token": {"x-secret": true}}})).unwrap();
        let values = secrets.values(br#"{"token":["a\"bcd","abc",123456,12345],"text":"shown"}"#);
        assert_eq!(values, [r#"a"bcd"#, r#"a\"bcd"#, "123456"]);
        assert!(secrets.values(b"{").is_empty());
        assert!(secrets.touches("/input/token/0") && secrets.touches("") && !secrets.touches("/text"));
    }

    #[test]
    fn values_that_were_masked_are_found_by_comparison() {
        let mut found = Vec::new();
        masked_values(
            br#"{"a":[{"b":"hush hush"}],"c":"shown","d":1}"#,
            r#"{"a":[{"b":"***"}],"c":"shown","d":1}"#,
            &mut found,
        );
        assert_eq!(found, ["hush hush", "hush hush"]);
    }

    #[test]
    fn a_value_is_put_where_its_pointer_leads() {
        assert_eq!(placed("/a~1b/0", "5"), r#"{"a/b":{"0":5}}"#);
        assert_eq!(placed("", "5"), "5");
    }
}
