//! Parameters that a schema marks as secret: `x-secret: true`, `writeOnly: true`, or a format or type `password` or
//! `secret`. Pure.
//!
//! A caller's arguments may use other names and places than the schema, and are recorded even if the call is
//! rejected. Therefore secrets are found by name, in any spelling and at any depth, and by value once the value is
//! known.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::Range;

use serde_json::Value;

use super::fold::fold_key;

mod escapes;
mod tokens;

pub(crate) use escapes::{Unescaped, unescape};
pub(crate) use tokens::{Kind, Tokens};

/// The maximum number of names, and of values, to search for.
const MAX_NAMES: usize = 1000;
pub(crate) const MAX_VALUES: usize = 64;

/// The minimum length of a value to search for. Shorter ones would match everywhere.
const MIN_VALUE_BYTES: usize = 4;
const MIN_DIGITS: usize = 6;

/// The maximum number of value parts to search for, and the minimum length of a part.
const MAX_PARTS: usize = 64;
const MIN_PART_BYTES: usize = 8;

/// The maximum number of escape layers that are decoded in a part. JSON within a JSON string is escaped twice.
const MAX_LAYERS: usize = 4;

/// The secret parameters of a skill.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Secrets {
    /// Names and aliases, after folding.
    names: BTreeSet<String>,
    /// Treats every parameter as secret: the schema is too large to tell which ones are.
    all: bool,
}

/// The secret values of one call, to find wherever they are repeated. Their number is bounded.
#[derive(Debug, Default)]
pub(crate) struct SecretValues {
    values: Vec<String>,
    /// Secrets that are parts of values.
    parts: Vec<String>,
    are_too_many: bool,
}

impl Secrets {
    /// The placeholder that replaces a secret in text.
    pub(crate) const MARK: &str = "***";

    /// The placeholder that replaces a secret in JSON.
    pub(crate) const MASKED: &str = "\"***\"";

    /// Collects the secret parameters of a schema, if any. `aliases` are alternative names, each with its
    /// parameter.
    pub(super) fn from_schema<'a>(
        schema: &Value,
        aliases: impl Iterator<Item = (&'a String, &'a String)>,
    ) -> Option<Self> {
        let mut secrets = Self { names: BTreeSet::new(), all: is_secret(schema) };
        secrets.collect(schema, None);
        let also = aliases.filter(|(_, name)| secrets.names.contains(&fold_key(name)));
        let also: Vec<_> = also.map(|(alias, _)| fold_key(alias)).collect();
        secrets.names.extend(also);
        secrets.all |= secrets.names.len() > MAX_NAMES;
        (secrets.all || !secrets.names.is_empty()).then_some(secrets)
    }

    /// Collects the secrets in the answer to a question. `schema` is its JSON Schema as text, or empty. A property
    /// is also secret if `names_secret` accepts its title. If the schema can't be read, everything is secret.
    pub(crate) fn from_question_schema(schema: &str, names_secret: impl Fn(&str) -> bool) -> Option<Self> {
        if schema.trim_ascii().is_empty() {
            return None;
        }
        let Ok(schema) = serde_json::from_str::<Value>(schema) else { return Some(Self::everything()) };
        let mut secrets = Self::from_schema(&schema, std::iter::empty()).unwrap_or_default();
        let properties = schema["properties"].as_object().into_iter().flatten();
        let titled = properties.filter(|(_, it)| it["title"].as_str().is_some_and(&names_secret));
        secrets.names.extend(titled.map(|(name, _)| fold_key(name)));
        (secrets.all || !secrets.names.is_empty()).then_some(secrets)
    }

    /// Treats every parameter as secret.
    pub(crate) fn everything() -> Self {
        Self { names: BTreeSet::new(), all: true }
    }

    /// Collects the names of secret properties from the whole schema, so that references and branches need no
    /// resolution. `name` is the property that the subschema belongs to.
    fn collect(&mut self, schema: &Value, name: Option<&str>) {
        if is_secret(schema) {
            match name {
                Some(name) => drop(self.names.insert(fold_key(name))),
                // A definition, or an unnamed part. What refers to it is unknown, so everything is secret.
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
            // These contain values, not schemas.
            ("const" | "default" | "enum" | "examples", _) => {}
            _ => self.collect(value, name),
        }
    }

    fn is_named(&self, key: &str) -> bool {
        self.all || self.names.contains(&fold_key(key))
    }

    /// Whether a JSON pointer refers to a secret, to a part of one, or to the whole document.
    pub(crate) fn touches(&self, pointer: &str) -> bool {
        self.all || pointer.is_empty() || pointer.split('/').any(|step| self.is_named(step))
    }

    /// Returns the ranges of the secrets in a JSON text. None if the text can't be read.
    pub(crate) fn places(&self, json: &str) -> Option<Vec<Range<usize>>> {
        let mut tokens = Tokens::parse(json)?;
        let mut first = tokens.clone();
        if self.all || !matches!(first.next(), Some((Kind::Open, _))) {
            return Some(tokens.value().into_iter().collect());
        }
        let mut places = Vec::new();
        while let Some((kind, place)) = tokens.next() {
            if kind == Kind::Key && self.is_named(&tokens.decode(&place)) {
                places.extend(tokens.value());
            }
        }
        Some(places)
    }
}

impl SecretValues {
    /// Adds the strings and long numbers of a JSON text. Returns false if the text can't be read.
    pub(crate) fn add(&mut self, json: &str) -> bool {
        let Some(mut tokens) = Tokens::parse(json) else { return false };
        while let Some((kind, place)) = tokens.next() {
            match kind {
                Kind::Text => self.add_value(&tokens.decode(&place), MIN_VALUE_BYTES),
                Kind::Scalar if json[place.clone()].contains(|it: char| it.is_ascii_digit()) => {
                    self.add_value(&json[place], MIN_DIGITS);
                }
                Kind::Open | Kind::Close | Kind::Key | Kind::Scalar => {}
            }
        }
        true
    }

    /// Adds a text as one value.
    pub(crate) fn add_text(&mut self, text: &str) {
        self.add_value(text, MIN_VALUE_BYTES);
    }

    /// Adds the values of `json` that are masked in `masked`.
    pub(crate) fn add_masked(&mut self, json: &str, masked: &str) {
        let (Some(mut tokens), Some(mut others)) = (Tokens::parse(json), Tokens::parse(masked)) else { return };
        while let (Some((_, place)), Some((kind, other))) = (tokens.clone().next(), others.next()) {
            let is_masked = kind == Kind::Text && others.decode(&other) == Secrets::MARK;
            if is_masked && let Some(value) = tokens.value() {
                self.add(&json[value]);
            } else if !is_masked {
                tokens.seek(place.end);
            }
        }
    }

    /// Adds a part of a value, in its JSON and its JSON Pointer spelling. Drops parts beyond the limit, most of
    /// which redaction also finds by their format.
    pub(crate) fn add_part(&mut self, escaped: &str) {
        let mut part = escaped.to_owned();
        for _ in 0..MAX_LAYERS {
            let Some(inner) = unescape(&part) else { break };
            part = inner.text;
        }
        let pointer = part.replace('~', "~0").replace('/', "~1");
        for form in [part, pointer] {
            let is_new = !self.parts.contains(&form) && !self.values.contains(&form);
            if form.len() >= MIN_PART_BYTES && is_new && self.parts.len() < MAX_PARTS {
                self.parts.push(form);
            }
        }
    }

    fn add_value(&mut self, value: &str, least: usize) {
        if value.len() < least || value == Secrets::MARK || self.values.iter().any(|it| it == value) {
            return;
        }
        if self.values.len() < MAX_VALUES {
            self.values.push(value.to_owned());
        } else {
            self.are_too_many = true;
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &str> {
        self.values.iter().chain(&self.parts).map(String::as_str)
    }

    /// Whether some values were dropped because of the limit.
    pub(crate) fn are_too_many(&self) -> bool {
        self.are_too_many
    }
}

fn is_secret(schema: &Value) -> bool {
    let is = |word: &Value| word == "password" || word == "secret";
    let says = |key: &str| match schema.get(key) {
        Some(Value::Array(words)) => words.iter().any(is),
        word => word.is_some_and(is),
    };
    ["x-secret", "writeOnly", "secret"].iter().any(|key| schema.get(*key) == Some(&Value::Bool(true)))
        || ["format", "type"].iter().any(|key| says(key))
}

/// Wraps a JSON value in the objects that a JSON pointer passes: `{"a":{"b":VALUE}}` for `/a/b`.
pub(crate) fn nest_at(pointer: &str, json: &str) -> String {
    let steps = pointer.split('/').skip(1).map(|step| step.replace("~1", "/").replace("~0", "~"));
    let steps: Vec<_> = steps.map(|step| Value::from(step).to_string()).collect();
    let open: String = steps.iter().map(|step| format!("{{{step}:")).collect();
    format!("{open}{json}{}", "}".repeat(steps.len()))
}

/// Whether a text is valid JSON.
pub(crate) fn is_json(text: &str) -> bool {
    Tokens::parse(text).is_some()
}

/// Replaces ranges of a text. They must be sorted and must not overlap. `by` returns the replacement for the range
/// that begins at its argument.
pub(crate) fn replace_ranges<'t>(
    text: Cow<'t, str>,
    places: &[Range<usize>],
    by: impl Fn(usize) -> &'t str,
) -> Cow<'t, str> {
    if places.is_empty() {
        return text;
    }
    let (mut out, mut at) = (String::with_capacity(text.len()), 0);
    for place in places {
        out.push_str(&text[at..place.start]);
        out.push_str(by(place.start));
        at = place.end;
    }
    out.push_str(&text[at..]);
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;

    fn secrets(schema: &Value) -> Option<Secrets> {
        let aliases = BTreeMap::from([("api_key".to_owned(), "token".to_owned())]);
        Secrets::from_schema(schema, aliases.iter())
    }

    fn masked(secrets: &Secrets, text: &str) -> Value {
        let places = secrets.places(text).unwrap();
        serde_json::from_str(&replace_ranges(text.into(), &places, |_| Secrets::MASKED)).unwrap()
    }

    #[test]
    fn each_mark_makes_a_parameter_secret_in_any_spelling_and_place() {
        for mark in [
            json!({"x-secret": true}),
            json!({"secret": true}),
            json!({"writeOnly": true}),
            json!({"format": "password"}),
            json!({"type": "secret"}),
            json!({"type": ["null", "password"]}),
        ] {
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
    fn text_that_can_not_be_read_has_no_places_and_text_that_is_no_object_is_one() {
        let secrets = secrets(&json!({"properties": {"token": {"x-secret": true}}})).unwrap();
        for text in ["{'token': 's3cret'}", "", "{"] {
            assert_eq!(secrets.places(text), None, "{text}");
        }
        assert_eq!(masked(&secrets, " \"s3cret\" "), "***");
    }

    #[test]
    fn what_is_not_secret_stays_as_it_is_byte_for_byte() {
        let secrets = secrets(&json!({"properties": {"token": {"x-secret": true}}})).unwrap();
        let text = r#"{ "n" : 1.50,"\u0074oken":[1, {"a":"b"}], "n":2, "token" : null}"#;
        let places = secrets.places(text).unwrap();
        assert_eq!(
            replace_ranges(text.into(), &places, |_| "#"),
            r#"{ "n" : 1.50,"\u0074oken":#, "n":2, "token" : #}"#
        );
    }

    fn values(add: impl FnOnce(&mut SecretValues)) -> SecretValues {
        let mut values = SecretValues::default();
        add(&mut values);
        values
    }

    #[test]
    fn values_are_texts_as_they_are_meant_and_long_numbers() {
        let found = values(|it| assert!(it.add(r#"["a\"b\u0026c","abc",123456,12345,true,{"key":"a\"b&c"}]"#)));
        assert_eq!(found.iter().collect::<Vec<_>>(), [r#"a"b&c"#, "123456"]);
        assert!(!values(|_| ()).add("{"));
    }

    #[test]
    fn values_are_bounded_and_say_whether_some_are_missing() {
        let texts = |count: usize| json!((0..count).map(|it| format!("value-{it}")).collect::<Vec<_>>()).to_string();
        assert!(!values(|it| assert!(it.add(&texts(MAX_VALUES)))).are_too_many());
        assert!(values(|it| assert!(it.add(&texts(MAX_VALUES + 1)))).are_too_many());
    }

    #[test]
    fn pointers_that_lead_to_a_secret_are_told() {
        let secrets = secrets(&json!({"properties": {"token": {"x-secret": true}}})).unwrap();
        assert!(secrets.touches("/input/token/0") && secrets.touches("") && !secrets.touches("/text"));
    }

    #[test]
    fn values_that_were_masked_are_found_by_comparison() {
        let found = values(|it| {
            let text = r#"{"a":[{"b":"hush hush"},{"b":{"c":["quiet",1]}}],"c":"shown","d":1}"#;
            it.add_masked(text, r#"{"a":[{"b":"***"},{"b":"***"}],"c":"shown","d":1}"#);
        });
        assert_eq!(found.iter().collect::<Vec<_>>(), ["hush hush", "quiet"]);
    }

    #[test]
    fn an_answer_is_secret_where_its_question_says_so() {
        let answer = r#"{"pin":"1234","n":1}"#;
        let of = |schema: &str| {
            let secrets = Secrets::from_question_schema(schema, |title| title == "Your PIN");
            let places = secrets.map_or_else(Vec::new, |it| it.places(answer).unwrap());
            replace_ranges(answer.into(), &places, |_| "#").into_owned()
        };
        assert_eq!(of(r#"{"properties":{"pin":{"type":"string","format":"password"}}}"#), r#"{"pin":#,"n":1}"#);
        assert_eq!(of(r#"{"properties":{"pin":{"title":"Your PIN"},"n":{"title":"How many"}}}"#), r#"{"pin":#,"n":1}"#);
        assert_eq!(of(r#"{"type":"secret"}"#), "#");
        assert_eq!(of("no schema"), "#", "nobody knows");
        assert_eq!((of("").as_str(), of(r#"{"properties":{"pin":{}}}"#).as_str()), (answer, answer));
    }

    #[test]
    fn a_value_is_put_where_its_pointer_leads() {
        assert_eq!(nest_at("/a~1b/0", "5"), r#"{"a/b":{"0":5}}"#);
        assert_eq!(nest_at("", "5"), "5");
    }
}
