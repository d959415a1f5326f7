//! The outcome of preparing arguments.

use std::borrow::Cow;

use super::feedback::Feedback;
use super::kind::Repair;

/// Arguments that match the skill's schema.
#[derive(Debug, Clone, PartialEq)]
pub struct Prepared<'a> {
    /// A JSON object as text. If nothing was repaired, it is the caller's text, byte for byte.
    pub text: Cow<'a, str>,
    /// What was changed, in order. Empty if and only if `text` is the original text.
    pub repairs: Vec<Repair>,
}

/// Why a call was rejected.
#[derive(Debug, Clone, PartialEq)]
pub enum Rejected {
    /// The text can't be parsed as JSON. Contains the reason.
    Unreadable(String),
    /// The arguments are JSON, but do not match the schema.
    Unfit(Box<Feedback>),
}
