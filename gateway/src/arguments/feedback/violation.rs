//! One thing that is wrong with a call, as a sentence and as JSON.

use serde_json::{Value, json};

/// How many violations feedback holds.
pub(super) const MAX_VIOLATIONS: usize = 16;

/// The longest name or suggestion that is shown, in characters.
const MAX_NAME_CHARACTERS: usize = 80;

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// JSON Pointer into the arguments.
    pub path: String,
    /// What was expected there.
    pub expected: String,
    /// What is there; none if nothing is.
    pub got: Option<String>,
    /// A name or word that the model may have meant.
    pub did_you_mean: Option<String>,
    pub(super) problem: Problem,
}

/// What kind of problem it is, in the order that feedback names them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Problem {
    /// The arguments as a whole are unusable.
    Whole,
    /// A required parameter is missing.
    Missing,
    /// A value does not match its schema.
    Mismatch,
    /// A key is not declared.
    Unknown,
}

impl Violation {
    /// The arguments as a whole are unusable.
    pub(in crate::arguments) fn of_whole(reason: &str) -> Self {
        Self {
            path: String::new(),
            expected: reason.to_owned(),
            got: None,
            did_you_mean: None,
            problem: Problem::Whole,
        }
    }

    /// The violation as part of a sentence, without a full stop.
    pub(super) fn sentence(&self) -> String {
        let name = match self.path.strip_prefix('/') {
            Some(path) => quoted(path),
            None => "the arguments".to_owned(),
        };
        let (expected, got) = (&self.expected, self.got.as_deref().unwrap_or("nothing"));
        let hint = self.did_you_mean.as_ref().map(|name| format!(" (did you mean {}?)", quoted(name)));
        match (self.problem, hint) {
            (Problem::Whole, _) => expected.clone(),
            (Problem::Missing, _) => format!("{name} is missing (expected {expected})"),
            (Problem::Unknown, Some(hint)) => format!("unknown parameter {name}{hint}"),
            (Problem::Unknown, None) => format!("unknown parameter {name} (expected {expected})"),
            (Problem::Mismatch, hint) => format!("{name} must be {expected}, not {got}{}", hint.unwrap_or_default()),
        }
    }

    pub(super) fn to_json(&self) -> Value {
        let mut object = json!({ "path": shortened(&self.path), "expected": self.expected, "got": self.got });
        if let Some(name) = &self.did_you_mean {
            object["did_you_mean"] = shortened(name).into();
        }
        object
    }
}

fn quoted(name: &str) -> String {
    Value::from(shortened(name)).to_string()
}

fn shortened(name: &str) -> String {
    let short: String = name.chars().take(MAX_NAME_CHARACTERS).collect();
    if short.len() < name.len() { short + "…" } else { short }
}
