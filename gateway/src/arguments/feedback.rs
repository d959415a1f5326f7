//! What is wrong with a call, in words that a model can act on, and a call that would be right.

use jsonschema::ValidationError;
use jsonschema::error::ValidationErrorKind as Wrong;
use serde_json::{Value, json};

use super::Rules;
use super::repair::{nearest, subschema};
use super::schema::{declared, properties};
use super::tree::join;

mod describe;
mod sample;

use describe::{describe, shown};
pub(super) use sample::example;

/// How many violations are told: in the details, and in the message.
const MAX_TOLD: usize = 16;
const MAX_SAID: usize = 3;

/// The longest example that the message holds, in bytes. The details hold any.
const MAX_EXAMPLE: usize = 400;

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// JSON Pointer into the arguments.
    pub path: String,
    /// What was expected there.
    pub expected: String,
    /// What is there; none if nothing is.
    pub got: Option<String>,
    /// What may have been meant: a name or a word.
    pub did_you_mean: Option<String>,
    problem: Problem,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Problem {
    Whole,
    Missing,
    Wrong,
    Unknown,
}

/// All that is wrong with a call.
#[derive(Debug, Clone, PartialEq)]
pub struct Feedback {
    /// What is wrong; what is missing comes first.
    pub violations: Vec<Violation>,
    /// A call that would be right.
    pub example: Option<Value>,
    /// How many more there are than `violations` holds.
    more: usize,
}

impl Violation {
    /// The arguments as a whole are not what they have to be.
    pub(super) fn of_whole(reason: &str) -> Self {
        Self {
            path: String::new(),
            expected: reason.to_owned(),
            got: None,
            did_you_mean: None,
            problem: Problem::Whole,
        }
    }

    fn sentence(&self) -> String {
        let name = match self.path.strip_prefix('/') {
            Some(path) => Value::from(cut(path)).to_string(),
            None => "the arguments".to_owned(),
        };
        let (expected, got) = (&self.expected, self.got.as_deref().unwrap_or("nothing"));
        let hint = self
            .did_you_mean
            .as_ref()
            .map(|it| format!(", did you mean {}?", Value::from(cut(it))))
            .unwrap_or_default();
        match self.problem {
            Problem::Whole => self.expected.clone(),
            Problem::Missing => format!("{name} is missing: {expected}{hint}"),
            Problem::Unknown if hint.is_empty() => format!("{name} is not known ({expected})"),
            Problem::Unknown => format!("{name} is not known{hint}"),
            Problem::Wrong => format!("{name} must be {expected}, not {got}{hint}"),
        }
    }

    fn to_json(&self) -> Value {
        let mut object = json!({ "path": cut(&self.path), "expected": self.expected, "got": self.got });
        if let Some(meant) = &self.did_you_mean {
            object["did_you_mean"] = Value::from(cut(meant));
        }
        object
    }
}

impl Feedback {
    pub(super) fn new(mut violations: Vec<Violation>, example: Option<&Value>) -> Self {
        violations.sort_by(|one, other| (one.problem, &one.path).cmp(&(other.problem, &other.path)));
        violations.dedup();
        let more = violations.len().saturating_sub(MAX_TOLD);
        violations.truncate(MAX_TOLD);
        Self { violations, example: example.cloned(), more }
    }

    /// Short text for a model: the first things that are wrong, and how it would be right.
    pub fn message(&self) -> String {
        let said: Vec<_> = self.violations.iter().take(MAX_SAID).map(Violation::sentence).collect();
        let mut message = said.join("; ");
        let more = self.violations.len().saturating_sub(MAX_SAID) + self.more;
        if more > 0 {
            message += &format!("; and {more} more");
        }
        match self.example.as_ref().map(Value::to_string) {
            Some(example) if example.len() <= MAX_EXAMPLE => {
                let stop = if message.ends_with('?') { "" } else { "." };
                format!("{message}{stop} Example: {example}")
            }
            _ => message,
        }
    }

    /// The same and more for programs: `violations`, each with `path`, `expected`, `got` and perhaps `did_you_mean`, and
    /// `example`.
    pub fn details(&self) -> Value {
        let violations: Vec<_> = self.violations.iter().map(Violation::to_json).collect();
        let mut details = json!({ "violations": violations });
        if let Some(example) = &self.example {
            details["example"] = example.clone();
        }
        details
    }
}

/// What a validator complains of, as violations.
pub(super) fn violations(root: &Value, rules: &Rules, errors: &[ValidationError<'_>]) -> Vec<Violation> {
    errors.iter().take(2 * MAX_TOLD).flat_map(|error| of_error(root, rules, error)).collect()
}

fn of_error(root: &Value, rules: &Rules, error: &ValidationError<'_>) -> Vec<Violation> {
    let path = error.instance_path().as_str();
    let schema = subschema(root, error);
    match error.kind() {
        Wrong::Required { property: name } => {
            let name = name.as_str().unwrap_or_default();
            let declared = schema.and_then(|schema| properties(root, schema, name).first().copied());
            vec![Violation {
                path: join(path, name),
                expected: declared
                    .map_or_else(|| "a value".to_owned(), |schema| describe(root, schema))
                    .chars()
                    .take(400)
                    .collect(),
                got: None,
                did_you_mean: None,
                problem: Problem::Missing,
            }]
        }
        Wrong::AdditionalProperties { unexpected } | Wrong::UnevaluatedProperties { unexpected } => {
            let names = schema.map(|schema| declared(root, schema)).unwrap_or_default();
            unexpected.iter().take(MAX_TOLD).map(|key| unknown(path, &names, rules, error.instance(), key)).collect()
        }
        Wrong::AnyOf { context } | Wrong::OneOfNotValid { context } if meant(context, path).is_some() => {
            meant(context, path).into_iter().flatten().take(MAX_TOLD).flat_map(|it| of_error(root, rules, it)).collect()
        }
        _ => vec![wrong(root, schema, error)],
    }
}

/// The branch of a choice that was meant: the only one that takes a value of this kind, its fixed words included.
fn meant<'e>(context: &'e [Vec<ValidationError<'static>>], path: &str) -> Option<&'e Vec<ValidationError<'static>>> {
    let is_other = |error: &ValidationError<'_>| match error.kind() {
        Wrong::Constant { .. } => true,
        Wrong::Type { .. } | Wrong::Enum { .. } | Wrong::FalseSchema => error.instance_path().as_str() == path,
        _ => false,
    };
    let mut fitting = context.iter().filter(|errors| !errors.iter().any(is_other));
    let only = fitting.next().filter(|errors| errors.iter().any(|error| error.instance_path().as_str() != path))?;
    fitting.next().is_none().then_some(only)
}

fn unknown(path: &str, names: &[&str], rules: &Rules, object: &Value, key: &str) -> Violation {
    let absent = names.iter().copied().filter(|name| object.get(name).is_none());
    let alias = rules.aliases.get(key).map(String::as_str).filter(|_| path.is_empty());
    let meant = alias.or_else(|| nearest(key, absent)).or_else(|| nearest(key, names.iter().copied()));
    let known: Vec<_> = names.iter().take(12).map(|name| Value::from(*name).to_string()).collect();
    let more = if names.len() > known.len() { ", …" } else { "" };
    Violation {
        path: join(path, key),
        expected: if names.is_empty() {
            "no keys are".to_owned()
        } else {
            format!("known: {}{more}", known.join(", "))
        },
        got: object.get(key).map(shown),
        did_you_mean: meant.map(str::to_owned),
        problem: Problem::Unknown,
    }
}

fn wrong(root: &Value, schema: Option<&Value>, error: &ValidationError<'_>) -> Violation {
    let options = match error.kind() {
        Wrong::Enum { options } => options.as_array().map_or(&[][..], Vec::as_slice),
        Wrong::Constant { expected_value } => std::slice::from_ref(&**expected_value),
        _ => &[],
    };
    let meant = error.instance().as_str().and_then(|text| nearest(text, options.iter().filter_map(Value::as_str)));
    let expected = match (error.kind(), schema) {
        (Wrong::MinProperties { limit }, _) => format!("an object with at least {limit} keys"),
        (Wrong::MaxProperties { limit }, _) => format!("an object with at most {limit} keys"),
        (Wrong::Contains, _) => "an array that contains what the schema asks for".to_owned(),
        (Wrong::Not { schema }, _) => format!("anything but {}", describe(root, schema)),
        (Wrong::FalseSchema, _) => "left out".to_owned(),
        (Wrong::AnyOf { context } | Wrong::OneOfNotValid { context }, _) if lacking(context).is_some() => {
            lacking(context).unwrap_or_default()
        }
        (Wrong::UniqueItems, _) => "an array in which no item stands twice".to_owned(),
        (Wrong::PropertyNames { .. }, _) => "an object whose keys are named as the schema asks".to_owned(),
        (Wrong::OneOfMultipleValid { .. }, _) => "one of the forms of the schema, not several at once".to_owned(),
        (_, Some(schema)) => describe(root, schema),
        (_, None) => "something else".to_owned(),
    };
    Violation {
        path: error.instance_path().as_str().to_owned(),
        expected: expected.chars().take(400).collect(),
        got: Some(shown(error.instance())),
        did_you_mean: meant.map(str::to_owned),
        problem: Problem::Wrong,
    }
}

/// What branches ask for that all complain only of keys that are missing.
fn lacking(context: &[Vec<ValidationError<'static>>]) -> Option<String> {
    let keys = |errors: &Vec<ValidationError<'static>>| {
        let missing = errors.iter().map(|error| match error.kind() {
            Wrong::Required { property } => property.as_str().map(|name| Value::from(name).to_string()),
            _ => None,
        });
        missing.collect::<Option<Vec<_>>>().map(|names| names.join(" and "))
    };
    let all: Vec<_> = context.iter().take(8).map(keys).collect::<Option<_>>()?;
    (!all.is_empty()).then(|| format!("an object with {}", all.join(", or with ")))
}

/// Text as feedback shows it: short.
fn cut(text: &str) -> String {
    let short: String = text.chars().take(80).collect();
    if short.len() < text.len() { short + "…" } else { short }
}

/// Whether a value shows as it was written: large numbers do not.
fn is_exact(value: &Value) -> bool {
    match value {
        Value::Number(it) => !it.is_f64() || it.as_f64().is_some_and(|it| it.abs() < 9_007_199_254_740_992.0),
        Value::Array(items) => items.iter().all(is_exact),
        Value::Object(fields) => fields.values().all(is_exact),
        _ => true,
    }
}

/// `example` with what a call has right: a model sees its own values in place.
pub(super) fn adapted(
    example: &Value,
    call: &Value,
    wrong: &[Violation],
    is_valid: impl Fn(&Value) -> bool,
) -> Option<Value> {
    let mut adapted = example.clone();
    for (key, value) in call.as_object()?.iter().take(64) {
        let pointer = join("", key);
        let below =
            |path: &str| path.strip_prefix(&pointer).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        let complained = wrong.iter().any(|it| below(&it.path));
        if complained || !is_exact(value) || value.to_string().len() > MAX_EXAMPLE / 4 {
            continue;
        }
        let mut tried = adapted.clone();
        tried.as_object_mut()?.insert(key.clone(), value.clone());
        if is_valid(&tried) {
            adapted = tried;
        }
    }
    Some(adapted)
}

/// Says of a text that it can't be read, with what a call should look like.
pub(super) fn unreadable(reason: &str, example: Option<&Value>) -> String {
    match example.map(Value::to_string) {
        Some(example) if example.len() <= MAX_EXAMPLE => format!("{reason}. Example: {example}"),
        _ => reason.to_owned(),
    }
}
