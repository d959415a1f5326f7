//! Turns a validator's errors into violations.

use jsonschema::ValidationError;
use jsonschema::error::ValidationErrorKind as ErrorKind;
use openskill_skill::schema::join;
use serde_json::Value;

use super::describe::{abbreviate, describe, pluralize};
use super::violation::{MAX_VIOLATIONS, Violation, ViolationKind};
use crate::arguments::fold::nearest;
use crate::arguments::rules::Rules;
use crate::arguments::schema::{declared_names, failing_schema, properties};

/// The maximum length of a description of the expected value, in characters.
const MAX_EXPECTED_CHARACTERS: usize = 400;

/// The maximum length of a key pattern that feedback shows, in characters.
const MAX_PATTERN_CHARACTERS: usize = 80;

/// The maximum number of known names that feedback lists for an unknown one.
const MAX_KNOWN_NAMES: usize = 12;

/// Turns a validator's errors into violations.
pub(in crate::arguments) fn violations(root: &Value, rules: &Rules, errors: &[ValidationError<'_>]) -> Vec<Violation> {
    errors.iter().take(2 * MAX_VIOLATIONS).flat_map(|error| diagnose(root, rules, error)).collect()
}

/// Turns one validator error into violations.
fn diagnose(root: &Value, rules: &Rules, error: &ValidationError<'_>) -> Vec<Violation> {
    let path = error.instance_path().as_str();
    let schema = failing_schema(root, error);
    match error.kind() {
        ErrorKind::Required { property } => {
            vec![missing(root, schema, path, property.as_str().unwrap_or_default())]
        }
        ErrorKind::AdditionalProperties { unexpected } | ErrorKind::UnevaluatedProperties { unexpected } => {
            let names = schema.map(|schema| declared_names(root, schema)).unwrap_or_default();
            let unexpected = unexpected.iter().take(MAX_VIOLATIONS);
            let patterns = schema.and_then(|schema| schema.get("patternProperties")?.as_object());
            let pattern = patterns.and_then(|it| it.keys().next()).map(String::as_str);
            unexpected.map(|key| unknown(path, &names, pattern, rules, error.instance(), key)).collect()
        }
        ErrorKind::AnyOf { context } | ErrorKind::OneOfNotValid { context } => match intended_branch(context, path) {
            Some(branch) => branch.iter().take(MAX_VIOLATIONS).flat_map(|error| diagnose(root, rules, error)).collect(),
            None => vec![mismatch(root, schema, error)],
        },
        _ => vec![mismatch(root, schema, error)],
    }
}

/// Finds the branch of an `anyOf` or `oneOf` that the model probably meant: the only one that accepts this type of
/// value and whose constants match.
fn intended_branch<'e>(
    branches: &'e [Vec<ValidationError<'static>>],
    path: &str,
) -> Option<&'e Vec<ValidationError<'static>>> {
    let rules_out = |error: &ValidationError<'_>| match error.kind() {
        ErrorKind::Constant { .. } => true,
        ErrorKind::Type { .. } | ErrorKind::Enum { .. } | ErrorKind::FalseSchema => {
            error.instance_path().as_str() == path
        }
        _ => false,
    };
    let mut candidates = branches.iter().filter(|errors| !errors.iter().any(rules_out));
    let only = candidates.next().filter(|errors| errors.iter().any(|error| error.instance_path().as_str() != path))?;
    candidates.next().is_none().then_some(only)
}

fn missing(root: &Value, schema: Option<&Value>, path: &str, name: &str) -> Violation {
    let declared = schema.and_then(|schema| properties(root, schema, name).first().copied());
    let expected = declared.map_or_else(|| "a value".to_owned(), |schema| describe(root, schema));
    Violation {
        path: join(path, name),
        expected: expected.chars().take(MAX_EXPECTED_CHARACTERS).collect(),
        problem: ViolationKind::Missing,
        ..Violation::default()
    }
}

/// Describes an unknown key. `pattern` is a regular expression for keys that the object accepts in addition to
/// `names`.
fn unknown(path: &str, names: &[&str], pattern: Option<&str>, rules: &Rules, object: &Value, key: &str) -> Violation {
    // A branch of an `anyOf` that does not apply may still declare the key.
    let names: Vec<&str> = names.iter().copied().filter(|name| *name != key).collect();
    let absent = names.iter().copied().filter(|name| object.get(name).is_none());
    let alias = rules.aliases.get(key).map(String::as_str).filter(|_| path.is_empty());
    let suggestion = alias.or_else(|| nearest(key, absent)).or_else(|| nearest(key, names.iter().copied()));
    let known: Vec<_> = names.iter().take(MAX_KNOWN_NAMES).map(|name| Value::from(*name).to_string()).collect();
    let more = if names.len() > known.len() { ", …" } else { "" };
    let expected = match (&known[..], pattern) {
        ([], Some(pattern)) => {
            let pattern: String = pattern.chars().take(MAX_PATTERN_CHARACTERS).collect();
            format!("a key that matches {pattern}")
        }
        ([], None) => "no parameters".to_owned(),
        ([only], _) => only.clone(),
        (several, _) => format!("one of {}{more}", several.join(", ")),
    };
    Violation {
        path: join(path, key),
        expected,
        got: object.get(key).map(abbreviate),
        did_you_mean: suggestion.map(str::to_owned),
        problem: ViolationKind::Unknown,
    }
}

fn mismatch(root: &Value, schema: Option<&Value>, error: &ValidationError<'_>) -> Violation {
    let options = match error.kind() {
        ErrorKind::Enum { options } => options.as_array().map_or(&[][..], Vec::as_slice),
        ErrorKind::Constant { expected_value } => std::slice::from_ref(&**expected_value),
        _ => &[],
    };
    let words = options.iter().filter_map(Value::as_str);
    let suggestion = error.instance().as_str().and_then(|text| nearest(text, words));
    Violation {
        path: error.instance_path().as_str().to_owned(),
        expected: expectation(root, schema, error).chars().take(MAX_EXPECTED_CHARACTERS).collect(),
        got: Some(abbreviate(error.instance())),
        did_you_mean: suggestion.map(str::to_owned),
        problem: ViolationKind::Mismatch,
    }
}

/// Describes the expected value, in words that follow "must be".
fn expectation(root: &Value, schema: Option<&Value>, error: &ValidationError<'_>) -> String {
    let by_schema = || schema.map_or_else(|| "a different value".to_owned(), |schema| describe(root, schema));
    match error.kind() {
        ErrorKind::MinProperties { limit } => format!("an object with at least {}", pluralize(*limit, "key")),
        ErrorKind::MaxProperties { limit } => format!("an object with at most {}", pluralize(*limit, "key")),
        ErrorKind::PropertyNames { .. } => "an object whose keys match the schema".to_owned(),
        ErrorKind::Contains => "an array with an item that the schema requires".to_owned(),
        ErrorKind::UniqueItems => "an array without duplicate items".to_owned(),
        ErrorKind::FalseSchema => "omitted".to_owned(),
        ErrorKind::Not { schema } => format!("anything except {}", describe(root, schema)),
        ErrorKind::OneOfMultipleValid { .. } => "a value that matches only one of the schema's alternatives".to_owned(),
        ErrorKind::AnyOf { context } | ErrorKind::OneOfNotValid { context } => {
            required_keys(context).unwrap_or_else(by_schema)
        }
        _ => by_schema(),
    }
}

/// Describes an `anyOf` or `oneOf` whose every branch fails only because of missing keys.
fn required_keys(branches: &[Vec<ValidationError<'static>>]) -> Option<String> {
    let missing = |errors: &Vec<ValidationError<'static>>| {
        let names = errors.iter().map(|error| match error.kind() {
            ErrorKind::Required { property } => property.as_str().map(|name| Value::from(name).to_string()),
            _ => None,
        });
        names.collect::<Option<Vec<_>>>().map(|names| names.join(" and "))
    };
    let branches: Vec<_> = branches.iter().take(8).map(missing).collect::<Option<_>>()?;
    (!branches.is_empty()).then(|| format!("an object with {}", branches.join(", or with ")))
}
