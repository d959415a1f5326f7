//! Feedback on a rejected call: what is wrong, in words that a model can act on, and an example of a correct call.

use openskill_skill::schema::join;
use serde_json::{Value, json};

mod describe;
mod diagnose;
mod example;
mod violation;

pub(super) use diagnose::violations;
pub(super) use example::example;
use violation::MAX_VIOLATIONS;
pub use violation::Violation;

/// The maximum number of violations in the message. The details have up to [`MAX_VIOLATIONS`].
const MAX_SENTENCES: usize = 3;

/// The maximum size of an example in the message, in bytes. The details always include the example.
const MAX_EXAMPLE_BYTES: usize = 400;

/// Everything that is wrong with a call.
#[derive(Debug, Clone, PartialEq)]
pub struct Feedback {
    /// The violations, with missing parameters first.
    pub violations: Vec<Violation>,
    /// A valid call, if one is known.
    pub example: Option<Value>,
    /// The number of violations that `violations` omits.
    omitted: usize,
}

impl Feedback {
    pub(super) fn new(mut violations: Vec<Violation>, example: Option<&Value>) -> Self {
        violations.sort_by(|one, other| (one.problem, &one.path).cmp(&(other.problem, &other.path)));
        violations.dedup();
        let omitted = violations.len().saturating_sub(MAX_VIOLATIONS);
        violations.truncate(MAX_VIOLATIONS);
        Self { violations, example: example.cloned(), omitted }
    }

    /// Returns a short text for a model: the first violations, and an example of a correct call.
    pub fn message(&self) -> String {
        let sentences: Vec<_> = self.violations.iter().take(MAX_SENTENCES).map(Violation::sentence).collect();
        let mut message = sentences.join("; ");
        let more = self.violations.len().saturating_sub(MAX_SENTENCES) + self.omitted;
        if more > 0 {
            message += &format!("; and {more} more");
        }
        with_example(&message, self.example.as_ref())
    }

    /// Returns the feedback for programs: `example`, and `violations`, each with `path`, `expected`, `got` and an
    /// optional `did_you_mean`.
    pub fn details(&self) -> Value {
        let violations: Vec<_> = self.violations.iter().map(Violation::to_json).collect();
        let mut details = json!({ "violations": violations });
        if let Some(example) = &self.example {
            details["example"] = example.clone();
        }
        details
    }
}

/// Appends an example of a correct call to a message.
pub(super) fn with_example(message: &str, example: Option<&Value>) -> String {
    match example.map(Value::to_string) {
        Some(example) if example.len() <= MAX_EXAMPLE_BYTES => format!("{message}. Example: {example}"),
        _ => message.to_owned(),
    }
}

/// Copies the call's valid values into `example`, so that a model sees its own values.
pub(super) fn adapted_example(
    example: &Value,
    call: &Value,
    violations: &[Violation],
    is_valid: impl Fn(&Value) -> bool,
) -> Option<Value> {
    let mut adapted = example.clone();
    for (key, value) in call.as_object()?.iter().take(64) {
        let pointer = join("", key);
        let below =
            |path: &str| path.strip_prefix(&pointer).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        let is_wrong = violations.iter().any(|it| below(&it.path));
        if is_wrong || !prints_exactly(value) || value.to_string().len() > MAX_EXAMPLE_BYTES / 4 {
            continue;
        }
        let mut candidate = adapted.clone();
        candidate.as_object_mut()?.insert(key.clone(), value.clone());
        if is_valid(&candidate) {
            adapted = candidate;
        }
    }
    Some(adapted)
}

/// Whether a value prints exactly as the caller wrote it. Numbers above 2^53 may lose digits.
fn prints_exactly(value: &Value) -> bool {
    match value {
        Value::Number(it) => !it.is_f64() || it.as_f64().is_some_and(|it| it.abs() < 9_007_199_254_740_992.0),
        Value::Array(items) => items.iter().all(prints_exactly),
        Value::Object(fields) => fields.values().all(prints_exactly),
        _ => true,
    }
}
