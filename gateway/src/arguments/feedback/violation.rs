//! One thing that is wrong with a call, as a sentence and as JSON.

use serde_json::{Value, json};

/// The maximum number of violations that feedback contains.
pub(super) const MAX_VIOLATIONS: usize = 16;

/// The maximum length of a displayed name or suggestion, in characters.
const MAX_NAME_CHARACTERS: usize = 80;

/// One thing that is wrong with a call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Violation {
    /// Where, as a JSON Pointer into the arguments.
    pub path: String,
    /// The expected value, in words.
    pub expected: String,
    /// The actual value. None if the value is missing.
    pub got: Option<String>,
    /// A name or word that the model may have meant.
    pub did_you_mean: Option<String>,
    pub(super) problem: ViolationKind,
}

/// The kind of a violation, in the order in which feedback lists them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ViolationKind {
    /// The arguments as a whole are unusable.
    #[default]
    Whole,
    /// A required parameter is missing.
    Missing,
    /// A value does not match its schema.
    Mismatch,
    /// A key is not declared.
    Unknown,
}

impl Violation {
    /// Builds the violation for arguments that are unusable as a whole.
    pub(in crate::arguments) fn unusable(reason: &str) -> Self {
        Self { expected: reason.to_owned(), ..Self::default() }
    }

    /// Describes the violation as part of a sentence, without a full stop.
    pub(super) fn sentence(&self) -> String {
        let name = match self.path.strip_prefix('/') {
            Some(path) => quote(path),
            None => "the arguments".to_owned(),
        };
        let (expected, got) = (&self.expected, self.got.as_deref().unwrap_or("nothing"));
        let hint = self.did_you_mean.as_ref().map(|name| format!(" (did you mean {}?)", quote(name)));
        match (self.problem, hint) {
            (ViolationKind::Whole, _) => expected.clone(),
            (ViolationKind::Missing, _) => format!("{name} is missing (expected {expected})"),
            (ViolationKind::Unknown, Some(hint)) => format!("unknown parameter {name}{hint}"),
            (ViolationKind::Unknown, None) => format!("unknown parameter {name} (expected {expected})"),
            (ViolationKind::Mismatch, hint) => {
                format!("{name} must be {expected}, not {got}{}", hint.unwrap_or_default())
            }
        }
    }

    pub(super) fn to_json(&self) -> Value {
        let mut object = json!({ "path": shorten(&self.path), "expected": self.expected, "got": self.got });
        if let Some(name) = &self.did_you_mean {
            object["did_you_mean"] = shorten(name).into();
        }
        object
    }
}

fn quote(name: &str) -> String {
    Value::from(shorten(name)).to_string()
}

fn shorten(name: &str) -> String {
    let short: String = name.chars().take(MAX_NAME_CHARACTERS).collect();
    if short.len() < name.len() { short + "…" } else { short }
}
